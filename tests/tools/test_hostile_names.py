"""Passes hostile names through every command and format. Strict readers of the formats check that names
appear only as text.

The names are in every field that a producer of a trace, log, summary, store or result fills: planes, lines,
kernels, functions, scopes, sources, hosts, warnings, windows, variants. They imitate terminal controls,
links, images, elements, formulas, table cells and invisible text.
"""
import base64
import csv
import html.parser
import io
import json
import re
import sqlite3
import sys
import unicodedata
import unittest
import xml.etree.ElementTree
import zlib

from harness import HERE, TESTDATA, EndToEndTest, environment, run
from test_compare import energy_result
from test_golden import power_log
from test_perfetto import Trace as PerfettoTrace
from xspace import Plane, Ref, space

NAMES = (
    "![i](http://evil.example/x.png)", "[a](javascript:alert(1))", "`code` ![i](http://e.example)",
    "``` ![i](http://e.example) `", "a|b", "a\\|b ![i](http://e.example)", "a\n# b\n\n![i](http://e)",
    "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "&lt;b&gt;&#x21;", "]]>",
    "<!--", "*b* __c__ ~~d~~", "@everyone #1 GH-1", "www.evil.example mail@evil.example", "$x^2$",
    ":smile:", "\x1b[31mred\x1b]0;title\x07", "\x00\x01\x08\x7f\r", "\x9b2J\x85", "\u202eevil\u2066",
    "a\u200b\u200c\u200d\ufeff\u00ad\u115f\u3164\uffa0\ufe0f\U000e0041\U000e0100\u2800\u034f\u180e",
    "a\u00a0b\u2003c\u3000d\u202fe", "\ufffe\uffff\U0001fffe\ufdd0\ue000", b"\xed\xa0\x80 lone",
    b"\xff\xfe", b"\xc0\x80", b"\xf4\x90\x80\x80", "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", 'a"b,c',
    "# EOF\n", '{x="y"}', "%s%n%1$s", "- x", "1. x", "===", "> q", "    code", "trailing ", "\\", "`")
SAFE = ("jit_plain", "fusion.1")

# Invisible characters.
IGNORABLE = re.compile("[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
                       "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
                       "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
                       "\ufdd0-\ufdef]")


def invisible_in(text, allowed="\n "):
    return {hex(ord(c)) for c in text if c not in allowed and (
        unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp")
        or IGNORABLE.match(c))}


def as_bytes(name):
    return name if isinstance(name, bytes) else name.encode()


def as_text(name):
    return name if isinstance(name, str) else name.decode(errors="replace")


# ---------------------------------------------------------------- readers with the rules of each format

def code_spans_removed(line):
    """CommonMark 6.1: a run of backticks, closed by the next run of the same length."""
    out, at = "", 0
    for run_ in iter(lambda: re.search("`+", line[at:]), None):
        start, fence = at + run_.start(), run_[0]
        closing = re.search(f"(?<!`){fence}(?!`)", line[start + len(fence):])
        out += line[at:start]
        if closing is None:
            out, at = out + fence, start + len(fence)
            continue
        out, at = out + "\u241f", start + len(fence) + closing.end()
    return out + line[at:]


INLINE_MARKUP = re.compile(r"[*_\[\]`~$\\@|]|<|>|://|www\.|#\d|:[a-z0-9_+-]*[a-z+][a-z0-9_+-]*:|&(?!(amp|lt|gt);)")
BLOCK_MARKUP = re.compile(r"\s{4}|[-+] |\d+[.)] |>|=+$|-+$|#|\||`{3}")


def markdown_faults(text):
    faults = [f"invisible {each}" for each in sorted(invisible_in(text))]
    width = None
    for line in text.split("\n"):
        if line.startswith("| "):
            # GFM: a pipe without a backslash before it ends a cell. Parsers disagree about two backslashes.
            if re.search(r"\\\\\|", line):
                faults.append(f"two backslashes before a pipe: {line}")
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            if width is not None and len(cells) != width:
                faults.append(f"{len(cells)} cells for {width}: {line}")
            width = len(cells)
            if not re.fullmatch(r"[-:| ]+", line):
                rests = [code_spans_removed(cell.replace("\\|", "\u2502").strip()) for cell in cells]
                faults += [f"{rest!r} in {line}" for rest in rests if INLINE_MARKUP.search(rest)]
            continue
        width = None
        rest = re.sub(r"^(### |- \*\*(error|warning|note|info)\*\*: |- |\d+\. |   )", "", line)
        rest = code_spans_removed(rest)
        if INLINE_MARKUP.search(rest) or BLOCK_MARKUP.match(rest):
            faults.append(f"{rest!r} in {line}")
    return faults


class PageReader(html.parser.HTMLParser):
    ELEMENTS = {"html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "main",
                "section", "table", "thead", "tbody", "tr", "th", "td", "script", "code", "ul", "li",
                "pre", "footer"}
    ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "data-table", "scope",
                  "id", "type"}

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.packed = [], [], ""
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        extra = {name for name, _ in attrs} - self.ATTRIBUTES
        if tag not in self.ELEMENTS or extra:
            self.faults.append(f"<{tag} {extra}>")
        self.faults += [f"invisible {each} in an attribute" for name, value in attrs
                        for each in invisible_in(value or "")]
        if tag != "meta":
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.open.pop()[0] != tag:
            self.faults.append(f"</{tag}>")

    def handle_comment(self, data):
        if not data.startswith("\nd3 "):  # except for the licence
            self.faults.append(f"a comment: {data}")

    def handle_data(self, data):
        tag, attrs = self.open[-1] if self.open else ("", {})
        if attrs.get("id") == "data":
            self.packed += data
        elif tag not in ("script", "style", "code"):
            # The page itself indents names with no-break spaces.
            self.faults += [f"invisible {each}" for each in invisible_in(data.lstrip("\u00a0"))]


def page_faults(text):
    reader = PageReader(text)
    document = zlib.decompress(base64.b64decode(reader.packed), wbits=-15).decode()
    return reader.faults + json_faults(document)


def json_faults(text):
    json.loads(text, parse_constant=lambda each: sys.exit(each))
    text.encode("utf-8", "strict")
    return [f"raw {hex(ord(c))}" for c in set(text) if c != "\n" and (
        ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 or "\u202a" <= c <= "\u202e")]


def csv_faults(text):
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    faults = [f"{len(row)} cells for {len(rows[0])}: {row}" for row in rows if len(row) != len(rows[0])]
    return faults + [f"control {each}" for each in
                     {hex(ord(c)) for c in text if unicodedata.category(c) == "Cc" and c != "\n"}]


def xml_faults(text):
    root = xml.etree.ElementTree.fromstring(text)
    return [f"invisible {each}" for node in root.iter()
            for value in (*node.attrib.values(), node.text or "")
            for each in invisible_in(value)]


SAMPLE = re.compile(r'[a-z_]+\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,(?=[a-z])|(?=\})))*\} \S+')


def openmetrics_faults(text):
    lines = text.split("\n")
    faults = [] if lines[-2:] == ["# EOF", ""] else ["does not end in # EOF"]
    return faults + [line for line in lines[:-2] if not SAMPLE.fullmatch(line)
                     and not re.fullmatch(r"# (TYPE|UNIT|HELP) [a-z0-9_]+ .+", line)]


def table_faults(text):
    return [f"control {each}" for each in sorted(invisible_in(text))]


READERS = {"table": table_faults, "markdown": markdown_faults, "json": json_faults,
           "csv": csv_faults, "junit": xml_faults, "benchmark": json_faults, "bmf": json_faults,
           "openmetrics": openmetrics_faults, "html": page_faults, "svg": xml_faults,
           "t4": json_faults, "tuned": json_faults}
FORMATS = ("table", "markdown", "json", "csv", "html")
DECISIONS = (*FORMATS, "junit", "benchmark", "bmf")


# ---------------------------------------------------------------- files with hostile names

def trace(names, factor=1, ordinal=0):
    """A trace with each of `names` in every field."""
    device = Plane(f"/device:GPU:{ordinal}", id=ordinal + 1)
    host = Plane("/host:CPU", id=9)
    for at, name in enumerate(names):
        line = device.line(b"Stream #%d(Kernel) " % at + as_bytes(name), timestamp_ns=5)
        other = names[(at + 1) % len(names)]
        for each in range(8):
            start = each * 9_000_000 + at * 100_000
            line.event(name, start, 40_000 * factor + each * 11, hlo_module=Ref(other),
                       program_id=at + 1, hlo_op=Ref(name), tf_op=as_bytes(name) + b"/dot",
                       source_info=other, source=name)
            line.event("all-reduce.1", start + 50_000, 30_000, hlo_module=Ref(other),
                       program_id=at + 1, hlo_op=name)
        host.line(name).event(other, at * 1000, 900)
    custom = Plane(b"/device:CUSTOM:" + as_bytes(names[0]), id=7)
    custom.line(names[-1]).event(names[0], 0, 10)
    for plane in (device, host):
        for at, name in enumerate(names):
            plane.plane_stat(f"{as_text(name)} {at}", name)
    return space(device, host, custom, hostnames=[names[0]], errors=names, warnings=names)


def hostile_log(name):
    text = power_log()
    shown = json.dumps(as_text(name))[1:-1]
    for word in ("node1", "train", "A card", "GPU-1", "a|b", "package-0", "chmod"):
        text = text.replace(f'"{word}"', f'"{shown}"')
    return text


def batches(names, size):
    return [names[at:at + size] for at in range(0, len(names), size)]


class HostileNames(EndToEndTest):
    def check(self, form, text, where):
        try:
            text = text.decode("utf-8", "strict") if isinstance(text, bytes) else text
            faults = READERS[form](text)
        except (ValueError, csv.Error, xml.etree.ElementTree.ParseError, zlib.error) as error:
            faults = [repr(error)]
        if faults:
            self.faults.append(f"{form}: {' '.join(map(str, where))}: {faults[:3]}")

    def check_command(self, *arguments, forms=FORMATS):
        """Checks that all formats and messages are free of faults."""
        for form in forms:
            if form == "html":
                out = ("-o", self.at / "page.html")
            else:
                out = ("--format", form)
            done = run(*arguments, *out, cwd=self.at, env=environment(XDG_RUNTIME_DIR=str(self.at)))
            self.check("table", done.err, (*arguments, *out, "standard error"))
            self.assertNotEqual(done.code, 70, done.message)
            if done.code >= 64:  # a refused command has no output
                self.assertEqual(done.out, b"", arguments)
                self.refused.append((arguments, done.message))
                continue
            self.shown.add((arguments[0], form))
            text = (self.at / "page.html").read_bytes() if form == "html" else done.out
            self.check(form, text, (*arguments, *out))

    def setUp(self):
        super().setUp()
        self.shown, self.refused, self.faults = set(), [], []

    def tearDown(self):
        self.assertEqual(self.faults[:5], [], f"{len(self.faults)} faults")

    def test_commands_on_traces(self):
        names = (*NAMES, *SAFE)
        for at, batch in enumerate(batches(names, 16)):
            path = self.write(f"t![i](http:e){at}.xplane.pb", trace(batch))
            for command in (("report",), ("planes", "--stats"), ("functions",), ("kernels",),
                            ("functions", "--by-id", "--samples", "--wide"), ("tree",),
                            ("tree", "--by", "scope"), ("tree", "--by", "source"), ("where",),
                            ("where", "--steps"), ("where", "--gaps", "--wide"),
                            ("headroom", "--peak-flops", "1T"), ("brief",),
                            ("tree", "--device", "all", "--line", "."), ("fleet",),
                            ("report", "--device", "all", "--wide")):
                self.check_command(command[0], path, *command[1:])
            for form in ("table", "markdown", "json", "csv"):
                self.check_command("events", path, "--device", "all", "--stat", "tf_op",
                                   forms=(form,))
            for tool in ("ejkernel", "tune-jax", "xprof"):
                self.check_command("report", path, "--compat", tool,
                                   forms=("table", "markdown", "json", "csv"))
            self.check_command("functions", path, "--plot", forms=("table",))
        for command in ("report", "planes", "functions", "kernels", "tree", "where", "brief", "fleet",
                        "headroom"):
            for form in FORMATS:
                self.assertIn((command, form), self.shown, self.refused[:3])

    def test_what_is_compared(self):
        for at, batch in enumerate(batches((*NAMES, *SAFE), 24)):
            base = [self.write(f"b{at}{take}.xplane.pb", trace(batch)) for take in range(2)]
            head = [self.write(f"h{at}{take}.xplane.pb", trace(batch, 2)) for take in range(2)]
            sides = ("--base", *base, "--head", *head)
            self.check_command("compare", *sides, forms=DECISIONS)
            self.check_command("compare", base[0], head[0], "--why", forms=DECISIONS)
            self.check_command("pick", *base, "--id-pattern", "(.+)", forms=DECISIONS)
            self.check_command("diff", *sides)
            energies = self.write(f"j{at}.json", json.dumps(energy_result(
                {as_text(name): 0.01 * (n + 1) for n, name in enumerate(batch)}, "j")))
            more = self.write(f"k{at}.json", json.dumps(energy_result(
                {as_text(name): 0.02 * (n + 1) for n, name in enumerate(batch)}, "k")))
            self.check_command("compare", energies, more, "--objective", "energy",
                               forms=("table", "markdown", "json", "csv", "junit", "bmf"))
            results = self.write(f"g{at}.json", json.dumps({"benchmarks": [
                {"name": as_text(name), "run_name": as_text(name), "run_type": "iteration",
                 "real_time": 5.0 + n, "cpu_time": 1, "time_unit": "us", "iterations": 1}
                for name in batch for n in range(4)]}))
            self.check_command("compare", results, results, forms=DECISIONS)
        for command in ("compare", "pick"):
            for form in DECISIONS:
                self.assertIn((command, form), self.shown, self.refused[:3])

    def test_databases_and_timelines(self):
        for at, batch in enumerate(batches((*NAMES, *SAFE), 24)):
            path = self.write(f"t{at}.xplane.pb", trace(batch))
            for command in ("report", "planes", "functions", "kernels", "tree", "where", "brief"):
                self.run_ok(command, path, "-o", "out.sqlite")
                database = sqlite3.connect(self.at / "out.sqlite")
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
                tables = [name for name, in database.execute("SELECT name FROM sqlite_master")]
                cells = [cell for name in tables for row in database.execute(
                    'SELECT * FROM "{}"'.format(name.replace('"', '""'))) for cell in row]
                self.assertTrue(cells)
                database.close()
                (self.at / "out.sqlite").unlink()
            self.run_ok("report", path, "-o", "out.pftrace")
            if PerfettoTrace is not None:
                PerfettoTrace.FromString((self.at / "out.pftrace").read_bytes())

    def test_power_logs(self):
        for at, name in enumerate(NAMES):
            path = self.write(f"log{at}.jsonl", hostile_log(name))
            self.check_command("power", "replay", path, forms=(*FORMATS, "openmetrics"))
            done = run("power", "replay", path, "--plot", "--svg", "out.svg", cwd=self.at)
            self.assertEqual(done.code, 0, done.message)
            self.check("table", done.out, ("--plot", name))
            self.check("svg", (self.at / "out.svg").read_bytes(), ("--svg", name))

    def test_stores_and_searches(self):
        for at, batch in enumerate(batches([as_text(name) for name in NAMES], 12)):
            variants = [{"id": f"{n} {name}", "params": {"cost": 100 + n, name: name}}
                        for n, name in enumerate(batch)]
            self.write("space.json", json.dumps({"schema": "xplane-time.space.v1",
                                                 "name": batch[0], "variants": variants}))
            self.check_command("tune", "space.json", "--list", forms=("table", "json"))
            tune = ("tune", "space.json", "--store", "s.db", "--stop", "claim", "--budget-runs", "40",
                    "--workload", batch[1].replace("\0", ""))
            done = run(*tune, "--", sys.executable, HERE / "fake_harness.py", self.at / "log",
                       cwd=self.at, env=environment(XDG_RUNTIME_DIR=str(self.at)))
            self.check("table", done.out, tune)
            self.check("table", done.err, (*tune, "standard error"))
            if done.code < 64:
                for command in (("show",), ("show", "1"), ("replay", "1")):
                    self.check_command("tune", *command, "--store", "s.db", forms=FORMATS[:4])
                self.check_command("tune", "export", "1", "--store", "s.db",
                                   forms=("json", "csv", "t4", "tuned"))
            (self.at / "s.db").unlink(missing_ok=True)
        self.assertIn(("tune", "json"), self.shown, self.refused[:3])

    def test_markdown_rules_find_markup(self):
        """Checks that the Markdown reader is strict: it finds a fault in each of these texts."""
        for text in ("![i](http://e)", "a [b](c)", "*a*", "a_b", "x `a", "<b>", "# x\n", "www.e.example",
                     "| a | b |\n| --- | --- |\n| `a|b` | c |", "a @b", "#1", "a\n===", "- x\n> q",
                     "| a |\n| --- |\n| `a\\\\|b` |", "&copy;", "a\u00adb"):
            self.assertNotEqual(markdown_faults(text), [], text)
        self.assertEqual(markdown_faults("a `![i](http://e)` b\n\n| a |\n| --- |\n| `a\\|b` |\n"), [])


if __name__ == "__main__":
    unittest.main()
