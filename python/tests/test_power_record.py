"""Tests of power.record() and power.read(): windows, gauges, tables, missing sensors."""
import pathlib
import tempfile
import threading
import time
import unittest

import xplane_time
from xplane_time import power


class Power(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def test_windows_overlap_and_constant_power_is_exact(self):
        with power.record(sources=["constant:100"], period_s=0.005) as p:
            p.begin("outer")
            with p.window("inner"):
                time.sleep(0.05)
            with p.window("inner"):
                time.sleep(0.02)
            p.end("outer")
        self.assertEqual([(each.window, each.number) for each in p.totals],
                         [(None, 1), ("outer", 1), ("inner", 1), ("inner", 2)])
        repeat, = p.repeats
        self.assertEqual((repeat["window"], repeat["windows"], repeat["known"]), ("inner", 2, 2))
        self.assertAlmostEqual(repeat["mean_j"], p.energy_j("inner") / 2)
        for row in p.energies:
            seconds = (row["end_ns"] - row["begin_ns"]) / 1e9
            self.assertAlmostEqual(row["energy_j"], 100 * seconds * row["coverage"], places=6)
            self.assertEqual(row["estimator"], "held")
        self.assertGreater(p.energy_j("inner"), 100 * 0.07 - 1e-6)
        self.assertRaises(KeyError, p.energy_j, "other")
        self.assertTrue(p.complete)

    def test_gauges_and_threads(self):
        with power.record(sources=["constant:1"]) as p:
            def work(i):
                with p.window(f"thread {i}"):
                    p.gauge("kv_cache_bytes", 1000 + i)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        whole = [row for row in p.gauges
                 if row["quantity"] == "kv_cache_bytes" and row["window"] is None]
        self.assertEqual([(row["n"], row["min"], row["max"]) for row in whole], [(8, 1000, 1007)])

    def test_mistakes_say_what_is_right(self):
        with power.record(sources=["constant:1"]) as p:
            for value in (0.25, True, "7", 2 ** 53 + 1, 2 ** 70):
                with self.assertRaisesRegex(xplane_time.ArgumentError, "loss", msg=value):
                    p.gauge("loss", value)
            with self.assertRaisesRegex(xplane_time.ArgumentError, "empty"):
                p.begin("")
            with self.assertRaisesRegex(xplane_time.ArgumentError, "the recording is still running"):
                p.energy_j()
            p.begin("left")
        with self.assertRaisesRegex(KeyError, "no window 'nope'; windows: left"):
            p.energy_j("nope")
        self.assertTrue(any("left: not ended" in doubt for doubt in p.doubts), p.doubts)

    def test_a_recording_that_goes_on_has_a_text(self):
        p = power.record(sources=["constant:1"])
        self.assertIn("running", repr(p))
        p.stop()
        self.assertIn("Table", repr(p))

    def test_a_window_is_for_one_with(self):
        with power.record(sources=["constant:1"]) as p:
            window = p.window("step")
            with window:
                with self.assertRaisesRegex(xplane_time.ArgumentError, "again for each"):
                    window.__enter__()
            with self.assertRaisesRegex(xplane_time.ArgumentError, r"window\('step'\) again"):
                with window:
                    self.fail("entered twice")

            @p.window("call")
            def work():
                return 7

            self.assertEqual([work(), work()], [7, 7])
        self.assertEqual([(each.window, each.number) for each in p.totals],
                         [(None, 1), ("step", 1), ("call", 1), ("call", 2)])

    def test_readings_can_be_awaited(self):
        log = self.at / "log.jsonl"
        with power.record(sources=["constant:5"], period_s=0.05, log=log) as p:
            for _ in range(3):
                p.await_readings(10)
            read = sum('"r":' in line for line in log.read_text().splitlines())
        self.assertGreaterEqual(read, 3)
        with power.record(sources=["process"]) as p:
            p.await_readings()  # without a sensor, it returns immediately

    def test_the_log_says_the_same_later(self):
        log = self.at / "log.jsonl"
        with power.record(sources=["constant:5"], log=log) as p:
            time.sleep(0.02)
        self.assertEqual(power.read(log).to_dict(), p.to_dict())
        self.assertIn("<svg", p.svg())
        with self.assertRaises(FileNotFoundError):
            power.read(self.at / "none")

    def test_what_is_not_there_is_unknown_with_a_reason(self):
        with self.assertRaisesRegex(xplane_time.NothingFoundError, "rapl"):
            power.record(sources=["rapl"], sysfs_root=self.at)
        with self.assertRaises(xplane_time.ArgumentError):
            power.record(sources=["solar"])
        with power.record(sysfs_root=self.at, nvml_library=self.at / "none.so") as p:
            pass
        self.assertIsNone(p.energy_j())
        self.assertEqual(len(p.energies), 0)
        self.assertIn("none.so", " ".join(p.doubts))
        absent = power.sources(sysfs_root=self.at, nvml_library=self.at / "none.so")["absent"]
        self.assertIn("nvml", {row["source"] for row in absent})

    def test_marks_that_make_no_sense(self):
        with power.record(sources=["constant:5"]) as p:
            with self.assertRaises(xplane_time.ArgumentError):
                p.end("never begun")
            with p.window("twice"), self.assertRaises(xplane_time.ArgumentError):
                p.begin("twice")

    def test_devices_are_waited_for(self):
        try:
            import jax.numpy as jnp
        except ImportError:
            self.skipTest("no jax")
        with power.record(sources=["constant:5"]) as p:
            with p.window("jax"):
                result = jnp.ones((400, 400)) @ jnp.ones((400, 400))
            self.assertTrue(result.is_ready())

    def test_tables_are_arrow(self):
        try:
            import polars
        except ImportError:
            self.skipTest("no polars")
        with power.record(sources=["constant:5"]) as p:
            pass
        frame = polars.DataFrame(p.energies)
        self.assertEqual(frame["source"].to_list(), ["constant"])


if __name__ == "__main__":
    unittest.main()
