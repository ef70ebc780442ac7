"""Tests of the step time and the verdict at the top of a report, through the program."""
import unittest
from random import Random

from harness import TESTDATA, EndToEndTest, run
from test_kineto import event, trace
from xspace import Plane, Ref, space


def tpu_runs(*runs):
    """Runs of functions with one op each: (function, program, start in us, duration in us)."""
    device = Plane("/device:TPU:0")
    modules, ops = device.line("XLA Modules"), device.line("XLA Ops")
    for function, program, start, duration in runs:
        modules.event(f"{function}({program})", start * 1_000_000, duration * 1_000_000)
        ops.event("fusion.1", start * 1_000_000, duration * 1_000_000)
    return space(device)


def marked_gpu(durations, gap=0, host=None):
    """Steps of so many us, marked by the line Steps, with `gap` us between them, and a host with an event of this name."""
    device, us = Plane("/device:GPU:0"), 1_000_000
    stream, marks = device.line("Stream #1(Kernel)"), device.line("Steps")
    other = Plane("/host:CPU", id=2)
    thread = other.line("python")
    at = 0
    for i, duration in enumerate(durations):
        marks.event(str(i), at * us, (duration + 1) * us)
        stream.event("k", at * us, duration * us, hlo_module=Ref("jit_f"), hlo_op=Ref("op"), program_id=1)
        if host:
            thread.event(host, at * us, duration * us)
        at += duration + 1 + gap
    return space(device, *([other] if host else []))


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


class NoSteps(EndToEndTest):
    """The runs of a function are steps only if it takes half of the time in which the device is busy."""
    VARIANTS = TESTDATA / "jax_cpu_variants.xplane.pb"  # eight functions in turn

    def round(self, *durations):
        """Functions in turn, ten times, each for so many us."""
        runs, at = [], 0
        for _ in range(10):
            for i, duration in enumerate(durations):
                runs.append((f"jit_{'abc'[i]}", i + 1, at, duration))
                at += duration
        return self.write("t.trace", tpu_runs(*runs))

    def steps(self, *words):
        device, = self.run_json(*words)["devices"]
        return device["steps"]

    def test_functions_of_which_none_takes_half(self):
        path = self.round(40, 35, 25)
        for command in ("report", "brief"):
            steps = self.steps(command, path)
            self.assertEqual((steps["steps"], steps["step_function"], steps["verdict"]), (0, None, "unclear"))
            for name in ("step_median_ps", "step_period_ps", "compute_share", "waits_for_input_ps"):
                self.assertIsNone(steps[name], name)
            self.assertIn("no compiled program takes half", steps["reason"])
            self.assertIn("the longest, jit_a, takes 40 %", steps["reason"])
            text = " ".join(self.run_ok(command, path).text.split())
            self.assertIn("no step time: " + steps["reason"], text)
            self.assertNotIn(": step time", text)
            self.assertFalse(text.startswith("step time"))
        self.assertNotIn("step time", self.run_json("brief", path)["headline"])
        page = self.run_ok(path, "--format", "html").text
        self.assertIn("no step time: no compiled program takes half", page)
        where = " ".join(self.run_ok("where", path, "--steps").text.split())
        self.assertIn("jit_a takes less than half of the time in which the device is busy", where)

    def test_a_function_that_takes_half(self):
        path = self.round(50, 30, 20)
        for command in ("report", "brief"):
            steps = self.steps(command, path)
            self.assertEqual((steps["step_function"], steps["step_median_ps"]), ("jit_a", 100_000_000))
            self.assertIn("step time 100 us (median of 9 of 10 runs of jit_a; the start of the first is unknown)",
                          " ".join(self.run_ok(command, path).text.split()))
        self.assertNotIn("takes less than half", self.run_ok("where", path, "--steps").text)

    def test_active_and_step_time_are_distinguished(self):
        note = "active time excludes the waits of the device; the step time includes them"
        with_steps = self.round(50, 30, 20)
        self.assertEqual(self.run_ok(with_steps).text.count(note), 1)
        self.assertNotIn(note, self.run_ok(with_steps, "--metric", "span").text)
        self.assertNotIn(note, self.run_ok(self.round(40, 35, 25)).text)  # no step time

    def test_the_options_that_the_line_names(self):
        path = self.round(40, 35, 25)
        steps = self.steps("report", path, "--function", "^jit_b$")
        self.assertEqual((steps["step_function"], steps["step_median_ps"]), ("jit_b", 100_000_000))
        # Several functions are not the name of one.
        self.assertIsNone(self.steps("report", path, "--function", "jit_")["step_function"])
        self.assertIsNone(self.steps("report", self.VARIANTS)["step_median_ps"])
        for command in ("report", "brief"):
            steps = self.steps(command, TESTDATA / "gpu" / "h200_kernels.xplane.pb.gz", "--step-re", "PjitFunction.mixed")
            self.assertEqual((steps["step_source"], steps["steps"]), ("host_launch", 6))
            self.assertIsNotNone(steps["step_median_ps"])

    def test_filters_on_kernels_change_no_steps(self):
        path = self.round(50, 30, 20)
        plain = self.steps("report", path)
        self.assertEqual(self.steps("report", path, "--min-duration", "0"), plain)
        variants = self.steps("report", self.VARIANTS)
        self.assertEqual(self.steps("report", self.VARIANTS, "--exclude-kernel", "fusion"), variants)

    def test_no_period_of_runs_that_follow_each_other(self):
        runs, at = [], 0
        for i, wait in enumerate((0, 10, 90, 80, 70, 100, 20)):
            at += 10 + wait
            runs.append(("jit_a", 1, at, 10))
        text = self.run_ok(self.write("t.trace", tpu_runs(*runs))).text
        self.assertIn("step time", text)
        self.assertNotIn("one step every", text)


class FirstRun(EndToEndTest):
    """A loop without a warm-up: the first run takes most of the time."""

    def test_report_and_brief_agree(self):
        runs = [("jit_a", 1, 0, 800)] + [("jit_a", 1, 800 + 50 * i, 50) for i in range(4)]
        path = self.write("t.trace", tpu_runs(*runs))
        report, = self.run_json(path)["devices"]
        brief = self.run_json("brief", path)
        self.assertEqual(brief["devices"][0]["steps"], report["steps"])
        self.assertEqual(report["steps"]["reason"], "the first run of jit_a takes 80 % of the device's time "
                                                    "(a warm-up?), and all later runs 20 %")
        self.assertIn("step time 50.0 us, unclear: the first run of jit_a takes 80 %", brief["headline"])
        self.assertNotIn("device-bound", brief["headline"])
        for command in ("report", "brief"):
            text = " ".join(self.run_ok(command, path).text.split())
            self.assertNotIn("device-bound", text)
            self.assertIn("median of 4 of 5 runs of jit_a; the start of the first is unknown", text)

    def test_time_before_the_first_execution(self):
        def loop(first):
            events = [event("cpu_op", 1, 1, 0, 5, "aten::empty"),
                      event("python_function", 1, 1, 10, max(first - 50, 1), "torch/_inductor/compile_fx.py(1): compile_fx")]
            for i in range(10):
                events += [event("cuda_runtime", 1, 1, first + 100 * i, 2, "cudaLaunchKernel", correlation=i + 1),
                           event("kernel", 0, 7, first + 100 * i + 5, 90, "gemm", correlation=i + 1)]
            return self.write("t.json", trace(events))
        late = [text for text in self.run_json("brief", loop(2000))["doubts"] if "first execution" in text]
        self.assertEqual(len(late), 1)
        self.assertIn("the first execution starts 2.00 ms after the first host event, 67 % of the time", late[0])
        self.assertIn("note: the first execution starts", " ".join(self.run_ok("brief", loop(2000)).text.split()))
        self.assertEqual(self.run_json("brief", loop(100))["doubts"], [])


class MarkedFirstStep(EndToEndTest):
    """The line `Steps` marks all steps, so the first one has a known time."""

    def steps(self, *durations):
        device, = self.run_json(self.write("t.trace", marked_gpu(durations)))["devices"]
        brief, = self.run_json("brief", self.at / "t.trace")["devices"]
        self.assertEqual(brief["steps"], device["steps"])
        return device["steps"]

    def test_a_warm_up(self):
        steps = self.steps(100_000, *[100] * 5)
        self.assertEqual((steps["verdict"], steps["reason"]), (
            "unclear", "the first marked step takes 99.5 % of the time of all steps (a warm-up?), "
                       "and all later steps 0.5 %"))
        self.assertIn("takes 99.5 %", self.run_json("brief", self.at / "t.trace")["headline"])

    def test_no_warm_up(self):
        for durations in ([100] * 6, [300, *[100] * 5], [60, 40], [100]):
            self.assertEqual(self.steps(*durations)["verdict"], "device-bound", durations)


class Host(EndToEndTest):
    """Six steps of 100 us, with 1 ms between them. Only a host shows why the device waits."""

    def path(self, host):
        return self.write("t.trace", marked_gpu([100] * 6, gap=1000, host=host))

    def test_without_a_host_no_command_knows_why_the_device_waits(self):
        path = self.path(None)
        for command in ("report", "brief"):
            device, = self.run_json(command, path)["devices"]
            steps = device["steps"]
            self.assertEqual((steps["verdict"], steps["waits_for_input_ps"], steps["waits_for_input_share"]),
                             ("unclear", None, None), command)
            self.assertIn("the trace has no host events that show why", steps["reason"])
        document = self.run_json("brief", path)
        self.assertNotIn("input-bound", document["headline"])
        self.assertNotIn("input_bound", [each["code"] for each in document["findings"]])
        device, = self.run_json("where", path)["devices"]
        self.assertIsNone(device["waits_for_input_ps"])
        for words in (("report", path), ("brief", path), ("report", path, "--format", "html")):
            self.assertNotIn("input-bound", self.run_ok(*words).text)

    def test_a_host_plane_without_events_is_no_host(self):
        for name in ("/host:CPU", "/host:metadata"):
            empty = Plane(name, id=2)
            empty.line("python")
            path = self.write("t.trace", marked_gpu([100] * 6, gap=1000) + space(empty))
            device, = self.run_json("brief", path)["devices"]
            self.assertEqual((device["steps"]["verdict"], device["steps"]["waits_for_input_ps"]), ("unclear", None))

    def test_with_a_host(self):
        path = self.path("my python code")
        device, = self.run_json("brief", path)["devices"]
        steps = device["steps"]
        self.assertEqual(steps["verdict"], "input-bound")
        # The share has the base that the reason states.
        self.assertLessEqual(steps["waits_for_input_share"], 1)
        self.assertIn(f"the device waits {steps['waits_for_input_share']:.0%}".replace("%", " %"), steps["reason"])
        where, = self.run_json("where", path)["devices"]
        self.assertEqual(where["waits_for_input_ps"], steps["waits_for_input_ps"])
        report, = self.run_json(path)["devices"]
        self.assertEqual(report["steps"]["verdict"], "unclear")
        self.assertIn("the report does not read the host events that may show why; xplane-time brief does",
                      report["steps"]["reason"])


class Captures(EndToEndTest):
    """Several inputs are repeated captures of the same program."""

    def test_a_capture_without_a_step_time(self):
        known = self.write("known.trace", tpu_runs(*[("jit_a", 1, 20 * i, 20) for i in range(4)]))
        unknown = [self.write(f"unknown{n}.trace", tpu_runs(*[
            (name, at + 1, (300 + n) * i + 100 * at, 100) for i in range(4) for at, name in enumerate(("jit_a", "jit_b", "jit_c"))]))
            for n in range(2)]
        for command in ("report", "brief"):
            for order in ([known, unknown[0]], [unknown[0], known]):
                text = " ".join(self.run_ok(command, *order).text.split())
                self.assertIn("; partial: 1 of 2 captures has no step time", text)
                self.assertNotIn("the longest of", text)
            text = " ".join(self.run_ok(command, known, *unknown).text.split())
            self.assertIn("; partial: 2 of 3 captures have no step time", text)
        self.assertIn("step time 20.0 us in 1 of 3 captures, ", self.run_json("brief", known, *unknown)["headline"])

    def test_a_device_without_a_step_time(self):
        def device(ordinal, functions):
            plane = Plane(f"/device:GPU:{ordinal}", id=ordinal + 1)
            stream = plane.line("Stream #1(Kernel)")
            for i in range(12):
                name = functions[i % len(functions)]
                stream.event("k", i * 10_000_000, 9_000_000, hlo_module=Ref(name), hlo_op=Ref("op"), program_id=ord(name[-1]))
            return plane
        path = self.write("t.trace", space(device(0, ["jit_a"]), device(1, ["jit_a", "jit_b"])))
        for command in ("report", "brief"):
            self.assertIn("on GPU:0; partial: 1 of 2 devices has no step time",
                          " ".join(self.run_ok(command, path).text.split()))

    def test_the_step_time_of_each(self):
        slow, fast = (self.write(f"{name}.trace", tpu_runs(*[("jit_a", 1, us * i, us) for i in range(4)]))
                      for name, us in (("slow", 50), ("fast", 20)))
        for command in ("report", "brief"):
            text = " ".join(self.run_ok(command, slow, fast).text.split())
            self.assertIn("on TPU:0 #1, the longest of 2 captures", text)
            self.assertIn("step times by capture: #1 50.0 us, #2 20.0 us", text)
        self.assertIn("2 devices in 2 captures: together", text)
        self.assertNotIn("capture:", self.run_ok(slow).text)


class Filters(EndToEndTest):
    """Filters on functions change no steps. Only --function may name the function with the steps."""

    def loop(self, random):
        """A trace of a loop over up to four functions, of which some take equally long."""
        durations = [random.choice((10, 10, 20, 50, 120)) for _ in range(random.randint(1, 4))]
        runs, at = [], 0
        for _ in range(random.randint(1, 5)):
            for i, duration in enumerate(durations):
                if random.random() < 0.9:
                    runs.append((f"jit_{'abcd'[i]}", i + 1, at, duration))
                    at += duration + random.choice((0, 0, 5))
        return runs or [("jit_a", 1, 0, 10)]

    def test_steps_are_those_of_the_whole_trace(self):
        random = Random(7)
        for case in range(25):
            runs = self.loop(random)
            path = self.write("t.trace", tpu_runs(*runs))
            plain, = self.run_json(path)["devices"]
            busy = {}
            for function, _, _, duration in runs:
                busy[function] = busy.get(function, 0) + duration
            names = sorted(busy)
            options = [("--prefix", "jit_"), *(("--prefix", name) for name in names)]
            if len(names) > 1:
                options += [("--exclude", name) for name in names]
                options += [("--function", "|".join(names[:2]))] * (len(names) > 2)
            for given in options:
                if given[0] == "--function" and len(names) == 1:
                    continue
                device, = self.run_json(path, *given)["devices"]
                self.assertEqual(device["steps"], plain["steps"], (case, runs, given))
            # The definition.
            longest = [name for name in names if busy[name] == max(busy.values())]
            expected = longest[0] if len(longest) == 1 and 2 * busy[longest[0]] >= sum(busy.values()) and \
                sum(run[0] == longest[0] for run in runs) > 1 else None
            self.assertEqual(plain["steps"]["step_function"], expected, runs)
            if expected is None:
                self.check_reason(path, plain["steps"], busy, longest, runs)

    def check_reason(self, path, steps, busy, longest, runs):
        reason = steps["reason"]
        if len(longest) > 1:
            self.assertIn("take equally long", reason)
        elif 2 * busy[longest[0]] < sum(busy.values()):
            self.assertIn(f"the longest, {longest[0]}, takes ", reason)
        else:
            self.assertEqual(reason, f"the trace has only one run of {longest[0]}")
        line = " ".join(self.run_ok(path).text.split())
        self.assertIn("no step time: " + reason, line)
        # The advice works.
        named = [name for name in busy if sum(run[0] == name for run in runs) > 1]
        self.assertEqual("choose a function with --function" in line, bool(named), line)
        for name in named:
            device, = self.run_json(path, "--function", f"^{name}$")["devices"]
            self.assertEqual(device["steps"]["step_function"], name)

    def test_programs_of_one_function_that_tie(self):
        runs = [("jit_a", 1 + i % 2, 10 * i, 10) for i in range(8)]
        text = " ".join(self.run_ok(self.write("t.trace", tpu_runs(*runs))).text.split())
        self.assertIn("no step time: program 1 of jit_a and program 2 of jit_a take equally long, more than any "
                      "other program, so it is unknown whose runs are steps; use host events as steps with --step-re", text)

    def test_many_programs_that_tie(self):
        runs = [(f"jit_{'abcde'[i % 5]}", i % 5, 10 * i, 10) for i in range(10)]
        text = " ".join(self.run_ok(self.write("t.trace", tpu_runs(*runs))).text.split())
        self.assertIn("no step time: jit_a, jit_b and 3 more compiled programs take equally long", text)

    def test_the_filter_line_states_that_steps_include_all(self):
        path = self.write("t.trace", tpu_runs(*[("jit_a", 1, 10 * i, 10) for i in range(4)], ("jit_b", 2, 40, 1)))
        for option in ("--exclude", "--prefix"):
            self.assertIn("devices and steps include all executions",
                          " ".join(self.run_ok(path, option, "jit_b").text.split()))


class Headline(EndToEndTest):
    """The headline of a brief never names another limit than the verdict on the steps."""

    def test_a_long_gap_between_two_loops(self):
        for doing in ("aten::item", "DataLoader.__next__"):
            events, at = [], 0
            for i in range(40):
                at += 100 if i != 20 else 2500
                number = i + 1
                events += [event("user_annotation", 1, 1, at, 99, f"ProfilerStep#{i}"),
                           event("cuda_runtime", 1, 1, at + 1, 1, "cudaLaunchKernel", correlation=number),
                           event("kernel", 0, 7, at + 3, 96, "gemm", correlation=number)]
                if i == 19:
                    events.append(event("cpu_op", 1, 1, at + 100, 2390, doing))
            document = self.run_json("brief", self.write("t.json", trace(events)))
            verdict = document["devices"][0]["steps"]["verdict"]
            self.assertGreater(document["findings"][0]["share"], 0.3)
            names = {name for name in ("input-bound", "host-bound", "device-bound", "communication-bound")
                     if name in document["headline"]}
            self.assertEqual(names, {verdict}, document["headline"])
            if doing == "aten::item":
                self.assertEqual(verdict, "device-bound")
                self.assertIn("; largest finding: the device is idle and its host has launched no work: ",
                              document["headline"])


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
