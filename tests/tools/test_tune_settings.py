"""Tests of tune with --clock-mhz and --power-cap-w. A fake NVML (fake_nvml.cc) stores the settings in a
file. The times of the harness depend on it. The tests check who changed and who restored the settings."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from harness import BINARY, HERE, TIMEOUT_S, environment, run
from test_tune import TuneTest

TWO = ({"cost": 100, "program": "a"}, {"cost": 130, "program": "b"})
CLOCKS = (1980, 1410, 210)
PUT_BACK = ["GPU-1 clock reset"]


@unittest.skipUnless(os.environ.get("FAKE_NVML"), "FAKE_NVML names no library")
class SettingsTest(TuneTest):
    def setUp(self):
        super().setUp()
        self.library = os.environ["FAKE_NVML"]
        self.file = self.at / "settings"
        self.file.touch()
        self.environment = environment(XDG_RUNTIME_DIR=str(self.at),
                                       FAKE_NVML_SETTINGS=str(self.file))
        self.script({"uuid": "GPU-1"})

    def script(self, *devices):
        self.environment["FAKE_NVML_SCRIPT"] = str(self.write("nvml.json",
                                                              json.dumps({"devices": devices})))

    def command(self, *variants, options=(), harness=()):
        if not any(each.startswith("device=") for each in harness):
            harness = (*harness, "device=gpu:0")
        return super().command(*variants, harness=("gpu-settings", *harness), options=(
            "--nvml-library", self.library, *options))

    def lines(self):
        return self.file.read_text().splitlines()

    def ran_at(self):
        """(clock, cap) of each run, including runs that do not count."""
        if not self.log.exists():
            return []
        return [tuple(map(int, line.split()[2:])) for line in self.log.read_text().splitlines()
                if line.startswith("ran at")]

    def picked(self, found):
        return next(row for row in found["variants"] if row["id"] == found["pick"])["params"]

    def noted(self):
        done = run("tune", "export", "--format", "json", cwd=self.at, env=self.environment)
        return [each["notes"]["device_settings"] for each in done.json["rounds"]
                if each["samples"]]


def clocks(*values):
    return ("--clock-mhz", ",".join(map(str, values)))


class Axes(SettingsTest):
    def test_by_time_the_highest_clock_is_picked_and_by_energy_a_lower_one(self):
        for objective, clock in (("time", 1980), ("energy", 1410)):
            found = self.result(*TWO, options=(*clocks(*CLOCKS), "--objective", objective))
            self.assertEqual(self.picked(found), {"clock_mhz": clock, "cost": 100, "program": "a"})
            self.assertEqual(len(found["variants"]), 6)
            params = {row["id"]: row["params"] for row in found["variants"]}
            for row in self.rounds():  # each run used the clock of its variant
                of = params[row["variant"]]
                self.assertAlmostEqual(int(row["t_ps"]) * of["clock_mhz"] / of["cost"] / 1980e6, 1,
                                       delta=0.1)
            self.assertEqual(self.lines()[-1:], PUT_BACK)

    def test_both_are_axes_and_the_power_limit_becomes_what_it_was(self):
        self.file.write_text("GPU-1 limit_mw 500000\n")
        found = self.result(*TWO, options=(*clocks(1980, 1410), "--power-cap-w", "250,700"))
        self.assertEqual(self.picked(found), {"clock_mhz": 1980, "cost": 100, "power_cap_w": 700,
                                              "program": "a"})
        self.assertEqual(len(found["variants"]), 8)
        self.assertEqual(set(self.ran_at()),
                         {(clock, cap) for clock in (1980, 1410) for cap in (250, 700)})
        self.assertEqual(self.lines()[-2:], ["GPU-1 clock reset", "GPU-1 limit_mw 500000"])

    def test_a_setting_is_set_once_a_round_and_runs_once_for_nothing(self):
        self.result(*TWO, options=(*clocks(*CLOCKS), "--budget-runs", 6, "--canary", 0),
                    code=12)
        self.assertLessEqual(len(self.lines()), 1 + 3 + 1)  # during preparation, in the round, at the end
        at = self.ran_at()
        self.assertEqual(len(at), 3 * (1 + 2))
        self.assertEqual([at[i][0] == at[i + 1][0] == at[i + 2][0] for i in (0, 3, 6)], [True] * 3)

    def test_the_harness_knows_the_variants_of_the_space_alone(self):
        found = self.result(*TWO, options=clocks(*CLOCKS))
        prepared = [line.split(" ", 2)[2] for line in self.log.read_text().splitlines()
                    if line.startswith("prepare ")]
        self.assertEqual(sorted(prepared), sorted(map(json.dumps, TWO)))
        # One program at three clocks is three variants. Aliases have the same clock.
        self.assertEqual([row["alias_of"] for row in found["variants"]], [None] * 6)
        same = self.result(TWO[0], {**TWO[0], "x": 1}, options=clocks(1980, 210))
        rows = {row["id"]: row["params"] for row in same["variants"]}
        aliases = [(row["params"]["clock_mhz"], rows[row["alias_of"]]["clock_mhz"])
                   for row in same["variants"] if row["alias_of"]]
        self.assertEqual(aliases, [(1980, 1980), (210, 210)])

    def test_a_grid_ids_and_a_search(self):
        grid = json.dumps({"schema": "xplane-time.space.v1", "name": "grid",
                           "parameters": [{"name": "cost", "type": "int", "values": [100, 130]}],
                           "variants": [{"id": "mine", "params": {"cost": 100, "more": 50}}]})
        self.write("grid.json", grid)
        listed = run("tune", "grid.json", "--list", *clocks(1980, 210), "--format", "json",
                     cwd=self.at)
        self.assertEqual([each["id"] for each in listed.json["variants"]][:2],
                         ["mine clock_mhz=1980", "mine clock_mhz=210"])
        self.assertEqual([each["params"] for each in listed.json["variants"]][2:],
                         [{"clock_mhz": clock, "cost": cost} for cost in (100, 130)
                          for clock in (1980, 210)])
        for more, count in ((("--strategy", "list"), 2), (("--strategy", "halving:2"), 6),
                            (("--incumbent", '{"cost":130,"clock_mhz":210}'), 6)):
            command = self.command(options=(*clocks(1980, 210), *more, "--format", "json"))
            command[1] = "grid.json"
            done = run(*command, cwd=self.at, env=self.environment)
            self.assertEqual((done.code, len(done.json["variants"])), (0, count), done.message)
            self.assertEqual(self.picked(done.json)["clock_mhz"], 1980)

    def test_resume_replay_and_the_tuned_table(self):
        first = self.result(*TWO, options=clocks(1980, 210))
        again = self.result(*TWO, options=(*clocks(1980, 210), "--resume"))
        self.assertEqual((again["session"], again["pick"]), (first["session"], first["pick"]))
        replayed = run("tune", "replay", 1, "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual(replayed.json["pick"], first["pick"])
        other = self.result(*TWO, options=(*clocks(1980, 1410), "--resume"))
        self.assertNotEqual(other["session"], first["session"])
        tuned = run("tune", "export", "--format", "tuned", cwd=self.at, env=self.environment).json
        self.assertEqual(tuned["entries"][0]["params"]["clock_mhz"], 1980)

    def test_notes_say_which_clock_was_read(self):
        self.result(*TWO, options=(*clocks(1980, 1410), "--budget-runs", 4), code=12)
        for each in self.noted():
            self.assertEqual(sorted((at["clock_mhz"], at["clock_sm_mhz"], at["reached"])
                                    for at in each), [(1410, 1410, True), (1980, 1980, True)])
        self.script({"uuid": "GPU-1", "calls": {"nvmlDeviceGetClockInfo:1": 1400}})
        self.result(*TWO, options=(*clocks(1980, 1410), "--budget-runs", 4), code=12)
        for each in self.noted():
            self.assertEqual(sorted((at["clock_mhz"], at["clock_sm_mhz"], at["reached"])
                                    for at in each), [(1410, 1400, True), (1980, 1400, False)])

    def test_sensors_see_one_setting_at_a_time(self):
        self.script({"uuid": "GPU-1", "calls": {
            "nvmlDeviceGetTotalEnergyConsumption": {"error": 3}}})
        command = self.command({"sleep_s": 1.1}, harness=("stamps",), options=(
            *clocks(1980, 210), "--objective", "energy", "--power-source", "nvml",
            "--budget-runs", 2))
        command.remove("gpu-settings")  # with this option, the harness reports energies itself
        done = run(*command, cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 12, done.message)
        for each in self.noted():
            self.assertEqual(sorted((at["clock_mhz"], at["device_state"]["clock_sm_mhz"]["min"],
                                     at["device_state"]["clock_sm_mhz"]["max"]) for at in each),
                             [(210, 210, 210), (1980, 1980, 1980)])


class Devices(SettingsTest):
    def test_the_device_is_that_of_the_harness(self):
        self.script({"uuid": "GPU-1", "bus": 1}, {"uuid": "GPU-2", "bus": 2})
        for device, more, visible, uuid in (
                ("gpu:1", (), None, "GPU-2"), ("gpu:0", (), "1", "GPU-2"), ("GPU-1", (), None, "GPU-1"),
                ("cuda:5", ("--map", "5=GPU-2"), None, "GPU-2")):
            self.file.write_text("")
            self.environment["CUDA_VISIBLE_DEVICES"] = visible or "0,1"
            done = self.tune(*TWO, options=(*clocks(210, 1980), "--budget-runs", 4, *more),
                             harness=(f"device={device}", f"uuid={uuid}"))
            self.assertEqual(done.code, 12, done.message)
            self.assertEqual({line.split()[0] for line in self.lines()}, {uuid}, device)

    def refused(self, code, *words, options=clocks(1410), **more):
        done = self.tune(*TWO, options=options, **more)
        self.assertEqual((done.code, done.text), (code, ""), done.message)
        for each in words:
            self.assertIn(each, done.message)
        self.assertEqual((self.lines(), self.ran_at()), ([], []))
        return done

    def test_what_is_no_nvidia_gpu_is_refused_and_leaves_no_store(self):
        for device in ("cpu:0", "rocm:0", "gpu:3", "GPU-7"):
            self.refused(69, "require an NVIDIA GPU", f"does not find the harness's device {device}",
                         harness=(f"device={device}",))
        self.library = "./none.so"
        self.refused(69, "require an NVIDIA GPU", "none.so: cannot open")
        self.assertFalse(list(self.at.glob("tune.db*")))

    def test_a_clock_or_a_cap_that_it_has_not_is_refused_with_what_it_has(self):
        self.refused(64, "GPU-1 does not support a clock of 1400 MHz; it supports 119 clocks from 210 to 1980 MHz, "
                         "nearest 1395 and 1410", options=clocks(1410, 1400))
        self.refused(64, "nearest 1980 ", options=clocks(2000))
        for cap in (199, 701):
            self.refused(64, f"GPU-1 supports power caps from 200 to 700 W, not {cap} W",
                         options=("--power-cap-w", cap))
        self.assertFalse(list(self.at.glob("tune.db*")))

    def test_without_permission_nothing_is_compiled(self):
        del self.environment["FAKE_NVML_SETTINGS"]
        for options, call in ((clocks(1410), "nvmlDeviceSetGpuLockedClocks"),
                              (("--power-cap-w", 300), "nvmlDeviceSetPowerManagementLimit")):
            done = self.refused(69, call, "NVML_ERROR_NO_PERMISSION (4)", "only root may", "or ask",
                                options=options)
            self.assertNotIn("cannot be restored", done.message)
        self.assertNotIn("prepare", self.log.read_text())

    def test_what_was_set_before_a_refusal_is_put_back(self):
        self.script({"uuid": "GPU-1", "calls": {"nvmlDeviceSetPowerManagementLimit": {"error": 4}}})
        done = self.tune(*TWO, options=(*clocks(1410), "--power-cap-w", 300))
        self.assertEqual(done.code, 69, done.message)
        self.assertEqual(self.lines(), ["GPU-1 clock 1410", *PUT_BACK])

    def test_a_driver_without_a_function_is_refused_where_it_is_wanted(self):
        self.library = os.environ["FAKE_NVML_OLD"]
        self.refused(69, "nvmlDeviceSetGpuLockedClocks: NVML_ERROR_FUNCTION_NOT_FOUND (13); a newer "
                         "driver may support it")
        done = self.tune(*TWO, options=("--power-cap-w", "700,300"))
        self.assertEqual(done.code, 0, done.message)

    def test_lines_that_cannot_be_meant(self):
        for options, words in ((clocks(1410, 1410), "--clock-mhz: a value occurs twice"),
                               (clocks("fast"), "--clock-mhz"), (clocks(0), "--clock-mhz"),
                               (clocks(""), "--clock-mhz"), (clocks(-5), "--clock-mhz"),
                               (("--power-cap-w", "300.5"), "--power-cap-w")):
            self.refused(64, words, options=options)
        done = self.tune({"clock_mhz": 1}, options=clocks(1410))
        self.assertEqual(done.code, 64)
        self.assertIn('already has a parameter "clock_mhz", the name that --clock-mhz uses', done.message)
        self.write("grid.json", json.dumps({
            "schema": "xplane-time.space.v1",
            "parameters": [{"name": "power_cap_w", "type": "int", "values": [1]}]}))
        done = run("tune", "grid.json", "--list", "--power-cap-w", 300, cwd=self.at)
        self.assertIn('already has a parameter "power_cap_w"', done.message)


class PutBack(SettingsTest):
    OPTIONS = (*clocks(1980, 210), "--power-cap-w", "300,700", "--stop", "claim")
    ALL = ["GPU-1 clock reset", "GPU-1 limit_mw 700000"]

    def start(self, *variants, harness=()):
        """Starts tune, and returns the process when a round has begun."""
        process = subprocess.Popen(
            [str(BINARY), *self.command(*variants, options=self.OPTIONS, harness=harness)],
            cwd=self.at, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        until = time.monotonic() + TIMEOUT_S
        while not (self.log.exists() and "round" in self.log.read_text()):
            self.assertLess(time.monotonic(), until)
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        return process

    def end(self, process):
        """Waits for the end of standard error, which the guard process also holds open."""
        _, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, err.decode()

    def guard_of(self, process):
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                _, _, rest = stat.read_text().rpartition(") ")
            except OSError:  # the process has ended
                continue
            _, parent, _, session = rest.split()[:4]
            if int(parent) == process.pid and session == stat.parent.name:
                return int(session)
        self.fail("no guard")

    def test_by_signals_to_all_of_the_terminals_processes(self):
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(sent):
                self.log.write_text("")
                process = self.start({"sleep_s": 0.2}, {"sleep_s": 0.3})
                self.assertNotIn(self.lines()[-1], self.ALL)
                os.killpg(process.pid, sent)
                code, err = self.end(process)
                self.assertEqual(code, 75, err)
                self.assertEqual(self.lines()[-2:], self.ALL)

    def test_by_its_death(self):
        for sent in (signal.SIGKILL, signal.SIGABRT, signal.SIGQUIT):
            with self.subTest(sent):
                self.log.write_text("")
                process = self.start({"sleep_s": 0.2}, {"sleep_s": 0.3})
                os.killpg(process.pid, sent)
                code, err = self.end(process)
                self.assertEqual(code, -sent)
                self.assertIn("xplane-time was killed; the clock and power limit of GPU-1 were restored", err)
                self.assertEqual(self.lines()[-2:], self.ALL)

    def test_the_guard_is_deaf_and_where_it_is_killed_the_tuning_puts_back(self):
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with self.subTest(sent):
                self.log.write_text("")
                process = self.start({"sleep_s": 0.2}, {"sleep_s": 0.3})
                os.kill(self.guard_of(process), sent)
                time.sleep(0.1)
                process.send_signal(signal.SIGTERM)
                code, err = self.end(process)
                self.assertIn(code, (75,) if sent != signal.SIGKILL else (69, 75), err)
                self.assertEqual(self.lines()[-2:], self.ALL)

    def test_who_waits_for_the_device_changes_nothing_of_it(self):
        process = self.start({"sleep_s": 0.2}, {"sleep_s": 0.3})
        other = self.tune(*TWO, options=(*clocks(1410), "--store", "other.db"))
        self.assertEqual(other.code, 65, other.message)
        process.send_signal(signal.SIGTERM)
        self.end(process)
        self.assertNotIn("GPU-1 clock 1410", self.lines())
        self.assertEqual(self.lines().count("GPU-1 clock reset"), 1)

    def test_by_a_harness_that_fails_and_by_a_budget(self):
        for variants, options, harness, code in (
                (({"cost": 1, "mode": "run-crash"},), (), (), 20),
                (TWO, (), ("no-samples",), 69),
                (({"x": 1}, {"x": 2}), ("--objective", "edp", "--delta", "0.01%"),
                 ("energy", "meter-fails"), 69),
                (TWO, ("--budget-runs", 8), (), 12)):
            self.file.write_text("")
            done = self.tune(*variants, options=(*self.OPTIONS, *options), harness=harness)
            self.assertEqual(done.code, code, done.message)
            self.assertGreater(len(self.lines()), 2)
            self.assertEqual(self.lines()[-2:], self.ALL, (variants, harness))

    def test_what_cannot_be_put_back_is_said_with_the_command_that_does_it(self):
        self.script({"uuid": "GPU-1", "calls": {
            "nvmlDeviceResetGpuLockedClocks": {"error": 999}}})
        done = self.tune(*TWO, options=clocks(1980, 1410))
        self.assertEqual(done.code, 74)
        self.assertRegex(done.text, "^(pick|winner): ")  # the result is still printed
        self.assertRegex(done.message, r"THE SETTINGS OF THE GPU ARE STILL CHANGED: the locked clock of GPU-1 cannot "
                                       r"be restored: nvmlDeviceResetGpuLockedClocks: .*999.*; run as "
                                       r"root: nvidia-smi -i GPU-1 -rgc\n")


if __name__ == "__main__":
    unittest.main()
