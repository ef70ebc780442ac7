"""The step time and the verdict at the head of a report, through the program."""
import unittest

from harness import EndToEndTest, run
from test_kineto import event, trace
from xspace import Plane, space


def tpu_runs(*runs):
    """Runs of functions, each one op: (function, program, start in us, duration in us)."""
    device = Plane("/device:TPU:0")
    modules, ops = device.line("XLA Modules"), device.line("XLA Ops")
    for function, program, start, duration in runs:
        modules.event(f"{function}({program})", start * 1_000_000, duration * 1_000_000)
        ops.event("fusion.1", start * 1_000_000, duration * 1_000_000)
    return space(device)


class Verdict(EndToEndTest):
    LOOP = [("jit_a", 1, 10 * i, 10) for i in range(4)]

    def steps(self, content, *options):
        device, = self.run_json(self.write("t.trace", content), *options)["devices"]
        return device["steps"]

    def test_runs_that_take_most_of_the_time(self):
        steps = self.steps(tpu_runs(*self.LOOP))
        self.assertEqual((steps["verdict"], steps["step_median_ps"]), ("device-bound", 10_000_000))

    def test_runs_that_take_a_small_part_of_the_time(self):
        steps = self.steps(tpu_runs(*self.LOOP, ("jit_b", 2, 1000, 5)))
        self.assertEqual((steps["verdict"], steps["step_function"]), ("unclear", "jit_a"))
        self.assertIn("the runs of jit_a take only 3 % of the device's time", steps["reason"])

    def test_steps_of_which_most_end_before_an_earlier_one(self):
        # The second run overlaps those that follow, so that they take no time of their own.
        runs = [("jit_a", 1, 0, 10), ("jit_a", 1, 10, 500)]
        runs += [("jit_a", 1, 20 * i, 10) for i in range(2, 8)]
        text = self.run_ok(self.write("t.trace", tpu_runs(*runs))).text
        self.assertIn("step time unknown: most steps end before an earlier one does", text)


class StepNames(EndToEndTest):
    def marked(self):
        events = []
        for i in range(3):
            events += [event("user_annotation", 1, 1, 100 * i, 50, f"execute_{i}"),
                       event("cuda_runtime", 1, 1, 100 * i + 1, 2, "cudaLaunchKernel", correlation=i + 1),
                       event("kernel", 0, 7, 100 * i + 5, 40, "gemm", correlation=i + 1)]
        return self.write("t.json", trace(events))

    def test_marks_chosen_by_name(self):
        path = self.marked()
        for command in ("report", "brief"):
            device, = self.run_json(command, path, "--step-re", "^execute_")["devices"]
            self.assertEqual(device["steps"]["steps"], 3)
        where = self.run_json("where", path, "--steps", "--step-re", "^execute_")
        self.assertEqual([row["name"] for row in where["steps"]], ["execute_0", "execute_1", "execute_2"])
        self.assertEqual(where["options"]["step_re"], "^execute_")

    def test_no_mark_of_that_name(self):
        done = run("where", self.marked(), "--step-re", "nothing")
        self.assertEqual(done.code, 65)
        self.assertIn("--step-re", done.message)


if __name__ == "__main__":
    unittest.main()
