"""Tests of power calibrate with known sensors, and of power plan."""
import json
import math
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from harness import TESTDATA, csv_rows
from test_power import PowerTest

SECOND = 1_000_000_000
# A load that measures how long it was not stopped. The fake sensor reads this time.
LOAD = """
import mmap, struct, time
file = open("work", "r+b")
memory = mmap.mmap(file.fileno(), 8)
total, last = 0.0, time.monotonic()
while True:
    now = time.monotonic()
    if now - last < 0.12:  # otherwise it was stopped, for at least 0.15 s
        total += now - last
    last = now
    memory[:8] = struct.pack("d", total)
"""
# A RAPL counter that is updated every 50 ms, with 20 W, and 80 W under load.
SENSOR = """
import os, struct, time
zone = os.open("sys/class/powercap/intel-rapl:0/energy_uj", os.O_WRONLY)
start, number = time.monotonic(), 0
while True:
    number += 1
    time.sleep(max(0, start + number * 0.05 - time.monotonic()))
    work_s = struct.unpack("d", open("work", "rb").read(8))[0]
    energy_j = 20 * (time.monotonic() - start) + 80 * work_s
    os.pwrite(zone, b"%012d" % int(energy_j * 1e6), 0)
"""


def square_wave_log(period_s=0.1, window_s=0.025, lag_s=0.03, watts=(90, 300), total_s=30,
                    responds=True):
    """A log, polled every 23 ms, of a sensor that publishes the mean of a window."""
    draw = random.Random(3)
    on, at = [], 1.0
    while at < total_s - 2:
        length_s = 0.15 * 10 ** draw.random()
        on.append((at, at + length_s))
        at += length_s + 0.15 * 10 ** draw.random()
    start = 1000 * SECOND

    def loaded_s(until):
        return sum(max(0, min(until, end) - begin) for begin, end in on)

    def published(number):
        end = number * period_s - lag_s
        share = (loaded_s(end) - loaded_s(end - window_s)) / window_s if responds else 0
        noise = 1 + 0.01 * random.Random(number).gauss(0, 1)
        return round((watts[0] + share * (watts[1] - watts[0])) * noise * 1000)

    channel = {"source": "nvml", "device": "GPU-1", "domain": "gpu", "quantity": "power_mw",
               "kind": "average", "in_total": True, "slow": False}
    times = {"monotonic_ns": start, "realtime_ns": 1_700_000_000 * SECOND, "boottime_ns": start}
    lines = [(0, {"schema": "xplane-time.power-log.v1", "t": start, "clocks": times,
                  "machine": {}, "command": "", "periods_ns": {"nvml": 23_000_000},
                  "devices": [{"id": "GPU-1", "name": "A card", "source": "nvml"}],
                  "channels": [channel], "absent": []})]
    for tick in range(int(total_s / 0.023)):
        at = tick * 0.023
        lines.append((at, {"t": start + round(at * SECOND), "s": 0,
                           "r": [[0, 0, 100_000, published(math.floor(at / period_s))]]}))
    for begin, end in on:
        lines.append((begin, {"t": start + round(begin * SECOND), "begin": "load"}))
        lines.append((end, {"t": start + round(end * SECOND), "end": "load"}))
    lines.sort(key=lambda line: line[0])
    lines.append((0, {"t": start + total_s * SECOND,
                      "end": {"reason": "stopped", "dropped": 0, "readers": []}}))
    return "".join(json.dumps(line) + "\n" for _, line in lines)


class Calibrate(PowerTest):
    def holds(self, sensor, name, truth_ns):
        low, high = sensor[name + "_ci95"]
        self.assertLessEqual(low, truth_ns, sensor)
        self.assertGreaterEqual(high, truth_ns, sensor)
        self.assertLess(abs(sensor[name] - truth_ns), 0.1 * truth_ns + 5_000_000, sensor)

    def calibrated(self, *arguments, code=0):
        done = self.power("calibrate", *arguments, "--format", "json")
        self.assertEqual(done.code, code, done.message)
        self.check(done.json, "calibrate")
        return done.json

    def test_a_log_tells_period_window_and_lag(self):
        self.write("log.jsonl", square_wave_log())
        document = self.calibrated("log.jsonl")
        sensor = document["sensors"][0]
        self.assertIsNone(sensor["reason"])
        self.holds(sensor, "period_ns", 100_000_000)
        self.holds(sensor, "window_ns", 25_000_000)
        self.holds(sensor, "lag_ns", 30_000_000)
        self.assertAlmostEqual(sensor["idle_w"], 90, delta=2)
        self.assertAlmostEqual(sensor["load_w"], 300, delta=5)
        self.assertAlmostEqual(sensor["noise"], 0.01, delta=0.005)
        rows = csv_rows(self.power("calibrate", "log.jsonl", "--format", "csv").text)
        self.assertEqual(rows[0]["period_ns"], str(sensor["period_ns"]))
        table = self.power("calibrate", "log.jsonl").text
        self.assertIn("period ms", table)
        self.assertLessEqual(max(map(len, table.splitlines())), 80)

    def test_a_load_that_changes_nothing_is_said(self):
        self.write("log.jsonl", square_wave_log(responds=False))
        sensor = self.calibrated("log.jsonl", code=12)["sensors"][0]
        self.assertEqual(sensor["reason"], "no_response")
        self.assertIsNone(sensor["lag_ns"])
        self.assertIsNone(sensor["window_ns_ci95"])

    def test_a_log_without_a_load_is_refused(self):
        log = [line for line in square_wave_log().splitlines() if '"load"' not in line]
        self.write("log.jsonl", "\n".join(log) + "\n")
        done = self.power("calibrate", "log.jsonl")
        self.assertEqual(done.code, 65)
        self.assertIn('no window "load"', done.message)

    def test_without_a_sensor_it_says_so(self):
        done = self.power("calibrate", "--sysfs-root", "sys", "--nvml-library", "./none.so")
        self.assertEqual(done.code, 69)
        self.assertIn("no power or energy sensor to calibrate", done.message)

    def test_options_that_do_not_fit(self):
        for line, said in (("log --duration 9", "LOG already contains one"), ("--duration 1", "--duration"),
                           ("log -- sleep 1", "no command is allowed after --")):
            done = self.power("calibrate", *line.split())
            self.assertEqual(done.code, 64, line)
            self.assertIn(said, done.message)

    def test_a_load_that_cannot_be_run_or_ends(self):
        self.sysfs()
        sensors = ("--source", "rapl", "--sysfs-root", "sys")
        for command, code, said in ((("./none",), 69, "cannot start"),
                                    (("true",), 69, "ended before"),
                                    (("sleep", "0.6"), 12, "must run for")):
            done = self.power("calibrate", *sensors, "--warm-up", "0.2", "--", *command)
            self.assertEqual(done.code, code, done.message)
            self.assertIn(said, done.message)
        # Sensors that are not named may be missing.
        done = self.power("calibrate", "--sysfs-root", "sys", "--nvml-library", "./none.so",
                          "--warm-up", "0.2", "--", "sleep", "0.6")
        self.assertEqual(done.code, 12, done.message)

    def live(self):
        self.sysfs(energy_uj="000000000000")
        (self.at / "work").write_bytes(bytes(8))
        sensor = subprocess.Popen([sys.executable, "-c", SENSOR], cwd=self.at)
        self.addCleanup(sensor.wait)
        self.addCleanup(sensor.kill)
        return ("calibrate", "--source", "rapl", "--sysfs-root", "sys")

    def test_a_load_is_switched_and_its_sensor_known(self):
        """Times are real in this test. On a busy machine they are less exact, and the intervals wider."""
        live = self.live()
        done = self.power(*live, "--duration", "6", "--log", "kept.jsonl", "-o", "calibration.json",
                          "--", sys.executable, "-c", LOAD)
        self.assertEqual(done.code, 0, done.message)
        sensor = json.loads((self.at / "calibration.json").read_text())["sensors"][0]
        self.assertAlmostEqual(sensor["idle_w"], 20, delta=4)
        self.assertGreater(sensor["load_w"], 50)
        self.assertLess(abs(sensor["lag_ns"]), 30_000_000)
        if sensor["period_ns"] is not None:
            self.assertAlmostEqual(sensor["period_ns"], 50_000_000, delta=1_000_000)
        again = self.calibrated("kept.jsonl")["sensors"][0]
        self.assertEqual(again, sensor)

    def test_the_load_imports_nothing_from_here(self):
        for name in ("jax.py", "signal.py"):
            self.write(name, f"open({str(self.at / 'ran')!r}, 'w')\nraise ImportError('not here')\n")
        done = self.power(*self.live(), "--load", "gpu", "--duration", "5")
        self.assertNotEqual(done.code, 0)
        self.assertFalse((self.at / "ran").exists())

    def test_an_interrupted_one_ends_its_load(self):
        process = self.started(*self.live(), "--", sys.executable, "-c",
                               "import os\nopen('pid', 'w').write(str(os.getpid()))\n" + LOAD)
        self.wait_for(lambda: (self.at / "pid").exists() and (self.at / "pid").read_text())
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        pid = int((self.at / "pid").read_text())
        self.wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists())


class Kept(PowerTest):
    def test_a_calibration_is_the_prior_of_later_logs(self):
        self.sysfs()
        sensor = {"source": "rapl", "device": "package-0", "domain": "package",
                  "quantity": "energy_uj", "kind": "cumulative", "updates": 100,
                  "period_ns": 1_000_500, "period_ns_ci95": [1_000_400, 1_000_600],
                  "window_ns": None, "window_ns_ci95": None, "reason": None}
        self.write("calibration.json", json.dumps(
            {"schema": "xplane-time.power-calibration.v1", "sensors": [sensor]}))
        done = self.power("record", "--source", "rapl", "--sysfs-root", "sys", "--duration", "0.1",
                          "--calibration", "calibration.json", "--log", "p.jsonl", "--quiet")
        self.assertEqual(done.code, 0, done.message)
        header = json.loads((self.at / "p.jsonl").read_text().splitlines()[0])
        self.assertEqual(header["channels"][0]["prior_period_ns"], 1_000_500)

    def test_what_is_no_calibration_is_refused(self):
        self.sysfs()
        self.write("other.json", "{}")
        record = ("record", "--source", "rapl", "--sysfs-root", "sys", "--duration", "0.1")
        done = self.power(*record, "--calibration", "other.json")
        self.assertEqual(done.code, 65)
        self.assertIn("no calibration", done.message)
        self.assertEqual(self.power(*record, "--calibration", "none.json").code, 66)

    def test_a_file_without_an_end_is_refused(self):
        record = ("record", "--source", "constant:1", "--duration", "0.1")
        for path, code, message in (("/dev/zero", 64, "this is a device; give a file"),
                                    (".", 64, "this is a directory; give a file"),
                                    ("large", 65, "larger than 64 MiB")):
            with self.subTest(path):
                if path == "large":  # a sparse file
                    with open(self.at / path, "wb") as file:
                        file.truncate(1 << 40)
                done = self.power(*record, "--calibration", path)
                self.assertEqual(done.code, code, done.message)
                self.assertIn(f"{path}: {message}", done.message)


class Plan(PowerTest):
    KERNELS = ("--kernel", "matmul=850us", "--kernel", "softmax=41us", "--kernel", "conv=1.2ms")

    def planned(self, *arguments, code=0):
        done = self.power("plan", *arguments, "--format", "json")
        self.assertEqual(done.code, code, done.message)
        self.check(done.json, "plan")
        return done.json

    def setUp(self):
        super().setUp()
        self.write("log.jsonl", square_wave_log())
        self.power("calibrate", "log.jsonl", "-o", "calibration.json")
        self.sensor = ("--sensor", "calibration.json")

    def test_steps_are_a_schedule(self):
        plan = self.planned(*self.KERNELS, *self.sensor)
        self.assertTrue(plan["reached"])
        self.assertEqual(plan["sensor"]["origin"], "calibration")
        self.assertAlmostEqual(plan["sensor"]["period_ns"], 100_000_000, delta=100_000)
        runs = {row["kernel"]: 0 for row in plan["kernels"]}
        for row, later in zip(plan["steps"], plan["steps"][1:]):
            self.assertAlmostEqual(row["start_s"] + row["duration_s"] + row["pause_s"],
                                   later["start_s"])
        for row in plan["steps"]:
            runs[row["kernel"]] += row["repetitions"]
        for row in plan["kernels"]:
            self.assertEqual(runs[row["kernel"]], row["repetitions"])
            self.assertLess(row["half_width"], 0.01)
        self.assertGreater(plan["total_s"], plan["steps"][-1]["start_s"])

    def test_a_seed_makes_it_the_same_and_another_another(self):
        plans = [self.planned(*self.KERNELS, *self.sensor, "--seed", seed) for seed in "112"]
        self.assertEqual(plans[0], plans[1])
        self.assertNotEqual(plans[0]["steps"], plans[2]["steps"])

    def test_a_tenth_of_the_error_costs_a_hundred_times_as_much(self):
        coarse, fine = (self.planned(*self.KERNELS, *self.sensor, "--precision", precision)
                        for precision in ("0.5%", "0.25%"))
        self.assertGreater(fine["total_s"], 2.5 * coarse["total_s"])
        self.assertLess(fine["total_s"], 6 * coarse["total_s"])

    def test_what_takes_too_long_is_labelled(self):
        plan = self.planned(*self.KERNELS, *self.sensor, "--precision", "0.1%", "--most", "20",
                            code=12)
        self.assertFalse(plan["reached"])
        self.assertLessEqual(plan["total_s"], 20)
        table = self.power("plan", *self.KERNELS, *self.sensor, "--precision", "0.1%", "--most",
                           "20").text
        self.assertIn("not possible within 20 s", table)

    def test_kernels_of_a_trace_and_a_log_as_sensor(self):
        plan = self.planned(TESTDATA / "jax_cpu_variants.xplane.pb", "--sensor", "log.jsonl",
                            "--precision", "3%")
        self.assertGreater(len(plan["kernels"]), 1)
        self.assertEqual(plan["sensor"]["origin"], "log")
        rows = csv_rows(self.power("plan", *self.KERNELS, *self.sensor, "--format", "csv").text)
        self.assertEqual(set(rows[0]), {"start_s", "kernel", "function", "repetitions", "duration_s",
                                        "pause_s"})

    def test_kernels_of_one_name_are_those_of_their_functions(self):
        trace = TESTDATA / "energy" / "jax_cpu_mixture.xplane.pb"
        self.power("plan", trace, "--sensor", "log.jsonl", "--precision", "5%", "-o", "plan.json")
        plan = json.loads((self.at / "plan.json").read_text())
        self.check(plan, "plan")
        names = [(row["kernel"], row["function"]) for row in plan["kernels"]]
        self.assertEqual(len(set(names)), len(names))
        self.assertLess(len({kernel for kernel, _ in names}), len(names))

    def test_bad_input(self):
        none = ("--sysfs-root", "sys", "--nvml-library", "./none.so")
        for line, code, said in ((("--kernel", "matmul"), 64, "matmul=120us"),
                                 (("--kernel", "m=0us"), 64, "matmul=120us"),
                                 ((), 64, "no TRACE"),
                                 (("--kernel", "a=1ms", "--kernel", "a=2ms"), 64, "given twice"),
                                 ((*self.KERNELS, "t.xplane.pb"), 64, "exclude each other"),
                                 ((*self.KERNELS, "--precision", "0"), 64, "--precision"),
                                 ((*self.KERNELS, "--precision", "200%"), 64, "below 100%"),
                                 ((), 64, "see xplane-time power plan --help"),
                                 (("--kernel", "m=2s", *self.sensor, "--most", "2"), 12, "with 1 kernel "),
                                 ((*self.KERNELS, *self.sensor, "--most", "2"), 12, "--most"),
                                 ((*self.KERNELS, *none), 69, "--sensor FILE"),
                                 ((*self.KERNELS, "--sensor", "none.json"), 66, "none.json")):
            done = self.power("plan", *line)
            self.assertEqual(done.code, code, (line, done.message))
            self.assertIn(said, done.message)


if __name__ == "__main__":
    unittest.main()
