"""Tests of the exit codes and messages of errors.

Golden messages are in golden/errors.json; XPLANE_TIME_UPDATE_GOLDEN=1 writes them anew.
"""
import gzip
import json
import os
import re
import shlex
import subprocess
import time
import unittest

from harness import (BINARY, GOLDEN, TESTDATA, EndToEndTest, environment, in_parallel, run,
                     testdata_traces)
from xspace import Plane, data, gpu, space

GOOD = space(gpu(0))
RIEGELI = b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f" + bytes(56)

FILES = {
    "good.xplane.pb": GOOD,
    "empty.xplane.pb": b"",
    "no_planes.xplane.pb": space(hostnames=["one"]),
    "text.xplane.pb": b"hello, this is no trace\n",
    "trace.json": b'{"traceEvents": []}',
    "trace.json.gz": gzip.compress(b'{"traceEvents": []}', mtime=0),
    "indented.json": b'\n {"schemaVersion": 1,\n  "deviceProperties": []}' + b" " * 200,
    "other.json": b"[1, 2]",
    "program": b"\x7fELF\x02\x01\x01" + bytes(64),
    "archive.zip": b"PK\x03\x04" + bytes(40),
    "export.sqlite": b"SQLite format 3\0" + bytes(84),
    "twice.gz": gzip.compress(gzip.compress(GOOD, mtime=0), mtime=0),
    "cut.xplane.pb.gz": gzip.compress(GOOD, mtime=0)[:60],
    "long.xplane.pb": data(1, b"abc")[:-1],
    "length.xplane.pb": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "zeros.xplane.pb": bytes(100),
    "groups.xplane.pb": b"\x0b" * 100_000,
    "plane_groups.xplane.pb": data(1, b"\x0b" * 100_000),
    "idle.xplane.pb": space(Plane("/device:GPU:0"), Plane("/device:GPU:1"),
                            gpu(0, runs=0), Plane("/host:CPU")),
    "host.xplane.riegeli": RIEGELI,
    "renamed.xplane.pb": RIEGELI,
    "continuous/host.xplane.riegeli": RIEGELI,
    "nothing/notes.txt": b"",
    "log/plugins/profile/2026_01_02/one.xplane.pb": GOOD,
    "log/plugins/profile/2026_01_03/one.xplane.pb": GOOD,
}

T = "good.xplane.pb"
USAGE = [
    f"{T} --nope", f"functions {T} --nope", f"{T} --within x", "report", "planes", "events --quiet",
    f"functions {T} --samples --by-id", f"{T} --format", f"{T} --format xml", f"{T} --unit h",
    f"{T} --metric x", f"{T} --reader x", f"{T} --color x", f"{T} --threads 0", f"{T} --threads x",
    f"{T} --top x", f"{T} --max-events x", f"{T} --max-events 0", f"events {T} --max-events 0",
    f"{T} --tolerance 1.5", f"{T} --function (",
    f"{T} --exclude [", f"{T} --kernel *", f"{T} --scope a(?", f"{T} --id-pattern (",
    f"{T} --id-pattern no_group", f"tree {T} --line (",
    f"tree {T} --name (", f"events {T} --line (", f"events {T} --name (",
    f"events {T} --stat hlo_op --stat hlo_op",
    f"planes {T} --device re:(", f"{T} --device xpu", f"{T} --device gpu:", f"{T} --device gpu:a",
    f"{T} --device gpu:0,", f"{T} --device gpu:-1", f"{T} --device gpu:99999999999999999999",
    f"{T} --trim most", f"{T} --trim percent:", f"{T} --trim percent:50", f"{T} --trim percent:-1",
    f"{T} --trim percent:nan", f"{T} --sort size", f"functions {T} --sort share",
    f"kernels {T} --sort runs", f"{T} --run 2026_01_02", f"{T} --min-duration 1e300",
]
NO_INPUT = ["missing.xplane.pb", "nothing", "kernels good.xplane.pb missing.xplane.pb", "bogus",
            "log --run 2026_01_09", "good.xplane.pb/x"]
BAD_TRACE = [name for name in FILES if not name.startswith(("good", "log", "nothing"))] + [
    "continuous", f"{T} --device gpu:9", f"{T} --device tpu", f"{T} --device cpu",
    f"{T} --device re:zzz", f"planes {T} --device tpu", f"events {T} --device tpu",
    f"events {T} --name zzz", f"events {T} --stat hlo_opp",
    f"events {T} --stat zzzz", f"tree {T} --name zzz", f"kernels {T} empty.xplane.pb", "-"]
CANNOT_WRITE = [f"{T} -o absent/x", f"events {T} -o absent/x", f"{T} -o nothing",
                f"{T} -o /dev/full", "report --json-schema -o absent/x",
                f"compare {T} missing.xplane.pb -o absent/x"]
CODES = {**dict.fromkeys(USAGE, 64), **dict.fromkeys(BAD_TRACE, 65),
         **dict.fromkeys(NO_INPUT, 66), **dict.fromkeys(CANNOT_WRITE, 73)}


class Errors(EndToEndTest):
    def setUp(self):
        super().setUp()
        for name, content in FILES.items():
            self.write(name, content)

    def outcomes(self):
        done = in_parallel(lambda line: run(*line.split(" "), cwd=self.at), CODES)
        return dict(zip(CODES, done))

    def test_exit_codes(self):
        for line, done in self.outcomes().items():
            with self.subTest(line):
                self.assertEqual((done.code, done.out), (CODES[line], b""), done.message)

    def test_messages(self):
        golden = GOLDEN / "errors.json"
        got = {line: done.message for line, done in self.outcomes().items()}
        if os.environ.get("XPLANE_TIME_UPDATE_GOLDEN"):
            golden.write_text(json.dumps(got, indent=1) + "\n")
        want = json.loads(golden.read_text())
        self.assertEqual(got.keys(), want.keys())
        for line, message in got.items():
            with self.subTest(line):
                self.assertEqual(message, want[line])

    def test_messages_have_one_line_with_our_name(self):
        for line, done in self.outcomes().items():
            with self.subTest(line):
                self.assertRegex(done.message, r"\Axplane-time: [^\n]{8,400}\n\Z")

    def test_messages_about_traces_name_the_file(self):
        for line, done in self.outcomes().items():
            if CODES[line] not in (65, 66) or line == "-":
                continue
            with self.subTest(line):
                traces = [word for word in line.split(" ") if "." in word] or line.split(" ")[:1]
                named = any(f"xplane-time: {name}" in done.message for name in traces)
                self.assertTrue(named, done.message)

    def test_help_of_commands_and_of_what_is_none(self):
        for words in (("tune", "show"), ("power", "record"), ("report",)):
            self.assertEqual(self.run_ok("help", *words).out, self.run_ok(*words, "--help").out)
        for words in (("power", "help"), ("power", "help", "run"), ("tune", "help", "show")):
            self.assertEqual(self.run_ok(*words).out,
                             self.run_ok(*(word for word in words if word != "help"), "--help").out)
        self.assertEqual(self.run_ok("help", "help").out, self.run_ok("--help").out)
        for line, what in (("help tune shwo", "help tune shwo: unknown command; did you mean show?; "
                                              "commands: "),
                           ("help tune show 3", "help tune show 3: unknown command\n"),
                           ("help reprot", "did you mean report?")):
            done = run(*line.split())
            self.assertEqual((done.code, done.out), (64, b""))
            self.assertIn(what, done.message)

    def test_no_command_and_no_trace_is_usage(self):
        done = run(cwd=self.at)
        self.assertEqual((done.code, done.out), (64, b""))
        self.assertIn("Usage", done.message)

    def test_numbers_out_of_range_are_usage(self):
        for option in ("--top", "--max-events", "--skip-runs", "--threads", "--tolerance",
                       "--min-duration"):
            for value in ("-1", "-9223372036854775808", "99999999999999999999", "nan", "1e", ""):
                with self.subTest(option=option, value=value):
                    done = run(T, f"{option}={value}", cwd=self.at)
                    self.assertEqual((done.code, done.out), (64, b""))
                    self.assertIn(option, done.message)
                    self.assertLess(len(done.message), 200)

    def test_bad_regex_names_the_option_that_was_given(self):
        done = run("kernels", T, "--within", "(", cwd=self.at)
        self.assertEqual((done.code, done.out), (64, b""))
        self.assertIn("--within", done.message)

    def test_every_command_checks_its_sort_key(self):
        for command in ("report", "functions", "kernels", "tree"):
            with self.subTest(command):
                done = run(command, T, "--sort", "nonsense", cwd=self.at)
                self.assertEqual((done.code, done.out), (64, b""))
                self.assertIn("nonsense", done.message)

    def test_a_trace_that_may_not_be_read_is_an_io_error(self):
        self.at.chmod(0o755)
        (self.at / T).chmod(0)
        nobody = 65534 if os.geteuid() == 0 else None  # root can read all files
        try:
            done = run(T, cwd=self.at, user=nobody)
        except PermissionError:
            self.skipTest("another user may not run the binary here")
        self.assertEqual((done.code, done.out), (74, b""))
        self.assertEqual(done.message, f"xplane-time: {T}: cannot open: Permission denied\n")

    def test_no_place_for_a_temporary_file_is_an_io_error(self):
        trace = testdata_traces()[0].read_bytes()
        done = run("functions", "-", stdin=trace, env=environment(TMPDIR="/no/such/place"))
        self.assertEqual(done.code, 74)
        self.assertIn("/no/such/place", done.message)
        self.assertIn("TMPDIR", done.message)

    def test_a_stopped_command_leaves_no_half_written_output(self):
        big = testdata_traces()[0].read_bytes() * 400  # the concatenation counts as 400 captures
        trace = self.write("big.xplane.pb", big)
        output = trace.parent / "events.csv"
        command = [BINARY, "events", str(trace), "--device", "all", "-o", str(output)]
        for wait_s in (0.005, 0.02, 0.05):
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            time.sleep(wait_s)
            process.terminate()
            process.wait()
            left = [path.name for path in trace.parent.iterdir() if ".csv." in path.name]
            self.assertEqual(left, [])

    def test_a_device_that_is_not_there_is_named_with_those_that_are(self):
        spmd = TESTDATA / "jax_cpu_spmd4.xplane.pb"
        for selector in ("cpu:0,9", "cpu:9", "CPU:1,9"):
            done = run("functions", spmd, "--device", selector)
            self.assertEqual((done.code, done.out), (65, b""), done.message)
            self.assertIn(f"--device {selector}: the trace has no cpu:9; it has cpu:0,1,2,3",
                          done.message)
        some = self.run_json("functions", spmd, "--device", "cpu:0,3", "--min-duration", "1000")
        self.assertEqual({row["ordinal"] for row in some["functions"]}, {0, 3})

    def test_filters_that_leave_nothing_are_those_of_the_line(self):
        trace = TESTDATA / "jax_cpu_variants.xplane.pb"
        for line, text in ((("report", trace, "--function", "xyz"), "matches --function;"),
                           (("kernels", trace, "--within", "xyz", "--prefix", "j"),
                            "matches --within, --prefix;"),
                           (("compare", trace, trace, "--exclude", "."),
                            "no function has runs and passes --exclude;"),
                           (("pick", trace, "--function", "xyz"),
                            "no function is a variant and passes --function;")):
            done = run(*line)
            self.assertEqual((done.code, done.out), (65, b""), done.message)
            self.assertIn(text, done.message)

    def test_a_known_name_is_not_corrected(self):
        trace = TESTDATA / "jax_cpu_variants.xplane.pb"
        function = "jit_autotune_fn_1"
        done = run("report", trace, "--function", function, "--kernel", "nothing")
        self.assertEqual((done.code, done.out), (65, b""), done.message)
        self.assertNotIn("did you mean", done.message)
        done = run("report", trace, "--function", function + "x")
        self.assertIn(f"did you mean {function}", done.message)

    def test_what_the_user_left_out_is_not_suspicious(self):
        trace = TESTDATA / "jax_cpu_variants.xplane.pb"
        for option in (("--min-duration", "9000"), ("--max-events", "300")):
            text = self.run_ok(trace, *option).text
            self.assertNotIn("suspicious", text)
            self.assertRegex(text, r"notes on this trace\nnote: \d+x executions")

    def test_idle_accelerators_are_listed_with_what_is_there(self):
        done = run("idle.xplane.pb", cwd=self.at)
        self.assertEqual(done.code, 65)
        for name in ("/device:GPU:0", "/device:GPU:1", "/host:CPU"):
            self.assertIn(f"{name} (0 events)", done.message)

    def test_an_idle_accelerator_never_falls_back_to_the_cpu(self):
        host = Plane("/host:CPU", id=4)
        host.line("python").event("dot", 0, 900, hlo_op="dot", hlo_module="jit_f", program_id=1,
                                  run_id=1, device_ordinal=0)
        self.write("beside.xplane.pb", space(Plane("/device:GPU:0"), host))
        self.assertEqual(run("beside.xplane.pb", cwd=self.at).code, 65)
        chosen = self.run_json("beside.xplane.pb", "--device", "cpu")
        self.assertEqual([row["function"] for row in chosen["functions"]], ["jit_f"])


class Help(EndToEndTest):
    COMMANDS = ("report", "planes", "functions", "kernels", "tree", "events")

    def test_help_of_every_command_fits_80_columns_and_shows_examples(self):
        others = ("compare", "pick", "tune", "tune show", "tune export", "tune replay", "power",
                  "power sources", "power record", "power replay", "power run", "power calibrate",
                  "power plan")
        for command in ((), *(name.split() for name in (*self.COMMANDS, *others))):
            with self.subTest(command):
                done = self.run_ok(*command, "--help")
                self.assertEqual([line for line in done.text.splitlines() if len(line) > 80], [])
                if command:
                    self.assertIn("\nExamples:\n  xplane-time", done.text)

    def test_help_indents_what_belongs_to_an_option(self):
        for command in self.COMMANDS:
            text = self.run_ok(command, "--help").text.partition("\nOptions:\n")[2]
            flush = [line for line in text.splitlines() if line and line[0] != " "]
            with self.subTest(command):
                self.assertEqual([line for line in flush if not line.endswith(":")], [])

    def test_examples_in_the_help_run(self):
        self.write("trace.xplane.pb", space(gpu(0, function="jit_train", kernels=("attention",)),
                                            gpu(1), hostnames=["one"]))
        host = Plane("/host:CPU")
        host.line("python").event("Execute", 0, 10)
        self.write("trace.xplane.pb", (self.at / "trace.xplane.pb").read_bytes() + space(host))
        for name in ("run1", "run2", "logdir/plugins/profile/2026/one"):
            self.write(f"{name}.xplane.pb", GOOD)
        for command in self.COMMANDS:
            text = self.run_ok(command, "--help").text
            for line in text.partition("\nExamples:\n")[2].strip().splitlines():
                self.check_example(line.strip().partition("      ")[0])

    def check_example(self, line):
        words = shlex.split(line)
        self.assertEqual(words[0], "xplane-time", line)
        with self.subTest(line):
            self.assertEqual(run(*words[1:], cwd=self.at).code, 0)

    def test_the_help_command(self):
        for words in ((), *((name,) for name in (*self.COMMANDS, "compare", "pick", "tune", "power")),
                      ("power", "run"), ("tune", "export")):
            with self.subTest(words):
                self.assertEqual(self.run_ok("help", *words).text,
                                 self.run_ok(*words, "--help").text)
        for words in (("help", "help"), ("help", "--help"), ("help", "-h")):
            self.assertEqual(self.run_ok(*words).text, self.run_ok("--help").text)
        done = run("help", "comapre")
        self.assertEqual((done.code, done.out), (64, b""))
        self.assertIn("did you mean compare?", done.message)

    def test_what_is_misspelt_is_suggested(self):
        for words, code, hint in ((("compare", T, T, "--piared"), 64, "did you mean --paired?"),
                                  ((T, "--devcie", "gpu"), 64, "did you mean --device?"),
                                  ((T, "--devcie=gpu"), 64, "did you mean --device?"),
                                  (("power", "recrod"), 64, "did you mean record?"),
                                  (("tune", "s.json", "--source", "x"), 64,
                                   "did you mean --power-source?"),
                                  (("power", "record", "--durtion", "1"), 64, "--duration?"),
                                  (("comapre", T, T), 66, "did you mean the command compare?"),
                                  (("kernls", T), 66, "did you mean the command kernels?"),
                                  (("kernels", T, "--skip-runs", "2"), 64,
                                   "kernels has no such option, but report, functions, compare, pick, "
                                   "diff, summarize have"),
                                  ((T, "--zzz"), 64, "not expected: --zzz; see xplane-time report --help\n"),
                                  (("power", "sources", "--zzz"), 64,
                                   "not expected: --zzz; see xplane-time power sources --help\n")):
            with self.subTest(words):
                done = run(*words, cwd=self.at)
                self.assertEqual((done.code, done.out), (code, b""), done.message)
                self.assertIn(hint, done.message)

    def test_an_option_that_is_given_twice(self):
        for words, message in (((T, "-o", "a.json", "-o", "b.csv"),
                                "-o was given twice; run the command once for each file"),
                               ((T, "--output", "a.json", "-o", "b.csv"),
                                "-o was given twice; run the command once for each file"),
                               (("kernels", T, "--top", "3", "--top", "4"), "--top was given twice; give it once"),
                               (("compare", T, T, "--alpha=1%", "--alpha=2%", "--alpha=3%"),
                                "--alpha was given 3 times; give it once"),
                               ((T, "--unit", "us", "--unit", "us"), "--unit was given twice; give it once")):
            with self.subTest(words):
                done = run(*words, cwd=self.at)
                self.assertEqual((done.code, done.out), (64, b""))
                self.assertEqual(done.message, f"xplane-time: {message}\n")

    def test_version_names_the_readers(self):
        text = self.run_ok("--version").text
        self.assertRegex(text, r"\Axplane-time \d+\.\d+\.\d+\n")
        self.assertIn("wire", text)
        self.assertIn("protobuf", text)


class WaysOut(EndToEndTest):
    """The advice of a message works."""

    T = TESTDATA / "jax_cpu_variants.xplane.pb"

    def test_a_device_that_is_not_there_names_those_that_are(self):
        done = run("report", self.T, "--device", "gpu")
        self.assertEqual(done.code, 65)
        self.assertIn("the trace has: cpu = /host:CPU (1727 events); choose one", done.message)
        self.assertNotIn("(0 events)", done.message)
        for advised in ("cpu", "/host:CPU", "all"):
            self.assertEqual(run("report", self.T, "--device", advised).code, 0, advised)

    def test_a_misspelt_function_has_near_ones(self):
        for command in (("report",), ("functions",), ("kernels",), ("headroom",), ("tree",),
                        ("tree", "--by", "scope")):
            done = run(*command, self.T, "--function", "jit_autotune_fn1")
            self.assertEqual(done.code, 65, command)
            near = re.search(r"did you mean (\S+) or (\S+)\?", done.message)
            self.assertTrue(near, done.message)
            for function in near.groups():
                self.assertEqual(run(*command, self.T, "--function", function).code, 0, function)
            done = run(*command, self.T, "--function", "unlike_any_of_them")
            self.assertEqual(done.code, 65, command)
            self.assertNotIn("did you mean", done.message)

    def test_names_have_a_limit(self):
        device = gpu(0, kernels=("k" * (17 << 20), "short"))
        path = self.write("long.xplane.pb.gz", gzip.compress(space(device), 1))
        for command in ("report", "kernels", "planes", "events"):
            done = run(command, path)
            self.assertEqual((done.code, done.out), (65, b""), done.message)
            self.assertIn("the name of event metadata 1 of plane 0 has 17825792 bytes; the maximum is "
                          "16777216 bytes", done.message)
        self.assertEqual(run("report", self.write("ok.xplane.pb", space(
            gpu(0, kernels=("k" * (1 << 20), "short"))))).code, 0)


if __name__ == "__main__":
    unittest.main()
