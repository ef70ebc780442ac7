"""Tests of power run through the program, with a command that fails in all ways."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

from harness import BINARY, HERE, REPOSITORY, EndToEndTest, environment, open_terminal

FAKE_NVML = os.environ.get("FAKE_NVML", "")
PROBE = os.environ.get("POWER_RUN_PROBE", str(REPOSITORY / "build" / "tests" / "power_run_probe"))
TIMEOUT_S = 60


class PowerRunTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.log = self.at / "asked.log"
        self.environment = environment()

    def records(self, *modes, text=None):
        """Writes records. `modes`: the misbehaviour for each record, None for a normal answer."""
        lines = [{"problem": f"p{i}", "answer": f"a{i}", "subject": "s",
                  "dataset_metadata": {} if mode is None else {"mode": mode}}
                 for i, mode in enumerate(modes)]
        return self.write("set.jsonl", text if text is not None else
                          "".join(json.dumps(line) + "\n" for line in lines))

    def command(self, *options, fake=()):
        return [PROBE, "run", "set.jsonl", "--model", "m/1", *map(str, options), "--",
                sys.executable, str(HERE / "fake_command.py"), str(self.log), *fake]

    def start(self, *options, fake=(), **more):
        return subprocess.Popen(self.command(*options, fake=fake), cwd=self.at,
                                env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run_probe(self, *options, code=0, fake=()):
        process = self.start(*options, fake=fake)
        out, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, code, err)
        return out, err

    @property
    def directory(self):
        return self.at / "runs" / "profile_Fake-GPU-1_m-1_set"

    def kept(self):
        return [json.loads(line)
                for line in (self.directory / "records.jsonl").read_text().splitlines()]

    def summary(self):
        return json.loads((self.directory / "summary.json").read_text())

    def check(self, *documents):
        """Validates documents with the schema that the program prints."""
        if jsonschema is None:
            return
        schema = json.loads(subprocess.check_output([str(BINARY), "power", "run", "--json-schema"],
                                                    env=self.environment))
        validator = jsonschema.Draft202012Validator(schema)
        validator.check_schema(schema)
        for document in documents:
            validator.validate(document)

    def wait_for(self, count):
        deadline = time.monotonic() + TIMEOUT_S
        while not self.log.exists() or len(self.asked()) < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def asked(self):
        return [line for line in self.log.read_text().splitlines() if line != "bye"]


class Loop(PowerRunTest):
    def test_records_have_the_names_of_the_earlier_tool(self):
        self.records(None, None)
        out, _ = self.run_probe()
        self.assertIn("2 queries saved, 0 failed", out)
        record = self.kept()[1]
        self.assertEqual({name: record[name] for name in
                          ("index", "problem", "answer", "subject", "dataset_metadata", "status",
                           "model_answers")},
                         {"index": 1, "problem": "p1", "answer": "a1", "subject": "s",
                          "dataset_metadata": {}, "status": "ok",
                          "model_answers": {"m/1": "m/1: p1"}})
        metrics = record["model_metrics"]["m/1"]
        self.assertEqual(set(metrics), {
            "compute_metrics", "energy_metrics", "latency_metrics", "memory_metrics",
            "power_metrics", "temperature_metrics", "token_metrics", "hardware_utilization",
            "gpu_info", "system_info", "lm_response"})
        watts = {"avg": 100.0, "max": 120.0, "median": 99.0, "min": 80.0, "reason": None,
                 "spread_reason": None, "nearest_age_ms": None}
        self.assertEqual(metrics["power_metrics"]["gpu"],
                         {"per_query_watts": watts, "total_watts": watts})
        self.assertEqual(metrics["energy_metrics"]["per_query_joules"], 2.5)
        self.assertEqual(metrics["energy_metrics"]["cpu_total_joules"], 1.0)
        self.assertIsNone(metrics["energy_metrics"]["ane_per_query_joules"])
        self.assertEqual(metrics["token_metrics"], {"input": 2, "output": 4, "total": 6})
        latency = metrics["latency_metrics"]
        self.assertEqual(latency["time_to_first_token_seconds"], 1e-6)
        self.assertAlmostEqual(latency["per_token_ms"] * 4 / 1000, latency["total_query_seconds"])
        self.assertEqual(metrics["lm_response"], "m/1: p1")
        self.assertGreater(record["interval"]["end_ns"], record["interval"]["begin_ns"])

    def test_what_is_not_known_is_null(self):
        self.records(*[None] * 4)
        out, _ = self.run_probe(fake=("unknown",))
        self.assertIn("GPU energy  10.000 J (7.500 to 15.000)\n"
                      "CPU energy  3.000 J (2.250 to 4.500), unknown for 1 queries\n", out)
        metrics = self.kept()[3]["model_metrics"]["m/1"]
        self.assertEqual(metrics["token_metrics"], {"input": None, "output": None, "total": None})
        self.assertIsNone(metrics["latency_metrics"]["per_token_ms"])
        self.assertIsNone(metrics["energy_metrics"]["cpu_per_query_joules"])
        self.assertEqual(metrics["energy_metrics"]["cpu_reason"], "permission_denied")
        self.assertEqual(metrics["energy_metrics"]["cpu_coverage"], 0)
        self.assertIsNone(metrics["temperature_metrics"]["avg"])
        self.assertEqual(metrics["temperature_metrics"]["reason"], "unsupported")
        energy = self.summary()["energy_totals"]
        self.assertEqual((energy["gpu_joules"], energy["gpu_unknown"]), (10.0, 0))
        self.assertEqual((energy["gpu_lo_joules"], energy["gpu_hi_joules"], energy["gpu_useless"],
                          energy["gpu_unbounded"]), (7.5, 15.0, 0, 0))
        self.assertEqual((energy["cpu_joules"], energy["cpu_known"], energy["cpu_unknown"]),
                         (3.0, 3, 1))
        self.assertEqual((energy["ane_joules"], energy["ane_lo_joules"],
                          energy["ane_unknown"]), (None, None, 4))
        self.assertEqual((energy["all_joules"], energy["all_known"], energy["all_unknown"]),
                         (3 * (2.5 + 1.0), 3, 1))
        self.assertIn("all energy  10.500 J", out)

    def test_what_is_measured_in_part_is_labelled(self):
        self.environment["FAKE_RESET"] = "1"
        self.records(None, None, None)
        out, _ = self.run_probe()
        self.assertIn("GPU energy  7.500 J (5.625 to 11.250), a lower bound: 1 queries were measured only part "
                      "of the time\n", out)
        summary = self.summary()
        energy = summary["energy_totals"]
        self.assertEqual([energy[f"{name}_incomplete"] for name in ("gpu", "cpu", "all")], [1, 0, 1])
        metrics = self.kept()[0]["model_metrics"]["m/1"]["energy_metrics"]
        self.assertEqual((metrics["coverage"], metrics["reason"]), (0.92, "reset"))
        per_query = summary["aggregates"]["energy_metrics"]["per_query_joules"]
        self.assertEqual((per_query["known"], per_query["unknown"]), (2, 1))
        self.assertEqual(summary["energy_rates"]["gpu"]["joules_per_second"]["unknown"], 1)
        self.check(summary, *self.kept())

    def test_records_and_summary_follow_the_schema(self):
        self.records(None, "raises", None)
        self.run_probe(fake=("unknown",))
        self.check(self.summary(), *self.kept())
        if jsonschema is not None:
            for document in ({**self.kept()[0], "index": "0"}, {**self.summary(), "complete": 1}):
                self.assertRaises(jsonschema.ValidationError, self.check, document)

    def test_the_summary_aggregates_what_the_answered_records_have(self):
        self.records(None, "raises", None, None)
        self.run_probe()
        latencies = sorted(
            record["model_metrics"]["m/1"]["latency_metrics"]["total_query_seconds"]
            for record in self.kept() if record["status"] == "ok")
        for options in ((), ("--resume",)):  # after the run, and after it was read back
            if options:
                self.run_probe(*options)
            aggregates = self.summary()["aggregates"]
            for numbers in self.numbers_in(aggregates):
                if numbers["known"]:
                    self.assertTrue(numbers["min"] <= numbers["median"] <= numbers["p95"] <=
                                    numbers["max"], numbers)
                    self.assertTrue(numbers["min"] <= numbers["mean"] <= numbers["max"], numbers)
            latency = aggregates["latency_metrics"]["total_query_seconds"]
            self.assertEqual((latency["known"], latency["unknown"]), (3, 0))
            self.assertAlmostEqual(latency["mean"], sum(latencies) / 3)
            self.assertAlmostEqual(latency["median"], latencies[1], places=8)
            self.assertAlmostEqual(latency["p95"], latencies[2], places=8)
            self.assertEqual(aggregates["power_metrics"]["gpu"]["per_query_watts"],
                             {"known": 3, "unknown": 0, "mean": 100.0, "median": 100.0,
                              "p95": 100.0, "min": 100.0, "max": 100.0})
            self.assertAlmostEqual(latency["min"], latencies[0])
            self.assertAlmostEqual(latency["max"], latencies[2])
            self.assertEqual(aggregates["energy_metrics"]["per_query_joules"]["mean"], 2.5)
            temperature = aggregates["temperature_metrics"]
            self.assertEqual((temperature["known"], temperature["max"]), (0, None))
            rates = self.summary()["energy_rates"]
            self.assertEqual(rates["gpu"]["joules_per_output_token"],
                             {"value": 2.5 / 4, "known": 3, "unknown": 0})
            self.assertEqual(rates["gpu"]["joules_per_total_token"]["value"], 2.5 / 6)
            self.assertAlmostEqual(rates["gpu"]["joules_per_second"]["value"],
                                   3 * 2.5 / sum(latencies))
            self.assertEqual(aggregates["token_metrics"]["output"]["median"], 4)
            self.assertEqual(aggregates["power_metrics"]["cpu"]["per_query_watts"],
                             {"known": 0, "unknown": 3, "mean": None, "median": None, "p95": None,
                              "min": None, "max": None})

    def numbers_in(self, aggregates):
        if "p95" in aggregates:
            yield aggregates
        for each in aggregates.values():
            if isinstance(each, dict):
                yield from self.numbers_in(each)

    def test_a_killed_run_has_a_summary_of_its_records(self):
        self.records(*[None] * 6, "hang")
        process = self.start()
        self.wait_for(7)
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(len(self.kept()), 6)
        summary = self.summary()
        self.assertEqual((summary["total_queries"], summary["complete"], summary["stop_reason"]),
                         (6, False, "running"))
        self.assertEqual(summary["energy_totals"]["gpu_joules"], 15.0)
        self.check(summary)

    def test_its_times_are_those_of_all_sessions(self):
        self.records(None, None, None)
        self.run_probe("--max-queries", 1)
        first = self.summary()
        self.run_probe("--max-queries", 2, "--resume")
        second, kept = self.summary(), self.kept()
        self.assertEqual(second["started_at"], first["started_at"])
        self.assertAlmostEqual(second["started_at"], kept[0]["interval"]["begin_unix_ns"] / 1e9,
                               places=5)
        interval = kept[1]["interval"]
        self.assertAlmostEqual(
            second["ended_at"], (interval["begin_unix_ns"] + interval["end_ns"] -
                                 interval["begin_ns"]) / 1e9, places=5)
        for summary in (first, second):
            self.assertGreaterEqual(summary["ended_at"], summary["started_at"])
            self.assertGreaterEqual(summary["generated_at"] + 1e-3, summary["ended_at"])
        self.assertGreater(second["generated_at"], first["generated_at"])

    def test_no_token_comes_after_the_answer(self):
        self.records("late-token")
        self.run_probe()
        record, = self.kept()
        self.assertEqual(record["status"], "ok")
        self.assertRegex(record["message"], r"time_to_first_token_ms 1e\+09 is ignored: the whole "
                                            r"answer took [0-9.]+ ms$")
        self.assertIsNone(record["model_metrics"]["m/1"]["latency_metrics"]
                          ["time_to_first_token_seconds"])

    def test_the_summary_has_the_names_of_the_earlier_tool(self):
        self.records(None)
        out, _ = self.run_probe("--format", "json")
        summary = self.summary()
        self.assertEqual(json.loads(out), summary)
        self.assertLessEqual({
            "model", "profiler_config", "dataset", "dataset_name", "hardware_label",
            "generated_at", "total_queries", "system_info", "gpu_info", "output_dir", "versions"},
            set(summary))
        self.assertEqual((summary["total_queries"], summary["complete"], summary["stop_reason"]),
                         (1, True, None))
        self.check(summary)
        self.assertEqual(summary["output_dir"], "runs/profile_Fake-GPU-1_m-1_set")
        self.assertEqual(summary["profiler_config"]["records"], "set.jsonl")

    def test_without_a_name_the_hardware_is_unknown(self):
        self.environment["FAKE_HARDWARE"] = ""
        self.records(None)
        self.run_probe("--dataset", "../../x y", "--output-dir", "out")
        self.assertEqual([each.name for each in (self.at / "out").iterdir()],
                         ["profile_UNKNOWN_HW_m-1_..-..-x-y"])

    def test_only_the_first(self):
        self.records(None, None, None)
        self.run_probe("--max-queries", 2)
        self.assertEqual(self.asked(), ["p0", "p1"])
        self.assertEqual((self.summary()["complete"], self.summary()["max_queries"]), (True, 2))
        self.run_probe("--max-queries", 9, "--resume")
        self.assertEqual(self.asked(), ["p0", "p1", "p2"])
        out, _ = self.run_probe("--max-queries", 1, "--resume")
        self.assertIn("3 queries saved, 0 failed; 3 were saved earlier\n", out)
        self.assertEqual(self.asked(), ["p0", "p1", "p2"])

    def test_more_of_a_record_is_metadata(self):
        self.records(text='{"problem":"p","id":7,"dataset_metadata":{"k":1,"id":8}}\n\n'
                          '{"problem":"q","id":9}')
        self.run_probe()
        self.assertEqual([record["dataset_metadata"] for record in self.kept()],
                         [{"k": 1, "id": 8}, {"id": 9}])

    def test_progress_is_a_bar_on_a_terminal_and_a_log_elsewhere(self):
        self.records(None, None)
        _, err = self.run_probe()
        self.assertRegex(err, r"^1 of 2 queries, about \d+ s left\n")
        self.assertIn("2 of 2 queries\n", err)
        self.assertNotIn("\x1b", err)
        self.assertEqual(self.run_probe("--overwrite", "--quiet"), ("", ""))
        out, err = self.run_probe("--overwrite", "--quiet", "--format", "json")
        self.assertEqual((json.loads(out)["total_queries"], err), (2, ""))
        leader, follower = open_terminal()
        process = subprocess.Popen(self.command("--overwrite"), cwd=self.at, stderr=follower,
                                   env=self.environment, stdout=subprocess.DEVNULL,
                                   stdin=subprocess.DEVNULL)
        os.close(follower)
        self.addCleanup(os.close, leader)
        shown = b""
        try:
            while piece := os.read(leader, 4096):
                shown += piece
        except OSError:  # the other end was closed
            pass
        self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.assertIn(b"|##############################| 2 of 2 queries", shown)


class Failures(PowerRunTest):
    EXPECTED = {
        "crash": ("crash(11)", "signal 11"),
        "exit": ("crash", "the model is on fire"),
        "hang": ("timeout", "no answer in time"),
        "stopped": ("timeout", "no answer in time"),
        "garbage": ("bad_answer", "not a JSON object"),
        "cut": ("crash", "exit 0"),
        "wrong-id": ("bad_answer", "request"),
        "early": ("bad_answer", "request"),
        "negative": ("bad_answer", "output_tokens"),
        "raises": ("runtime_error", "no such tool"),
    }

    def test_each_is_the_records_own_and_the_next_is_answered(self):
        modes = [each for mode in self.EXPECTED for each in (mode, None)]
        self.records(*modes)
        _, err = self.run_probe("--timeout", 1)
        kept = self.kept()
        self.assertEqual([record["index"] for record in kept], list(range(len(modes))))
        for mode, record in zip(modes, kept):
            with self.subTest(mode):
                if mode is None:
                    self.assertEqual(record["status"], "ok")
                    continue
                status, message = self.EXPECTED[mode]
                self.assertEqual(record["status"], status)
                self.assertIn(message, record["message"])
                self.assertEqual(record["model_answers"], {"m/1": None})
                self.assertIn(f"index {record['index']}: {status}", err)
        self.assertEqual(self.summary()["failed_queries"], len(self.EXPECTED))
        self.assertEqual(self.asked(), [f"p{i}" for i in range(len(modes))])

    def test_a_command_that_is_lost_again_and_again_ends_the_run(self):
        self.records(None, *["exit"] * 5)
        _, err = self.run_probe("--most-failures", 2, code=69)
        self.assertIn("failed 2 times in a row", err)
        self.assertIn("--resume", err)
        self.assertEqual([record["status"] for record in self.kept()], ["ok", "crash", "crash"])
        self.assertEqual((self.summary()["complete"], self.summary()["stop_reason"]),
                         (False, "no_client"))

    def test_what_is_said_before_the_question_is_no_answer(self):
        self.records("twice", None, None)
        self.run_probe()
        self.assertEqual([record["status"] for record in self.kept()], ["ok", "bad_answer", "ok"])
        self.assertEqual(self.kept()[0]["model_answers"], {"m/1": "stale 0"})
        self.assertIn("before the question", self.kept()[1]["message"])

    def test_messages_are_one_line_each(self):
        self.records("exit", None, "traceback")
        _, err = self.run_probe()
        self.assertIn("index 0: crash: it ended: exit 3; its last words: the model is on fire\n",
                      err)
        self.assertIn("index 2: crash: it ended: exit 1; its last words: "
                      "ValueError: no such tool\n", err)
        self.assertIn("Traceback (most recent call last):\n", self.kept()[2]["message"])

    def test_failed_records_are_asked_again(self):
        self.records(None, "once", None)
        out, _ = self.run_probe()
        self.assertIn("1 failed\nretry failed queries with --resume --retry-failed\n", out)
        self.run_probe("--resume")
        self.assertEqual(self.asked(), ["p0", "p1", "p2"])
        out, _ = self.run_probe("--resume", "--retry-failed")
        self.assertEqual(self.asked(), ["p0", "p1", "p2", "p1"])
        self.assertIn("3 queries saved, 0 failed; 2 were saved earlier\n", out)
        self.assertEqual([(record["index"], record["status"]) for record in self.kept()],
                         [(0, "ok"), (2, "ok"), (1, "ok")])
        self.assertEqual(sorted(each.name for each in self.directory.iterdir()),
                         ["records.jsonl", "run.json", "summary.json"])
        self.run_probe("--resume", "--retry-failed")
        self.assertEqual(len(self.asked()), 4)

    def test_a_second_retry_meanwhile_is_refused(self):
        self.records("raises", "hang")
        self.run_probe("--max-queries", 1, code=20)
        self.log.write_text("")
        first = self.start("--resume", "--retry-failed")
        self.wait_for(2)
        self.assertIn("in use by another run", self.run_probe("--resume", code=65)[1])
        first.kill()
        first.communicate(timeout=TIMEOUT_S)

    def test_all_failed(self):
        self.records("raises", "raises")
        self.run_probe(code=20)

    def test_a_command_that_does_not_start(self):
        self.records(None)
        _, err = self.run_probe(code=69, fake=("mute",))
        self.assertIn("did not send hello: it ended: exit 7", err)
        process = subprocess.run([PROBE, "run", "set.jsonl", "--", "./no-such-program"],
                                 cwd=self.at, capture_output=True, text=True, timeout=TIMEOUT_S,
                                 env=self.environment)
        self.assertEqual(process.returncode, 69)
        self.assertIn("./no-such-program: the command cannot start", process.stderr)
        self.assertFalse((self.at / "runs").exists())

    def test_bad_input_is_known_before_anything_is_asked(self):
        for text, message in (('{"problem":"p"}\n[]\n', "line 2: it is not a JSON object"),
                              ('{"answer":"a"}\n', 'line 1: problem: must be present'),
                              ('{"problem":7}\n', "problem: must be a string"),
                              ('{"problem":"p","dataset_metadata":3}\n', "dataset_metadata: must be an object"),
                              ('{"problem":' + "[" * 100_000, "nested too deeply"),
                              ("\n \n", "no record")):
            with self.subTest(message):
                self.records(text=text)
                _, err = self.run_probe(code=65)
                self.assertIn(message, err)
        (self.at / "set.jsonl").unlink()
        self.run_probe(code=66)
        self.assertFalse(self.log.exists())
        self.assertFalse((self.at / "runs").exists())

    def test_usage(self):
        for arguments, message in ((["run"], "no RECORDS"), (["run", "set.jsonl"], "no command"),
                                   (["run", "s", "--resume", "--overwrite", "--", "x"], "exclude"),
                                   (["run", "s", "--retry-failed", "--", "x"], "--resume"),
                                   (["run", "s", "--max-queries", "0", "--", "x"], "--limit")):
            with self.subTest(message):
                done = subprocess.run([PROBE, *arguments], capture_output=True, text=True,
                                      timeout=TIMEOUT_S, env=self.environment)
                self.assertEqual(done.returncode, 64)
                self.assertIn(message, done.stderr)


class Again(PowerRunTest):
    def test_what_is_there_stays_unless_asked(self):
        self.records(None)
        self.run_probe()
        _, err = self.run_probe(code=65)
        for way_out in ("--resume", "--overwrite", "--output-dir"):
            self.assertIn(way_out, err)
        self.run_probe("--resume")
        self.assertEqual(self.asked(), ["p0"])
        self.run_probe("--overwrite")
        self.assertEqual(self.asked(), ["p0", "p0"])
        self.assertEqual(len(self.kept()), 1)

    def test_on_a_terminal_it_asks(self):
        self.records(None)
        self.run_probe()
        for reply, code in ((b"n\n", 65), (b"y\n", 0)):
            leader, follower = open_terminal()
            process = subprocess.Popen(self.command(), cwd=self.at, env=self.environment,
                                       stdin=follower, stderr=follower, stdout=subprocess.DEVNULL)
            os.close(follower)
            shown = b""
            while b"[y/N]" not in shown:
                shown += os.read(leader, 4096)
            os.write(leader, reply)
            try:
                while os.read(leader, 4096):
                    pass
            except OSError:
                pass
            self.assertEqual(process.wait(TIMEOUT_S), code)
            os.close(leader)
        self.assertEqual(self.asked(), ["p0", "p0"])

    def test_files_of_others_are_never_removed(self):
        self.records(None)
        self.run_probe()
        (self.directory / "notes.txt").write_text("mine")
        _, err = self.run_probe("--overwrite", code=65)
        self.assertIn("notes.txt", err)
        self.assertEqual((self.directory / "notes.txt").read_text(), "mine")
        self.assertEqual(len(self.kept()), 1)

    def test_where_it_may_not_write_nothing_is_left(self):
        self.records(None)
        self.directory.mkdir(parents=True)
        for name, text in (("notes.txt", "mine"), ("run.json", "{}")):
            file = self.directory / name
            file.write_text(text)
            for option in ("--overwrite", "--resume"):
                with self.subTest(f"{name} {option}"):
                    self.run_probe(option, code=65)
                    self.assertEqual([each.name for each in self.directory.iterdir()], [name])
                    self.assertEqual(file.read_text(), text)
            file.unlink()

    def test_another_input_is_not_gone_on_with(self):
        self.records(None, None)
        self.run_probe("--max-queries", 1)
        self.records(None, "raises")
        _, err = self.run_probe("--resume", code=65)
        self.assertIn("another input_sha256", err)
        self.assertEqual(self.asked(), ["p0"])

    def test_records_of_another_data_set_are_not_gone_on_with(self):
        self.records(None, None, None)
        self.run_probe("--max-queries", 2)
        file = self.directory / "records.jsonl"
        whole = file.read_text()
        for text, message in (
                (whole.replace('"problem":"p1"', '"problem":"q1"'),
                 "records.jsonl: the record with index 1 belongs to another data set"),
                (whole.replace('"index":1', '"index":3'),
                 "line 2: an index beyond the end of the data set; the line belongs to another data set")):
            with self.subTest(message):
                self.assertNotEqual(text, whole)
                file.write_text(text)
                _, err = self.run_probe("--resume", code=65)
                self.assertIn(message, err)
                self.assertIn("--overwrite", err)
                self.assertEqual(file.read_text(), text)
                self.assertFalse(self.summary()["complete"])

    def test_names_that_are_not_utf8(self):
        names = (b"set\xff.jsonl", b"s\xc3\xa9t.jsonl")
        for name in names:
            path = os.fsencode(self.at) + b"/" + name
            with open(path, "w") as file:
                file.write('{"problem": "p"}\n')
            command = [each if each != "set.jsonl" else name for each in self.command()]
            for more in ([], ["--resume"]):
                done = subprocess.run([*command[:3], *more, *command[3:]], cwd=self.at, env=self.environment,
                                      capture_output=True, timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 0, done.stderr)
        summaries = [json.loads(each.read_text()) for each in (self.at / "runs").glob("*/summary.json")]
        self.assertEqual(sorted(each["dataset"] for each in summaries), ["set\ufffd", "s\u00e9t"])
        self.check(*summaries)
        self.records(None)
        for option in ("--model", "--dataset", "--problem-field"):
            with self.subTest(option):
                command = self.command()
                command[3:5 if option == "--model" else 3] = [option, b"a\xff"]
                done = subprocess.run(command, cwd=self.at, env=self.environment, capture_output=True,
                                      timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(f"{option}: ".encode(), done.stderr)
                self.assertIn(b"is not UTF-8", done.stderr)

    def test_damage_is_located(self):
        self.records(None, None)
        self.run_probe()
        file = self.directory / "records.jsonl"
        whole = file.read_text()
        first = whole.splitlines()[0]
        for text, message in (("{}\n", "line 1: no index"), ("no\n", "line 1: not a JSON object"),
                              (whole + first + "\n", "line 3: a repeated index"),
                              ('{"index":0}\n', "line 1: not a record"),
                              ('{"index":0,"dataset_metadata":' + "[" * 200_000 + "\n",
                               "line 1: nested too deeply"),
                              ('{"index":-1}\n', "line 1: no index")):
            with self.subTest(message):
                file.write_text(text)
                _, err = self.run_probe("--resume", code=65)
                self.assertIn(message, err)
        for option in ("--resume", "--overwrite"):
            (self.directory / "run.json").write_text('{"schema":7}')
            self.assertIn("does not belong to a run", self.run_probe(option, code=65)[1])
            self.assertEqual(file.read_text(), '{"index":-1}\n')

    def test_records_of_nobody_knows_what_stay(self):
        self.records(None)
        self.run_probe()
        before = (self.directory / "records.jsonl").read_bytes()
        (self.directory / "run.json").unlink()
        for option in ("--resume", "--overwrite"):
            with self.subTest(option):
                _, err = self.run_probe(option, code=65)
                self.assertIn("run.json: missing, although records exist", err)
                self.assertIn("--output-dir", err)
                self.assertEqual((self.directory / "records.jsonl").read_bytes(), before)

    def test_killed_before_it_began_it_is_gone_on_with(self):
        self.records(None)
        for option in ("--resume", "--overwrite"):
            self.directory.mkdir(parents=True, exist_ok=True)
            for each in self.directory.iterdir():
                each.unlink()
            (self.directory / "records.jsonl").touch()
            self.run_probe(option)
            self.assertEqual(len(self.kept()), 1)

    def test_links_are_not_followed(self):
        self.records(None)
        mine = self.at / "mine.txt"
        self.directory.mkdir(parents=True)
        for name in ("records.jsonl", "run.json", "summary.json"):
            for link in ("symlink", "hard link", "pipe"):
                if (name, link) == ("summary.json", "hard link"):
                    continue  # it is replaced, which does not change the linked file
                with self.subTest(f"{name} {link}"):
                    mine.write_text("mine\n")
                    for each in self.directory.iterdir():
                        each.unlink()
                    at = self.directory / name
                    if link == "symlink":
                        at.symlink_to(mine)
                    elif link == "hard link":
                        os.link(mine, at)
                    else:
                        os.mkfifo(at)
                    _, err = self.run_probe("--overwrite", code=65)
                    self.assertIn(f"{name}: not a regular file with one name", err)
                    self.assertEqual(mine.read_text(), "mine\n")

    def test_what_a_killed_write_left_is_in_nobodys_way(self):
        self.records(None)
        self.run_probe()
        left = self.directory / "summary.json.a1B2c3"
        left.write_text("{")
        self.run_probe("--overwrite")
        self.assertEqual(self.asked(), ["p0", "p0"])
        self.assertEqual(left.read_text(), "{")  # a user may have similar names, such as summary.json.backup

    def test_a_record_cut_at_any_byte_is_asked_again(self):
        self.records(None, None)
        self.run_probe()
        file = self.directory / "records.jsonl"
        whole = file.read_bytes()
        first = whole.index(b"\n") + 1
        # power_run_test tests every byte.
        for cut in [first, first + 1, *range(first + 2, len(whole), 301), len(whole) - 1]:
            with self.subTest(cut):
                file.write_bytes(whole[:cut])
                self.log.unlink()
                self.run_probe("--resume")
                self.assertEqual(self.asked(), ["p1"])
                self.assertEqual([record["index"] for record in self.kept()], [0, 1])

    def test_two_at_once(self):
        self.records(None, "hang")
        first = self.start()
        self.wait_for(2)
        _, err = self.run_probe("--resume", code=65)
        self.assertIn("in use by another run", err)
        _, err = self.run_probe("--overwrite", code=65)
        self.assertIn("in use by another run", err)
        first.kill()
        first.communicate(timeout=TIMEOUT_S)
        self.assertEqual(len(self.kept()), 1)
        self.assertEqual((self.summary()["complete"], self.summary()["stop_reason"]),
                         (False, "running"))

    def test_killed_at_each_record_and_resumed_each_is_there_once(self):
        count = 6
        self.records(*[None] * count)
        for asked in range(1, count):
            process = self.start(*(("--resume",) if asked > 1 else ()), fake=("slow",))
            self.wait_for(asked)
            process.kill()
            process.communicate(timeout=TIMEOUT_S)
            self.log.write_text("".join(f"{each['problem']}\n" for each in self.kept()))
        self.run_probe("--resume")
        self.assertEqual([record["index"] for record in self.kept()], list(range(count)))
        summary = self.summary()
        self.assertEqual((summary["total_queries"], summary["complete"]), (count, True))
        self.assertEqual(summary["energy_totals"]["gpu_joules"], 2.5 * count)

    def test_a_signal_leaves_complete_labelled_results(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                self.log.unlink(missing_ok=True)
                self.records(None, None, "hang", None)
                process = self.start("--overwrite")
                self.wait_for(3)
                process.send_signal(number)
                out, err = process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, 75, err)
                self.assertIn("ended early", out)
                self.assertIn("interrupted; continue with --resume\n", err)
                self.assertEqual([record["index"] for record in self.kept()], [0, 1])
                summary = self.summary()
                self.assertEqual((summary["complete"], summary["stop_reason"],
                                  summary["total_queries"]), (False, "interrupted", 2))


class Recorded(PowerRunTest):
    """Runs the real command with the real recorder."""

    def start_real(self, *options, **more):
        return subprocess.run(
            [BINARY, "power", "run", "set.jsonl", "--model", "m", *options, "--",
             sys.executable, HERE / "fake_command.py", self.log, "slow"], cwd=self.at,
            env=self.environment, capture_output=True, text=True, timeout=TIMEOUT_S, **more)

    def run_real(self, source, *options):
        done = self.start_real("--source", source, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.told = done.stderr
        path, = (self.at / "runs").iterdir()
        return [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]

    def test_a_constant_power_times_the_window(self):
        self.records(None, None)
        for record in self.run_real("constant:100"):
            self.assertIsNone(record["telemetry_error"])
            energy, = record["energies"]
            seconds = (record["interval"]["end_ns"] - record["interval"]["begin_ns"]) / 1e9
            self.assertEqual((energy["domain"], energy["coverage"]), ("constant", 1.0))
            self.assertEqual((energy["kind"], energy["limits"]), ("modelled", "bounds"))
            self.assertGreaterEqual(energy["energy_joules"], 100 * seconds * (1 - 1e-9))

    def test_without_sensors(self):
        self.records(None)
        record, = self.run_real("none")
        self.assertEqual((record["energies"], record["telemetry_error"]), ([], None))
        help_text = subprocess.run([BINARY, "power", "run", "--help"], capture_output=True,
                                   text=True, timeout=TIMEOUT_S).stdout
        self.assertIn("--source none", help_text)

    def test_a_source_without_energy_is_told_of(self):
        self.records(None)
        record, = self.run_real("process")
        self.assertEqual(record["energies"], [])
        self.assertIn("energy is unknown", self.told)
        self.run_real("process", "--quiet", "--overwrite")
        self.assertNotIn("energy is unknown", self.told)

    def test_without_a_sensor_it_says_so_before_anything_is_asked(self):
        sources = subprocess.run([BINARY, "power", "sources", "--format", "json"],
                                 capture_output=True, text=True, timeout=TIMEOUT_S).stdout
        if '"power_mw"' in sources or '"energy_uj"' in sources:
            self.skipTest("there are sensors here")
        self.records(None)
        done = self.start_real()
        self.assertEqual(done.returncode, 69)
        self.assertIn("no power or energy sensor found", done.stderr)
        self.assertIn("use --source process", done.stderr)
        self.assertFalse(self.log.exists())
        self.assertFalse((self.at / "runs").exists())

    def run_nvml(self, script, *options, seconds=(), fake=("versions",)):
        """Runs questions of the given durations (seconds) with the scripted NVML."""
        self.write("script.json", json.dumps(script))
        self.environment["FAKE_NVML_SCRIPT"] = str(self.at / "script.json")
        self.write("set.jsonl", "".join(
            json.dumps({"problem": "p", "dataset_metadata": {"sleep_s": each}}) + "\n"
            for each in seconds))
        done = subprocess.run(
            [BINARY, "power", "run", "set.jsonl", "--model", "m", "--source", "nvml",
             "--nvml-library", FAKE_NVML, *options, "--", sys.executable,
             HERE / "fake_command.py", self.log, *fake], cwd=self.at, env=self.environment,
            capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        path, = (self.at / "runs").iterdir()
        summary = json.loads((path / "summary.json").read_text())
        records = [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]
        self.check(summary, *records)
        return summary, [each["model_metrics"]["m"] for each in records]

    @unittest.skipUnless(FAKE_NVML, "no scripted NVML: set FAKE_NVML")
    def test_statistics_of_two_gpus_are_of_their_sum(self):
        _, (one,) = self.run_nvml({"devices": [{}]}, seconds=[0.5])
        _, (two,) = self.run_nvml({"devices": [{}, {}]}, "--overwrite", seconds=[0.5])
        for at in (("memory_metrics", "gpu_mb"), ("power_metrics", "gpu", "per_query_watts")):
            of_one, of_two = one, two
            for name in at:
                of_one, of_two = of_one[name], of_two[name]
            for name in ("avg", "max", "median", "min"):
                self.assertEqual(of_two[name], 2 * of_one[name], (at, name))
            self.assertIsNone(of_two["spread_reason"])
        gpu = two["hardware_utilization"]["gpu"]
        self.assertEqual(gpu["memory_used_gb"] * 1024, two["memory_metrics"]["gpu_mb"]["avg"])

    @unittest.skipUnless(FAKE_NVML, "no scripted NVML: set FAKE_NVML")
    def test_an_answer_of_half_a_second_has_all_of_a_gpu(self):
        summary, (metrics,) = self.run_nvml({"devices": [{}]}, seconds=[0.5])
        gpu = metrics["hardware_utilization"]["gpu"]
        for name, value in (("compute_utilization_pct", 62.5), ("busy_pct", 100),
                            ("memory_bandwidth_utilization_pct", 48),
                            ("tensor_core_utilization_pct", 31.25), ("memory_used_gb", 1)):
            self.assertEqual(gpu[name], value, name)
        for stats in (metrics["temperature_metrics"], metrics["memory_metrics"]["gpu_mb"]):
            self.assertIsNone(stats["reason"])
        self.assertEqual(metrics["temperature_metrics"]["avg"], 45)
        self.assertEqual(summary["versions"]["driver"], "550.54.15")
        self.assertEqual(summary["versions"]["model_server"], {"fake": "1.0"})
        self.assertEqual(metrics["gpu_info"][0]["driver"], "550.54.15")
        self.assertTrue(summary["profiler_config"]["gpm"])
        utilization = summary["aggregates"]["hardware_utilization"]["gpu"]
        self.assertEqual((utilization["compute_utilization_pct"]["mean"],
                          utilization["compute_utilization_pct"]["known"]), (62.5, 1))
        self.assertAlmostEqual(summary["energy_rates"]["gpu"]["joules_per_second"]["value"], 300,
                               delta=90)

    @unittest.skipUnless(FAKE_NVML, "no scripted NVML: set FAKE_NVML")
    def test_a_short_answer_has_the_nearest_reading_and_says_so(self):
        _, metrics = self.run_nvml({"devices": [{}]}, seconds=[0.6] + [0] * 20)
        labelled = 0
        for each in metrics[1:]:
            temperature = each["temperature_metrics"]
            self.assertEqual((temperature["avg"], temperature["reason"]), (45, None))
            age_ms = temperature["nearest_age_ms"]
            labelled += age_ms is not None
            self.assertLessEqual(abs(age_ms or 0), 1000)
            utilization = each["hardware_utilization"]["gpu"]
            self.assertEqual(utilization["tensor_core_utilization_pct"], 31.25)
        self.assertGreater(labelled, 0)

    @unittest.skipUnless(FAKE_NVML, "no scripted NVML: set FAKE_NVML")
    def test_where_a_gpu_has_no_utilization_the_reason_is_there(self):
        no_permission = {"calls": {"nvmlGpmSampleGet": {"error": 4}}}
        for device, options, reason in (
                ({"architecture": 7}, (), "unsupported"), ({"mig": []}, (), "unsupported"),
                (no_permission, (), "permission_denied"), ({}, ("--no-gpm",), "not_asked")):
            _, (metrics,) = self.run_nvml({"devices": [device]}, "--overwrite", *options,
                                          seconds=[0.2])
            gpu = metrics["hardware_utilization"]["gpu"]
            for name in ("compute", "memory_bandwidth", "tensor_core"):
                self.assertIsNone(gpu[f"{name}_utilization_pct"])
                self.assertEqual(gpu[f"{name}_utilization_reason"], reason)
            self.assertIsNone(metrics["energy_metrics"]["missing"])
            self.assertEqual(gpu["busy_pct"], 100)

    def fills_up(self, room, **more):
        """Runs until the storage is full, and resumes after `room()` has freed space."""
        count = 40
        self.records(*[None] * count)
        options = ("--source", "none", "--output-dir", "runs")
        done = self.start_real(*options, **more)
        self.assertEqual(done.returncode, 73, done.stderr)
        self.assertIn("cannot write: ", done.stderr)
        self.assertIn("free space", done.stderr)
        self.assertIn("continue with --resume", done.stderr)
        file, = (self.at / "runs").glob("*/records.jsonl")
        before = [line for line in file.read_text().splitlines(keepends=True)
                  if line.endswith("\n")]
        self.assertGreater(len(before), 0)
        self.assertLess(len(before), count)
        room()
        done = self.start_real(*options, "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = file.read_text().splitlines(keepends=True)
        self.assertEqual(lines[:len(before)], before)
        self.assertEqual([json.loads(line)["index"] for line in lines], list(range(count)))

    def test_a_full_disk(self):
        disk = self.at / "runs"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk],
                          capture_output=True).returncode != 0:
            self.skipTest("no file system may be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        self.fills_up(lambda: subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True))

    def test_a_file_that_may_not_grow(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))

        self.fills_up(lambda: None, preexec_fn=limit)


if __name__ == "__main__":
    unittest.main()
