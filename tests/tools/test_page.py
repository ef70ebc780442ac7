"""Tests of the page of -o FILE.html without a browser. Tests with a browser are in tests/output/page."""
import base64
import hashlib
import html
import html.parser
import json
import pathlib
import re
import shlex
import tempfile
import unittest
import zlib

from harness import EndToEndTest, TESTDATA, run
from test_sqlite import COMMANDS, VARIANTS
from xspace import Plane, space

HOSTILE = "</script><img src=x onerror=alert(1)>"
MOST_BYTES = 400_000  # without the data
VOID = {"meta", "br"}


class Parsed(html.parser.HTMLParser):
    """Collects elements, texts of scripts and styles, and tables of sections."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.attributes = [], [], []
        self.raw, self.tables, self.policy = [], {}, ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append(tag)
        self.attributes += attrs
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = attrs["content"]
        if tag == "section":
            self.section = self.tables.setdefault(attrs["data-table"], [])
        if tag == "tr":
            self.section.append([])
        if tag in ("td", "th"):
            self.section[-1].append("")
        if tag not in VOID:
            self.open.append((tag, attrs))

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if not self.open:
            return
        tag, attrs = self.open[-1]
        if tag in ("script", "style"):
            self.raw.append((tag, attrs, data))
        if tag in ("td", "th"):
            self.section[-1][-1] += data


def document_in(page):
    packed, = [data for tag, attrs, data in page.raw if attrs.get("id") == "data"]
    return json.loads(zlib.decompress(base64.b64decode(packed, validate=True), wbits=-15))


def in_any_order(document):
    """The document with sorted rows, because pages order rows for people."""
    return {name: sorted(value, key=json.dumps) if isinstance(value, list) else value
            for name, value in document.items()}


def data_bytes(page):
    return sum(len(data) for _, attrs, data in page.raw if attrs.get("id") == "data")


class Page(EndToEndTest):
    def page_of(self, command, folder):
        path = pathlib.Path(folder) / "page.html"
        path.unlink(missing_ok=True)
        done = run(*command, "-o", path)
        self.assertLess(done.code, 64, done.message)
        text = path.read_text()
        return text, Parsed(text)

    def test_every_result_is_a_page_with_its_document(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in COMMANDS:
                with self.subTest(command=" ".join(map(str, command))):
                    text, page = self.page_of(command, folder)
                    expected = run(*command, "--format", "json").json
                    document, = document_in(page)["documents"]
                    self.assertEqual(in_any_order(document), in_any_order(expected))
                    self.assertLess(len(text.encode()) - data_bytes(page), MOST_BYTES + 50_000)

    def test_only_its_own_scripts_and_style_run(self):
        with tempfile.TemporaryDirectory() as folder:
            text, page = self.page_of(["report", VARIANTS], folder)
        rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
        self.assertEqual(rules["default-src"], "'none'")

        def hashes(tag):
            return {f"'sha256-{base64.b64encode(hashlib.sha256(data.encode()).digest()).decode()}'"
                    for each, attrs, data in page.raw if each == tag and "type" not in attrs}

        self.assertEqual(set(rules["script-src"].split()), hashes("script"))
        self.assertEqual(set(rules["style-src"].split()), hashes("style"))
        self.assertEqual(len(hashes("script")), 2)
        self.assertFalse([name for name in page.attributes if name.startswith("on")])
        self.assertNotIn("style", page.attributes)
        self.assertNotIn("src", page.attributes)
        self.assertNotIn("href", page.attributes)
        self.assertIn("Redistributions in binary form", text)

    def test_tables_are_those_of_markdown(self):
        with tempfile.TemporaryDirectory() as folder:
            _, page = self.page_of(["kernels", VARIANTS], folder)
        shown = run("kernels", VARIANTS, "--format", "markdown").text
        rows = [line.strip("|").split(" | ") for line in shown.splitlines()
                if line.startswith("|") and not re.match(r"\|[ :|-]*\|$", line)]
        self.assertGreater(len(rows), 70)
        self.assertEqual([[cell.strip().strip("`") for cell in row] for row in rows],
                         page.tables["kernels"])

    def test_names_stay_text(self):
        plane = Plane("/device:GPU:0")
        for i, name in enumerate([HOSTILE, "a & b", "]]>", "<!--", "\u202ename", b"\xff"]):
            plane.line(f"Stream #{i}").event(name, 1_000_000, 1000 + i)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"a<b.xplane.pb"
            path.write_bytes(space(plane))
            text, page = self.page_of(["kernels", path], folder)
        self.assertNotIn("img", page.elements)
        self.assertNotIn("<img", text)
        self.assertIn(HOSTILE, [row[0] for row in page.tables["kernels"]])

    def test_long_tables_are_cut_and_say_so(self):
        plane = Plane("/device:GPU:0")
        line = plane.line("Stream #1")
        for i in range(1000):
            line.event(f"kernel_{i}", 1000 * i, 900)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "many.xplane.pb"
            path.write_bytes(space(plane))
            text, page = self.page_of(["kernels", path], folder)
            self.assertEqual(len(page.tables["kernels"]), 501)
            self.assertIn("500 more rows", text)
            self.assertEqual(len(document_in(page)["documents"][0]["kernels"]), 1000)
            table, = document_in(page)["tables"]
            rows = run("kernels", path, "--format", "json").json["kernels"]
            heads = [head.split(" ")[0] for head in page.tables["kernels"][0]]
            totals = table["columns"][heads.index("total")]
            self.assertEqual(totals["unit"], "ps")
            self.assertEqual(sorted(map(int, totals["exact"])),
                             sorted(row["total_ps"] for row in rows))
            names = table["columns"][heads.index("kernel")]
            shown = [row[0] for row in page.tables["kernels"][1:]] + names["rest"]
            self.assertEqual(set(shown), {row["kernel"] for row in rows})
            self.assertEqual(len(names["rest"]), 500)
            _, page = self.page_of(["kernels", path, "--top", "7"], folder)
            self.assertEqual(len(page.tables["kernels"]), 8)

    def test_a_list_that_is_too_long_keeps_the_longest_and_says_so(self):
        plane = Plane("/device:GPU:0")
        line = plane.line("Stream #1")
        for i in range(10_100):
            line.event(f"kernel_{i}", 20_000 * i, 900 + i)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "many.xplane.pb"
            path.write_bytes(space(plane))
            text, page = self.page_of(["kernels", path], folder)
            data, all_rows = document_in(page), run("kernels", path, "--format", "json").json["kernels"]
        self.assertIn("10,000 of 10,100 kernels, the longest; all are in --format json", text)
        document, = data["documents"]
        self.assertEqual(len(all_rows), 10_100)
        self.assertEqual(document["kernels"], [row for row in all_rows if row["total_ps"] >= 1000])
        self.assertEqual([all_rows[at] for at in data["kept"]["kernels"]["rows"]], document["kernels"])
        self.assertEqual(data["kept"]["kernels"]["all"], 10_100)
        for column in data["tables"][0]["columns"]:
            if column["unit"] == "ps":
                self.assertEqual(len(column["exact"]), 10_000)

    def test_it_says_how_to_make_it_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "it's.html"
            done = run("kernels", VARIANTS, "--kernel", "ynn|dot", "--top=3", "-o", path)
            self.assertEqual(done.code, 0)
            code = path.read_text().partition("<code>")[2].partition("</code>")[0]
        self.assertEqual(shlex.split(html.unescape(code)),
                         ["xplane-time", "kernels", str(VARIANTS), "--kernel", "ynn|dot", "--top=3",
                          "-o", str(path)])

    def test_a_name_of_a_megabyte_is_whole_in_the_document_only(self):
        plane = Plane("/device:GPU:0")
        names = ["k" * 500_000 + end + "k" * 500_000 for end in ("left", "right")]
        for i, name in enumerate(names):
            plane.line("Stream #1").event(name, 1000 * i, 900)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "long.xplane.pb"
            path.write_bytes(space(plane))
            text, page = self.page_of(["kernels", path], folder)
        self.assertLess(len(text.encode()) - data_bytes(page), MOST_BYTES)
        self.assertEqual({row["kernel"] for row in document_in(page)["documents"][0]["kernels"]},
                         set(names))
        shown = {row[0] for row in page.tables["kernels"][1:]}
        self.assertEqual([any(end in name for name in shown) for end in ("left", "right")],
                         [True, True])


class ShownCommand(EndToEndTest):
    def page(self, *options):
        done = run(TESTDATA / "jax_cpu_spmd4.xplane.pb", *options, "-o", "page.html", cwd=self.at)
        self.assertEqual((done.code, done.message), (0, ""))
        return (self.at / "page.html").read_text()

    def test_it_has_no_threads(self):
        pages = {self.page(*options) for options in ((), ("--threads", "1"), ("--threads=2",), ("--threads", "2"))}
        self.assertEqual(len(pages), 1)
        page, = pages
        self.assertIn("Command: <code>xplane-time ", page)
        self.assertNotIn("--threads", page.split("Command: <code>")[1].split("</code>")[0])


if __name__ == "__main__":
    unittest.main()
