"""Tests of the power trackers of a benchmark loop, from Python."""
import csv
import hashlib
import json
import math
import pathlib
import tempfile
import unittest

from xplane_time import errors, trackers


class TrackersTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)

    def rows(self, name):
        with (self.at / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def test_the_loop_of_the_earlier_tool(self):
        memory, power = trackers.MemoryTracker("run"), trackers.PowerTracker("gpu")
        latencies = []
        for i in range(1000):
            memory.snapshot(kv_cache_bytes=i)
            power.sample(trackers.ConstantPowerSource(75.0))
            latencies.append(trackers.LatencyRecord(i, 850 + i % 7, seq_len=128))
        energy = power.energy()
        self.assertAlmostEqual(energy.total_joules, 75 * energy.duration_s)
        self.assertEqual((energy.samples, energy.unknown, energy.peak_watts), (1000, 0, 75.0))
        report = memory.report()
        self.assertEqual(report.kv_cache_total, 999 * 500)
        self.assertIsNone(report.activation_total)
        self.assertGreaterEqual(report.peak_rss, report.mean_rss)
        stats = trackers.compute_latency_stats(latencies)
        self.assertEqual((stats.n, stats.p50_us), (1000, 853.0))
        trackers.write_latency_csv(self.at / "latency.csv", latencies)
        trackers.write_memory_csv(self.at / "memory.csv", memory.snapshots)
        self.assertEqual(self.rows("latency.csv")[999], {
            "sample_id": "999", "wall_time_us": str(850 + 999 % 7), "kernel_time_us": "",
            "seq_len": "128"})
        row, taken = self.rows("memory.csv")[7], memory.snapshots[7]
        self.assertEqual(row, {
            "timestamp_us": str(taken.timestamp_us), "peak_rss_bytes": str(taken.peak_rss_bytes),
            "kv_cache_bytes": "7", "activation_bytes": "", "temp_buffer_bytes": ""})

    def test_what_is_not_known_is_none(self):
        power = trackers.PowerTracker("gpu")
        power.sample(lambda: 5.0)
        self.assertIsNone(power.energy().total_joules)

        def fails():
            raise OSError("not readable")

        for source in (lambda: None, lambda: -1.0, lambda: math.nan, fails):
            power.sample(source)
        self.assertEqual([each.watts for each in power.samples], [5.0, None, None, None, None])
        self.assertEqual(power.last_error, "OSError: not readable")
        self.assertIsNone(power.energy().total_joules)
        self.assertIsNone(trackers.compute_latency_stats([]).p95_us)
        self.assertIsNone(trackers.MemoryTracker("none").report().mean_rss)

    def test_estimators_by_name(self):
        power = trackers.PowerTracker("step")
        power.samples = [trackers.PowerSample(0, 100.0), trackers.PowerSample(10**9, 300.0)]
        self.assertEqual(power.energy().total_joules, 200.0)
        self.assertEqual(power.energy("held").total_joules, 100.0)
        self.assertEqual(power.energy("endpoint_mean").total_joules, 200.0)
        with self.assertRaises(errors.ArgumentError):
            power.energy("counter")

    def test_the_fingerprint_is_that_of_the_canonical_json(self):
        config = trackers.BenchConfig("abc1234", "def5678", 0.5, 2, 0.01, "-O3")
        text = json.dumps({"model_commit": "abc1234", "weights_hash": "def5678", "lambda": 0.5,
                           "tau": 2, "eps": 0.01, "compiler_flags": "-O3"},
                          sort_keys=True, separators=(",", ":"))
        self.assertEqual(trackers.canonical_config_json(config), text)
        self.assertEqual(trackers.config_hash(config), hashlib.sha256(text.encode()).hexdigest())
        with self.assertRaises(errors.ArgumentError):
            trackers.config_hash(trackers.BenchConfig(eps=math.inf))

    def test_results_and_a_file_that_cannot_be_written(self):
        rows = [trackers.ResultRow("mincut_l0.5_t2", -0.003, 0.25, 0.18, 0.12, 1150, 0.994),
                trackers.ResultRow("a,b")]
        trackers.write_results_csv(self.at / "results.csv", rows)
        self.assertEqual((self.at / "results.csv").read_text().splitlines()[1:], [
            "mincut_l0.5_t2,-0.003,0.25,0.18,0.12,1150,0.994", '"a,b",,,,,,'])
        with self.assertRaises(errors.Error):
            trackers.write_results_csv(self.at / "no" / "results.csv", rows)


if __name__ == "__main__":
    unittest.main()
