"""What a person sees on a terminal of 80 columns."""
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
import unittest

from harness import (BINARY, EndToEndTest, SHARED_TRACES, TESTDATA, environment, open_terminal, run,
                     testdata_traces)
from xspace import Plane, gpu, space

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LONG = "a_very_long_kernel_name_" * 20
COMMANDS = ("report", "planes", "functions", "kernels", "tree", "events")


def on_terminal(*arguments, columns=80, rows=24, cwd=None, **variables):
    """Exit status and everything that a terminal got, stdout and stderr together."""
    master, slave = open_terminal()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with subprocess.Popen([str(BINARY), *map(str, arguments)], stdin=slave, stdout=slave,
                          stderr=slave, cwd=cwd, env=environment(**variables)) as process:
        os.close(slave)
        text = read_all(master)
        os.close(master)
        return process.wait(timeout=20), text.decode().replace("\r\n", "\n")


def read_all(master, limit_s=20):
    chunks, end = [], time.monotonic() + limit_s
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.5)[0]:
            continue
        try:
            chunk = os.read(master, 65536)
        except OSError:  # Linux: all writers are gone
            break
        if not chunk:
            break
        chunks.append(chunk)
    return b"".join(chunks)


def width(line):
    """Columns on the screen. (Characters of double width are not told apart.)"""
    return len(COLOUR.sub("", line))


class Width(EndToEndTest):
    def check_width(self, columns, *arguments, **variables):
        code, text = on_terminal(*arguments, columns=columns, cwd=self.at, **variables)
        self.assertEqual(code, 0, text)
        lines = [line for line in text.splitlines() if width(line) > columns]
        self.assertEqual(lines, [], f"{arguments}: {columns} columns")
        return text

    def traces(self):
        device = gpu(0, function="jit_" + LONG, kernels=(LONG, "short"))
        device.line("_counters_ " + LONG).event("x", 0, 1)
        names = {"long.xplane.pb": space(device, hostnames=[LONG], warnings=[LONG + " " + LONG]),
                 f"{'n' * 200}.xplane.pb": space(gpu(0)),
                 "accents.xplane.pb": space(gpu(0, function="jit_ß", kernels=("é" * 90, "ñ")))}
        return [*testdata_traces(), *(self.write(name, names[name]) for name in names),
                *(path for path in sorted(SHARED_TRACES.glob("*.xplane.pb"))
                  if not path.name.startswith("corrupt"))]

    def test_every_table_fits_80_columns(self):
        for path in self.traces():
            for command in COMMANDS:
                limit = ("--max-events", "200") if command == "events" else ()
                done = run(command, path, *limit)
                if done.code == 65:  # nothing of the kind is in it
                    continue
                with self.subTest(command=command, trace=path.name[:40]):
                    self.check_width(80, command, path, *limit)

    def test_events_with_stat_columns_fit_too(self):
        path = TESTDATA / "jax_cpu_spmd4.xplane.pb"
        stats = ("--stat", "hlo_op", "--stat", "program_id")
        self.check_width(80, "events", path, "--max-events", "50", *stats[:2])
        self.check_width(120, "events", path, "--max-events", "50", *stats)

    def test_narrow_and_wide_terminals(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        for command in COMMANDS[:5]:
            for columns in (60, 100, 200):
                with self.subTest(command=command, columns=columns):
                    self.check_width(columns, command, path)

    def test_a_wide_terminal_shows_more(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        narrow = self.check_width(80, "functions", path)
        wide = self.check_width(200, "functions", path)
        self.assertIn("not shown, too wide", narrow)
        self.assertNotIn("not shown, too wide", wide)
        self.assertIn("min us", wide)

    def test_names_are_shortened_in_the_middle(self):
        [path] = [path for path in self.traces() if path.name == "long.xplane.pb"]
        text = self.check_width(80, "kernels", path)
        self.assertRegex(text, r"\na_very_\S*…\S*name_ ")
        self.assertNotIn(LONG, text)
        for form in ("json", "csv"):
            self.assertIn(LONG, self.run_ok("kernels", path, "--format", form).text)

    def test_plain_ascii_where_the_locale_is_not_utf8(self):
        for command in COMMANDS[:5]:
            for path in testdata_traces():
                text = self.check_width(80, command, path, LC_ALL="C", NO_COLOR="1")
                self.assertTrue(text.isascii(), f"{command} {path.name}")


class Length(EndToEndTest):
    MOST = 48  # two screens

    def test_report_fits_two_screens(self):
        traces = testdata_traces()
        traces += [path for path in sorted(SHARED_TRACES.glob("*.xplane.pb"))
                   if not path.name.startswith("corrupt")]
        traces.append(self.write("many.xplane.pb", self.many()))
        for path in traces:
            for arguments in ((path,), (path, "--device", "all")):
                with self.subTest(path.name, arguments=arguments[1:]):
                    code, text = on_terminal(*arguments)
                    self.assertEqual(code, 0, text)
                    self.assertLessEqual(len(text.splitlines()), self.MOST)

    @staticmethod
    def many():
        """40 devices, 60 kernels and as many functions on each, 30 warnings."""
        planes = []
        for ordinal in range(40):
            plane = Plane(f"/device:GPU:{ordinal}", id=ordinal)
            stream = plane.line("Stream #1(Kernel)")
            for at in range(60):
                stream.event(f"kernel_{at}", at * 100, 10 + at, hlo_module=f"jit_f{at}",
                             program_id=at)
            planes.append(plane)
        return space(*planes, warnings=[f"warning {at} of the producer" for at in range(30)])

    def test_what_is_left_out_is_said(self):
        code, text = on_terminal(self.write("many.xplane.pb", self.many()), NO_COLOR="1")
        self.assertEqual(code, 0)
        for what in ("device", "function", "kernel", "finding"):
            self.assertRegex(text, rf"\n\.\.\. \d+ more {what}s", what)


class Colour(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.write("good.xplane.pb", space(gpu(0), warnings=["dropped events"]))

    def coloured(self, *options, **variables):
        code, text = on_terminal("good.xplane.pb", *options, cwd=self.at, **variables)
        self.assertEqual(code, 0, text)
        self.assertEqual("\x1b" in COLOUR.sub("", text), False, "only colours")
        return COLOUR.search(text) is not None

    def test_colour_on_a_terminal_and_ways_to_have_none(self):
        self.assertTrue(self.coloured())
        self.assertTrue(self.coloured(NO_COLOR=""))  # empty: not set, says no-color.org
        self.assertFalse(self.coloured(NO_COLOR="1"))
        self.assertFalse(self.coloured(TERM="dumb"))
        self.assertFalse(self.coloured("--color", "never"))
        self.assertTrue(self.coloured("--color", "always", NO_COLOR="1"))
        for form in ("json", "csv", "markdown"):
            self.assertFalse(self.coloured("--format", form))

    def test_no_colour_in_a_pipe_unless_asked_for(self):
        self.assertNotIn(b"\x1b", run("good.xplane.pb", cwd=self.at).out)
        self.assertIn(b"\x1b[", run("good.xplane.pb", "--color", "always", cwd=self.at).out)
        for form in ("json", "csv", "markdown"):
            done = run("good.xplane.pb", "--color", "always", "--format", form, cwd=self.at)
            self.assertNotIn(b"\x1b", done.out)

    def test_colour_changes_nothing_else(self):
        plain = run("good.xplane.pb", cwd=self.at).text
        coloured = run("good.xplane.pb", "--color", "always", cwd=self.at).text
        self.assertEqual(COLOUR.sub("", coloured), plain)
        self.assertEqual(coloured.count("\x1b[0m") * 2, coloured.count("\x1b["))


class Progress(EndToEndTest):
    def test_progress_never_reaches_standard_output(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        for command in COMMANDS:
            plain = run(command, path, "--progress", "never")
            always = run(command, path, "--progress", "always")
            self.assertEqual(always.out, plain.out, command)
            self.assertEqual((always.code, plain.err), (0, b""), command)

    def test_a_fast_trace_shows_none_on_a_terminal(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        for options in ((), ("--progress", "always"), ("--quiet",)):
            code, text = on_terminal(path, *options, NO_COLOR="1")
            self.assertEqual(code, 0)
            self.assertEqual(text, run(path).text)


if __name__ == "__main__":
    unittest.main()
