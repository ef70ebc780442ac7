"""Tests of the step time and the verdict at the top of a report, through the program."""
import unittest

from harness import EndToEndTest, run
from test_kineto import event, trace
from xspace import Plane, space


def tpu_runs(*runs):
    """Runs of functions with one op each: (function, program, start in us, duration in us)."""
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
        # The second run overlaps the following runs, so they add no time.
        runs = [("jit_a", 1, 0, 10), ("jit_a", 1, 10, 500)]
        runs += [("jit_a", 1, 20 * i, 10) for i in range(2, 8)]
        text = self.run_ok(self.write("t.trace", tpu_runs(*runs))).text
        self.assertIn("step time unknown: most steps end before an earlier step ends", text)


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

    def loop(self, marks, before=()):
        """Ten steps of 1000 us, each with a kernel that is launched within the mark."""
        events = list(before)
        for i in range(10):
            events += [event("user_annotation", 1, 1, 1000 * i + start, duration, f"{name}{i}")
                       for name, start, duration in marks]
            events += [event("cuda_runtime", 1, 1, 1000 * i + 50, 2, "cudaLaunchKernel", correlation=i + 1),
                       event("kernel", 0, 7, 1000 * i + 600, 390, "gemm", correlation=i + 1)]
        return self.write("t.json", trace(events))

    def doubts(self, path, *options):
        device, = self.run_json("where", path, *options)["devices"]
        text = " ".join(self.run_ok("where", path, "--steps", *options).text.split())
        doubts = self.run_json("brief", path, *options)["doubts"]
        for each in doubts:
            self.assertIn(each, text)
        return device, doubts

    def test_marks_of_several_names_that_overlap(self):
        path = self.loop([("execute_", 0, 900), ("forward_", 10, 500)])
        device, doubts = self.doubts(path, "--step-re", "execute_|forward_")
        self.assertEqual(device["mixed_marks"], "execute_# (10), forward_# (10)")
        self.assertIn("execute_# (10), forward_# (10)", doubts[0])
        # The advice works.
        device, doubts = self.doubts(path, "--step-re", "execute_")
        self.assertEqual((device["mixed_marks"], doubts), (None, []))

    def test_work_that_was_launched_before_the_trace(self):
        early = [event("kernel", 0, 7, 0, 300, "gemm", correlation=98),
                 event("kernel", 0, 7, 300, 250, "gemm", correlation=99)]
        device, doubts = self.doubts(self.loop([("ProfilerStep#", 0, 990)], early))
        self.assertEqual((device["early_executions"], device["early_ps"]), (2, 550_000_000))
        self.assertIn("the first step may contain 2 executions, 550 us, launched before the trace began", doubts)
        device, doubts = self.doubts(self.loop([("ProfilerStep#", 0, 990)]))
        self.assertEqual((device["early_executions"], doubts), (0, []))

    def test_executions_outside_of_all_marks(self):
        device, doubts = self.doubts(self.loop([("execute_", 60, 900)]), "--step-re", "execute_[0-4]")
        self.assertEqual(device["executions_outside_steps"], 10)
        self.assertIn("10 of 10 executions belong to no marked step", doubts)


class Period(EndToEndTest):
    """The kernels of a step run in the first 600 us of its mark. The marks are contiguous."""

    def marked(self, every, doing=None):
        events = []
        for i in range(10):
            at = 1000 + every * i
            events.append(event("user_annotation", 1, 1, at, every, f"ProfilerStep#{i}"))
            for k in range(5):
                number = 5 * i + k + 1
                events += [event("cuda_runtime", 1, 1, at + 10 + 10 * k, 5, "cudaLaunchKernel", correlation=number),
                           event("kernel", 0, 7, at + 100 + 100 * k, 100, f"k{k}", correlation=number)]
            if doing:
                events.append(event("cpu_op", 1, 1, at + 610, every - 620, doing))
        return self.write("t.json", trace(events))

    def steps(self, path):
        device, = self.run_json(path)["devices"]
        return device["steps"]

    def test_the_step_line_states_a_longer_period(self):
        path = self.marked(10_000)
        steps = self.steps(path)
        self.assertEqual((steps["step_median_ps"], steps["step_period_ps"]), (600_000_000, 10_000_000_000))
        for command in ("report", "brief"):
            text = " ".join(self.run_ok(command, path).text.split())
            self.assertIn("step time 600 us, one step every 10.0 ms (median of 10;", text)
            # The verdict states the base of its share.
            self.assertIn("of the steps' time and the waits between them", text)

    def test_no_period_if_steps_follow_each_other(self):
        path = self.marked(610)
        self.assertNotIn("one step every", self.run_ok(path).text)
        self.assertEqual(self.steps(path)["step_period_ps"], 610_000_000)

    def test_other_work_of_the_host_is_not_input(self):
        for every in (1000, 10_000):
            path = self.marked(every, "save_metrics")
            self.assertIn(self.steps(path)["verdict"], ("host-bound", "unclear"))
            document = self.run_json("brief", path)
            self.assertNotIn("input-bound", document["headline"])
            self.assertIn("host_bound", {row["code"] for row in document["findings"]})

    def test_input_after_the_kernels_is_input(self):
        path = self.marked(10_000, "DataLoader.__next__")
        self.assertEqual(self.steps(path)["verdict"], "input-bound")


class InputWait(EndToEndTest):
    """Ten steps, each with a gap of 600 us during which the host is in one event."""

    def waits_ps(self, name, kernel="gemm", category="kernel"):
        events = []
        for i in range(10):
            events += [event("user_annotation", 1, 1, 1000 * i, 990, f"ProfilerStep#{i}"),
                       event("cpu_op", 1, 1, 1000 * i, 600, name),
                       event("cuda_runtime", 1, 1, 1000 * i + 600, 2, "cudaLaunchKernel", correlation=i + 1),
                       event(category, 0, 7, 1000 * i + 605, 395, kernel, correlation=i + 1)]
        path = self.write("t.json", trace(events))
        device, = self.run_json("where", path)["devices"]
        codes = [each["code"] for each in self.run_json("brief", path)["findings"]]
        self.assertEqual("input_bound" in codes, device["waits_for_input_ps"] > 0)
        return device["waits_for_input_ps"]

    def test_what_is_input(self):
        for name in ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "next_batch", "my python code"):
            self.assertEqual(self.waits_ps(name), 9 * 600_000_000, name)

    def test_what_is_not(self):
        for name in ("aten::item", "cudaStreamSynchronize", "aten::linear", "compile_inner (dynamo_timed)"):
            self.assertEqual(self.waits_ps(name), 0, name)
        self.assertEqual(self.waits_ps("my python code", "Memcpy DtoH (Device -> Pageable)", "gpu_memcpy"), 0)


if __name__ == "__main__":
    unittest.main()
