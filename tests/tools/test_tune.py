"""tune from outside: a loop over a harness that runs nothing, with all that can go wrong."""
import json
import os
import pathlib
import random
import shlex
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
        self.write("w.json", json.dumps({
            "schema": "xplane-time.space.v1", "variants": [{"params": each} for each in THREE],
            "workloads": [{"id": "small", "params": {}}, {"id": "big", "params": {}, "weight": 3}]}))
        command = self.command(*THREE)
        command[1] = "w.json"
        self.assertEqual(run(*command, cwd=self.at, env=self.environment).code, 0)
        times = [int(row["t_ps"]) for row in self.rounds() if row["status"] == "ok"]
        self.assertGreater(min(times), 3.5 * 100e6)  # weighted sums

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
        self.assertIn(done.returncode, (65, 73, 74), done.stderr)
        self.assertIn(b"tune.db", done.stderr)


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


GRID = {"schema": "xplane-time.space.v1", "name": "fake", "parameters": [
    {"name": "cost", "type": "int", "values": [130, 118, 112, 106, 100, 124, 136, 142]},
    {"name": "more", "type": "int", "values": [0, 10, 20, 30, 40, 50]}]}


class Searching(TuneTest):
    """Of 48 variants; the fastest has cost 100, and more 0."""

    def search(self, *options, grid=None, code=0, harness=()):
        self.write("space.json", json.dumps(grid or GRID))
        done = run("tune", "space.json", "--format", "json", *options, "--", sys.executable,
                   HERE / "fake_harness.py", self.log, *harness, cwd=self.at, env=self.environment)
        self.assertEqual(done.code, code, done.message)
        return self.valid(done.json) if done.out else done.message

    def ask(self, count, *arguments):
        words = [sys.executable, HERE / "fake_proposer.py", self.at / "proposer.log", *arguments]
        return ("--strategy", f"ask:{count}", "--proposer", shlex.join(map(str, words)))

    def told(self):
        lines = (self.at / "proposer.log").read_text().splitlines()
        return [each for each in map(json.loads, lines) if each["type"] == "tell"]

    def raced(self, found):
        return [row["params"] for row in found["variants"] if row["raced"]]

    def picked(self, found):
        return next(row["params"] for row in found["variants"] if row["id"] == found["pick"])

    def test_halving_leaves_the_best_to_the_race(self):
        found = self.search("--strategy", "halving:6")
        self.assertEqual((found["search"]["strategy"], found["search"]["searched"],
                          found["search"]["raced"]), ("halving:6", 48, 6))
        self.assertEqual(self.picked(found), {"cost": 100, "more": 0})
        self.assertLess(max(each["cost"] + each["more"] for each in self.raced(found)), 125)
        # 48, 24 and 12 of them, in 1, 2 and 4 rounds each.
        rows = [row for row in self.rounds() if int(row["batch"]) >= 10**9]
        self.assertEqual((len(rows), found["search"]["runs"]), (48 + 2 * 24 + 4 * 12,) * 2)
        self.assertEqual(found["runs"] + len(rows), len(self.rounds()))
        sizes = [int(line.split()[3]) for line in self.log.read_text().splitlines()
                 if line.startswith("round")]
        self.assertLessEqual(max(sizes), 20)
        self.assertEqual({row["ratio"] for row in found["variants"] if not row["raced"]}, {None})

    def test_the_table_says_what_the_search_left_out(self):
        self.search("--strategy", "halving:6")
        text = run("tune", "show", "1", cwd=self.at, env=self.environment).text
        self.assertIn("48 configurations", text)
        self.assertIn("among these 6 only", " ".join(text.split()))
        self.assertIn("left by the search", text)
        again = run("tune", "replay", "1", "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual(again.code, 0, again.message)
        self.assertEqual((again.json["search"]["searched"], again.json["search"]["raced"]), (48, 6))

    def test_incumbent_and_baseline_always_race(self):
        found = self.search("--strategy", "halving:2", "--incumbent", '{"cost":142,"more":50}',
                            "--baseline", '{"cost":136,"more":40}')
        raced = self.raced(found)
        self.assertEqual(len(raced), 4)
        self.assertIn({"cost": 142, "more": 50}, raced)
        self.assertEqual(found["confirmation"]["rounds"], 10)

    def test_failures_leave_and_aliases_take_no_place(self):
        found = self.result({"cost": 100, "program": "a"}, {"cost": 100, "program": "a", "x": 1},
                            {"cost": 105, "mode": "status-runtime_error"}, {"mode": "broken"},
                            {"cost": 110}, {"cost": 150}, {"cost": 160}, {"cost": 170},
                            options=("--strategy", "halving:2"))
        self.assertEqual([row["params"] for row in found["variants"] if row["raced"]],
                         [{"cost": 100, "program": "a"}, {"cost": 110}])
        everything = self.result({"mode": "status-oom"}, {"mode": "broken"}, code=20,
                                 options=("--strategy", "halving:1"))
        self.assertEqual(everything["claim"], "all_failed")

    def test_few_are_raced_at_once(self):
        found = self.search("--strategy", "halving:48")
        self.assertEqual((found["search"]["runs"], found["search"]["raced"]), (0, 48))

    def test_asking(self):
        found = self.search(*self.ask(20))
        self.assertEqual([found["search"][name] for name in ("searched", "raced", "proposed",
                                                             "refused", "repeated")],
                         [20, 8, 20, 0, 0])
        told = self.told()
        self.assertEqual(len(told), 16)  # the last stage has nobody to be told
        first = min(told, key=lambda each: each["value"])
        rows = {row["id"]: row for row in found["variants"]}
        self.assertEqual(rows[first["id"]]["searched"], first["value"])
        self.assertEqual({each["status"] for each in told}, {"ok"})
        self.assertEqual({each["request"] for each in told}, {1, 2})

    def test_a_space_is_asked_to_its_end(self):
        found = self.search(*self.ask(1000))
        self.assertEqual(found["search"]["searched"], 48)
        self.assertEqual(self.picked(found), {"cost": 100, "more": 0})

    def test_listed_variants_and_the_incumbent_come_first(self):
        grid = {**GRID, "variants": [{"params": {"cost": 90, "old": True}}]}
        found = self.search(*self.ask(8), "--incumbent", '{"cost":142,"more":50}', grid=grid)
        raced = self.raced(found)
        self.assertEqual(raced[0], {"cost": 90, "old": True})
        self.assertIn({"cost": 142, "more": 50}, raced)
        self.assertEqual(found["search"]["searched"], 10)

    def test_what_cannot_be_measured_is_told_and_counted(self):
        grid = {**GRID, "constraints": ["more < 30"]}
        found = self.search(*self.ask(1000), grid=grid)
        refused = [each for each in self.told() if each["status"] == "refused"]
        self.assertEqual((found["search"]["searched"], found["search"]["refused"]), (24, 24))
        self.assertIn("more < 30", refused[0]["message"])
        self.assertEqual({(each["id"], each["value"]) for each in refused}, {(None, None)})

    def test_a_proposer_that_repeats_itself_ends_the_search(self):
        found = self.search(*self.ask(1000, "stubborn"))
        self.assertEqual(found["search"]["searched"], 1)
        self.assertGreater(found["search"]["repeated"], 50)
        self.assertTrue(any(each.get("repeated") and each["value"] for each in self.told()))

    def test_a_proposer_that_does_not_work(self):
        for arguments, what in ((("mute",), "no optimizer here"),
                                (("garbage",), '"params" is no list')):
            message = self.search(*self.ask(8, *arguments), code=69)
            self.assertIn(what, message)
            self.assertIn("the proposer", message)

    def test_usage_of_searches(self):
        for options, what in ((("--strategy", "halving:0"), "halving:N"),
                              (("--strategy", "ask:5"), "go together"),
                              (("--proposer", "x"), "go together"),
                              (("--strategy", "halving:2", "--objective", "pareto"), "pareto")):
            self.assertIn(what, self.search(*options, code=64))

    def killed_often(self, strategy, tunings=8):
        command = [BINARY, "tune", "space.json", "--format", "json", *strategy, "--resume", "--",
                   sys.executable, HERE / "fake_harness.py", self.log, "slow"]
        choose = random.Random(5)
        for _ in range(tunings):
            before = self.log.read_text().count("round") if self.log.exists() else 0
            process = subprocess.Popen([str(each) for each in command], cwd=self.at,
                                       env=self.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 20
            wanted = before + choose.randint(1, 3)
            while time.monotonic() < deadline and process.poll() is None:
                if self.log.exists() and self.log.read_text().count("round") >= wanted:
                    break
                time.sleep(0.002)
            time.sleep(choose.random() * 0.02)
            process.kill()
            process.communicate()

    def test_killed_in_the_search_it_ends_as_if_it_had_not_been(self):
        for name, strategy in (("halving", ("--strategy", "halving:3")), ("ask", self.ask(24))):
            with self.subTest(name):
                undisturbed = self.search(*strategy, "--store", f"{name}.db")
                self.killed_often(strategy)
                found = self.search(*strategy, "--resume")
                self.assertTrue(found["resumed"])
                drop = ("session", "resumed", "harness")
                self.assertEqual({key: value for key, value in found.items() if key not in drop},
                                 {key: value for key, value in undisturbed.items()
                                  if key not in drop})
                numbers = [(row["batch"], row["round"], row["slot"]) for row in self.rounds()]
                self.assertEqual(len(numbers), len(set(numbers)))
                self.assertEqual(len(numbers), found["runs"] + found["search"]["runs"])

    def test_a_finished_search_needs_no_proposer(self):
        strategy = self.ask(16)
        first = self.search(*strategy)
        (self.at / "proposer.log").unlink()
        again = self.search(*strategy, "--resume")
        self.assertEqual(again["pick"], first["pick"])
        self.assertFalse((self.at / "proposer.log").exists())

    def test_another_strategy_is_another_session(self):
        first = self.search("--strategy", "halving:4")
        for strategy in (("--strategy", "halving:3"), self.ask(8), ()):
            self.assertFalse(self.search(*strategy, "--resume")["resumed"])
        again = self.search("--strategy", "halving:4", "--resume")
        self.assertEqual((again["resumed"], again["session"]), (True, first["session"]))


class Energy(TuneTest):
    def test_without_energy_the_objective_is_refused(self):
        for objective in ("energy", "edp", "ed2p", "pareto"):
            done = self.tune(*THREE, options=("--objective", objective))
            self.assertEqual(done.code, 69, done.message)
            self.assertIn(f'the harness "fake" gives no energy, and --objective {objective}',
                          done.message)
            self.assertIn("energy_uj", done.message)

    def test_with_energy_it_decides(self):
        variants = ({"cost": 100, "energy": 30}, {"cost": 120, "energy": 10})
        for objective, cost in (("time", 100), ("energy", 120), ("edp", 120)):
            found = self.result(*variants, options=("--objective", objective), harness=("energy",))
            picked = next(row for row in found["variants"] if row["id"] == found["pick"])
            self.assertEqual(picked["params"]["cost"], cost)
        found = self.result(*variants, {"cost": 110, "energy": 50}, {"cost": 90, "energy": 60},
                            options=("--objective", "energy", "--strategy", "halving:2"),
                            harness=("energy",))
        self.assertEqual({row["params"]["energy"] for row in found["variants"] if row["raced"]},
                         {10, 30})


def read(path):
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    unittest.main()
