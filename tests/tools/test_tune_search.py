"""Tests of searches before the race (halving, and a fake proposer), and of objectives with energy."""
import contextlib
import json
import os
import random
import shlex
import sqlite3
import subprocess
import sys
import time
import unittest

from harness import BINARY, HERE, run
from test_tune import THREE, TuneTest

GRID = {"schema": "xplane-time.space.v1", "name": "fake", "parameters": [
    {"name": "cost", "type": "int", "values": [130, 118, 112, 106, 100, 124, 136, 142]},
    {"name": "more", "type": "int", "values": [0, 10, 20, 30, 40, 50]}]}


class Searching(TuneTest):
    """Searches among 48 variants. The fastest has cost 100 and more 0."""

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
        # 48, 24 and 12 variants ran in 1, 2 and 4 rounds.
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
        self.assertIn("only among these 6", " ".join(text.split()))
        self.assertIn("excluded by the search", text)
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
        self.assertEqual([row["search_failure"] for row in found["variants"]],
                         [None, None, "runtime_error", *[None] * 5])
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
        self.assertEqual(len(told), 16)  # no request follows the last stage
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
                                (("garbage",), '"params" is not a list')):
            message = self.search(*self.ask(8, *arguments), code=69)
            self.assertIn(what, message)
            self.assertIn("the proposer", message)

    def test_a_proposer_that_names_nothing_is_told(self):
        for how, reason in (("silent", "The proposer proposed no configuration."),
                            ("stranger", "The proposer proposed 50 configurations, all outside the space")):
            found = self.search(*self.ask(8, how), code=12)
            self.assertEqual((found["claim"], found["stop_reason"], found["delta"]),
                             ("undecided", "nothing_proposed", None))
            text = run("tune", "show", found["session"], cwd=self.at, env=self.environment).text
            self.assertIn("no variant was proposed; no pick", text)
            self.assertIn(reason, " ".join(text.split()))
            self.assertNotIn("failed", text)

    def test_usage_of_searches(self):
        for options, what in ((("--strategy", "halving:0"), "halving:N"),
                              (("--strategy", "ask:5"), "require each other"),
                              (("--proposer", "x"), "require each other"),
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
            self.assertIn("the harness reports no energy_uj", done.message)
            self.assertIn("no sensor measures the energy of fake", done.message)

    def test_sensors_are_for_objectives_with_energy(self):
        for option in (("--power-source", "constant:100"), ("--map", "0=GPU-1"),
                       ("--nvml-library", "x"), ("--sysfs-root", "x")):
            done = self.tune(*THREE, options=option)
            self.assertEqual(done.code, 64, done.message)
            self.assertIn(f"{option[0]} requires an objective with energy: --objective", done.message)

    def test_a_sensor_that_nobody_knows_is_told_before_anything_runs(self):
        done = self.tune(*THREE, options=("--objective", "energy", "--power-source", "nvmll"))
        self.assertEqual(done.code, 64, done.message)
        self.assertIn('"nvmll"', done.message)
        self.assertFalse(list(self.at.glob("tune.db*")))

    def test_sensors_measure_where_the_harness_does_not(self):
        variants = ({"cost": 100, "sleep_s": 0.1}, {"cost": 100, "sleep_s": 0.2})
        sensor = ("--objective", "energy", "--power-source", "constant:100")
        found = self.result(*variants, options=sensor)
        self.assertEqual(found["energy_kind"], "modelled")
        for action in ("show", "replay"):
            text = run("tune", action, 1, cwd=self.at, env=self.environment).text
            self.assertIn("\nenergy: modelled, from a stated power\n", text)
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], variants[0])
        self.assertGreater(min(self.energies_uj(found["pick"])), 5e6)

    def test_another_power_source_is_another_session(self):
        variants = ({"cost": 100, "energy": 1}, {"cost": 100, "energy": 2})  # the energy that the harness reports
        energy = ("--objective", "energy", "--budget-runs", 2, "--resume")
        sessions = []
        for sources in ((), ("constant:100",), (), ("constant:200",), ("constant:100",),
                        ("constant:200", "rapl"), ("rapl", "constant:200")):
            given = [word for each in sources for word in ("--power-source", each)]
            done = self.tune(*variants, options=(*energy, *given, "--format", "json"),
                             harness=("energy",))
            self.assertIn(done.code, (0, 11, 12), done.message)
            sessions.append(done.json["session"])
            if len(sessions) == 2:
                self.assertIn("the measurement (--calls, --power-source)", done.message)
        self.assertEqual(sessions, [1, 2, 1, 3, 2, 4, 4])
        with contextlib.closing(sqlite3.connect(self.at / "tune.db")) as store:
            written = store.execute("SELECT protocol_hash FROM session ORDER BY id").fetchall()
        earlier = "v1 calls=1 energy=timed"  # stores of earlier versions have no sources
        self.assertEqual([text for text, in written], [
            earlier, *(f"{earlier} sources={each}"
                       for each in ("constant:100", "constant:200", "constant:200,rapl"))])

    def energies_uj(self, variant=None):
        return [int(row["energy_uj"]) for row in self.rounds()
                if row["energy_uj"] and variant in (None, row["variant"])]

    def took_s(self):
        """The times of timed calls on the clock of the harness, by variant."""
        took = {}
        for line in self.log.read_text().splitlines():
            if line.startswith("calls "):
                _, variant, took_ns = line.split()
                took.setdefault(variant, []).append(int(took_ns) / 1e9)
        return took

    def few_energies(self, *harness, calls=1):
        """Rows of the store for two variants at 100 W. The untimed run takes half a second."""
        self.log.write_text("")
        done = self.tune({"sleep_s": 0.1}, {"sleep_s": 0.12}, harness=("slow-first", *harness),
                         options=("--objective", "energy", "--power-source", "constant:100",
                                  "--budget-runs", 4, "--calls", calls))
        self.assertIn(done.code, (0, 11, 12), done.message)
        rows = [row for row in self.rounds() if row["energy_uj"]]
        self.assertEqual(len(rows), 4)
        return rows

    def test_energy_is_that_of_the_timed_calls(self):
        for calls in (1, 4):
            for row in self.few_energies("stamps", calls=calls):
                expected = [1e8 * took_s / calls for took_s in self.took_s()[row["variant"]]]
                nearest = min(abs(int(row["energy_uj"]) - each) for each in expected)
                self.assertLess(nearest, 2, (row, expected))  # in microjoules; both numbers are rounded

    def test_without_stamps_energy_is_from_the_last_slot_message_on(self):
        for row in self.few_energies("slot-again"):
            longest_s = max(self.took_s()[row["variant"]])
            self.assertLess(int(row["energy_uj"]), 1e8 * (longest_s + 0.4), row)
        for row in self.few_energies("stamps-of-another-clock"):
            self.assertGreater(int(row["energy_uj"]), 10e6)

    def test_a_run_that_is_too_short_for_its_energy_says_how_many_calls_make_one(self):
        done = self.tune({"sleep_s": 0.001}, {"sleep_s": 0.002}, harness=("stamps",),
                         options=("--objective", "energy", "--power-source", "constant:100"))
        self.assertEqual(done.code, 69, done.message)
        self.assertRegex(done.message, r"the timed run of v\w+, [1-9][0-9.]* ms, has no energy: "
                                       r"an energy requires a run of at least 50 ms; .*--calls \d+ "
                                       r"\(now 1\)")

    def test_a_stated_power_needs_no_long_runs_and_more_than_0_w(self):
        stated = ("--objective", "energy", "--power-source")
        for watts, sleep_s, words in ((100, 0.001, r"use runs of at least 0\.1 s: --calls \d+ "),
                                      (0, 0.001, r"of 0 W cannot be distinguished"),
                                      (0, 0.06, r"of 0 W cannot be distinguished; state another")):
            done = self.tune({"sleep_s": sleep_s}, {"sleep_s": 2 * sleep_s}, harness=("stamps",),
                             options=(*stated, f"constant:{watts}"))
            self.assertEqual(done.code, 69, done.message)
            self.assertRegex(done.message, words)

    def test_energies_are_shown_in_joules_and_sessions_with_their_objective(self):
        done = self.tune({"sleep_s": 0.1}, {"sleep_s": 0.12}, harness=("stamps",),
                         options=("--objective", "energy", "--power-source", "constant:100",
                                  "--budget-runs", 4))
        self.assertIn(done.code, (0, 11, 12), done.message)
        self.assertRegex(done.text, r"energy J ")
        shown = run("tune", "show", cwd=self.at, env=self.environment).text
        self.assertRegex(shown, r" objective .*\n.* energy, modelled ")

    @unittest.skipUnless(os.environ.get("FAKE_NVML"), "FAKE_NVML names no library")
    def test_sensors_of_a_gpu_by_its_name(self):
        script = self.write("nvml.json", json.dumps({"devices": [
            {"uuid": "GPU-11", "bus": 1}, {"uuid": "GPU-22", "bus": 2}]}))
        self.environment["FAKE_NVML_SCRIPT"] = str(script)
        sensor = ("--objective", "energy", "--nvml-library", os.environ["FAKE_NVML"],
                  "--budget-runs", 4, "--power-source", "nvml")
        variants = ({"cost": 100, "energy": 30}, {"cost": 120, "energy": 10})
        for device, more, visible, found in (
                ("GPU-22", (), None, True), ("GPU-22", (), "0", False),
                ("GPU-33", (), None, False), ("gpu:1", (), None, True),
                ("gpu:1", (), "1", False), ("gpu:7", (), None, False),
                ("gpu:7", ("--map", "7=GPU-22"), None, True)):
            self.environment["CUDA_VISIBLE_DEVICES"] = visible or "0,1"
            done = self.tune(*variants, harness=("energy", f"device={device}"),
                             options=(*sensor, *more))
            self.assertEqual("no sensor measures the energy of" in done.message, not found,
                             (device, more, visible, done.message))

    @unittest.skipUnless(os.environ.get("FAKE_NVML"), "FAKE_NVML names no library")
    def test_a_round_in_which_the_device_was_throttled_is_discarded(self):
        sensor = ("--objective", "energy", "--nvml-library", os.environ["FAKE_NVML"],
                  "--budget-runs", 2, "--power-source", "nvml")
        for bits, reasons, discarded in (  # the first round ends within 4 s
                (0x5, ["gpu_idle", "sw_power_cap"], False),
                (0x48, ["hw_slowdown", "hw_thermal_slowdown"], True)):
            calls = {"nvmlDeviceGetTotalEnergyConsumption": {"error": 3},
                     "nvmlDeviceGetCurrentClocksEventReasons": [
                         {"value": bits, "until_s": 4}, {"value": 0}]}
            self.environment["FAKE_NVML_SCRIPT"] = str(self.write(
                "nvml.json", json.dumps({"devices": [{"calls": calls}]})))
            self.tune({"sleep_s": 1.2}, {"sleep_s": 1.3}, options=sensor,
                      harness=("stamps", "device=gpu:0"))
            exported = run("tune", "export", "--format", "json", cwd=self.at,
                           env=self.environment).json
            rounds = [each for each in exported["rounds"] if each["samples"]]
            state = rounds[0]["notes"]["device_state"]
            self.assertEqual(state["throttle_reasons"], reasons)
            self.assertEqual(rounds[0]["discarded"], discarded)
            self.assertGreater(state["clock_sm_mhz"]["min"], 0)
            self.assertGreater(state["temperature_mc"]["max"], 1000)

    def test_no_round_without_energy_is_stored(self):
        variants = ({"cost": 100, "energy": 30}, {"cost": 120, "energy": 10})
        options = ("--objective", "energy", "--resume")
        done = self.tune(*variants, options=options, harness=("energy", "meter-fails"))
        self.assertEqual(done.code, 69, done.message)
        self.assertIn("energy_uj above 0", done.message)
        stored = len(self.rounds())
        self.assertGreater(stored, 0)
        again = run("tune", "replay", "--format", "json", cwd=self.at, env=self.environment)
        self.assertIn(again.code, (0, 11, 12), again.message)
        found = self.result(*variants, options=options, harness=("energy",))
        self.assertTrue(found["resumed"] and len(self.rounds()) > stored)

    def test_texts_speak_of_the_objective(self):
        variants = ({"cost": 100, "energy": 30}, {"cost": 120, "energy": 10})
        for objective, words, column in (
                ("energy", "energy of v[0-9a-f]{16} is 3.0000 times that of the pick", "energy %"),
                ("edp", "EDP of v[0-9a-f]{16} is 2.", "EDP %"),
                ("pareto", "On the front of time and energy: v", "time %")):
            done = self.tune(*variants, harness=("energy",),
                             options=("--objective", objective, "--baseline", '{"cost": 100, '
                                      '"energy": 30}'))
            self.assertEqual(done.code, 0, done.message)
            self.assertRegex(" ".join(done.text.split()), words)
            self.assertIn(column, done.text)
            if objective != "pareto":
                self.assertNotRegex(done.text, "faster|fastest|time %|as fast as")
        tuned = run("tune", "export", "--format", "tuned", cwd=self.at, env=self.environment).json
        self.assertEqual(sorted(entry["objective"] for entry in tuned["entries"]),
                         ["edp", "energy", "pareto"])

    def test_with_energy_it_decides(self):
        variants = ({"cost": 100, "energy": 30}, {"cost": 120, "energy": 10})
        for objective, cost in (("time", 100), ("energy", 120), ("edp", 120)):
            found = self.result(*variants, options=("--objective", objective), harness=("energy",))
            picked = next(row for row in found["variants"] if row["id"] == found["pick"])
            self.assertEqual((picked["params"]["cost"], found["energy_kind"]), (cost, None))
        found = self.result(*variants, {"cost": 110, "energy": 50}, {"cost": 90, "energy": 60},
                            options=("--objective", "energy", "--strategy", "halving:2"),
                            harness=("energy",))
        self.assertEqual({row["params"]["energy"] for row in found["variants"] if row["raced"]},
                         {10, 30})


if __name__ == "__main__":
    unittest.main()
