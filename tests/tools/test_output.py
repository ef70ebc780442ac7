"""Tests of outputs: files are complete or absent, pipes may close, names may be hostile."""
import os
import re
import subprocess
import unittest

from harness import BINARY, EndToEndTest, TESTDATA, csv_rows, environment, run
from xspace import Plane, Ref, gpu, space

BIG = TESTDATA / "jax_cpu_variants.xplane.pb"
COMMANDS = ("report", "planes", "functions", "kernels", "tree", "events")
FORMATS = ("table", "json", "csv", "markdown")
EVIL = "k\x1b[31mred\x07\r\t\x7f\x9b2J|`,\"<b>&*"  # ESC, BEL, CR, tab, DEL and a C1 control
NOT_UTF8 = b"k\xff\xfe\xc3("


class OutputFile(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.trace = self.write("good.xplane.pb", space(gpu(0)))
        self.damaged = self.write("damaged.xplane.pb", space(gpu(0))[:-3])

    def files(self):
        return sorted(path.name for path in self.at.iterdir())

    def test_file_holds_what_standard_output_would(self):
        for command in COMMANDS:
            for form in FORMATS:
                with self.subTest(command=command, format=form):
                    printed = self.run_ok(command, self.trace, "--format", form)
                    written = self.run_ok(command, self.trace, "--format", form, "-o", "out")
                    self.assertEqual(written.out, b"")
                    self.assertEqual((self.at / "out").read_bytes(), printed.out)
        self.assertEqual(self.files(), ["damaged.xplane.pb", "good.xplane.pb", "out"])

    def test_a_failure_leaves_no_file(self):
        for arguments in ((self.damaged,), (self.trace, "--device", "gpu:9"),
                          ("missing.xplane.pb",), (self.trace, "--function", "(")):
            for command in COMMANDS:
                if command in ("planes", "events") and "--function" in arguments:
                    continue
                with self.subTest(command=command, arguments=arguments[1:]):
                    done = run(command, *arguments, "-o", "out", cwd=self.at)
                    self.assertIn(done.code, (64, 65, 66))
                    self.assertEqual(self.files(), ["damaged.xplane.pb", "good.xplane.pb"])

    def test_a_failure_keeps_the_old_file_and_success_replaces_it(self):
        out = self.write("out.json", "old")
        for command in COMMANDS:
            self.assertEqual(run(command, self.damaged, "-o", out).code, 65)
            self.assertEqual(out.read_text(), "old")
        self.run_ok(self.trace, "--format", "json", "-o", out)
        self.assertIn('"xplane-time.report.v1"', out.read_text())
        self.assertEqual(self.files(), ["damaged.xplane.pb", "good.xplane.pb", "out.json"])

    def test_file_has_the_usual_permissions(self):
        self.run_ok(self.trace, "-o", "out")
        self.assertEqual((self.at / "out").stat().st_mode & 0o777, 0o666 & ~self.umask())

    @staticmethod
    def umask():
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_the_suffix_says_the_format(self):
        for name, form in (("o.JSON", "json"), ("o.Csv", "csv"), ("o.MD", "markdown"),
                           ("o.txt", "table"), ("o", "table"), (".o", "table"),
                           ("tmp.Xa8Bc9dE", "table"), ("o.json/o", "table")):
            with self.subTest(name):
                (self.at / name).parent.mkdir(exist_ok=True)
                self.run_ok(self.trace, "-o", name)
                self.assertEqual((self.at / name).read_bytes(),
                                 self.run_ok(self.trace, "--format", form).out)
            (self.at / name).unlink()
        for name in ("o.xml", "o.XML", "o.prom", "o.htm", "o.parquet", "o.json.gz", "o.log",
                     "o.foo", "o.json~", "o.", "o.2026-11-28", "o.perfetto-trace"):
            with self.subTest(name):
                refused = run(self.trace, "-o", name, cwd=self.at)
                self.assertEqual((refused.code, (self.at / name).exists()), (64, False))
                self.assertIn("unknown suffix ." + name.rpartition(".")[2].lower(), refused.message)
                self.assertIn(".txt (table), .json (json), .csv (csv), .md (markdown), .html "
                              "(html), .sqlite (sqlite), .pftrace (perfetto)", refused.message)
                self.run_ok(self.trace, "-o", name, "--format", "table")

    def test_file_has_no_colour_unless_asked_for(self):
        self.run_ok(self.trace, "-o", "plain", "--color", "auto")
        self.run_ok(self.trace, "-o", "coloured", "--color", "always")
        self.assertNotIn(b"\x1b", (self.at / "plain").read_bytes())
        self.assertIn(b"\x1b[", (self.at / "coloured").read_bytes())


class Tables(EndToEndTest):
    def test_times_of_a_line_have_one_unit(self):
        text = self.run_ok("planes", TESTDATA / "jax_cpu_variants.xplane.pb",
                           env=environment(COLUMNS="200")).text
        [header] = [line for line in text.splitlines() if line.startswith("plane / line")]
        units = [header.split()[header.split().index(name) + 1] for name in ("first", "last", "sum")]
        self.assertEqual(len(set(units)), 1, header)

    def test_all_traces_have_one_unit_in_planes(self):
        for path in sorted(TESTDATA.glob("*.xplane.pb")):
            text = self.run_ok("planes", path, env=environment(COLUMNS="200")).text
            headers = [line.split() for line in text.splitlines() if line.startswith("plane / line")]
            self.assertTrue(headers, path)
            for words in headers:
                units = {words[words.index(name) + 1] for name in ("first", "last", "sum")}
                self.assertEqual(len(units), 1, (path, words))
                self.assertIn(units.pop(), ("ns", "us", "ms", "s"))

    def test_shares_of_devices_have_one_denominator(self):
        checked = 0
        for path in sorted(TESTDATA.glob("*.xplane.pb")):
            text = self.run_ok("report", path, "--unit", "us", env=environment(COLUMNS="200")).text
            section = text[text.index("devices, shares of the span"):].split("\n\n")[0]
            header, *rows = section.splitlines()[1:]
            self.assertNotIn("busy %", section)
            names = re.findall(r"executions|busy us|span us|\w+ %", header)
            self.assertEqual(names[:4], ["executions", "busy us", "span us", "compute %"])
            for row in rows:
                values = dict(zip(names, re.findall(r"(?<= )[\d.]+(?= |$)", row)))
                if len(values) < len(names):
                    continue  # a note
                shares = [float(value) for name, value in values.items() if name.endswith("%")]
                self.assertAlmostEqual(sum(shares), 100, delta=0.3)
                busy_share = float(values["busy us"]) / float(values["span us"])
                self.assertAlmostEqual(float(values["idle %"]), 100 * (1 - busy_share), delta=0.3)
                checked += 1
        self.assertGreater(checked, 5)

    def test_every_sort_key_in_a_help_is_accepted(self):
        trace = TESTDATA / "jax_cpu_variants.xplane.pb"
        for command in ("functions", "kernels", "tree"):
            text = " ".join(self.run_ok(command, "--help").text.split())
            [keys] = re.findall(r"--sort KEY Sort rows by (.*?) --unit", text)
            keys = re.sub(r"\(default.*|, the only order.*", "", keys)
            for key in re.split(r", | or ", keys.strip()):
                with self.subTest(command=command, key=key):
                    self.run_ok(command, trace, "--sort", key)


class SourceLines(EndToEndTest):
    """The source lines of kernels, in every format."""
    LINE = re.compile(r"record_jax_cpu\.py:\d+")

    def test_formats(self):
        of_ops = {(row["function"], row["op"]): row["source"]
                  for row in self.run_json("headroom", BIG)["ops"]}
        kernels = self.run_json("kernels", BIG)["kernels"]
        for row in kernels:
            self.assertEqual(row["source"], of_ops[row["function"], row["kernel"]])
        self.assertEqual(self.run_json(BIG)["kernels"][0]["source"], kernels[0]["source"])
        rows = csv_rows(self.run_ok("kernels", BIG, "--format", "csv").text)
        self.assertEqual([row["source"] or None for row in rows], [row["source"] for row in kernels])
        for words in (("kernels", BIG, "--wide"), ("kernels", BIG, "--columns", "kernel,source"),
                      ("kernels", BIG, "--format", "markdown"), (BIG, "--format", "markdown"),
                      (BIG, "--format", "html"), ("kernels", BIG, "--format", "html")):
            self.assertRegex(self.run_ok(*words).text, self.LINE)

    def test_narrow_tables(self):
        # The command that a brief names.
        narrow = environment(COLUMNS="80")
        for words in (("kernels", BIG, "--function", "^jit_autotune_fn_5$", "--top", "10"),
                      (BIG, "--function", "^jit_autotune_fn_5$")):
            self.assertRegex(self.run_ok(*words, env=narrow).text, self.LINE)
        self.assertRegex(self.run_ok(BIG, env=narrow).text, r"source +function\n.*:\d+ +jit_aut")

    def test_a_source_whose_last_part_names_no_file(self):
        sources = ["/", "/tmp/", "/tmp/:5", "/home/a b/model.py:10", "C:\\f.py:7", "/noline.py"]
        shown = ["/", "/tmp/", "/tmp/:5", "model.py:10", "C:\\f.py:7", "noline.py"]
        plane = Plane("/device:GPU:0")
        stream = plane.line("Stream #1(Kernel)")
        for i, source in enumerate(sources):
            stream.event(f"k{i}", i * 1000, 900 - i, hlo_module=Ref("jit_f"), hlo_op=Ref("op"), program_id=1, source=source)
        path = self.write("g.xplane.pb", space(plane))
        self.assertEqual([row["source"] for row in self.run_json("kernels", path)["kernels"]], sources)
        text = self.run_ok("kernels", path, "--columns", "kernel,source").text
        for i, name in enumerate(shown):
            self.assertRegex(text, rf"(?m)^k{i} .* {re.escape(name)} *(\S+)?$")

    def test_unknown(self):
        path = self.write("g.xplane.pb", space(gpu()))
        self.assertEqual({row["source"] for row in self.run_json("kernels", path)["kernels"]}, {None})
        self.assertNotIn("source", self.run_ok("kernels", path).text)


class UnknownFlops(EndToEndTest):
    """An op whose bytes alone are known is not ranked by them, if it may compute products."""
    TRACE = TESTDATA / "gpu" / "h200_kernels.xplane.pb.gz"

    def test_no_peak_for_the_type_of_a_product(self):
        document = self.run_json("headroom", self.TRACE)
        rows = {row["op"]: row for row in document["ops"]}
        gemm = rows["custom-call.0"]  # in 32-bit floats, for which there is no peak
        self.assertEqual((gemm["reason"], gemm["roof"], gemm["recoverable_ps"], gemm["bound"]),
                         ("no_peak", "memory", None, None))
        self.assertGreater(gemm["flops"], 0)
        known = [row["recoverable_ps"] for row in document["ops"] if row["recoverable_ps"] is not None]
        self.assertAlmostEqual(document["devices"][0]["recoverable_ps"], sum(known), delta=1)
        self.assertIsNotNone(rows["fusion.13"]["recoverable_ps"])  # computes no product
        kernel = self.run_json("kernels", self.TRACE)["kernels"][0]
        self.assertEqual((kernel["roof_share"], kernel["bytes_per_s"] is None), (None, False))
        brief = self.run_json("brief", self.TRACE)
        self.assertNotIn("custom-call.0", " ".join(row["what"] for row in brief["findings"]))
        text = " ".join(self.run_ok("headroom", self.TRACE).text.split())
        self.assertIn("only the bytes have a roof, so the recoverable time is unknown", text)

    def test_a_peak_for_all_types(self):
        rows = {row["op"]: row for row in
                self.run_json("headroom", self.TRACE, "--peak-flops", "60T")["ops"]}
        self.assertEqual((rows["custom-call.0"]["roof"], rows["custom-call.0"]["reason"]), ("full", None))
        self.assertIsNotNone(rows["custom-call.0"]["recoverable_ps"])

    def test_no_rates_on_a_cpu(self):
        for row in self.run_json("kernels", BIG)["kernels"]:
            self.assertEqual((row["flops_per_s"], row["bytes_per_s"]), (None, None))
        text = " ".join(self.run_ok("headroom", BIG).text.split())
        self.assertIn("(host): a CPU has no roof, because thunks return before their work is done", text)


class Streams(EndToEndTest):
    """Open files, pipes and devices are written directly, without a temporary file."""

    def setUp(self):
        super().setUp()
        self.trace = self.write("good.xplane.pb", space(gpu(0)))
        self.want = self.run_ok(self.trace).out

    def test_streams_go_on_where_they_stand(self):
        (self.at / "link").symlink_to("/dev/stdout")
        for name, stream in (("-", "stdout"), ("/dev/stdout", "stdout"), ("/dev/fd/1", "stdout"),
                             ("link", "stdout"),
                             ("/proc/self/fd/1", "stdout"), ("/dev/stderr", "stderr"),
                             ("/dev/fd/2", "stderr")):
            for mode in ("wb", "ab"):
                with self.subTest(name, mode=mode):
                    self.write("log", "")
                    with open(self.at / "log", mode) as log:
                        log.write(b"before\n")
                        log.flush()
                        for command in ("report", "events"):
                            done = subprocess.run(
                                [BINARY, command, self.trace, "-o", name], cwd=self.at,
                                env=environment(), check=False, **{stream: log})
                            self.assertEqual(done.returncode, 0)
                        log.write(b"after\n")
                    events = self.run_ok("events", self.trace).out
                    self.assertEqual((self.at / "log").read_bytes(),
                                     b"before\n" + self.want + events + b"after\n")
        self.assertFalse((self.at / "-").exists())

    def test_standard_output_is_as_wide_however_it_is_called(self):
        wide = self.run_ok(self.trace, env=environment(COLUMNS="200")).out
        self.assertEqual(self.run_ok(self.trace, "-o", "-", env=environment(COLUMNS="200")).out, wide)

    def test_a_stream_that_is_not_open(self):
        done = run(self.trace, "-o", "/dev/fd/77", cwd=self.at)
        self.assertEqual(done.code, 73)
        self.assertIn("/dev/fd/77: cannot write: Bad file descriptor", done.message)

    def test_standard_output_that_is_read(self):
        with open(self.trace, "ab") as same:
            done = subprocess.run([BINARY, self.trace, "-o", "-"], stdout=same, check=False,
                                  stderr=subprocess.PIPE, env=environment())
        self.assertEqual((done.returncode, self.trace.read_bytes()), (64, space(gpu(0))))

    def test_a_pipe_and_a_device(self):
        os.mkfifo(self.at / "pipe")
        with subprocess.Popen(["cat", "pipe"], cwd=self.at, stdout=subprocess.PIPE) as reader:
            self.run_ok(self.trace, "-o", "pipe")
            self.assertEqual(reader.stdout.read(), self.want)
        self.assertTrue((self.at / "pipe").is_fifo())
        (self.at / "null").symlink_to("/dev/null")
        (self.at / "full").symlink_to("/dev/full")
        self.run_ok(self.trace, "-o", "null")
        self.assertEqual(run(self.trace, "-o", "full", cwd=self.at).code, 73)
        self.assertTrue((self.at / "null").is_char_device() and (self.at / "full").is_char_device())


class Pipes(EndToEndTest):
    def test_a_reader_that_leaves_ends_it_quietly(self):
        for command in COMMANDS:
            for form in FORMATS:
                with self.subTest(command=command, format=form):
                    self.assertEqual(self.after_first_bytes(command, BIG, "--format", form),
                                     (0, b""))

    @staticmethod
    def after_first_bytes(*arguments):
        with subprocess.Popen([str(BINARY), *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environment()) as process:
            os.read(process.stdout.fileno(), 1)
            process.stdout.close()
            return process.wait(timeout=20), process.stderr.read()

    def test_nobody_reads_at_all(self):
        for arguments in (("report", BIG), ("events", BIG, "--format", "csv"), ("--help",)):
            reading, writing = os.pipe()
            os.close(reading)
            with self.subTest(arguments[0]):
                done = subprocess.run([str(BINARY), *map(str, arguments)], stdout=writing,
                                      stderr=subprocess.PIPE, timeout=20, env=environment())
                self.assertEqual((done.returncode, done.stderr), (0, b""))
            os.close(writing)

    def test_a_full_disk_is_an_error(self):
        for arguments in (("report", BIG), ("events", BIG), ("report", "--json-schema"),
                          ("--help",), ("--version",)):
            with self.subTest(arguments[0]), open("/dev/full", "wb") as full:
                done = subprocess.run([str(BINARY), *map(str, arguments)], stdout=full,
                                      stderr=subprocess.PIPE, timeout=20, env=environment())
                self.assertEqual(done.returncode, 73)
                self.assertRegex(done.stderr, rb"\Axplane-time: standard output: cannot write")


class Names(EndToEndTest):
    """Names may be arbitrary bytes of the producer."""

    def setUp(self):
        super().setUp()
        device = Plane("/device:GPU:0")
        stream = device.line("Stream #1(Kernel) \x1b]0;title\x07")
        stream.event(EVIL, 0, 10, hlo_module=EVIL, hlo_op=EVIL, program_id=1)
        stream.event(NOT_UTF8, 20, 5, hlo_module=b"jit_\xff", hlo_op="o", program_id=2)
        host = Plane("/host:\x1b[1m")
        host.line("\x07line").event(EVIL, 0, 1, note=EVIL)
        self.write("evil.xplane.pb", space(device, host, hostnames=["h\x1b[2J"],
                                           errors=["e\x1b[1m"], warnings=[b"w\x9b\xff\x07"]))

    def outputs(self, form):
        for command in COMMANDS:
            options = ("--stat", "note", "--stat", "hlo_op") if command == "events" else ()
            yield command, run(command, "evil.xplane.pb", "--device", "all", "--format", form,
                               *options, cwd=self.at)

    def check_no_controls(self, form):
        for command, done in self.outputs(form):
            with self.subTest(command):
                self.assertEqual(done.code, 0, done.message)
                shown = {char for char in done.text + done.message
                         if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160)}
                self.assertEqual(shown, set())

    def test_no_control_character_reaches_a_table(self):
        self.check_no_controls("table")

    def test_no_control_character_reaches_markdown(self):
        self.check_no_controls("markdown")

    def test_no_control_character_reaches_json(self):
        self.check_no_controls("json")

    def test_no_control_character_reaches_csv(self):
        self.check_no_controls("csv")

    def test_no_control_character_reaches_messages(self):
        for arguments in (("\x1b[31m.xplane.pb",), ("evil.xplane.pb", "--device", "re:\x1b("),
                          ("evil.xplane.pb", "--device", "tpu"), ("evil.xplane.pb", "--\x1b"),
                          ("evil.xplane.pb", "--trim", "\x1b"), ("evil.xplane.pb", "-o", "\x1b/x"),
                          ("evil.xplane.pb", "--sort", "\x9b")):
            with self.subTest(arguments):
                done = run(*arguments, cwd=self.at)
                self.assertIn(done.code, (64, 65, 66, 73))
                self.assertNotRegex(done.message[:-1], r"[\x00-\x1f\x7f-\x9f]")

    def test_json_has_control_characters_in_its_own_escapes(self):
        kernels = self.run_json("kernels", "evil.xplane.pb")["kernels"]
        shown = 'k\x1b[31mred\x07\r\t\\x7f\\xc2\\x9b2J|`,"<b>&*'
        self.assertEqual({row["kernel"] for row in kernels}, {shown, r"k\xff\xfe\xc3("})
        self.assertEqual({row["function"] for row in kernels}, {shown, r"jit_\xff"})

    def test_bytes_that_are_not_utf8_are_escaped_everywhere(self):
        for form in FORMATS:
            for command, done in self.outputs(form):
                with self.subTest(command=command, format=form):
                    self.assertEqual(done.out.decode(errors="replace").count("\ufffd"), 0)
        for form in ("table", "csv", "markdown"):
            text = run("kernels", "evil.xplane.pb", "--format", form, cwd=self.at).text
            self.assertIn(r"k\xff\xfe\xc3(", text)

    def test_csv_and_markdown_cells_stay_whole(self):
        rows = csv_rows(run("kernels", "evil.xplane.pb", "--format", "csv", cwd=self.at).text)
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        self.assertNotIn(None, rows[0].values())
        text = run("kernels", "evil.xplane.pb", "--format", "markdown", cwd=self.at).text
        table = [line for line in text.splitlines() if line.startswith("|")]
        bars = {line.count("|") - line.count("\\|") for line in table}
        self.assertEqual(len(bars), 1, text)


if __name__ == "__main__":
    unittest.main()
