"""tune from outside: a loop over a harness that runs nothing, with all that can go wrong."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

from harness import BINARY, HERE, REPOSITORY, EndToEndTest, csv_rows, environment, run


def space(*variants):
    """`variants`: their parameters."""
    return json.dumps({"schema": "xplane-time.space.v1", "name": "fake",
                       "variants": [{"params": each} for each in variants]})


THREE = ({"cost": 100}, {"cost": 130}, {"cost": 160})


class TuneTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.log = self.at / "harness.log"
        self.environment = environment(XDG_RUNTIME_DIR=str(self.at))

    def command(self, *variants, options=(), harness=()):
        self.write("space.json", space(*variants))
        return [str(each) for each in ("tune", "space.json", *options, "--", sys.executable,
                                       HERE / "fake_harness.py", self.log, *harness)]

    def tune(self, *variants, options=(), harness=(), **more):
        return run(*self.command(*variants, options=options, harness=harness), cwd=self.at,
                   env=self.environment, **more)

    def result(self, *variants, code=0, **more):
        done = self.tune(*variants, **{**more, "options": (*more.get("options", ()), "--format",
                                                           "json")})
        self.assertEqual(done.code, code, done.message)
        found = self.valid(done.json)
        found["by_params"] = {json.dumps(row["params"]): row for row in found["variants"]}
        return found

    def valid(self, result):
        if jsonschema is not None:
            schema = json.loads(run("tune", "--json-schema").text)
            jsonschema.Draft202012Validator(schema).validate(result)
        return result

    def status(self, result, **params):
        return result["by_params"][json.dumps(params)]["status"]

    def rounds(self):
        done = run("tune", "export", "--format", "csv", cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 0, done.message)
        return csv_rows(done.text)


class Loop(TuneTest):
    def test_the_fastest_is_picked(self):
        found = self.result(*THREE)
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100})
        self.assertIn(found["claim"], ("pick", "winner"))
        self.assertEqual(found["runs"], len(self.rounds()))
        shown = run("tune", "show", 1, "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual(shown.json["pick"], found["pick"])
        self.assertIn("fake", run("tune", "show", cwd=self.at, env=self.environment).text)

    def test_the_schema_is_the_stored_one(self):
        stored = REPOSITORY / "src" / "output" / "schemas" / "tune.v1.json"
        done = run("tune", "--json-schema")
        self.assertEqual((done.code, done.text.strip()), (0, stored.read_text().strip()))

    def test_a_worse_tail_is_flagged(self):
        found = self.result({"cost": 100, "spiky": 1}, {"cost": 101}, {"cost": 150},
                            options=("--stop", "claim", "--delta", "0.1%"))
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100, "spiky": 1})
        rival = found["by_params"]['{"cost": 101}']
        self.assertIn((rival["id"], "spikes"),
                      [(each["rival"], each["what"]) for each in found["tail_flags"]])
        self.assertGreater(picked["spike_rate"], rival["spike_rate"])
        text = run("tune", "show", "1", cwd=self.at, env=self.environment).text
        self.assertIn("Its tail is worse than that of", " ".join(text.split()))
        again = run("tune", "replay", "1", "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual(again.json["tail_flags"], found["tail_flags"])
        self.assertEqual(self.result(*THREE)["tail_flags"], [])

    def test_the_table_says_what_was_decided(self):
        done = self.tune(*THREE)
        self.assertEqual(done.code, 0, done.message)
        self.assertRegex(done.text, r"^(pick|winner): v[0-9a-f]{16} \(cost=100\)\n")
        self.assertLessEqual(max(map(len, done.text.splitlines())), 80)
        self.assertNotIn("a framework says hello", done.text + done.message)

    def test_one_program_is_measured_once(self):
        found = self.result({"cost": 100, "program": "a"}, {"cost": 100, "program": "a", "x": 1},
                            {"cost": 150})
        aliases = [row["alias_of"] for row in found["variants"]]
        self.assertEqual(aliases, [None, found["variants"][0]["id"], None])
        self.assertNotIn(found["variants"][1]["id"], {row["variant"] for row in self.rounds()})

    def test_the_incumbent_is_compared_with_in_rounds_of_their_own(self):
        found = self.result(*THREE, options=("--incumbent", '{"cost": 160}'))
        self.assertEqual(found["confirmation"]["rounds"], 10)
        low, high = found["confirmation"]["speedup_ci95"]
        self.assertTrue(low < 1.6 < high and high - low < 0.3, found["confirmation"])

    def test_a_tie_keeps_the_incumbent(self):
        same = [{"cost": 100, "x": x} for x in range(2)]
        found = self.result(*same, options=("--incumbent", '{"cost": 100, "x": 1}'))
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"]["x"], 1)

    def test_workloads_share_a_choice(self):
        def times(*weights):
            self.write("w.json", json.dumps({
                "schema": "xplane-time.space.v1", "variants": [{"params": each} for each in THREE],
                "workloads": [{"id": f"w{i}", "params": {}, "weight": weight}
                              for i, weight in enumerate(weights)]}))
            command = self.command(*THREE)
            command[1] = "w.json"
            done = run(*command, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 0, done.message)
            return [int(row["t_ps"]) for row in self.rounds() if row["status"] == "ok"]

        expected = times(1, 3)
        self.assertTrue(90e6 < min(expected) < 110e6 and max(expected) < 180e6)  # means
        for scale in (1e12, 1e-9, 1e300, 1e-300):  # weights are relative
            self.assertEqual(times(scale, 3 * scale), expected)

    def test_replay_and_exports(self):
        found = self.result(*THREE)
        again = run("tune", "replay", "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual((again.code, again.json["pick"]), (0, found["pick"]))
        other = run("tune", "replay", 1, "--delta", "0.1%", "--format", "json", cwd=self.at,
                    env=self.environment)
        self.assertEqual(other.json["delta"], 0.001)
        done = run("tune", "export", "--format", "json", cwd=self.at, env=self.environment).json
        self.assertEqual(done["schema"], "xplane-time.tune.v1")
        results = run("tune", "export", "--format", "t4", cwd=self.at, env=self.environment).json
        self.assertEqual(len(results["results"]), 3)
        tuned = run("tune", "export", "--format", "tuned", cwd=self.at, env=self.environment).json
        self.assertEqual(tuned["schema"], "xplane-time.tuned.v1")
        self.assertEqual([entry["params"] for entry in tuned["entries"]],
                         [{"cost": 100}])

    def test_budget(self):
        same = [{"cost": 100, "x": x} for x in range(2)]
        found = self.result(*same, options=("--budget-runs", "12", "--stop", "claim"), code=11)
        self.assertEqual((found["claim"], found["stop_reason"]), ("undecided", "budget_runs"))
        self.assertLessEqual(found["runs"], 12)


    @unittest.skipUnless(os.environ.get("HARNESS_PROBE"), "HARNESS_PROBE names no program")
    def test_a_harness_in_cpp(self):
        self.write("space.json", space(*THREE, {"broken": 1}, {"wrong": 1}, {"fails": 1}))
        done = run("tune", "space.json", "--format", "json", "--", os.environ["HARNESS_PROBE"],
                   cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 0, done.message)
        statuses = {json.dumps(row["params"]): row["status"] for row in done.json["variants"]}
        self.assertEqual((statuses['{"broken": 1}'], statuses['{"wrong": 1}']),
                         ("compile_error", "wrong_result"))
        picked = next(row for row in done.json["variants"] if row["id"] == done.json["pick"])
        self.assertEqual(picked["params"], {"cost": 100})
        alone = subprocess.run([os.environ["HARNESS_PROBE"]], capture_output=True, check=False)
        self.assertEqual((alone.returncode, b"needs a driver" in alone.stderr), (64, True))


class Misbehaving(TuneTest):
    OPTIONS = ("--slot-timeout", "0.5", "--prepare-timeout", "0.5")

    def test_each_failure_has_its_status_and_the_rest_is_decided(self):
        modes = ("broken", "wrong", "prepare-crash", "prepare-hang", "prepare-killed",
                 "prepare-exit", "verify-crash", "verify-hang", "run-crash", "run-hang",
                 "run-killed", "run-exit")
        found = self.result(*THREE, *({"mode": mode} for mode in modes), options=self.OPTIONS)
        statuses = {mode: self.status(found, mode=mode) for mode in modes[:8]}
        self.assertEqual(statuses, {
            "broken": "compile_error", "wrong": "wrong_result", "prepare-crash": "crash(11)",
            "prepare-hang": "timeout", "prepare-killed": "oom", "prepare-exit": "crash",
            "verify-crash": "crash(11)", "verify-hang": "timeout"})
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100})
        ids = {row["id"]: row["params"].get("mode") for row in found["variants"]}
        seen = {(ids[row["variant"]], row["status"]) for row in self.rounds()}
        self.assertLessEqual({("run-crash", "crash(11)"), ("run-hang", "timeout"),
                              ("run-killed", "oom"), ("run-exit", "crash")}, seen)
        for mode in ("run-crash", "run-hang", "run-killed", "run-exit"):
            out = found["by_params"][json.dumps({"mode": mode})]["eliminated"]
            self.assertIsNotNone(out, mode)

    def test_the_run_limit_ends_what_is_far_slower(self):
        found = self.result(*THREE, {"mode": "stuck"}, options=("--run-limit", "2"))
        row = found["by_params"]['{"mode": "stuck"}']
        self.assertEqual(row["eliminated"]["reason"], "timeout")
        self.assertIn("--run-limit 2", row["message"])
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100})

    def test_what_stood_still_once_is_not_blamed(self):
        found = self.result(*THREE, options=("--run-limit", "2"), harness=("stalls",))
        self.assertEqual({row["status"] for row in self.rounds()}, {"ok"})
        self.assertEqual(self.log.read_text().count("started"), 2)
        self.assertIn(found["claim"], ("pick", "winner"))

    def test_without_slots_the_guilty_one_is_found(self):
        found = self.result(*THREE, {"mode": "run-crash"}, harness=("no-slots",))
        ids = {row["id"]: row["params"].get("mode") for row in found["variants"]}
        crashed = {ids[row["variant"]] for row in self.rounds() if row["status"] == "crash(11)"}
        self.assertEqual(crashed, {"run-crash"})

    def test_everything_fails(self):
        done = self.result({"mode": "broken"}, {"mode": "prepare-crash"}, code=20)
        self.assertEqual((done["claim"], done["pick"]), ("all_failed", None))
        self.assertEqual(self.result({"mode": "wrong"}, code=21)["claim"], "all_failed")
        self.assertEqual(self.result({"mode": "status-runtime_error"}, code=20)["claim"],
                         "all_failed")

    def test_a_harness_that_cannot_work_ends_the_run_with_the_reason(self):
        for harness, variants, what in (
                (("mute",), THREE, "did not say hello: it ended: exit 7"),
                ((), ({"mode": "run-garbage"},), "none of the protocol's"),
                (("truncated",), THREE, "the trace of a round")):
            done = self.tune(*variants, harness=harness)
            self.assertEqual(done.code, 69, done.message)
            self.assertIn(what, done.message)
        self.write("space.json", space(*THREE))
        done = run("tune", "space.json", "--", "/no/such/harness", cwd=self.at,
                   env=self.environment)
        self.assertEqual(done.code, 69)
        self.assertIn("/no/such/harness: the harness cannot be started", done.message)

    def test_spaces(self):
        for content, code, what in (
                (space(), 64, "nothing to choose from"),
                ('{"schema": "xplane-time.space.v1", "parameters": [{"name": "a", "type": "int",'
                 ' "values": [1, 2]}], "constraints": ["a > 1", "a < 2"]}', 64, "contradictory"),
                ("{", 64, "space.json")):
            command = self.command()
            self.write("space.json", content)
            done = run(*command, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, code, done.message)
            self.assertIn(what, done.message)
        self.assertIn(self.result({"cost": 1})["claim"], ("pick", "winner"))

    def test_usage(self):
        self.write("space.json", space(*THREE))
        for arguments, what in ((("tune",), "no SPACE"), (("tune", "space.json"), "no harness"),
                                (("tune", "space.json", "--delta", "5", "--", "x"), "share"),
                                (("tune", "space.json", "--incumbent", "nobody", "--",
                                  sys.executable, HERE / "fake_harness.py", self.log),
                                 'the incumbent "nobody"')):
            done = run(*arguments, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 64, done.message)
            self.assertIn(what, done.message)

    def test_a_full_disk(self):
        command = [BINARY, *self.command(*THREE)]
        done = subprocess.run(["bash", "-c", 'ulimit -f 40; exec "$@"', "bash", *map(str, command)],
                              cwd=self.at, env=self.environment, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 74, done.stderr)
        for part in (b"tune.db: no space left", b"--resume"):
            self.assertIn(part, done.stderr)
        found = self.result(*THREE, options=("--resume",))
        self.assertIn(found["claim"], ("pick", "winner"))

    def test_results_that_cannot_be_written(self):
        refused = self.tune(*THREE, options=("-o", "no/x"))
        self.assertEqual(refused.code, 73)
        self.assertIn("no/x: cannot write", refused.message)
        self.assertFalse(self.log.exists(), "before the run")
        self.result(*THREE)
        for form in ("csv", "json", "t4", "tuned"):
            for output, path in (("-o /dev/full", "/dev/full"), ("-o no/x", "no/x"),
                                 (">&-", "standard output"), (">/dev/full", "standard output")):
                done = self.shell(f"tune export --format {form} {output}")
                self.assertEqual(done.returncode, 73, (form, output, done.stderr))
                self.assertIn(f"xplane-time: {path}: cannot write".encode(), done.stderr)
            self.assertEqual(self.shell(f"tune export --format {form} | true").stderr, b"")

    def shell(self, line):
        return subprocess.run(["bash", "-c", f'set -o pipefail; "$0" {line}', BINARY], cwd=self.at,
                              env=self.environment, capture_output=True, timeout=60, check=False)


class Resuming(TuneTest):
    CLAIM = ("--stop", "claim", "--delta", "0.5%")
    SAME = [{"cost": 100, "x": x} for x in range(3)]

    def start(self, *options):
        return subprocess.Popen(
            [BINARY, *self.command(*self.SAME, options=(*self.CLAIM, *options, "--format", "json"),
                                   harness=("slow",))],
            cwd=self.at, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def comparable(self, result):
        return {key: value for key, value in result.items()
                if key not in ("session", "resumed", "by_params", "harness")}

    def wait_for_rounds(self, count):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.log.exists() and self.log.read_text().count("round") >= count:
                return
            time.sleep(0.002)
        self.fail("no rounds")

    def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(self):
        undisturbed = self.result(*self.SAME, options=(*self.CLAIM, "--store", "other.db"))
        total = self.log.read_text().count("round")
        self.assertGreater(total, 20)
        choose = random.Random(3)
        for _ in range(8):
            before = self.log.read_text().count("round")
            process = self.start("--resume")
            self.wait_for_rounds(before + choose.randint(0, 4))
            time.sleep(choose.random() * 0.01)
            process.kill()
            process.communicate()
        found = self.result(*self.SAME, options=(*self.CLAIM, "--resume"))
        self.assertTrue(found["resumed"])
        self.assertEqual(self.comparable(found), self.comparable(undisturbed))
        numbers = [(row["batch"], row["round"], row["slot"]) for row in self.rounds()]
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_a_stop_is_told_and_resumed(self):
        for sign in (signal.SIGINT, signal.SIGTERM):
            before = self.log.read_text().count("round") if self.log.exists() else 0
            process = self.start("--resume")
            self.wait_for_rounds(before + 2)
            process.send_signal(sign)
            out, _ = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 75)
            partial = self.valid(json.loads(out))
            self.assertEqual((partial["interrupted"], partial["stop_reason"]),
                             (True, "interrupted"))
        self.assertFalse(self.result(*self.SAME, options=(*self.CLAIM, "--resume"))["interrupted"])

    def test_two_at_once(self):
        process = self.start()
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for_rounds(1)
        second = self.tune(*self.SAME, options=("--store", "second.db"))
        self.assertEqual(second.code, 65, second.message)
        self.assertIn("is in use by another tuning", second.message)

    def test_the_harness_goes_with_its_driver(self):
        process = self.start()
        self.wait_for_rounds(1)
        process.kill()
        process.communicate()
        deadline = time.monotonic() + 20
        script = str(HERE / "fake_harness.py")
        while time.monotonic() < deadline:
            left = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                    if str(self.log) in read(path) and script in read(path)]
            if not left:
                return
            time.sleep(0.05)
        self.fail(f"left: {left}")


def read(path):
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    unittest.main()
