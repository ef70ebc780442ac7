"""Tests whether reports state before all numbers that a trace is complete or incomplete."""
import json
import random
import unittest

from harness import TESTDATA, EndToEndTest, csv_rows, run
from test_kineto import event, trace
from xspace import Plane, space

LOST, AT_END, NO_LAUNCH = "launch_without_execution", "launch_at_end", "without_launch"
EARLY, IMPOSSIBLE, COUNTERS = "starts_before_launch", "impossible_duration", "counters_not_read"
HOST = 1000  # pid of the host process


def launch(at, number, name="cudaLaunchKernel", tid=HOST):
    return event("cuda_runtime", HOST, tid, at, 5, name, correlation=number)


def kernel(at, number, dur=100, name="gemm", stream=7, device=0):
    return event("kernel", device, stream, at, dur, name, correlation=number, stream=stream)


def calls(count, lost=(), every=200):
    """Launches, each with a kernel unless it is in `lost`."""
    events = []
    for i in range(count):
        at = 1000 + i * every
        events.append(event("user_annotation", HOST, HOST, at, 150, "call"))
        events.append(launch(at + 10, i + 1))
        if i not in lost:
            events.append(kernel(at + 30, i + 1))
    return events


def rocm(durations, streams=("Stream #1(Kernel)",), with_host=True, kernels=4, every_us=110):
    """An XPlane of ROCm: kernels `k0` to `k3` in turn, `durations` in microseconds by stream."""
    device, host = Plane("/device:GPU:0"), Plane("/host:CPU", id=2)
    thread = host.line("Host Threads/1")
    number = 0
    for name, of_stream in zip(streams, durations):
        stream = device.line(name)
        for i, duration in enumerate(of_stream):
            number += 1
            start_ps = (1000 + i * every_us) * 10**6
            stats = {"correlation_id": number, "hlo_module": "jit_step", "program_id": 5}
            stream.event(f"k{i % kernels}.kd", start_ps, round(duration * 10**6), hlo_op=f"op.{i % kernels}", **stats)
            if with_host:
                thread.event("hipLaunchKernel", start_ps - 50 * 10**6, 5 * 10**6, **stats)
    return space(*([device, host] if with_host else [device]))


def kineto(durations, every_us=110, once=()):
    """The same as a trace of PyTorch. `once`: kernels with unique names."""
    events = []
    for i, duration in enumerate(durations):
        at = 1000 + i * every_us
        events += [launch(at - 50, i + 1), kernel(at, i + 1, duration, f"once{i}" if i in once else f"k{i % 4}")]
    return trace(events)


class Completeness(EndToEndTest):
    def findings(self, *arguments):
        """The diagnostics as {code: [row ...]}."""
        found = {}
        for row in self.run_json(*arguments)["diagnostics"]:
            found.setdefault(row["code"], []).append(row)
        return found

    def of(self, content, *arguments, name="a.json"):
        return self.findings(self.write(name, content), *arguments)

    def table(self, content, *arguments, name="a.json"):
        return run(self.write(name, content), *arguments, cwd=self.at).text

    # ---- launches ----

    def test_all_is_well(self):
        self.assertEqual(self.of(trace(calls(50))), {})
        head = self.table(trace(calls(50))).split("\n\n")[0]
        self.assertIn("complete: 50 launches of kernels or graphs, each with an execution; the profiler reported no loss",
                      " ".join(head.split()))

    def test_without_launches_nothing_is_claimed(self):
        head = self.table(trace([kernel(10, 0)])).split("\n\n")[0]
        self.assertIn("no sign of loss; no launches were counted, so lost executions cannot be detected", head)
        self.assertNotIn("complete", head)

    def test_the_first_runs_are_lost(self):
        content = trace(calls(50, lost=range(3)))
        [row] = self.of(content)[LOST]
        self.assertEqual((row["count"], row["severity"], row["plane"]), (3, "warning", "/device:GPU:0"))
        self.assertIn("kernels launched from 1.010 ms to 1.410 ms", row["message"])
        text = self.table(content)
        self.assertNotIn("none was launched", text)
        head = text.split("\n\n")[0].replace("\n  ", " ")
        self.assertIn("warning: 3x launches have no execution in the trace", head)

    def test_launches_without_any_kernel_are_refused_with_their_number(self):
        self.write("a.json", trace(calls(30, lost=range(30))))
        done = run("a.json", cwd=self.at)
        self.assertNotEqual(done.code, 0)
        self.assertIn("30 launches of kernels (from 1.010 ms to 6.810 ms) have no execution: the profiler lost", done.message)
        self.assertNotIn("was the device profiled", done.message)
        # The advice works.
        self.assertIn("events lists the launches with --device cpu", done.message)
        self.assertIn("cudaLaunchKernel", run("events", "a.json", "--device", "cpu", cwd=self.at).text)

    def test_a_rank_without_kernels_is_named(self):
        self.write("run/rank0.json", trace(calls(15)))
        self.write("run/rank1.json", trace(calls(15, lost=range(15))))
        [row] = self.findings(self.at / "run")[LOST]
        self.assertEqual(row["count"], 15)
        self.assertIn("in rank1.json", row["message"])
        head = run("report", "run", cwd=self.at).text.split("\n\n")[0].replace("\n  ", " ")
        self.assertIn("rank1.json", head)
        self.assertEqual(self.findings(self.at / "run", "--device", "gpu:0").get(LOST), None, "one device was asked for")

    def test_a_rank_that_only_prepares_data_is_fine(self):
        self.write("run/rank0.json", trace(calls(15)))
        self.write("run/loader.json", trace([event("cpu_op", HOST, HOST, 10, 5, "load")]))
        self.assertEqual(self.findings(self.at / "run"), {})

    def test_most_steps_are_lost(self):
        for there in ((0, 1), (15, 16), (30, 31)):
            events = []
            for i in range(32):
                at = 1000 + i * 1000
                events += [event("user_annotation", HOST, HOST, at, 900, f"ProfilerStep#{i}"), launch(at + 10, i + 1)]
                events += [kernel(at + 30, i + 1)] if i in there else []
            with self.subTest(there=there):
                found = self.of(trace(events))
                self.assertEqual([row["count"] for row in found.get(LOST, [])], [30])
                self.assertEqual(found.get(AT_END), None)

    def test_calls_that_launch_no_kernel_lose_none(self):
        others = ("cudaMalloc", "cudaEventRecord", "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaMemsetAsync",
                  "cudaEventQuery", "cudaLaunchHostFunc", "cudaGraphInstantiate", "cudaGraphAddKernelNode", "hipEventDestroy", "INVALID",
                  "cudaFuncSetAttribute", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "cudaPeekAtLastError", "runFunction")
        events = calls(20) + [launch(1050 + 200 * i, 1000 + i, name) for i, name in enumerate(others)]
        self.assertEqual(self.of(trace(events)), {})

    def test_every_call_that_launches_kernels_counts(self):
        names = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel",
                 "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "hipExtLaunchKernel", "urEnqueueKernelLaunch")
        events = calls(20) + [launch(1050 + 100 * i, 1000 + i, name) for i, name in enumerate(names)]
        self.assertEqual([row["count"] for row in self.of(trace(events))[LOST]], [len(names)])

    def test_calls_inside_of_each_other_are_one_launch(self):
        inner = [event("cuda_driver", HOST, HOST, 1011 + 200 * i, 2, "cuLaunchKernel", correlation=i + 1) for i in range(20)]
        self.assertEqual([row["count"] for row in self.of(trace(calls(20, lost=(1, 4)) + inner))[LOST]], [2])
        self.assertIn("complete: 20 launches", self.table(trace(calls(20) + inner)))

    def test_graphs_are_counted_apart(self):
        events = calls(20, lost=(2,)) + [launch(1060, 90, "cudaGraphLaunch"), launch(1260, 91, "cudaGraphLaunch"), kernel(1290, 91, 20)]
        found = {row["message"].split(": ")[-1].split()[0]: row["count"] for row in self.of(trace(events))[LOST]}
        self.assertEqual(found, {"kernels": 1, "graphs": 1})

    def test_what_is_captured_does_not_run(self):
        capture = [launch(1001, 500, "cudaStreamBeginCapture"), *[launch(1010 + i, 600 + i) for i in range(9)],
                   launch(1040, 501, "cudaStreamEndCapture_v2")]
        self.assertNotIn(LOST, self.of(trace(capture + calls(20))))
        # Launches outside of a capture are lost, also those after it.
        self.assertEqual(self.of(trace(capture[1:-1] + calls(20)))[LOST][0]["count"], 9)
        self.assertEqual(self.of(trace(capture + [launch(1045, 700)] + calls(20)))[LOST][0]["count"], 1)
        # The capture may have begun before the trace.
        self.assertNotIn(LOST, self.of(trace(capture[1:] + calls(20))))

    def test_runs_that_lost_a_kernel_are_suspect(self):
        """Uses annotations with two kernels each."""
        def functions(lost):
            events = []
            for i in range(12):
                at = 1000 + i * 400
                events.append(event("user_annotation", HOST, HOST, at, 350, "call"))
                for k in range(2):
                    events.append(launch(at + 10 + 20 * k, 2 * i + k + 1))
                    if (i, k) not in lost:
                        events.append(kernel(at + 30 + 110 * k, 2 * i + k + 1, name=f"k{k}"))
            self.write("a.json", trace(events))
            [row] = run("functions", "a.json", "--format", "json", cwd=self.at).json["functions"]
            return row["status"], row["runs"], row["suspect_runs"], (row["active_ps"] or {}).get("median")

        self.assertEqual(functions(()), ("ok", 12, 0, 200_000_000))
        self.assertEqual(functions({(2, 0), (5, 1)}), ("ok", 12, 2, 200_000_000))
        self.assertEqual(functions({(i, 1) for i in range(8)}), ("ok", 12, 8, 200_000_000))
        self.assertEqual(functions({(i, 1) for i in range(12)}), ("lost_executions", 12, 12, None))

    def test_what_runs_after_the_window_is_not_lost(self):
        found = self.of(trace(calls(50, lost=range(47, 50))))
        self.assertNotIn(LOST, found)
        self.assertEqual([(row["count"], row["severity"]) for row in found[AT_END]], [(3, "info")])
        # The host is far ahead of the device.
        ahead = [launch(1000 + 10 * i, i + 1) for i in range(400)] + [kernel(1050 + 100 * i, i + 1) for i in range(40)]
        found = self.of(trace(ahead))
        self.assertEqual((found.get(LOST), found[AT_END][0]["count"]), (None, 360))
        # A collective waits on its stream while other streams continue.
        comm = [launch(1005 + 1000 * i, 900 + i) for i in range(9)] + [kernel(1015 + 1000 * i, 900 + i, 700, "nccl", 20) for i in range(8)]
        self.assertNotIn(LOST, self.of(trace(comm + calls(45))))

    def test_a_synchronized_device_has_nothing_left_to_run(self):
        events = calls(50, lost=range(47, 50)) + [launch(11200, 99, "cudaDeviceSynchronize")]
        self.assertEqual([row["count"] for row in self.of(trace(events))[LOST]], [3])

    def test_devices_by_the_threads_that_drive_them(self):
        events = []
        for device in (0, 1):
            for i in range(20):
                number = 100 * device + i + 1
                events.append(launch(1000 + 200 * i + device, number, tid=50 + device))
                if device == 0 or i > 4:
                    events.append(kernel(1020 + 200 * i, number, device=device))
        [row] = self.of(trace(events))[LOST]
        self.assertEqual((row["count"], row["plane"]), (5, "/device:GPU:1"))
        self.assertNotIn(LOST, self.findings("a.json", "--device", "gpu:0"), "the other device may have executed them")

    def test_options_that_leave_executions_out(self):
        content = trace(calls(20))
        self.assertNotIn(LOST, self.of(content, "--min-duration", "100000"))
        self.assertNotIn(LOST, self.of(content, "--max-events", "3"))
        lost = trace(calls(20, lost=(1, 2)))
        for options in (("--kernel", "gemm"), ("--function", "call"), ("--threads", "2")):
            self.assertEqual([row["count"] for row in self.of(lost, *options)[LOST]], [2])

    def test_random_losses(self):
        """Compares with a known number: missing kernels long before the last execution are lost."""
        seeded = random.Random(3)
        for _ in range(30):
            count = seeded.randint(30, 80)
            lost = {i for i in range(count - 20) if seeded.random() < 0.2}
            found = self.of(trace(calls(count, lost)))
            self.assertEqual(sum(row["count"] for row in found.get(LOST, [])), len(lost))

    def test_launches_of_xplane(self):
        """Launch events have the name of the call (ROCm), or that of the kernel (CUDA)."""
        for naming in ("hipModuleLaunchKernel", "mul.kd", "cuGraphLaunch (CudaGraph:6)"):
            device, host = Plane("/device:GPU:0"), Plane("/host:CPU", id=2)
            stream, thread = device.line("Stream #1(Compute)"), host.line("main/1")
            for i in range(40):
                stats = {"correlation_id": i + 1, "hlo_module": "jit_f", "program_id": 5}
                thread.event(naming, i * 10**8, 10**6, **stats)
                thread.event("MemcpyH2D", i * 10**8, 10**6, correlation_id=1000 + i)
                thread.event("cuStreamSynchronize", i * 10**8, 10**6, correlation_id=2000 + i)
                thread.event("PjitFunction(f)", i * 10**8, 10**6)
                if i not in (3, 4):
                    stream.event("mul.kd", i * 10**8 + 2 * 10**6, 10**7, hlo_op="mul.1", **stats)
            with self.subTest(naming=naming):
                found = self.of(space(device, host), name="a.xplane.pb")
                self.assertEqual([row["count"] for row in found[LOST]], [2])

    def test_xplane_does_not_tell_captures(self):
        """If a trace has graphs, launches of kernels may be captures."""
        device, host = Plane("/device:GPU:0"), Plane("/host:CPU", id=2)
        stream, thread = device.line("Stream #1(Compute)"), host.line("main/1")
        for i in range(20):
            stats = {"correlation_id": i + 1, "hlo_module": "jit_f", "program_id": 5}
            thread.event("mul.kd", i * 10**8, 10**6, correlation_id=500 + i)
            thread.event("cuGraphLaunch (CudaGraph:6)", i * 10**8 + 10**6, 10**6, **stats)
            stream.event("mul.kd", i * 10**8 + 4 * 10**6, 10**7, hlo_op="mul.1", **stats)
        self.assertEqual(self.of(space(device, host), name="a.xplane.pb"), {})

    def test_recorded_traces_are_complete(self):
        for path in sorted((TESTDATA / "gpu").glob("*.xplane.pb.gz")):
            with self.subTest(path.name):
                found = self.findings(path)
                for code in (LOST, AT_END, EARLY, IMPOSSIBLE, COUNTERS):
                    self.assertNotIn(code, found)

    # ---- clocks ----

    def test_executions_before_their_launch(self):
        events = []
        for i in range(50):
            at = 1000 + 200 * i
            events += [launch(at + 20, i + 1), kernel(at + (18.5 if i % 2 else 30), i + 1)]
        [row] = self.of(trace(events))[EARLY]
        self.assertEqual(row["count"], 25)
        self.assertIn("by up to 1.500 us", row["message"])
        self.assertIn("25x executions start before their own launch", self.table(trace(events)).replace("\n  ", " "))
        together = [launch(10, 1), kernel(10, 1)]
        self.assertNotIn(EARLY, self.of(trace(together)))

    # ---- durations ----

    def test_an_impossible_duration(self):
        durations = [100] * 400
        durations[200] = 3_400_000
        for name, content in (("a.json", kineto(durations)), ("a.xplane.pb", rocm([durations]))):
            with self.subTest(name):
                found = self.of(content, name=name)
                [row] = found[IMPOSSIBLE]
                self.assertEqual((row["severity"], row["count"], row["plane"]), ("warning", 1, "/device:GPU:0"))
                self.assertRegex(row["message"], r"3\.400 s on Stream #\d.*199 later executions .* overlap .* k0")
                self.assertNotIn("overlap_in_stream", found)
                marked = {row["kernel"]: row["impossible_count"] for row in self.run_json("kernels", name)["kernels"]}
                self.assertEqual({key: value for key, value in marked.items() if value}, {min(marked): 1})
                for command in ("report", "kernels"):
                    text = run(command, name, cwd=self.at).text
                    self.assertRegex(text, r"k0.* 1!")
                    self.assertIn("note: ! executions with an impossible duration", text)
                    self.assertIn("impossible", run(command, name, "--format", "markdown", cwd=self.at).text)
                rows = csv_rows(run("kernels", name, "--format", "csv", cwd=self.at).text)
                self.assertEqual(sum(int(row["impossible_count"]) for row in rows), 1)

    def test_impossible_durations_of_other_shapes(self):
        usual = [100] * 200
        shapes = {"the first": {0: 2e6}, "several": {20: 3.4e6, 21: 3.4e6, 90: 1e6}, "the last": {199: 3.4e6},
                  "one before the last": {198: 3.4e6}, "both last": {198: 3.4e6, 199: 3.4e6}, "within the trace": {50: 8000}}
        for shape, changes in shapes.items():
            durations = [changes.get(i, usual[i]) for i in range(len(usual))]
            for name, content in (("a.json", kineto(durations)), ("a.xplane.pb", rocm([durations, usual], ("Stream #1", "Stream #2")))):
                with self.subTest(shape, name=name):
                    found = self.of(content, name=name)
                    self.assertEqual(sum(row["count"] for row in found.get(IMPOSSIBLE, [])), len(changes))

    def test_impossible_durations_of_kernels_that_ran_once(self):
        for at in (0, 100, 198, 199):
            durations = [100] * 200
            durations[at] = 3.4e6
            with self.subTest(at=at):
                [row] = self.of(kineto(durations, once=(at,)))[IMPOSSIBLE]
                self.assertIn(f"once{at}", row["message"])

    def test_durations_that_can_be(self):
        usual = [100] * 200
        long_in_order = [100] * 150 + [20_000]
        some_overlap = [114 if i % 2 else 100 for i in range(200)]  # 4 us
        side_by_side = [400 if i % 9 == 0 else 100 for i in range(200)]
        side_by_side[90] = 9000  # an all-reduce that waits
        for durations in (usual, long_in_order, some_overlap, side_by_side):
            for name, content in (("a.json", kineto(durations)), ("a.xplane.pb", rocm([durations]))):
                self.assertNotIn(IMPOSSIBLE, self.of(content, name=name))
        # The last execution may be much longer than the others, as in a series of sizes.
        series = trace([each for i in range(8) for each in (launch(1000 + i, i + 1), kernel(1020 + 8**i, i + 1, 7 * 8**i - 6))])
        self.assertNotIn(IMPOSSIBLE, self.of(series))
        # Without host events, the length of the recording is unknown.
        self.assertNotIn(IMPOSSIBLE, self.of(rocm([[100] * 200 + [3.4e6]], with_host=False), name="a.xplane.pb"))
        # The host waited for the last execution.
        waits = [each for i in range(200) for each in (launch(1000 + 110 * i, i + 1), kernel(1050 + 110 * i, i + 1))]
        waits[-1] = kernel(1050 + 110 * 199, 200, 3e6)
        self.assertIn(IMPOSSIBLE, self.of(trace(waits)))
        waits.append(event("cpu_op", HOST, HOST, 1000, 3e6 + 30000, "wait"))
        self.assertNotIn(IMPOSSIBLE, self.of(trace(waits)))

    # ---- counters ----

    def test_counters_of_xplane_are_not_read(self):
        device = Plane("/device:GPU:0")
        device.line("Stream #1(Kernel)").event("add.kd", 1000, 500, hlo_module="jit_f", program_id=7)
        counters = device.line("_counters_")
        for i in range(12):
            counters.event("sm__cycles_active.avg", 1000 + i, 0, **{"sm__cycles_active.avg": 0.5 * i})
            counters.event("power_mw", 1000 + i, 0, power_mw=250_000)  # energy reads these
        [row] = self.of(space(device), name="a.xplane.pb")[COUNTERS]
        self.assertEqual((row["count"], row["severity"], row["plane"], row["line"]), (12, "info", "/device:GPU:0", "_counters_"))
        self.assertIn("12x counter samples in the trace are not read", self.table(space(device), name="a.xplane.pb"))
        power = Plane("/device:GPU:0")
        power.line("Stream #1(Kernel)").event("add.kd", 1000, 500)
        power.line("_counters_").event("power_mw", 1000, 0, power_mw=250_000)
        self.assertEqual(self.of(space(power), name="a.xplane.pb"), {})

    # ---- the block ----

    def test_no_finding_hides_another(self):
        durations = [100] * 60
        durations[30] = 3_400_000
        content = rocm([durations])
        device = Plane("/device:GPU:1", id=9)
        device.line("_counters_").event("dram__bytes.sum", 5, 0, **{"dram__bytes.sum": 1.0})
        content += space(device, warnings=[f"dropped {i} events" for i in range(40)], errors=["no memory"])
        text = run(self.write("a.xplane.pb", content), cwd=self.at).text
        head = text.split("\n\n")[0].replace("\n  ", " ")
        for part in ("error: 1x the profiler reported an error: no memory", "dropped 0 events", "... 37 more findings: --format json",
                     "durations are impossible", "counter samples in the trace"):
            self.assertIn(part, head)
        self.assertLess(text.index("the profiler reported"), text.index("devices"))
        for format in ("markdown", "html"):
            self.assertIn("durations are impossible", run("a.xplane.pb", "--format", format, cwd=self.at).text)

    def test_infos_are_shown_beside_warnings(self):
        """Concerns infos that are not about completeness."""
        device = Plane("/device:GPU:0")
        stream = device.line("Stream #1(Kernel)")
        for i in range(8):
            stream.event("add.kd", i * 1000, 1200, hlo_module="jit_f", hlo_op="add.1", program_id=7)
        idle = Plane("/device:GPU:1", id=2)
        text = run(self.write("a.xplane.pb", space(device, idle, idle)), cwd=self.at).text
        self.assertIn("warning: ", text)
        self.assertIn("info: 7x executions start before the previous one", text)

    def test_json_has_them_in_diagnostics(self):
        self.write("a.json", trace(calls(20, lost=(1,))))
        for command in ("report", "functions", "kernels", "where"):
            done = run(command, "a.json", "--format", "json", cwd=self.at)
            self.assertIn(LOST, [row["code"] for row in json.loads(done.text)["diagnostics"]], command)


class Copies(EndToEndTest):
    """Duplicate executions count twice, and the report states their number."""

    def copies(self, events):
        document = self.run_json("report", self.write("t.json", trace(events)))
        count = sum(row["count"] for row in document["diagnostics"] if row["code"] == "copied_execution")
        return count, sum(row["count"] for row in document["kernels"])

    def test_events_that_are_there_twice(self):
        events = calls(20)
        self.assertEqual(self.copies(events), (0, 20))
        self.assertEqual(self.copies(events + events), (20, 40))
        self.assertEqual(self.copies(events + calls(7)), (7, 27))
        path = self.write("t.json", trace(events + events))
        self.assertIn("warning: 20x executions are copies of another one", self.run_ok(path).text)

    def test_executions_that_differ_in_one_field(self):
        first = [launch(1000, 1), kernel(1030, 1)]
        for other in (kernel(1030, 2), kernel(1030, 1, dur=90), kernel(1031, 1), kernel(1030, 1, name="conv"),
                      kernel(1030, 1, stream=8), kernel(1030, 1, device=1)):
            self.assertEqual(self.copies([*first, other]), (0, 2), other)


class BriefWarns(EndToEndTest):
    """A brief states missing and wrong data before the findings. Then all findings are uncertain."""

    def check(self, path, code, text):
        document = self.run_json("brief", path)
        self.assertIn(code, {row["code"] for row in document["diagnostics"]})
        self.assertEqual(len(document["warnings"]), 1)
        self.assertIn(text, document["warnings"][0])
        self.assertTrue(document["headline"].endswith("; doubtful, see warnings"), document["headline"])
        self.assertNotIn("sure", {row["certainty"] for row in document["findings"]})
        for extra in ((), ("--format", "markdown"), ("--limit", "0")):
            lines = self.run_ok("brief", path, *extra).text.split("\n")
            self.assertEqual(lines[0].replace("`", ""), document["headline"])
            self.assertIn("warning: ", "".join(lines[1:3]))

    def test_lost_executions(self):
        path = self.write("lost.json", trace(calls(40, lost=range(0, 40, 2))))
        self.check(path, LOST, "20x launches have no execution in the trace")

    def test_impossible_durations(self):
        durations = [100.0] * 300
        durations[51] = 10_000.0
        self.check(self.write("impossible.xplane.pb", rocm([durations])), IMPOSSIBLE,
                   "1x durations are impossible")

    def test_a_complete_trace_is_sure(self):
        document = self.run_json("brief", self.write("all.json", trace(calls(40))))
        self.assertEqual(document["warnings"], [])
        self.assertNotIn("doubtful", document["headline"])
        self.assertIn("sure", {row["certainty"] for row in document["findings"]})


if __name__ == "__main__":
    unittest.main()
