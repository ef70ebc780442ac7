"""Tests of `where --gaps`: the idle gaps of devices, with the activity of the host."""
import csv
import io
import unittest

from harness import EndToEndTest, run
from test_kineto import event, trace


def waiting_loop():
    """Two devices that wait for a loader and, for a shorter time, after their launches."""
    events = []
    for device in (0, 1):
        at = 1000 * device  # us
        for i, (launch, start, duration) in enumerate(((0, 10, 90), (500, 510, 40), (515, 700, 50))):
            identity = 10 * device + i + 1
            events += [
                event("cuda_runtime", 42, 43 + device, at + launch, 5, "cudaLaunchKernel", correlation=identity),
                event("kernel", device, 7, at + start, duration, f"kernel_{i}", correlation=identity)]
        events += [event("user_annotation", 42, 43 + device, at + 90, 405, "next_batch"),
                   event("cpu_op", 42, 43 + device, at + 200, 100, "decode|\x1b[31m")]
    return trace(events)


class Gaps(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.path = self.write("a.json", waiting_loop())

    def gaps(self, *options):
        return self.run_json("where", self.path, "--gaps", *options)["gaps"]

    def test_all_gaps_in_order_of_length(self):
        gaps = self.gaps()
        self.assertEqual([gap["duration_ps"] for gap in gaps],
                         [410_000_000, 410_000_000, 150_000_000, 150_000_000])
        self.assertEqual([gap["plane"] for gap in gaps], ["/device:GPU:0", "/device:GPU:1"] * 2)
        self.assertEqual([gap["cause"] for gap in gaps], ["host", "host", "launch", "launch"])
        first = gaps[0]
        self.assertEqual((first["kernel_before"], first["kernel_after"]), ("kernel_0", "kernel_1"))
        self.assertEqual((first["idle_host_ps"], first["idle_launch_ps"]), (400_000_000, 10_000_000))
        self.assertEqual(first["host_event"], "next_batch")
        self.assertEqual(first["host_events"], [
            {"event": "next_batch", "self_ps": 295_000_000}, {"event": "decode|\x1b[31m", "self_ps": 100_000_000},
            {"event": "cudaLaunchKernel", "self_ps": 5_000_000}])
        self.assertEqual((first["host_self_event"], first["host_self_ps"]), ("next_batch", 295_000_000))
        self.assertEqual(first["host_busy_ps"], 400_000_000)

    def test_top_counts_the_gaps_of_all_devices(self):
        self.assertEqual(self.gaps("--top", "3"), self.gaps()[:3])
        for device in self.run_json("where", self.path, "--gaps", "--top", "1")["devices"]:
            self.assertEqual(device["gaps"], 2)

    def test_without_the_option_each_device_has_its_longest(self):
        gaps = self.run_json("where", self.path)["gaps"]
        self.assertEqual([(gap["plane"], gap["duration_ps"]) for gap in gaps],
                         [("/device:GPU:0", 410_000_000), ("/device:GPU:0", 150_000_000),
                          ("/device:GPU:1", 410_000_000), ("/device:GPU:1", 150_000_000)])

    def test_csv_has_a_row_a_gap(self):
        text = self.run_ok("where", self.path, "--gaps", "--format", "csv").text
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([row["duration_ps"] for row in rows], [str(gap["duration_ps"]) for gap in self.gaps()])
        self.assertEqual(rows[0]["host_self_event"], "next_batch")

    def test_table(self):
        text = self.run_ok("where", self.path, "--gaps", "--top", "1", "--wide").text
        self.assertIn("idle gaps, the longest first", text)
        self.assertIn("next_batch", text)
        self.assertIn("... 3 more gaps: --top 4", text)
        self.assertNotIn("\x1b", text)
        self.assertEqual(len([line for line in text.splitlines() if "kernel_1" in line]), 1)

    def test_a_device_that_never_waits(self):
        path = self.write("b.json", trace([event("kernel", 0, 7, 10, 5)]))
        self.assertIn("none: no device is idle between executions", self.run_ok("where", path, "--gaps").text)

    def test_steps_are_another_table(self):
        refused = run("where", self.path, "--gaps", "--steps")
        self.assertEqual(refused.code, 64)
        self.assertIn("--steps and --gaps exclude each other", refused.message)


if __name__ == "__main__":
    unittest.main()
