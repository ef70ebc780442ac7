"""Tests of sensor failures through the real binary: the energy, its reason, the exit code."""
import json
import os
import signal
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from harness import BINARY, environment
from test_power import FAKE_NVML, PowerTest

COUNTER = "nvmlDeviceGetTotalEnergyConsumption"
RUNS = {"value": 1000, "per_s": 300_000}  # a counter at 300 W
POWERS = [f"nvmlDeviceGetFieldValues:{field}:0" for field in (185, 186)]
FIELDS = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage", COUNTER)
RANGE_UJ = 262_143_328_850  # of RAPL
ALL, SOME, NONE = "all", "some", "none"  # the part of the window with a known energy


def gpu(counter=None, calls=None, **more):
    calls = {**(calls or {}), **({} if counter is None else {COUNTER: counter})}
    return {"devices": [{"uuid": "GPU-a", "bus": 1, "calls": calls, **more}]}


def reloaded(*init):
    return {**gpu(), "reload_after": 60, **({"calls": {"nvmlInit": list(init)}} if init else {})}


class Fault:
    """`energy`: ALL, SOME or NONE. `code`: the exit code if constant power is also recorded (None: not
    tested). `alone`: the exit code if NVML is the only source. Without named sources, the code is 0."""

    def __init__(self, name, script, energy, reason, seconds=1.5, code=0, alone=0, says="",
                 shared=False, count="", environment=()):
        self.name, self.script, self.energy, self.reason = name, script, energy, reason
        self.seconds, self.code, self.alone, self.says = seconds, code, alone, says
        self.shared, self.count, self.environment = shared, count, dict(environment)


MISMATCH = {"error": 18}
FAULTS = (
    Fault("reload", reloaded(), SOME, "reset", count="resets"),
    Fault("reload to another version", reloaded({"calls": 1}, MISMATCH), SOME, "driver_mismatch"),
    Fault("another version from the start", {**gpu(), "calls": {"nvmlInit": MISMATCH}}, NONE,
          "driver_mismatch", code=69, alone=69, says="NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)"),
    Fault("lost", gpu(lost_after=60), SOME, "device_lost"),
    Fault("reset required", gpu([{**RUNS, "calls": 10}, {"error": 16}], {
        name: [{"value": 300_000, "calls": 10}, {"error": 16}] for name in POWERS}), SOME,
          "reset_required"),
    Fault("reset required, and power is still told", gpu([{**RUNS, "calls": 10}, {"error": 16}]),
          ALL, None, says='"counter_reason": "reset_required"'),
    Fault("a counter that stands still, then reset required",
          gpu([{"value": 1000, "calls": 10}, {"error": 16}]), ALL, None,
          says='"counter_reason": "reset_required"'),
    Fault("falls", gpu([{**RUNS, "value": 9e8, "calls": 20}, {**RUNS, "value": 5}]), SOME,
          "reset", count="resets"),
    Fault("wraps at 32 bits, of which the driver says nothing",
          gpu({**RUNS, "value": 2 ** 32 - 150_000, "wrap": 2 ** 32}), SOME, "reset",
          count="resets"),
    Fault("jumps", gpu([{**RUNS, "calls": 20}, {**RUNS, "value": 9e8}]), SOME, "implausible",
          count="jumps"),
    Fault("hangs", gpu([{**RUNS, "calls": 10}, {"latency_s": 3600}]), SOME, "hung", seconds=3.5,
          says="a call has not returned for"),
    Fault("hangs and comes back",
          gpu([{**RUNS, "calls": 10}, {**RUNS, "latency_s": 3, "calls": 1}, RUNS]), ALL, "hung",
          seconds=4.5, says="a call that hung returned"),
    Fault("hangs while sensors are looked for",
          {**gpu(), "calls": {"nvmlInit": {"latency_s": 3600}}}, NONE, "hung", code=69, alone=69,
          says="the search for sensors did not return within 2000 ms"),
    Fault("vGPU", gpu(calls=dict.fromkeys(FIELDS, {"error": 3}), virtualization=2), NONE,
          "unsupported", says="a vGPU has no power sensor"),  # but it has a temperature
    Fault("MIG", gpu(mig=["MIG-11", "MIG-12"]), ALL, None, shared=True,
          says="split (MIG): the sensors measure the whole GPU",
          environment={"CUDA_VISIBLE_DEVICES": "MIG-12"}),
    Fault("another process", gpu(processes=[1]), ALL, None, shared=True,
          says="other processes use it (1, for example 1)"),
)


def knows_other_processes():
    try:
        return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    except OSError:
        return False


class FaultTest(PowerTest):
    def check_energy(self, window, energy, watts=None):
        """An unknown energy is never 0 J. A known energy has the properties in docs/power.md."""
        joules, seconds = energy["energy_j"], (window["end_ns"] - window["begin_ns"]) / 1e9
        # If there are no bounds, there is an interval, or a reason.
        energy = {**energy, "bounds_j": energy["bounds_j"] or energy["interval_j"] or (0, joules)}
        if joules is None:
            self.assertIsNotNone(energy["reason"])
            self.assertEqual(energy["coverage"], 0)
            return
        covered_s = energy["coverage"] * seconds
        self.assertGreater(covered_s, 0)
        self.assertAlmostEqual(joules, energy["mean_w"] * covered_s, delta=1e-6 * joules)
        if watts is not None:
            self.assertGreater(joules, watts / 2 * covered_s)
            self.assertLess(joules, watts * 2 * covered_s)
        low, high = energy["bounds_j"]
        self.assertLessEqual(low, joules)
        self.assertLessEqual(joules, high)


@unittest.skipUnless(FAKE_NVML, "no scripted NVML: set FAKE_NVML")
class NvmlFaults(FaultTest):
    def recorded(self, fault, name, *sources):
        """Runs the binary with the fault, in a separate folder."""
        script = self.write(f"{name}/script.json", json.dumps(fault.script))
        done = subprocess.run(
            [str(BINARY), "power", "record", *sources, "--sysfs-root", "nowhere", "--nvml-library",
             FAKE_NVML, "--format", "json", "--", "sleep", str(fault.seconds)],
            cwd=script.parent, capture_output=True, text=True, timeout=60,
            env=environment(FAKE_NVML_SCRIPT=str(script), **fault.environment))
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def check_fault(self, fault, code, summary, message):
        self.assertEqual(code, fault.code, message)
        told = json.dumps(summary) + message
        self.assertIn(fault.says, told)
        if summary is None:
            return
        self.check(summary)
        window = summary["windows"][0]
        energies = {each["source"]: each for each in window["energies"]}
        self.check_energy(window, energies["constant"], 10)
        # None, unless the machine stalls.
        self.assertIn(energies["constant"]["reason"], (None, "gap", "no_samples"))
        if fault.energy == NONE:
            self.assertNotIn("nvml", energies)
            self.assertIn(fault.reason, {each["reason"] for each in summary["absent"]})
            return
        energy = energies["nvml"]
        self.check_energy(window, energy, 300)
        self.assertIsNotNone(energy["energy_j"])
        # The edges have no samples; a machine that stalls makes a gap.
        self.assertIn(energy["reason"], (fault.reason, "no_samples", "gap"))
        if fault.energy == ALL:
            self.check_covered(summary)
        else:
            self.assertLess(energy["coverage"], 0.99)
        if fault.count:
            self.assertEqual(energy[fault.count], 1)
        device, = [each for each in summary["devices"] if each["id"] == "GPU-a"]
        self.assertEqual(device["shared"], fault.shared)
        self.assertEqual(energy["shared_device"], fault.shared)

    def check_covered(self, summary):
        """Checks the coverage of the command, which has readings before and after it. If the machine
        stalls, readings between are missing."""
        run = summary["windows"][1]
        reader = {each["source"]: each for each in summary["readers"]}["nvml"]
        energy = {each["source"]: each for each in run["energies"]}["nvml"]
        missed_ns = 2 * reader["missed"] * reader["period_ns"]
        self.assertGreater(energy["coverage"],
                           0.9 - missed_ns / (run["end_ns"] - run["begin_ns"]))

    def test_energy_of_each_fault(self):
        faults = [each for each in FAULTS if each.code is not None and
                  (each.name != "another process" or knows_other_processes())]
        with ThreadPoolExecutor(8) as pool:  # the runs mostly wait
            found = list(pool.map(lambda n: self.recorded(
                faults[n], n, "--source", "nvml,constant:10"), range(len(faults))))
        for fault, each in zip(faults, found):
            with self.subTest(fault.name):
                self.check_fault(fault, *each)

    def test_a_source_without_energy(self):
        faults = [each for each in FAULTS if each.energy == NONE]
        for fault in faults:
            fault.seconds = 0.1
        runs = [(fault, f"{n}{name}", *sources) for n, fault in enumerate(faults)
                for name, sources in (("named", ("--source", "nvml")), ("all", ()))]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda each: self.recorded(*each), runs))
        for (fault, _, *sources), (code, summary, message) in zip(runs, found):
            with self.subTest(f"{fault.name} {sources}"):
                if sources and fault.alone:
                    self.assertEqual((code, summary), (fault.alone, None))
                    self.assertIn(fault.says, message)
                    continue
                self.assertEqual(code, 0, message)
                self.assertIn("energy is unknown", message)
                absent = {each["source"]: each for each in summary["absent"]}
                self.assertEqual(absent["nvml"]["reason"], fault.reason)
                self.assertIn(fault.says, absent["nvml"]["message"])
                self.assertEqual(summary["windows"][0]["energies"], [])
                self.assertIsNone(summary["windows"][0]["total"]["energy_j"])


class CounterFaults(FaultTest):
    CASES = (  # name, microjoules after t seconds at 50 W, has a range, reason, counted event
        ("wraps", lambda t: (RANGE_UJ - 20_000_000 + t * 50e6) % (RANGE_UJ + 1), True, None,
         "wraps"),
        ("is reset", lambda t: (1e9 if t < 0.5 else 0) + t * 50e6, False, "reset", "resets"),
        ("jumps", lambda t: (0 if t < 0.5 else 1e13) + t * 50e6, False, "implausible", "jumps"),
    )

    def driven(self, value, has_range):
        """The window, and the increase of the counter in joules while it was read, however slowly."""
        counter = self.sysfs(f"{int(value(0)):<20}", maximum=str(RANGE_UJ) * has_range)
        (self.at / "log").unlink(missing_ok=True)
        process = self.started("record", "--source", "rapl", "--sysfs-root", "sys", "--format",
                               "json", "--quiet", "--log", "log")
        self.wait_for(self.has_readings)
        file = os.open(counter, os.O_WRONLY)
        begin = time.monotonic()
        while (seconds := time.monotonic() - begin) < 1:
            os.pwrite(file, b"%-20d\n" % int(value(seconds)), 0)
            last_s = seconds
            time.sleep(0.002)
        os.close(file)
        process.send_signal(signal.SIGINT)
        out, message = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, message)
        return json.loads(out)["windows"][0], 50 * last_s

    def test_a_counter_that_wraps_is_reset_or_jumps(self):
        for name, value, has_range, reason, count in self.CASES:
            with self.subTest(name):
                window, joules = self.driven(value, has_range)
                energy, = window["energies"]
                self.check_energy(window, energy)
                if count == "wraps":
                    self.assertAlmostEqual(energy["energy_j"], joules, places=4)
                else:  # excludes the energy between the readings around the jump
                    self.assertGreater(energy["energy_j"], 0)
                    self.assertLess(energy["energy_j"], joules)
                # The edges have no samples; a machine that stalls makes a gap.
                self.assertIn(energy["reason"], (reason, "no_samples", "gap"))
                self.assertEqual({each: energy[each] for each in ("wraps", "resets", "jumps")},
                                 {"wraps": 0, "resets": 0, "jumps": 0, count: 1})


if __name__ == "__main__":
    unittest.main()
