"""Tests how GPU executions are split into runs if the trace has neither scopes nor launches."""
import unittest

from harness import EndToEndTest
from xspace import Plane, space

US = 1_000_000


def conditional(runs, gap_us, kernels, function="jit_f", other=True, pjit_calls=None, other_stream=False):
    """Runs of 50 us kernels, 1 us apart. jit_g runs between them, on the same or on another stream."""
    plane = Plane("/device:GPU:0")
    stream = plane.line("Stream #1(Kernel)")
    g_stream = plane.line("Stream #2(Kernel)") if other_stream else stream
    now = 0
    for run in range(runs):
        for kernel in kernels(run):
            stream.event(kernel, now * US, 50 * US, hlo_module=function, program_id=7)
            now += 51
        now += gap_us
        if other:
            g_stream.event("g", now * US, 50 * US, hlo_module="jit_g", program_id=8)
            now += 50 + gap_us
    if pjit_calls is None:
        return space(plane)
    host = Plane("/host:CPU", 2)
    python = host.line("python")
    for call in range(pjit_calls):
        python.event(f"PjitFunction({function.removeprefix('jit_')})", call * US, US // 2)
    return space(plane, host)


class RunsOfOneStream(EndToEndTest):
    def row(self, content, function="jit_f"):
        rows = self.run_json("functions", self.write("t.xplane.pb", content))["functions"]
        (row,) = (row for row in rows if row["function"] == function)
        return row

    def check(self, content, runs, median_us):
        row = self.row(content)
        self.assertEqual((row["runs"], row["status"], row["active_ps"]["median"]), (runs, "ok", median_us * US))

    def test_another_program_between_separates_runs(self):
        for gap in (30, 300, 3000, 300_000):
            for runs in (6, 12, 60, 300):
                with self.subTest(gap=gap, runs=runs):
                    self.check(conditional(runs, gap, lambda run: ["k0", "k1"] if run % 2 else ["k0"]), runs, 75)
                    self.check(conditional(runs, gap, lambda run: ["k0", "k1", "k2"] if run % 10 == 9
                                           else ["k0", "k1"]), runs, 100)

    def test_another_program_on_another_stream(self):
        # The gap hardly separates runs, so a wrong number must be labelled.
        for runs in (12, 60):
            row = self.row(conditional(runs, 30, lambda run: ["k0", "k1"] if run % 2 else ["k0"],
                                       other_stream=True))
            self.assertTrue(row["runs"] == runs or row["status"] == "runs_uncertain", row)

    def test_long_idle_times_separate_runs(self):
        for runs in (60, 300):
            self.check(conditional(runs, 600_000, lambda run: ["k0", "k1", "k2"] if run % 10 == 9
                                   else ["k0", "k1"], other=False), runs, 100)

    def test_one_kernel_or_the_other_is_uncertain(self):
        row = self.row(conditional(12, 300, lambda run: [f"k{run % 2}"]))
        self.assertTrue(row["runs"] == 12 or row["status"] == "runs_uncertain", row)

    def test_calls_on_the_host_are_a_cross_check(self):
        same = lambda run: ["k0", "k1"]
        self.assertEqual(self.row(conditional(12, 300, same, pjit_calls=12))["status"], "ok")
        self.assertEqual(self.row(conditional(12, 300, same, pjit_calls=24))["status"], "runs_uncertain")
        self.assertEqual(self.row(conditional(12, 300, same, "f", pjit_calls=24), "f")["status"], "ok")

    def test_pick_uses_the_runs(self):
        def variants(pattern):
            plane = Plane("/device:GPU:0")
            stream = plane.line("Stream #1(Kernel)")
            now = 0
            for run in range(12):
                for variant in range(3):
                    for kernel in pattern(run) if variant == 1 else ["k0", "k1"]:
                        stream.event(kernel, now * US, 50 * US, hlo_module=f"jit_autotune_fn_{variant}",
                                     program_id=variant + 1)
                        now += 51
                    now += 30
            return self.write("variants.xplane.pb", space(plane))

        rows = self.run_json("functions", variants(lambda run: ["k0"] if run % 2 else ["k0", "k1"]))["functions"]
        self.assertEqual({row["runs"] for row in rows}, {12})


if __name__ == "__main__":
    unittest.main()
