"""Tests of the tools in bench/ that make traces, because measured speeds depend on them."""
import os
import pathlib
import subprocess
import unittest

from harness import EndToEndTest, TESTDATA

BENCH = pathlib.Path(os.environ.get("XPLANE_TIME_BENCH", "."))
SHAPES = {"tpu": 4, "gpu": 3, "cpu": 2}  # devices


class BenchTest(EndToEndTest):
    def make(self, tool, *arguments, code=0):
        done = subprocess.run([BENCH / tool, *map(str, arguments)], cwd=self.at,
                              capture_output=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode()

    def clean_report(self, trace):
        report = self.run_json(trace, "--device", "all")
        self.assertEqual([row for row in report["diagnostics"] if row["severity"] != "info"], [])
        return report

    def test_grown_by_two_has_all_runs_twice(self):
        traces = sorted(TESTDATA.glob("*.xplane.pb"))
        self.make("make_trace", "gpu", "gpu.pb", "--runs", 4)
        self.make("make_trace", "tpu", "tpu.pb", "--runs", 4)
        for trace in [self.at / "gpu.pb", self.at / "tpu.pb", *traces]:
            self.make("grow_trace", trace, "two.pb", 2)
            once, twice = (self.run_json("planes", path) for path in (trace, "two.pb"))
            self.assertEqual(2 * once["capture"]["events"], twice["capture"]["events"], trace)
            once, twice = (self.run_json(path, "--device", "all") for path in (trace, "two.pb"))
            for one, two in zip(once["devices"], twice["devices"], strict=True):
                self.assertEqual(2 * one["executions"], two["executions"], trace)
                self.assertEqual(2 * one["sum_ps"], two["sum_ps"], trace)
            if trace.parent == self.at:  # scopes repeat, so they are one run
                for one, two in zip(once["functions"], twice["functions"], strict=True):
                    self.assertEqual(2 * one["runs"], two["runs"], trace)

    def test_grown_by_one_is_the_same(self):
        self.make("make_trace", "tpu", "tpu.pb", "--runs", 3)
        said = self.make("grow_trace", "tpu.pb", "one.pb", 1)
        one = (self.at / "one.pb").read_bytes()
        self.assertEqual(one, (self.at / "tpu.pb").read_bytes())
        self.assertIn(f"one.pb: {len(one)} bytes, ", said)

    def test_shapes_are_clean_traces(self):
        for shape, devices in SHAPES.items():
            self.make("make_trace", shape, "shape.pb", "--runs", 5)
            report = self.clean_report("shape.pb")
            self.assertEqual(len(report["devices"]), devices, shape)
            self.assertEqual({(row["function"], row["runs"]) for row in report["functions"]},
                             {("jit_train", 5)}, shape)

    def test_yardsticks_refuse_what_is_no_trace(self):
        self.write("no.pb", b"\x0b\x0b")
        self.make("parse_only", "no.pb", code=65)
        self.make("parse_only", "none.pb", code=66)
        self.make("parse_only", code=64)
        self.make("grow_trace", "no.pb", "out.pb", 2, code=65)
        self.make("grow_trace", "none.pb", "out.pb", 2, code=66)
        self.make("grow_trace", "no.pb", "out.pb", 0, code=64)


if __name__ == "__main__":
    unittest.main()
