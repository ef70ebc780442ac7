"""Tests of power through the program. Files replace RAPL, and a scripted library replaces NVML."""
import gzip
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

try:
    import jsonschema
except ImportError:
    jsonschema = None

from harness import BINARY, REPOSITORY, EndToEndTest, csv_rows, environment, run

CONSTANT = ("--source", "constant:100")
FAKE_NVML = os.environ.get("FAKE_NVML", "")


class PowerTest(EndToEndTest):
    def sysfs(self, energy_uj="5000000", name="package-0", maximum="262143328850"):
        zone = "sys/class/powercap/intel-rapl:0"
        self.write(f"{zone}/name", name + "\n")
        self.write(f"{zone}/max_energy_range_uj", maximum + "\n")
        return self.write(f"{zone}/energy_uj", energy_uj + "\n")

    def power(self, *arguments, **options):
        return run("power", *arguments, cwd=self.at, **options)

    def check(self, document, *command):
        if jsonschema is None:
            return
        schema = json.loads(self.power(*command, "--json-schema").text)
        jsonschema.Draft202012Validator(schema).validate(document)

    def record(self, *options, command=(), code=0, **more):
        end = ("--", *command) if command else ()
        done = self.power("record", *options, "--format", "json", "-o", "out.json", *end, **more)
        self.assertEqual(done.code, code, done.message)
        summary = json.loads((self.at / "out.json").read_bytes())
        self.check(summary)
        return summary

    def started(self, *arguments, variables=None, **options):
        process = subprocess.Popen([str(BINARY), "power", *map(str, arguments)], cwd=self.at,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment(**(variables or {})), **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, what, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if what():
                return
            time.sleep(0.01)
        self.fail("waited in vain")

    def has_readings(self, log="log"):
        path = self.at / log
        return path.exists() and path.read_text().count('"r":') >= 3


class Sources(PowerTest):
    def test_what_is_there_and_what_is_not(self):
        self.sysfs()
        done = self.power("sources", "--sysfs-root", "sys", "--format", "json",
                          "--nvml-library", "./none.so")
        self.assertEqual(done.code, 0, done.message)
        self.assertEqual(done.json["schema"], "xplane-time.power-sources.v1")
        self.check(done.json, "sources")
        self.assertIn(("rapl", "package", "energy_uj"),
                      {(row["source"], row["domain"], row["quantity"])
                       for row in done.json["channels"]})
        reasons = {row["source"]: row for row in done.json["absent"]}
        self.assertEqual(reasons["nvml"]["reason"], "absent")
        self.assertIn("none.so", reasons["nvml"]["message"])
        self.assertTrue(reasons["nvml"]["fix"])
        table = self.power("sources", "--sysfs-root", "sys", "--nvml-library", "./none.so").text
        self.assertIn("missing", table)
        self.assertLessEqual(max(map(len, table.splitlines())), 80)

    def test_a_counter_that_may_not_be_read_names_the_way_out(self):
        self.sysfs().chmod(0)
        self.at.chmod(0o755)
        nobody = 65534 if os.geteuid() == 0 else None  # root can read all files
        try:
            done = self.power("sources", "--sysfs-root", "sys", "--source", "rapl", "--format",
                              "json", user=nobody)
        except PermissionError:
            self.skipTest("another user may not run the binary here")
        absence = done.json["absent"][0]
        self.assertEqual(absence["reason"], "permission_denied")
        self.assertIn("chmod", absence["fix"])


class Record(PowerTest):
    def test_a_script_without_an_interpreter_is_the_shells(self):
        script = self.at / "bin" / "script"
        script.parent.mkdir()
        script.write_text("echo \"$0 $1\" > said; exit 3\n")
        script.chmod(0o755)
        variables = environment(PATH=f"{script.parent}:{os.environ['PATH']}")
        for name in ("bin/script", "script"):
            done = run("power", "record", *CONSTANT, "--", name, "x", cwd=self.at, env=variables)
            self.assertEqual(done.code, 3, done.message)
            self.assertTrue((self.at / "said").read_text().endswith("bin/script x\n"))

    def test_constant_power_is_exact(self):
        summary = self.record(*CONSTANT, "--duration", "0.4")
        energy = summary["windows"][0]["energies"][0]
        self.assertAlmostEqual(energy["mean_w"], 100, places=6)
        self.assertGreaterEqual(energy["energy_j"], 0.4 * 100 * energy["coverage"] - 1e-6)
        self.assertEqual((energy["kind"], energy["limits"]), ("modelled", "bounds"))
        self.assertEqual(summary["windows"][0]["total"]["kind"], "modelled")
        self.assertTrue(summary["complete"])

    def test_around_a_command(self):
        done = self.power("record", *CONSTANT, "-o", "summary", "--", sys.executable, "-c",
                          "import sys; print('its own'); sys.exit(7)")
        self.assertEqual((done.code, done.text), (7, "its own\n"))
        self.assertIn("energy", (self.at / "summary").read_text())

    def test_an_ignored_signal_stays_ignored(self):
        for sign in (signal.SIGHUP, signal.SIGINT):
            process = self.started(
                "record", *CONSTANT, "--format", "json", "--", "sh", "-c", "touch ready; sleep 0.5",
                preexec_fn=lambda sign=sign: signal.signal(sign, signal.SIG_IGN),
                start_new_session=True)
            self.wait_for((self.at / "ready").exists)
            os.killpg(process.pid, sign)
            text, message = process.communicate(timeout=20)
            self.assertEqual((process.returncode, message.count(b"signal")), (0, 0), message)
            self.assertEqual(len(json.loads(text)["windows"]), 2)
            (self.at / "ready").unlink()

    def test_signals_of_users_reach_the_command(self):
        command = ("trap 'echo one' USR1; trap 'echo two' USR2; trap 'echo quit; exit 4' QUIT; "
                   "touch ready; while :; do sleep 0.01; done")
        process = self.started("record", *CONSTANT, "-o", "summary", "--", "sh", "-c", command)
        self.wait_for((self.at / "ready").exists)
        said = b""
        for sign, answer in ((signal.SIGUSR1, b"one\n"), (signal.SIGUSR2, b"two\n"),
                             (signal.SIGQUIT, b"quit\n")):
            process.send_signal(sign)
            said += process.stdout.readline()
            self.assertTrue(said.endswith(answer), said)
        self.assertEqual(process.wait(20), 4)
        self.assertIn("energy", (self.at / "summary").read_text())

    def test_signals_while_the_report_is_read_cut_nothing(self):
        process = self.started("record", *CONSTANT, "-r", "200", "--log", "log", "--format", "json",
                               "--", "true")
        self.wait_for(lambda: b'"end":{' in (self.at / "log").read_bytes()
                      if (self.at / "log").exists() else False)
        for _ in range(2):
            time.sleep(0.05)  # the writer waits for a reader of the pipe
            process.send_signal(signal.SIGTERM)
        text, message = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, message)
        self.assertGreater(len(text), 65_536)
        self.assertEqual(len(json.loads(text)["windows"]), 201)

    def test_a_command_that_a_signal_ends(self):
        summary = self.record(*CONSTANT, command=("sh", "-c", "kill -9 $$"), code=137)
        self.assertEqual([each["name"] for each in summary["windows"]], [None, "run"])

    def test_a_command_that_is_not_there(self):
        self.write("text", "not a program")
        self.record(*CONSTANT, "--log", "log", command=("true",))
        earlier = (self.at / "log").read_bytes()
        for program, code in (("./no-such-program", 127), ("no-such-program", 127), ("", 127),
                              ("./text", 126), (".", 126), ("/", 126)):
            for options in ((), ("-r", "3"), ("--log", "log"), ("--log", "log", "--idle", "60")):
                done = self.power("record", *CONSTANT, *options, "--", program)
                self.assertEqual((done.code, done.text), (code, ""))
                self.assertIn(f"{program}: cannot start", done.message)
                self.assertEqual(len(done.message.splitlines()), 1)
            self.assertEqual((self.at / "log").read_bytes(), earlier)

    def test_where_a_command_is_looked_for(self):
        own = self.write("bin/own", "#!/bin/sh\nexit 3\n")
        own.chmod(0o755)
        self.write("other/own", "not a program")
        for path, program, code in ((None, "true", 0), ("", "true", 127), ("bin", "own", 3),
                                    ("other:bin", "own", 3), ("other", "own", 126),
                                    ("", "bin/own", 3), (str(own), "own", 127)):
            with self.subTest(path=path, program=program):
                process = self.started("record", *CONSTANT, "--", program,
                                       variables={"PATH": path})
                self.assertEqual(process.wait(20), code)

    def test_a_command_that_is_gone_after_its_first_run(self):
        self.write("once", "#!/bin/sh\nrm once\n").chmod(0o755)
        summary = self.record(*CONSTANT, "-r", "3", command=("./once",), code=127)
        self.assertIn("cannot_run", {each["code"] for each in summary["findings"]})
        self.assertEqual([each["name"] for each in summary["windows"]], [None, "run", "run"])

    def test_repetitions_and_idle_are_windows(self):
        summary = self.record(*CONSTANT, "-r", "3", "--idle", "0.1", command=("sleep", "0.05"))
        names = [(each["name"], each["number"]) for each in summary["windows"]]
        self.assertEqual(names, [(None, 1), ("idle", 1), ("run", 1), ("run", 2), ("run", 3)])
        repeat = summary["repeats"][0]
        self.assertEqual((repeat["window"], repeat["windows"], repeat["known"]), ("run", 3, 3))
        for window in summary["windows"][2:]:
            self.assertAlmostEqual(window["energies"][0]["active_j"], 0, places=6)

    def test_memory_of_what_a_command_starts(self):
        summary = self.record("--source", "process,constant:1", command=(
            sys.executable, "-c", "import time; b = bytearray(64 << 20); time.sleep(0.5)"))
        channels = summary["channels"]
        gauges = {channels[each["channel"]]["quantity"]: each
                  for each in summary["windows"][0]["gauges"]}
        for quantity in ("rss_bytes", "peak_rss_bytes"):
            self.assertGreater(gauges[quantity]["max"], 64 << 20, quantity)

    def test_the_peak_of_a_small_command_is_not_ours(self):
        """The peak in the kernel includes memory of the recorder before the command started."""
        summary = self.record("--source", "process,constant:1", "--log", "log", "-r", "2",
                              command=("true",))
        peak = next(i for i, each in enumerate(summary["channels"])
                    if each["quantity"] == "peak_rss_bytes")
        for window in summary["windows"]:
            gauge = next(each for each in window["gauges"] if each["channel"] == peak)
            self.assertIsNone(gauge["max"])
            self.assertEqual((gauge["n"], gauge["reason"]), (0, "no_samples"))
        table = self.power("replay", "log").text
        self.assertRegex(table, r"unknown: .*caller peak_rss MB")

    def test_the_summary_of_the_log_is_the_same_bytes(self):
        self.record(*CONSTANT, "--duration", "0.2", "--log", "log")
        replayed = self.power("replay", "log", "--format", "json")
        self.assertEqual(replayed.out, (self.at / "out.json").read_bytes())
        packed = self.write("log.gz", gzip.compress((self.at / "log").read_bytes()))
        self.assertEqual(self.power("replay", packed, "--format", "json").out, replayed.out)

    def test_a_reading_of_another_sources_channel_is_damage(self):
        self.sysfs("1000000000000")
        self.record("--source", "rapl,constant:5", "--sysfs-root", "sys", "--duration", "0.3", "--log", "log")
        lines = (self.at / "log").read_text().splitlines(keepends=True)
        sources = list(json.loads(lines[0])["periods_ns"])
        self.assertEqual(sources, ["constant", "rapl"])
        place = next(i for i, line in enumerate(lines) if '"s":0,"r":[[' in line and i > 4)
        lines[place] = lines[place].replace('"s":0,', '"s":1,')
        self.write("log", "".join(lines))
        replayed = self.power("replay", "log", "--format", "json")
        self.assertEqual(replayed.code, 0, replayed.message)
        damage, = (each for each in replayed.json["findings"] if each["code"] == "damaged_lines")
        self.assertEqual(damage["count"], 1)
        self.assertIn(f"line {place + 1}, ", damage["message"])
        self.assertIn("a reading with a channel of another source than the line's", damage["message"])

    def test_a_small_command_has_no_table_of_its_memory(self):
        table = self.power("record", *CONSTANT, "--", "true").text
        self.assertNotIn("other readings", table)
        self.assertNotIn("peak_rss", table)

    def test_the_sensors_that_were_read_and_those_that_are_missing(self):
        stated = self.power("record", *CONSTANT, "--", "sleep", "0.2").text
        self.assertNotIn("sensors that were read", stated)
        self.assertNotIn("reads/s", stated)
        done = self.power("record", "--", "sleep", "0.2")
        section = done.text[done.text.index("sensors that were read"):].split("\n\n")[0]
        self.assertRegex(section, r"source +reads +reads/s")
        self.assertRegex(section, r"\nprocess +rss, memory_used, memory_total +\d")
        missing = re.findall(r"^missing: (\w+): ", done.text, re.M)
        read = re.findall(r"^(\w+) ", section, re.M)
        self.assertEqual({name for name in (*missing, *read) if name != "source"} - {"sensors", "not"},
                         {"nvml", "rapl", "hwmon", "process"})
        both = self.power("record", "--source", "constant:75,process", "--", "sleep", "0.2").text
        section = both[both.index("sensors that were read"):].split("\n\n")[0]
        self.assertIn("\nprocess ", section)
        self.assertNotIn("constant", section)

    def test_a_counter_that_runs(self):
        counter = self.sysfs("1000000000000")
        process = self.started("record", "--source", "rapl", "--sysfs-root", "sys", "--format",
                               "json", "--duration", "0.6")
        file = os.open(counter, os.O_WRONLY)
        self.addCleanup(os.close, file)
        begin = time.monotonic()
        while process.poll() is None:
            energy_uj = 1_000_000_000_000 + int((time.monotonic() - begin) * 80e6)
            os.pwrite(file, b"%d\n" % energy_uj, 0)
            time.sleep(0.002)
        summary = json.loads(process.communicate()[0])
        energy = summary["windows"][0]["energies"][0]
        self.assertEqual((energy["source"], energy["estimator"]), ("rapl", "counter"))
        self.assertGreater(energy["mean_w"], 40)
        self.assertLess(energy["mean_w"], 160)

    def test_readings_of_power_bound_nothing(self):
        rows = [f"2025/08/21 10:11:{10 + i}, 0, {340 if i == 1 else 300} W" for i in range(3)]
        log = self.write("smi.csv", "\n".join(["timestamp, index, power.draw [W]", *rows, ""]))
        done = self.power("replay", log, "--format", "json")
        self.check(done.json)
        energy, = done.json["windows"][0]["energies"]
        self.assertIsNotNone(energy["energy_j"])
        self.assertEqual((energy["bounds_j"], energy["interval_j"]), (None, None))
        self.assertEqual(energy["unbounded_reason"], "between_readings")
        self.assertIn("unbounded", self.power("replay", log).text)

    def test_formats_and_pictures(self):
        for name, begins in (("json", "{"), ("csv", "window,"), ("markdown", "#"),
                             ("openmetrics", "# ")):
            done = self.power("record", *CONSTANT, "--duration", "0.05", "--format", name)
            self.assertEqual(done.code, 0, done.message)
            self.assertTrue(done.text.startswith(begins), done.text[:80])
        self.assertTrue(done.text.endswith("# EOF\n"))
        done = self.power("record", *CONSTANT, "--duration", "0.1", "--plot", "--svg", "p.svg")
        self.assertIn("100", done.text)
        picture = xml.etree.ElementTree.parse(self.at / "p.svg").getroot()
        self.assertTrue(picture.tag.endswith("svg"))
        self.power("record", *CONSTANT, "--duration", "0.05", "-o", "by_suffix.csv")
        self.assertEqual(csv_rows((self.at / "by_suffix.csv").read_text())[0]["source"], "constant")

    def test_the_suffix_asks_for_what_the_command_has(self):
        refused = self.power("sources", *CONSTANT, "--format", "csv")
        self.assertEqual(refused.code, 64)
        for suffix in ("csv", "md", "prom"):
            refused = self.power("sources", *CONSTANT, "-o", f"out.{suffix}")
            self.assertEqual(refused.code, 64)
            self.assertIn(f"unknown suffix .{suffix}; the suffix selects the format: .txt "
                          "(table), .json (json); --format", refused.message)
        self.power("sources", *CONSTANT, "-o", "out.json")
        self.assertIn("sources", json.loads((self.at / "out.json").read_text())["schema"])

    def test_modelled_figures_are_labelled(self):
        done = self.power("record", *CONSTANT, "--duration", "0.05", "--co2", "400", "--pue", "1.5")
        self.assertIn("modelled", done.text)
        self.assertIn("CO2e", done.text)


class Refused(PowerTest):
    def test_a_source_that_was_named_and_is_not_there(self):
        done = self.power("record", "--source", "rapl", "--sysfs-root", "nowhere", "--", "touch",
                          "ran")
        self.assertEqual(done.code, 69)
        self.assertIn("rapl", done.message)
        self.assertFalse((self.at / "ran").exists())

    def test_without_a_sensor_the_command_runs_and_energy_is_unknown(self):
        (self.at / "sys").mkdir()
        done = self.power("record", "--sysfs-root", "sys", "--nvml-library", "./none.so", "--",
                          "touch", "ran")
        self.assertEqual(done.code, 0, done.message)
        self.assertTrue((self.at / "ran").exists())
        self.assertIn("energy is unknown", done.message)
        self.assertIn("unknown: no power or energy sensor", done.text)
        self.assertNotIn(" 0 J", done.text)

    def test_usage(self):
        for arguments, why in (
                (("record", "--source", "solar", "--duration", "1"), "solar"),
                (("record", "--map", "zero=GPU", "--duration", "1"), "--map"),
                (("record", "--repeat", "2"), "--repeat"),
                (("record", "--duration", "1", "--", "true"), "--duration"),
                (("record", "--plot", "--format", "csv", "--duration", "1"), "--plot"),
                (("record", "--duration", "nan"), "nan"),
                (("record", *CONSTANT, "--map", "0=GPU-x", "--duration", "1"), "GPU-x"),
                (("record", *CONSTANT, "sleep", "1"), "follow --"),
                (("record", *CONSTANT, "--"), "no command after --"),
                (("run", "set.jsonl", "--"), "no command after --"),
                (("replay", "log", "log"), "only one LOG is allowed"),
                (("replay", "log", "--", "x"), "--"),
                (("record", *CONSTANT, "--duration", "1", "--pue", "1.5"), "--co2"),
                (("replay", "log", "--pue", "1.5"), "--co2"),
                (("sources", "--source", "solar"), "solar"),
                (("replay",), "LOG"), ((), "sources"), (("foo",), "foo")):
            done = self.power(*arguments)
            self.assertEqual(done.code, 64, arguments)
            self.assertIn(why, done.message)

    def test_numbers_of_no_range(self):
        for option in ("--duration", "--idle", "--period", "--co2", "--timeout"):
            what = ("run", "set") if option == "--timeout" else ("record", *CONSTANT)
            command = () if option == "--duration" else ("--", "true")
            for number in ("nan", "inf", "-inf", "9" * 309, "1e400", "-1", "1x", ""):
                done = self.power(*what, option, number, *command)
                self.assertEqual((done.code, done.text), (64, ""), (option, number))
                self.assertIn(f"{option}: '", done.message)
                self.assertIn("' is not a number from ", done.message)
                self.assertLess(len(done.message), 100)

    def test_help_has_examples(self):
        for name in ("sources", "record", "replay", "run"):
            text = self.power(name, "--help").text
            examples = text[text.index("Examples:\n"):].splitlines()[1:]
            self.assertGreaterEqual(
                sum(line.startswith(f"  xplane-time power {name}") for line in examples), 2, text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
            self.assertEqual("none:" in text[:text.index("Examples:")], name == "run", text)

    def test_a_file_that_is_no_log_is_not_overwritten(self):
        begin = '{"schema":"xplane-time.power-log.v'
        for text in ("precious\n", " ", "\0" * 100, begin[:-2], "\n" + begin + "1"):
            path = self.write("notes", text)
            done = self.power("record", *CONSTANT, "--log", path, "--", "touch", "ran")
            self.assertEqual((done.code, path.read_text()), (64, text))
            self.assertIn("notes: the existing file is not a power log", done.message)
            self.assertIn("use another file", done.message)
        self.assertFalse((self.at / "ran").exists())

    def test_an_earlier_log_is_replaced(self):
        self.write("log", "")
        for seconds in ("0.2", "0.05"):
            self.record(*CONSTANT, "--period", "5", "--duration", seconds, "--log", "log")
            self.assertEqual(self.power("replay", "log", "--format", "json").out,
                             (self.at / "out.json").read_bytes())
        self.assertEqual((self.at / "log").read_text().count('"schema"'), 1)

    def test_what_has_no_end_is_refused(self):
        os.mkfifo(self.at / "pipe")
        for source in ("replay:/dev/zero", "replay:pipe"):
            done = self.power("record", "--source", source, "--", "touch", "ran")
            self.assertEqual((done.code, done.text), (64, ""), done.message)
            self.assertIn("not a regular file", done.message)
        self.assertFalse((self.at / "ran").exists())
        done = self.power("replay", "/dev/zero", limit_bytes=2 ** 30)
        self.assertEqual(done.code, 64)
        self.assertIn("/dev/zero: this is a device", done.message)
        with open("/dev/zero", "rb") as zeros:
            self.assertEqual(self.power("replay", "-", stdin=zeros).code, 64)
        without_end = b"x" * (80 << 20)
        done = self.power("replay", "-", stdin=without_end, limit_bytes=2 ** 30)
        self.assertEqual(done.code, 65, done.message)
        self.assertIn("standard input: line 1, byte 0: not the header of a power log", done.message)

    def test_a_million_pairs_of_channels_and_windows(self):
        """The log has only 0.7 MB. Only the requested format is made."""
        channels = [{"source": "nvml", "device": f"d{i}", "domain": "gpu", "quantity": "energy_uj",
                     "kind": "cumulative", "in_total": True} for i in range(4000)]
        lines = [{"schema": "xplane-time.power-log.v1", "t": 0, "periods_ns": {"nvml": 10 ** 9},
                  "channels": channels}]
        marks = [{"t": 10 ** 9 + 10 ** 6 * (i + 1), ("end" if i % 2 else "begin"): f"w{i // 2}"}
                 for i in range(2 * 260)]
        for t, more in ((0, []), (10 ** 9, marks), (2 * 10 ** 9, [])):
            lines += [{"t": t, "s": 0, "r": [[i, 0, 0, t // 50] for i in range(4000)]}, *more]
        self.write("log", "".join(json.dumps(line) + "\n" for line in lines))
        done = self.power("replay", "log", limit_bytes=2 ** 30)
        self.assertEqual(done.code, 0, done.message)
        self.assertIn("... 241 more windows", done.text[-1000:])

    def test_gzip_bombs(self):
        bomb = gzip.compress(b"\n" * (1 << 27))
        why = ("it decompresses to more than 250 times its size; if it is a valid log, "
               "decompress it first")
        csv = (b"timestamp, power.draw [W]\n2025/08/21 10:11:12.345, 71 W\n"
               b"2025/08/21 10:11:13.345, 71 W\n")
        self.write("csv", gzip.compress(csv) + bomb)
        summary = self.run_json("power", "replay", "csv")
        self.assertFalse(summary["complete"])
        findings = {each["code"]: each["message"] for each in summary["findings"]}
        self.assertEqual(findings["log_cut"], why)
        header = b'{"schema": "xplane-time.power-log.v1", "t": 0}\n'
        self.write("log", gzip.compress(header) + bomb)
        done = self.power("replay", "log")
        self.assertEqual((done.code, done.text), (65, ""))
        self.assertIn("log: line 2, byte 47: not a JSON object; none of the 67108", done.message)
        self.assertIn(why, done.message)

    def test_damaged_lines_are_told_first(self):
        header = "timestamp, power.draw [W]\n"
        good = "2025/08/21 10:11:12.345, 71 W\n2025/08/21 10:11:13.345, 71 W\n"
        bad = "2025-08-21T10:11:12.345, 71 W\n" * 100
        self.write("csv", header + bad)
        done = self.power("replay", "csv")
        self.assertEqual((done.code, done.text), (65, ""))
        self.assertIn("csv: line 2, byte 26: no timestamp like 2025/08/21 10:11:12.345", done.message)
        self.assertIn("none of the 101 lines", done.message)
        self.write("csv", header + good + bad)
        first, second = self.run_ok("power", "replay", "csv").text.splitlines()[:2]
        self.assertIn("damaged lines of the log, skipped: 100", first)
        self.assertIn("line 4, byte", first + second)

    def test_logs_that_are_none(self):
        self.assertEqual(self.power("replay", "missing").code, 66)
        self.write("text", "hello\n")
        done = self.power("replay", "text")
        self.assertEqual(done.code, 65)
        self.assertIn("line 1", done.message)


class Faults(PowerTest):
    def test_signals_reach_the_command(self):
        script = "import signal, sys, time\n" \
                 "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n" \
                 "print('ready', flush=True)\ntime.sleep(60)\n"
        process = self.started("record", *CONSTANT, "--log", "log", "-o", "summary", "--",
                               sys.executable, "-c", script)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 9)
        self.assertIn('"end":', (self.at / "log").read_text().splitlines()[-1])

    def test_a_command_that_ignores_signals_is_recorded_to_its_end(self):
        script = "import signal, time\n" \
                 "for each in (signal.SIGTERM, signal.SIGINT):\n    signal.signal(each, signal.SIG_IGN)\n" \
                 "print('ready', flush=True)\ntime.sleep(0.6)\n"
        process = self.started("record", *CONSTANT, "--format", "json", "-o", "summary", "--",
                               sys.executable, "-c", script)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for number in (signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        self.assertEqual(process.wait(20), 0)
        whole, run_ = json.loads((self.at / "summary").read_text())["windows"]
        self.assertGreater(run_["end_ns"] - run_["begin_ns"], 0.6e9)

    def test_interrupted_repetitions_are_told(self):
        process = self.started("record", *CONSTANT, "-r", "1000", "--format", "json", "--", "sh",
                               "-c", "trap 'exit 0' TERM; echo x >> ran; sleep 0.2")
        self.wait_for((self.at / "ran").exists)
        process.send_signal(signal.SIGTERM)
        out, message = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"of 1000 runs", message)
        self.assertIn("interrupted", {each["code"] for each in json.loads(out)["findings"]})

    def test_a_failed_run_is_told(self):
        summary = self.record(*CONSTANT, "-r", "2", command=("sh", "-c", "exit 3"), code=3)
        found = {each["code"]: each for each in summary["findings"]}
        self.assertIn("exit 3", found["command_failed"]["message"])

    def test_an_interrupted_recording_is_complete(self):
        process = self.started("record", *CONSTANT, "--log", "log", "--format", "json")
        self.wait_for(self.has_readings)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertTrue(json.loads(out)["complete"])
        process = self.started("record", *CONSTANT, "--duration", "60", "--log", "second")
        self.wait_for(lambda: self.has_readings("second"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 130)

    def test_a_killed_recorder_leaves_a_log(self):
        process = self.started("record", *CONSTANT, "--period", "10", "--log", "log")
        self.wait_for(self.has_readings)
        process.kill()
        process.wait()
        text = (self.at / "log").read_text()
        self.assertTrue(text.endswith("\n"))
        done = self.power("replay", "log", "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        self.assertFalse(done.json["complete"])
        self.assertAlmostEqual(done.json["windows"][0]["energies"][0]["mean_w"], 100, places=6)
        self.assertIn("the log ends early", self.power("replay", "log").text)

    def test_a_second_recorder_leaves_the_log_of_the_first(self):
        first = self.started("record", *CONSTANT, "--period", "10", "--log", "log", "--format",
                             "json")
        self.wait_for(self.has_readings)
        second = self.power("record", *CONSTANT, "--log", "log", "--", "touch", "ran")
        self.assertEqual((second.code, second.text), (73, ""))
        self.assertIn("log: another recorder", second.message)
        self.assertFalse((self.at / "ran").exists())
        first.send_signal(signal.SIGINT)
        out, _ = first.communicate(timeout=20)
        self.assertTrue(json.loads(out)["complete"])
        self.assertEqual(self.power("replay", "log", "--format", "json").out, out)

    def stopped_meanwhile(self, *options, **variables):
        """The energy from a recorder that was stopped for a second, and the uncovered time."""
        process = subprocess.Popen(
            [str(BINARY), "power", "record", "--quiet", *options, "--log", "log", "--format",
             "json"], cwd=self.at, stdout=subprocess.PIPE, env=environment(**variables))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.wait_for(self.has_readings)
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
        lines = (self.at / "log").read_text().count('"r":')
        self.wait_for(lambda: (self.at / "log").read_text().count('"r":') > lines + 5)
        process.send_signal(signal.SIGINT)
        summary = json.loads(process.communicate(timeout=20)[0])
        self.assertGreater(summary["readers"][0]["longest_gap_ns"], 0.9e9)
        self.assertIn("missed_deadlines", {each["code"] for each in summary["findings"]})
        whole = summary["windows"][0]
        energy = whole["energies"][0]
        return energy, (whole["end_ns"] - whole["begin_ns"]) * (1 - energy["coverage"])

    def test_a_recorder_that_was_stopped_has_a_gap(self):
        energy, missing_ns = self.stopped_meanwhile(*CONSTANT)
        self.assertGreater(missing_ns, 0.9e9)
        self.assertEqual(energy["reason"], "gap")
        self.assertAlmostEqual(energy["mean_w"], 100, places=6)

    @unittest.skipUnless(FAKE_NVML, "no scripted NVML: set FAKE_NVML")
    def test_a_counter_goes_on_while_its_recorder_is_stopped(self):
        path = self.write("script.json", '{"devices": [{"uuid": "GPU-a", "bus": 1}]}')
        energy, missing_ns = self.stopped_meanwhile(
            "--source", "nvml", "--nvml-library", FAKE_NVML, FAKE_NVML_SCRIPT=str(path))
        self.assertEqual(energy["estimator"], "counter")
        self.assertLess(missing_ns, 0.9e9)  # the counter covers the gap
        self.assertGreater(energy["longest_gap_ns"], 0.9e9)

    def test_a_command_that_becomes_a_daemon(self):
        process = self.started("record", *CONSTANT, "-o", "summary", "--", "sh", "-c",
                               "sleep 30 >/dev/null 2>&1 & echo $! > pid")
        _, message = process.communicate(timeout=20)
        os.kill(int((self.at / "pid").read_text()), signal.SIGKILL)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"processes of the command still run", message)

    def test_a_stopped_command_is_waited_for(self):
        process = self.started("record", *CONSTANT, "-o", "summary", "--", "sh", "-c",
                               "echo $$; kill -STOP $$; exit 5")
        pid = int(process.stdout.readline())
        self.wait_for(lambda: ") T" in pathlib.Path(f"/proc/{pid}/stat").read_text())
        self.assertIsNone(process.poll())
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(process.wait(20), 5)

    def test_a_full_disk(self):
        for place, code in (("/dev/full", 64), ("no/such/folder/log", 73)):
            done = self.power("record", *CONSTANT, "--log", place, "--", "touch", "ran")
            self.assertEqual(done.code, code, done.message)
            self.assertIn(place, done.message)
        for option in ("--svg", "-o"):
            done = self.power("record", *CONSTANT, option, "no/such/folder/x", "--", "touch", "ran")
            self.assertEqual(done.code, 73, done.message)
        self.assertFalse((self.at / "ran").exists())

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        process = self.started("record", *CONSTANT, "--period", "1", "--duration", "0.5", "--log",
                               "log", preexec_fn=limit)
        _, message = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 73)
        self.assertIn(b"cannot write the power log", message)
        text = (self.at / "log").read_text()
        self.assertTrue(text.endswith("}\n"))
        for line in text.splitlines():
            json.loads(line)
        replayed = self.power("replay", "log", "--format", "json").json
        found = {each["code"]: each for each in replayed["findings"]}
        self.assertFalse(replayed["complete"])
        self.assertIn("could not write some readings (File too large)", found["write_failed"]["message"])
        self.assertGreater(found["write_failed"]["count"], 0)
        self.assertNotIn("killed", json.dumps(found))
        self.assertGreater(replayed["windows"][0]["end_ns"] - replayed["windows"][0]["begin_ns"],
                           0.5e9)  # the window includes the uncovered time

    def test_no_more_threads(self):
        self.record(*CONSTANT, "--log", "log.jsonl", "--duration", "0.1")
        log = self.at / "log.jsonl.gz"
        log.write_bytes(gzip.compress((self.at / "log.jsonl").read_bytes()))

        def limit():  # a stack larger than the address space
            resource.setrlimit(resource.RLIMIT_STACK, (2 ** 46, resource.RLIM_INFINITY))

        try:
            process = self.started("record", *CONSTANT, "--", "true", preexec_fn=limit)
        except subprocess.SubprocessError:
            self.skipTest("the limit of the stack cannot be raised here")
        _, message = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 74, message)
        self.assertIn(b"cannot start a thread", message)
        process = self.started("replay", log, "--format", "json", preexec_fn=limit)
        text, message = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, message)
        self.assertEqual(len(json.loads(text)["windows"]), 1)

    def test_a_sensor_that_vanishes(self):
        counter = self.sysfs()
        process = self.started("record", "--source", "rapl,constant:10", "--sysfs-root", "sys",
                               "--period", "10", "--duration", "1.5", "--log", "log", "--format",
                               "json")
        self.wait_for(self.has_readings)
        counter.unlink()
        out, _ = process.communicate(timeout=20)
        energies = {each["source"]: each for each in json.loads(out)["windows"][0]["energies"]}
        self.assertAlmostEqual(energies["constant"]["mean_w"], 10, places=6)
        self.assertLess(energies["rapl"]["coverage"], energies["constant"]["coverage"])


@unittest.skipUnless(FAKE_NVML, "no scripted NVML: set FAKE_NVML")
class Nvml(PowerTest):
    def nvml(self, script, *options, code=0, **variables):
        path = self.write("script.json", json.dumps(script))
        return self.record("--source", "nvml,constant:10", "--nvml-library", FAKE_NVML, *options,
                           code=code, env=environment(FAKE_NVML_SCRIPT=str(path), **variables))

    def energies(self, summary):
        return {(each["device"], each["domain"]): each
                for each in summary["windows"][0]["energies"]}

    def test_a_healthy_gpu(self):
        summary = self.nvml({"devices": [{"uuid": "GPU-a", "bus": 1}]}, "--duration", "0.5")
        gpu = self.energies(summary)["GPU-a", "gpu"]
        self.assertGreater(gpu["mean_w"], 150)
        self.assertLess(gpu["mean_w"], 600)

    def test_a_lost_gpu_has_a_reason_and_no_zero(self):
        summary = self.nvml({"devices": [{"uuid": "GPU-a", "bus": 1, "lost_after": 30}]},
                            "--duration", "0.6")
        gpu = self.energies(summary)["GPU-a", "gpu"]
        self.assertLess(gpu["coverage"], 0.9)
        self.assertEqual(gpu["reason"], "device_lost")
        self.assertLess(summary["windows"][0]["total"]["coverage"], 0.9)

    def test_a_period_that_its_sensors_do_not_have_is_told(self):
        summary = self.nvml({"devices": [{"uuid": "GPU-a", "bus": 1}]}, "--duration", "0.1",
                            "--period", "5", "--log", "log")
        told = "nvml: polled every 20 ms, not 5; its sensors do not change faster"
        found = {each["code"]: each for each in summary["findings"]}["period_raised"]
        self.assertEqual((found["count"], found["message"]), (1, told))
        self.assertIn(told, " ".join(self.power("replay", "log").text.split()))
        for options, is_told in ((("--period", "5"), True), (("--period", "20"), False),
                                 (("--period", "5", "--quiet"), False), ((), False)):
            done = self.power("record", "--source", "nvml", "--nvml-library", FAKE_NVML,
                              "--duration", "0.05", *options,
                              env=environment(FAKE_NVML_SCRIPT=str(self.at / "script.json")))
            self.assertEqual(done.message, f"xplane-time: {told}\n" if is_told else "")

    def test_masks_of_the_measured_program(self):
        devices = {"devices": [{"uuid": "GPU-a", "bus": 1}, {"uuid": "GPU-b", "bus": 2}]}
        summary = self.nvml(devices, "--duration", "0.1", CUDA_VISIBLE_DEVICES="1",
                            CUDA_DEVICE_ORDER="PCI_BUS_ID")
        ordinals = {each["id"]: each["ordinal"] for each in summary["devices"]}
        self.assertEqual((ordinals["GPU-a"], ordinals["GPU-b"]), (None, 0))
        mapped = self.nvml(devices, "--duration", "0.1", "--map", "0=GPU-a")
        self.assertEqual({each["id"]: each["ordinal"] for each in mapped["devices"]}["GPU-a"], 0)

    def test_a_driver_of_another_version(self):
        path = self.write("script.json", json.dumps({"calls": {"nvmlInit": {"error": 18}}}))
        done = self.power("record", "--source", "nvml", "--nvml-library", FAKE_NVML, "--duration",
                          "1", env=environment(FAKE_NVML_SCRIPT=str(path)))
        self.assertEqual(done.code, 69)
        listed = self.power("sources", "--nvml-library", FAKE_NVML, "--format", "json",
                            env=environment(FAKE_NVML_SCRIPT=str(path)))
        self.assertIn("driver_mismatch", {each["reason"] for each in listed.json["absent"]})


class Overhead(unittest.TestCase):
    """Tests of bench/power_overhead.py. A skipped deadline also counts as late."""

    def test_lateness(self):
        sys.path.insert(0, str(REPOSITORY / "bench"))
        self.addCleanup(sys.path.remove, str(REPOSITORY / "bench"))
        from power_overhead import lateness, quantile
        for name, passes, missed, late in (  # (begin, length) of each pass; the period is 1000
                ("in time", ((0, 1), (1005, 1), (2003, 1)), 0, [0, 3, 5]),
                ("nearly a period late", ((0, 1), (1800, 1), (2005, 1)), 0, [0, 5, 800]),
                ("the first is late, too", ((50, 1), (1000, 1), (2020, 1)), 0, [0, 20, 50]),
                ("two are skipped", ((0, 1), (1005, 1), (4010, 1)), 2, [0, 5, 1000, 1000, 2010]),
                ("one pass takes long", ((0, 1), (1005, 1500), (3010, 1)), 1, [0, 5, 10, 1000])):
            with self.subTest(name):
                lines = [{"t": begin, "r": [[0, 0, 1, 5], [1, 0, took, 5]]}
                         for begin, took in (*passes, (9000, 1))]
                end = {"end": {"readers": [{"missed": missed}]}}
                self.assertEqual(lateness([{"schema": ""}, *lines, end], 1000), (late, missed))
        self.assertEqual(quantile([0] * 990 + [1000] * 10, 0.99), 1000)
        self.assertEqual(quantile([0] * 991 + [1000] * 9, 0.99), 0)


if __name__ == "__main__":
    unittest.main()
