"""Tests of the output on a terminal with 80 columns."""
import fcntl
import json
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
    """Returns the exit status and the text on the terminal, with stdout and stderr together."""
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
        except OSError:  # on Linux, all writers have closed it
            break
        if not chunk:
            break
        chunks.append(chunk)
    return b"".join(chunks)


def width(line):
    """The number of columns on the screen. Characters of double width count as one."""
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
                if done.code == 65:  # the trace has no such data
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


CK = ("void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<ck_tile::{}, ck_tile::TileFmhaShape> >"
      "(ck_tile::Kargs) [clone .kd]")


class Names(EndToEndTest):
    """Shortened names remain different. Terminal controls are not printed."""

    def rows(self, text, first):
        return [line for line in text.splitlines() if line.startswith(first)]

    def test_kernels_that_differ_in_the_middle_are_told_apart(self):
        path = self.write("ck.xplane.pb", space(gpu(0, kernels=[CK.format(of) for of in
                                                                ("bf16_t", "half_t", "float")])))
        for command in ("report", "kernels"):
            for columns in ("60", "80", "100"):
                text = self.run_ok(command, path, env=environment(COLUMNS=columns)).text
                names = [line.split("  ")[0] for line in self.rows(text, "void c")]
                self.assertEqual((len(names), len(set(names))), (3, 3), text)

    def test_wide_shortens_nothing(self):
        long = "k_" + "x" * 300
        path = self.write("long.xplane.pb", space(gpu(0, function="jit_" + LONG, kernels=(long,))))
        for command in ("report", "kernels", "functions", "tree", "events"):
            text = self.run_ok(command, path, "--wide", env=environment(COLUMNS="80")).text
            self.assertIn("jit_" + LONG if command == "functions" else long, text)
            self.assertNotIn("not shown", text)

    def test_characters_that_turn_text_are_not_printed(self):
        evil = "k\u202eevil\u2066\u200b\ufeff\u061c\u2028"
        path = self.write("evil.xplane.pb", space(gpu(0, function=evil, kernels=(evil,))))
        for command in COMMANDS:
            for form in ("table", "markdown", "csv", "json"):
                text = self.run_ok(command, path, "--format", form).text
                self.assertIsNone(re.search("[\u202e\u2066\u200b\ufeff\u061c\u2028]", text),
                                  (command, form))


class Narrow(EndToEndTest):
    """For every width: numbers are complete, and hidden columns are listed."""

    def lines(self, columns, *arguments):
        done = run(*arguments, cwd=self.at, env=environment(COLUMNS=columns))
        self.assertEqual((done.code, done.err), (0, b""))
        return done.text.splitlines()

    def test_what_is_no_width_means_80(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        usual = self.lines("80", "functions", path)
        for columns in ("0", "abc", "-5", "", "80x", "9" * 30):
            self.assertEqual(self.lines(columns, "functions", path), usual, columns)
        self.lines("2000000000", "events", path, "--max-events", "3")  # lines are not padded to 2 GB

    def test_numbers_are_never_cut(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        for command, form in (("functions", "functions"), ("kernels", "kernels"), ("tree", "tree")):
            whole = set(re.findall(r"[-\d.]+", "\n".join(self.lines("400", command, path))))
            for columns in (10, 20, 25, 30, 35, 40, 50):
                lines = self.lines(str(columns), command, path)
                self.assertLessEqual(max(map(len, lines)), max(columns, 20))
                header = next(i for i, line in enumerate(lines) if line.startswith(
                    ("function", "kernel", "name")) and "," not in line)
                rows = [line for line in lines[header + 1:] if "  " in line.strip()]
                for line in rows:
                    for cell in line.split()[1:]:
                        if re.fullmatch(r"[-\d.]+", cell):
                            self.assertIn(cell, whole, f"{command} at {columns}: {line}")
                self.assertIn("not shown, too wide", "\n".join(lines), form)

    def test_lines_above_the_tables_are_broken_not_cut(self):
        words = " ".join(self.lines("30", TESTDATA / "jax_cpu_variants.xplane.pb")[1:])
        for what in ("3 planes, 2 lines, 1727 events, host testhost", "UTC, for 6.267 ms",
                     "functions, active time, profile clock", "share of self time"):
            self.assertIn(what, " ".join(words.split()))

    def test_the_report_says_what_is_not_shown(self):
        text = "\n".join(self.lines("50", TESTDATA / "jax_cpu_variants.xplane.pb"))
        self.assertIn("not shown, too wide: mean us", text)

    def test_top_0_is_not_none(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        for command in ("functions", "kernels", "tree", "report"):
            for form in ("table", "markdown"):
                text = self.run_ok(command, path, "--top", "0", "--format", form).text
                self.assertNotIn("none", text)
                self.assertRegex(text, r"\n\.\.\. \d+ more (function|kernel|row)")

    def test_cut_rows_are_counted(self):
        path = TESTDATA / "jax_cpu_variants.xplane.pb"
        for arguments in (("functions", "--by-id"), ("functions",), ("kernels",), ("tree",)):
            for form in ("table", "markdown"):
                text = self.run_ok(*arguments, path, "--top", "1", "--format", form).text
                self.assertRegex(text, r"\n\.\.\. \d+ more ", (arguments, form))


class Columns(EndToEndTest):
    PATH = TESTDATA / "jax_cpu_variants.xplane.pb"

    def header(self, *arguments):
        lines = self.run_ok(*arguments, env=environment(COLUMNS="300")).text.splitlines()
        return next(line for line in lines if line.startswith(("function ", "kernel ", "name ")))

    def test_only_what_is_named_in_that_order(self):
        self.assertEqual(self.header("functions", self.PATH, "--columns", "Max, runs,MEAN").split(),
                         ["function", "max", "us", "runs", "mean", "us"])
        for name in ("ci", "95% ci"):
            self.assertEqual(self.header("functions", self.PATH, "--columns", name).split(),
                             ["function", "95%", "CI"])
        self.assertEqual(self.header("functions", self.PATH, "--columns", "median us").split(),
                         ["function", "median", "us"])
        text = self.run_ok("kernels", self.PATH, "--columns", "share", "--format", "markdown").text
        self.assertIn("| kernel | share % |\n", text)

    def test_what_is_usually_left_out_can_be_asked_for(self):
        self.assertEqual(self.header("functions", self.PATH, "--columns", "device,clock").split(),
                         ["function", "device", "clock"])
        self.assertEqual(self.header("functions", self.PATH, "--samples", "--columns", "run").split(),
                         ["function", "run"])

    def test_a_wrong_name_lists_the_right_ones(self):
        for command in ("report", "planes", "functions", "kernels", "tree", "pick"):
            for names in ("size", ",", "runs,,mean"):
                done = run(command, self.PATH, "--columns", names)
                self.assertEqual((done.code, done.out), (64, b""), command)
                self.assertRegex(done.err.decode(), "--columns: unknown column \"(size|runs)?\"; "
                                                    "valid columns: [a-z]+", command)
        self.assertEqual(run("functions", self.PATH, "--columns", "share,run").code, 64)

    def test_no_name_needs_quotes(self):
        for command in ("report", "planes", "functions", "kernels", "tree", "where", "headroom",
                        "diff", "compare", "pick"):
            inputs = (self.PATH,) * (2 if command in ("diff", "compare") else 1)
            done = run(command, *inputs, "--columns", "size")
            names = done.message.partition("valid columns: ")[2].strip().split(", ")
            self.assertGreater(len(names), 3, (command, done.message))
            self.assertEqual([name for name in names if not re.fullmatch(r"[a-z0-9_/#%±]+", name)], [],
                             command)

    def test_formats_that_have_every_field_refuse_it(self):
        for form in ("json", "csv"):
            done = run("functions", self.PATH, "--columns", "runs", "--format", form)
            self.assertEqual(done.code, 64)
            self.assertIn("--columns applies only to tables", done.err.decode())

    def test_every_column_of_every_table_can_be_named(self):
        """--columns accepts exactly the headers of the tables."""
        host = Plane("/host:CPU")
        host.line("python").event("Execute", 0, 10)
        both = self.write("two.xplane.pb", space(gpu(0), gpu(1, kernels=("x",)), host))
        for path in (*testdata_traces(), both):
            for arguments in (("report",), ("planes", "--stats"), ("functions",), ("kernels",),
                              ("functions", "--by-id"), ("functions", "--samples"), ("tree",),
                              ("tree", "--device", "all", "--line", ".")):
                done = run(*arguments, path, "--format", "markdown")
                if done.code == 65:
                    continue
                for header in re.findall(r"^\| (.*) \|\n\| ---", done.text, re.MULTILINE):
                    for name in header.split(" | ")[1:]:
                        chosen = run(*arguments, path, "--format", "markdown", "--columns", name)
                        self.assertEqual(chosen.code, 0, (arguments, name, chosen.err))
                        self.assertIn(f"| {name} |", chosen.text)


class Bars(EndToEndTest):
    def test_a_sign_means_the_same_in_every_bar(self):
        """A dot means idle, both in the report and in `where`, which has a legend."""
        path = self.write("gpu.xplane.pb", space(gpu(0), gpu(1, runs=1)))
        where = self.run_ok("where", path).text
        self.assertIn("· idle", where)
        self.assertIn("░ other", where)
        report = self.run_ok(path).text
        bars = re.findall("[█░▒▓·]{4,}", report)
        self.assertTrue(bars, report)
        self.assertEqual(set("".join(bars)) - {"█", "·"}, set(), report)


class Rates(EndToEndTest):
    """FLOP/s and bytes/s of kernels, if the producer states their FLOPs and bytes."""

    def trace(self, **stats):
        plane = Plane("/device:GPU:0")
        stream = plane.line("Stream #1(Kernel)")
        for at in range(2):
            stream.event("dot.kd", at * 4_000_000, 2_000_000, hlo_module="jit_f", program_id=1,
                         **stats)
            stream.event("copy.kd", at * 4_000_000 + 2_000_000, 1_000_000, hlo_module="jit_f",
                         program_id=1)
        return self.write("rates.xplane.pb", space(plane))

    def test_rates_where_they_are_known(self):
        text = self.run_ok("kernels", self.trace(flops=100_000_000, bytes_accessed=3_000_000),
                           "--columns", "flop/s,b/s").text
        self.assertRegex(text, r"kernel +FLOP/s +B/s\n")
        self.assertRegex(text, r"dot\.kd +50\.0 T +1\.50 T\n")  # in 2 us
        self.assertRegex(text, r"copy\.kd +- +-\n")

    def test_no_column_where_none_is(self):
        self.assertNotIn("FLOP/s", self.run_ok("kernels", self.trace(), "--wide").text)


class Control(EndToEndTest):
    """The FLOPs of a loop are those of its body. The trace of a TPU states them for both."""
    TRIPS = 4

    def trace(self, op, category):
        plane = Plane("/device:TPU:0")
        modules, ops = plane.line("XLA Modules"), plane.line("XLA Ops")
        for run in range(2):
            at = run * 100_000_000
            modules.event("jit_step(123)", at, 60_000_000, run_id=run)
            stats = {"hlo_category": category} if category else {}
            ops.event(op, at, 40_000_000, flops=self.TRIPS * 1000, bytes_accessed=self.TRIPS * 100, **stats)
            for trip in range(self.TRIPS):
                ops.event("dot.2", at + 1_000_000 + trip * 9_000_000, 8_000_000,
                          hlo_category="convolution", flops=1000, bytes_accessed=100)
            ops.event("dot.3", at + 45_000_000, 10_000_000, hlo_category="convolution", flops=500,
                      bytes_accessed=50)
        return self.write("loop.xplane.pb", space(plane))

    def test_a_loop_does_not_count_the_flops_of_its_body_again(self):
        for op, category in (("while.1", "while"), ("while.1", None), ("conditional.3", "conditional"),
                             ("call.7", "call"), ("cond.1.clone", None)):
            with self.subTest(op):
                trace = self.trace(op, category)
                rows = {row["kernel"]: row for row in self.run_json("kernels", trace)["kernels"]}
                for name in ("flops", "bytes_accessed", "flops_per_s", "bytes_per_s"):
                    self.assertIsNone(rows[op][name], name)
                self.assertEqual(rows[op]["count"], 2)
                # The sum over the rows is what the device computed in two runs.
                self.assertEqual(sum(row["flops"] or 0 for row in rows.values()),
                                 2 * (self.TRIPS * 1000 + 500))
                self.assertEqual(sum(row["bytes_accessed"] or 0 for row in rows.values()),
                                 2 * (self.TRIPS * 100 + 50))
                ops = {row["op"]: row for row in self.run_json(
                    "headroom", trace, "--peak-flops", "1T", "--peak-bandwidth", "1T")["ops"]}
                self.assertEqual((ops[op]["flops"], ops[op]["reason"]), (None, "not_compute"))
                self.assertEqual((ops["dot.2"]["flops"], ops["dot.2"]["executions"]), (1000, 2 * self.TRIPS))

    def test_an_op_that_is_only_named_alike_keeps_its_flops(self):
        rows = {row["kernel"]: row for row in self.run_json(
            "kernels", self.trace("while_fusion.1", "loop fusion"))["kernels"]}
        self.assertEqual(rows["while_fusion.1"]["flops"], 2 * self.TRIPS * 1000)


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
        self.assertTrue(self.coloured(NO_COLOR=""))  # no-color.org: an empty value counts as unset
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

    def test_a_file_has_none_and_is_as_wide_everywhere(self):
        clocks = {"monotonic_ns": 0, "realtime_ns": 10**18, "boottime_ns": 0}
        log = [{"schema": "xplane-time.power-log.v1", "t": 0, "clocks": clocks,
                "machine": {"host": "n" * 70}, "command": "c " * 40, "periods_ns": {"nvml": 10**8},
                "devices": [], "absent": [],
                "channels": [{"source": "nvml", "device": "GPU-1", "domain": "gpu",
                              "quantity": "power_mw", "kind": "instant"}]}]
        log += [{"t": at * 10**8, "s": 0, "r": [[0, 0, 10**6, 100_000]]} for at in range(40)]
        path = self.write("p.jsonl", "".join(json.dumps(line) + "\n" for line in log))
        for arguments in (("good.xplane.pb",), ("power", "replay", path)):
            texts = set()
            for columns in (80, 132):
                code, shown = on_terminal(*arguments, "-o", "x", columns=columns, cwd=self.at)
                self.assertEqual((code, shown), (0, ""))
                texts.add((self.at / "x").read_text())
            self.assertEqual(len(texts), 1)
            self.assertNotIn("\x1b", *texts)

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
