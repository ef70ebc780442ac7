"""The output of a result in a notebook, and its page. They are opened in Chromium if it is installed."""
import base64
import contextlib
import html
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import urllib.parse
import zlib

import xplane_time
from test_databases import FilesTest, results
from test_package import REPOSITORY, VARIANTS

sys.path.append(str(REPOSITORY / "tests/output/page"))
import browser
import xspace

COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"
HOSTILE = "</iframe></script>\"'><img src=x onerror=\"document.title='owned'\">"


def hostile_trace():
    plane = xspace.gpu(0, function=f"jit_{HOSTILE}", kernels=(HOSTILE, b"not \xff text"))
    return xplane_time.open(xspace.space(plane))


def page_in(shown):
    """The page in the frame of a cell's output."""
    [frame] = re.findall(r'<iframe sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)"></iframe>', shown)
    return html.unescape(frame)


def without_options(page):
    """Removes the line that has the command, or in Python the options."""
    return re.sub('<p class="dim">(Command|with).*</p>\n', "", page)


def data_of(page):
    """The embedded data of the page, decompressed."""
    [data] = re.findall(r'id="data">([^<]*)<', page)
    return zlib.decompress(base64.b64decode(data), -15).decode()


class Page(FilesTest):
    def test_it_is_that_of_the_command(self):
        for number, (result, command) in enumerate(results()):
            page = result.to_html()
            self.assertTrue(page.startswith("<!DOCTYPE html>"))
            if command is None or command[0] == "report":  # its page also has the rates of kernels
                continue
            with self.subTest(command[0]):
                path = self.at / f"{number}.html"
                subprocess.run([COMMAND, *command, "-o", path], check=True, capture_output=True)
                self.assertEqual(without_options(page), without_options(path.read_text("utf-8")))

    def test_tables_of_commands_have_the_page_of_the_command(self):
        trace = xplane_time.open(VARIANTS)
        for table, command in ((trace.functions(), ["functions"]), (trace.kernels(), ["kernels"]),
                               (trace.samples(), ["functions", "--samples"]),
                               (trace.tree(by="scope"), ["tree", "--by", "scope"])):
            with self.subTest(command):
                path = self.at / "page.html"
                table.to_html(path)
                page = path.read_text("utf-8")
                self.assertEqual(page, table.to_html())
                made = subprocess.run([COMMAND, *command, VARIANTS, "--format", "html"], check=True,
                                      capture_output=True, text=True).stdout
                expected, = json.loads(data_of(made))["documents"]
                got, = json.loads(data_of(page))["documents"]
                self.assertEqual(got["schema"], expected["schema"])
                name = command[0] if "--samples" not in command else "samples"
                self.assertEqual(len(got[name]), len(expected[name]))
                self.assertEqual(re.findall("<h2>.*</h2>", page), re.findall("<h2>.*</h2>", made))

    def test_errors_name_the_file_that_was_asked_for(self):
        report, path = xplane_time.open(VARIANTS).report(), self.at / "no" / "such" / "file"
        for write in (report.to_html, report.to_sqlite, report.to_perfetto, report.kernels.to_parquet):
            with self.subTest(write.__name__), self.assertRaises(FileNotFoundError) as raised:
                write(path)
            self.assertEqual(raised.exception.filename, str(path))
            self.assertNotIn(".tmp", str(raised.exception))

    def test_a_timeline_for_perfetto_is_that_of_the_command(self):
        log = REPOSITORY / "testdata/energy/replayed.power.jsonl"
        mixture = REPOSITORY / "testdata/energy/jax_cpu_mixture.xplane.pb"
        trace, measured = xplane_time.open(VARIANTS), xplane_time.open(str(mixture))
        for result, command in ((trace.report(), [VARIANTS]),
                                (measured.energy(log), ["energy", mixture, "--power", log])):
            with self.subTest(type(result).__name__):
                path, expected = self.at / "x.pftrace", self.at / "expected.pftrace"
                for _ in range(2):
                    result.to_perfetto(path)
                subprocess.run([COMMAND, *command, "-o", expected], check=True, capture_output=True)
                self.assertEqual(path.read_bytes(), expected.read_bytes())
        path.write_text("notes")
        self.refused("x.pftrace: the existing file is not a valid Perfetto trace", lambda: result.to_perfetto(path))
        report = trace.report()
        trace.close()
        self.refused("the trace is closed", lambda: report.to_perfetto(self.at / "late.pftrace"))
        self.assertFalse((self.at / "late.pftrace").exists())

    def test_a_report_is_shown_as_the_command_shows_it(self):
        report = xplane_time.open(VARIANTS).report(metric="span")
        unsorted = report.functions["function"]
        done = subprocess.run([COMMAND, VARIANTS, "--metric", "span", "--format", "markdown"],
                              check=True, capture_output=True, text=True)
        self.assertEqual(report.to_markdown(), done.stdout)
        self.assertIn("<th scope=\"col\" class=\"number\">compute %</th>", report.to_html())
        self.assertEqual(report.functions["function"], unsorted)
        self.assertEqual(report.to_dict()["options"], {"metric": "span"})

    def test_it_has_a_timeline_while_the_trace_is_open(self):
        trace = xplane_time.open(VARIANTS)
        for result in (trace.report(), trace.where(device="cpu")):
            self.assertIn('"timeline"', data_of(result.to_html()))
        trace.close()
        self.assertNotIn('"timeline"', data_of(result.to_html()))

    def test_it_is_written_in_the_place_of_an_earlier_page_only(self):
        report, path = xplane_time.open(VARIANTS).report(), self.at / "r.html"
        for _ in range(2):
            self.assertIsNone(report.to_html(path))
            self.assertEqual(path.read_text("utf-8"), report.to_html())
        path.write_text("notes")
        self.refused("r.html: the existing file is not a valid HTML page", lambda: report.to_html(path))
        self.assertEqual(path.read_text(), "notes")

    def test_show(self):
        report = hostile_trace().report()
        for opens in (True, False):
            out = io.StringIO()
            with (unittest.mock.patch("webbrowser.open", return_value=opens) as opened,
                  unittest.mock.patch.object(tempfile, "tempdir", str(self.at)),
                  contextlib.redirect_stdout(out)):
                report.show()
            [address], _ = opened.call_args
            path = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(address).path))
            self.assertEqual(path.read_text("utf-8"), report.to_html())
            self.assertEqual(path.parent, self.at)
            self.assertEqual(out.getvalue(), "" if opens else f"{path}\n")


class Notebook(FilesTest):
    def test_every_result_shows_its_page(self):
        for result, _ in results():
            with self.subTest(type(result).__name__):
                self.assertEqual(page_in(result._repr_html_()), result.to_html())
                self.assertEqual(result._repr_markdown_(), result.to_markdown())

    def test_names_do_not_leave_the_frame(self):
        for result in (hostile_trace().report(), hostile_trace().where()):
            self.assertEqual(page_in(result._repr_html_()), result.to_html())
            self.assertNotIn("<img", result._repr_html_())

    def test_a_page_that_is_too_large_is_text(self):
        report = hostile_trace().report()
        size = len(report._repr_html_().encode())
        for most, inline in ((size, True), (size - 1, False)):
            with unittest.mock.patch("xplane_time.results._MOST_INLINE_BYTES", most):
                shown = report._repr_html_()
            self.assertEqual("<iframe" in shown, inline)
        self.assertRegex(shown, r"^<p>The page has 0\.\d MB, too much for a notebook: show\(\) ")
        self.assertIn("<pre>", shown)
        self.assertIn("functions", shown)
        self.assertNotIn("<img", shown)
        self.assertLess(len(shown), 10_000)

    @unittest.skipUnless(browser.find_chromium(), "no Chromium: apt-get install chromium")
    def test_the_frame_runs_the_page_and_nothing_else(self):
        trace = hostile_trace()
        for name, result in (("report", trace.report(samples=True)), ("where", trace.where())):
            path = self.at / f"{name}.html"
            path.write_text("<!DOCTYPE html><html data-ready=\"true\"><title>cell</title>"
                            f"<body>{result._repr_html_()}</body></html>", "utf-8")
            with self.subTest(name), browser.Browser() as chromium:
                cell = chromium.open(path)
                frame = cell.frame()
                self.assertGreater(frame.evaluate("document.querySelectorAll('figure').length"), 0)
                self.assertEqual(frame.evaluate("self.origin"), "null")  # differs from the origin of the notebook
                self.assertEqual(cell.evaluate("document.querySelectorAll('img').length"), 0)
                self.assertEqual(cell.evaluate("document.title"), "cell")
                self.assertNotEqual(frame.evaluate("document.title"), "owned")
                frame.evaluate("document.querySelector('section th button').click()")
                frame.evaluate("document.querySelector('header button').click()")
                for each in (cell, frame):
                    self.assertEqual(each.problems, [])
                    self.assertEqual(each.requests, [])
                # Check that problems and requests are detected at all.
                frame.evaluate("document.body.append(Object.assign(document.createElement('img'), "
                               "{src: 'https://example.invalid/x'}))")
                frame.wait("new Promise((r) => setTimeout(() => r(true), 200))")
                self.assertRegex(str(frame.problems), "Content Security Policy")


if __name__ == "__main__":
    unittest.main()
