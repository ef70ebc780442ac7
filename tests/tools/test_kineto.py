"""Traces of PyTorch's profiler (Kineto), through the program."""
import gzip
import json
import math
import random
import statistics
import subprocess
import sys
import unittest

from harness import SHARED_TRACES, TESTDATA, EndToEndTest, run

KINETO = SHARED_TRACES / "kineto"


def event(cat, pid, tid, ts, dur, name="k", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def counter(pid, ts, name, **args):
    return {"ph": "C", "name": name, "pid": pid, "ts": ts, "args": args}


LAUNCHES = ("cuda_runtime", "cuda_driver", "xpu_runtime")
EVENTS = [event("cuda_runtime", 42, 43, 1, 2, "cudaLaunchKernel", correlation=1),
          event("kernel", 0, 7, 10, 5, "gemm", correlation=1, grid=[2, 1, 1]),
          event("kernel", 0, 20, 12.5, 4.25, "gemm", correlation=1),
          event("gpu_memcpy", 1, 7, 30, 1, "Memcpy HtoD", correlation=0),
          event("gpu_user_annotation", 0, 7, 9, 9, "step")]


def trace(events=EVENTS, **more):
    return json.dumps({"schemaVersion": 1, "traceEvents": events, **more}).encode()


class Kineto(EndToEndTest):
    def test_devices_and_kernels(self):
        report = self.run_json(self.write("a.json", trace()))
        devices = {row["plane"]: (row["executions"], row["busy_ps"], row["sum_ps"]) for row in report["devices"]}
        self.assertEqual(devices, {"/device:GPU:0": (2, 6_750_000, 9_250_000), "/device:GPU:1": (1, 1_000_000, 1_000_000)})
        kernels = {row["kernel"]: (row["count"], row["total_ps"], row["category"]) for row in report["kernels"]}
        self.assertEqual(kernels, {"gemm": (2, 9_250_000, "compute"), "Memcpy HtoD": (1, 1_000_000, "copy")})
        self.assertEqual(report["capture"]["events"], len(EVENTS))
        self.assertEqual([row["bytes"] for row in report["inputs"]], [len(trace())])

    def test_every_way_of_giving_it(self):
        want = self.run_json(self.write("a.json", trace()))
        for name, content in {"a.json.gz": gzip.compress(trace()), "no_extension": trace(),
                              "array.json": json.dumps(EVENTS).encode()}.items():
            for command in ("report", "kernels", "planes", "events"):
                with self.subTest(f"{command} {name}"):
                    got = self.run_json(command, self.write(name, content))
                    plain = self.run_json(command, "a.json")
                    for rows in ("devices", "kernels", "planes", "events"):
                        self.assertEqual(got.get(rows), plain.get(rows))
        for content in (trace(), gzip.compress(trace())):
            self.assertEqual(self.run_json("-", stdin=content)["kernels"], want["kernels"])

    def test_a_directory_gives_its_ranks(self):
        self.write("run/rank0.pt.trace.json", trace())
        self.write("run/rank1.pt.trace.json.gz", gzip.compress(trace(baseTimeNanoseconds=5_000)))
        self.write("run/settings.json", b'{"learning_rate": 0.1}')
        report = self.run_json("run")
        self.assertEqual([row["path"] for row in report["inputs"]],
                         ["run/rank0.pt.trace.json", "run/rank1.pt.trace.json.gz"])
        self.assertEqual(sum(row["executions"] for row in report["devices"]), 6)

    def test_what_is_wrong_is_said(self):
        odd = [*EVENTS, event("kernel", 0, 7, 1, -1), event("kernel", 0, 7, 1, None)]
        report = self.run_json(self.write("a.json", trace(odd).replace(b"gemm", b"g\xff")))
        told = {row["code"]: row["count"] for row in report["diagnostics"]}
        for code, count in {"irregular_json": 2, "negative_duration": 1, "incomplete_event": 1}.items():
            self.assertEqual(told.get(code), count, code)
        self.assertEqual({row["kernel"] for row in report["kernels"]}, {"g\ufffd", "Memcpy HtoD"})

    def test_refused(self):
        host_only = trace(EVENTS[:1])
        for content, why in ((trace()[:-1], f"it ends in the middle (byte {len(trace()) - 1})"),
                             (trace() + b"x", f"more than one document (byte {len(trace())})"),
                             (b'{"events": []}', 'without "traceEvents"'),
                             (host_only, "executed nothing")):
            self.write("a.json", content)
            done = run("a.json", cwd=self.at)
            self.assertEqual(done.code, 65, done)
            self.assertIn(why, done.message)


def union_ps(executions):
    total = reached = 0
    for start, end in sorted(executions):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def launches_by_hand(events):
    """The first to begin of each correlation; 0 and none are none."""
    launches = {}
    for each in sorted((e for e in events if e["cat"] in LAUNCHES), key=lambda e: e["ts"]):
        launches.setdefault(each["args"].get("correlation"), each)
    return {correlation: each for correlation, each in launches.items() if correlation}


def runs_by_hand(events):
    """{function: [(device, executions of each run as (start, end))]}, as docs/kineto.md defines them; slow."""
    launches = launches_by_hand(events)
    runs = {}
    for each in events:
        is_step = each["name"].startswith("ProfilerStep#")
        is_module = each["cat"] == "python_function" and each["name"].startswith("nn.Module: ")
        if each["cat"] != "user_annotation" and not is_module:
            continue
        found = {}
        for kernel in (e for e in events if e["cat"] in ("kernel", "gpu_memcpy")):
            launch = launches.get(kernel["args"].get("correlation"))
            if launch and each["ts"] <= launch["ts"] < each["ts"] + each["dur"] and each["pid"] == launch["pid"] and (
                    is_step or each["tid"] == launch["tid"]):
                found.setdefault(kernel["pid"], []).append((kernel["ts"], kernel["ts"] + kernel["dur"]))
        runs.setdefault("ProfilerStep" if is_step else each["name"], []).append(found)
    return runs


def paths_by_hand(events):
    """{(device, path of modules): executions}; without a launch in no path."""
    launches = launches_by_hand(events)
    found = {}
    for kernel in (e for e in events if e["cat"] in ("kernel", "gpu_memcpy")):
        launch = launches.get(kernel["args"].get("correlation"))
        around = [each for each in events if launch and each["name"].startswith("nn.Module: ") and
                  (each["pid"], each["tid"]) == (launch["pid"], launch["tid"]) and
                  each["ts"] <= launch["ts"] < each["ts"] + each["dur"]]
        around.sort(key=lambda each: (each["ts"], -each["dur"]))
        path = "/".join(each["name"].removeprefix("nn.Module: ") for each in around) or "(no module)"
        key = f"/device:GPU:{kernel['pid']}", path if launch else "(launch not in the trace)"
        found[key] = found.get(key, 0) + 1
    return found


def random_trace(draw):
    """Ranges that nest, straddle and are empty, on two threads of each of two processes; launches with and without."""
    events = []
    for _ in range(draw.randrange(1, 12)):
        kind = draw.choice(["user_annotation", "user_annotation", "python_function", "cpu_op"])
        name = {"python_function": f"nn.Module: SomeLayerWithALongName_{draw.randrange(9)}",
                "user_annotation": draw.choice([f"ProfilerStep#{draw.randrange(3)}", "forward", "backward"])}.get(kind, "op")
        events.append(event(kind, draw.choice([41, 42]), draw.choice([51, 52]), draw.randrange(30), draw.randrange(20), name))
    for correlation in range(draw.randrange(1, 20)):
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            events.append(event(draw.choice(LAUNCHES), draw.choice([41, 42]), draw.choice([51, 52]),
                                draw.randrange(50) + len(events) / 100, 1, "launch", correlation=correlation))
        for _ in range(draw.choice([0, 1, 1, 3])):
            events.append(event(draw.choice(["kernel", "gpu_memcpy"]), draw.choice([0, 0, 1]), draw.choice([7, 8]),
                                draw.randrange(100), draw.randrange(9), "k", correlation=correlation))
    draw.shuffle(events)
    return events


class MadeTrace(EndToEndTest):
    def test_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, TESTDATA / "make_kineto.py"], check=True, capture_output=True).stdout
        self.assertEqual(made, (TESTDATA / "kineto_training.json").read_bytes())


class Functions(EndToEndTest):
    """Steps, annotations and modules."""

    def rows(self, events):
        report = self.run_json(self.write("a.json", trace(events)), "--samples")
        return report, {(row["plane"], row["function"]): row for row in report["functions"]}

    def paths(self, path):
        found, names = {}, []
        for row in self.run_json("tree", path, "--by", "module")["tree"]:
            names[row["depth"]:] = [row["name"]]
            if row["self_ps"] or row["count"]:
                below = found.get((row["plane"], "/".join(names[:-1])))
                found[row["plane"], "/".join(names)] = row["count"]
                if below is not None:
                    found[row["plane"], "/".join(names[:-1])] -= row["count"]
        return {key: count for key, count in found.items() if count}

    def test_random_ones(self):
        draw = random.Random(22)
        told = empty = 0
        for _ in range(200):
            events = random_trace(draw)
            devices = {e["pid"] for e in events if e["cat"] in ("kernel", "gpu_memcpy")}
            if not devices:
                continue
            _, rows = self.rows(events)
            wanted = {}
            for function, runs in runs_by_hand(events).items():
                on = {device for run in runs for device in run}
                for device in on:
                    wanted[f"/device:GPU:{device}", function] = (
                        len(runs), sum(len(run.get(device, ())) for run in runs),
                        sorted(union_ps(run[device]) * 1_000_000 for run in runs if device in run))
                if not on:
                    wanted[None, function] = (len(runs), 0, [])
                told, empty = told + len(on), empty + (not on)
            got = {}
            for (plane, function), row in rows.items():
                active = row["active_ps"]
                got[plane, function] = (row["runs"], row["kernels_total"],
                                        [active["n"], active["min"], active["median"], active["max"]] if active else [])
            for key, (runs, kernels, times) in wanted.items():
                if times:
                    times = [len(times), times[0], statistics.median(times), times[-1]]
                self.assertEqual(got.get(key), (runs, kernels, times), (key, events))
            self.assertEqual(set(got), set(wanted))
            if any(e["name"].startswith("nn.Module: ") for e in events):
                self.assertEqual(self.paths("a.json"), paths_by_hand(events), events)
        self.assertGreater(told, 200)
        self.assertGreater(empty, 50)

    def test_what_has_no_launch_is_told(self):
        report, rows = self.rows([event("user_annotation", 4, 4, 0, 9, "a"), *EVENTS])
        self.assertEqual({row["code"]: row["count"] for row in report["diagnostics"]}.get("without_launch"), 1)
        self.assertEqual(rows[None, "a"]["runs"], 1)
        self.assertIsNone(rows[None, "a"]["active_ps"])
        text = run("functions", "a.json", cwd=self.at).text
        self.assertRegex(text, r"a +1 .* 1e\n")
        self.assertIn("e runs without an execution in the trace", text)

    def test_filters_choose_functions_and_kernels(self):
        self.write("a.json", trace([event("user_annotation", 42, 43, 0, 9, "a"), event("user_annotation", 42, 43, 0, 9, "b"),
                                    *EVENTS]))
        names = {row["function"] for row in self.run_json("functions", "a.json", "--function", "^a$")["functions"]}
        self.assertEqual(names, {"a"})
        self.assertEqual(self.run_json("functions", "a.json", "--kernel", "Memcpy")["functions"], [])

    def test_kernels_within_a_function_are_those_launched_in_it(self):
        self.write("a.json", trace([
            event("user_annotation", 42, 43, 0, 9, "a"), event("user_annotation", 42, 43, 20, 9, "b"),
            event("cuda_runtime", 42, 43, 21, 2, "launch", correlation=9), event("kernel", 0, 7, 60, 3, "gemm", correlation=9),
            *EVENTS]))
        for within, rows in {"^a$": [("gemm", 2, 9_250_000)], "^b$": [("gemm", 1, 3_000_000)], "a|b": [("gemm", 3, 12_250_000)]}.items():
            found = self.run_json("kernels", "a.json", "--within", within)
            self.assertEqual([(row["kernel"], row["count"], row["total_ps"]) for row in found["kernels"]], rows, within)
            self.assertEqual([row["function"] for row in found["kernels"]], [None])
        left_out = {row["code"]: row["count"] for row in found["diagnostics"]}["left_out_by_filter"]
        self.assertEqual(left_out, 1)

    def test_two_sides(self):
        def capture(slower):
            events = [event("kernel", 0, 7, 5, 2, "unlaunched")]
            for step in range(8):
                at = 100 * step
                events += [event("user_annotation", 42, 43, at, 50, f"ProfilerStep#{step}"),
                           event("cuda_runtime", 42, 43, at + 1, 2, "launch", correlation=step + 1),
                           event("kernel", 0, 7, at + 10, 20 + slower + step % 3 / 10, "gemm", correlation=step + 1)]
            return trace(events)
        self.write("base.json", capture(0))
        self.write("head.json.gz", gzip.compress(capture(5)))
        verdict = run("compare", "base.json", "head.json.gz", "--format", "json", cwd=self.at).json
        self.assertEqual([row["function"] for row in verdict["rows"]], ["ProfilerStep"])
        changed = self.run_json("diff", "base.json", "head.json.gz")
        row, = [row for row in changed["rows"] if row["head"] and row["head"].get("kernel") == "gemm"]
        self.assertGreater(row["delta_ps"], 0)

    def test_skipped_runs_are_dropped_not_empty(self):
        self.write("a.json", trace([event("user_annotation", 42, 43, 0, 9, "a"), event("user_annotation", 42, 43, 20, 9, "a"),
                                    event("cuda_runtime", 42, 43, 21, 2, "launch", correlation=9),
                                    event("kernel", 0, 7, 60, 3, correlation=9), *EVENTS]))
        row, = self.run_json("functions", "a.json", "--skip-runs", "1")["functions"]
        self.assertEqual((row["runs"], row["dropped_samples"], row["active_ps"]["mean"]), (2, 1, 3_000_000))

    def test_ranks_are_combined_run_by_run(self):
        for rank, late in enumerate((0, 4)):
            self.write(f"run/rank{rank}.pt.trace.json", trace([
                event("user_annotation", 42, 43, 0, 9, "ProfilerStep#1"), event("user_annotation", 42, 43, 20, 9, "ProfilerStep#2"),
                event("cuda_runtime", 42, 43, 1, 2, "launch", correlation=1),
                event("cuda_runtime", 42, 43, 21, 2, "launch", correlation=2),
                event("kernel", rank, 7, 10, 5 + late, correlation=1), event("kernel", rank, 7, 30, 9 - late, correlation=2)]))
        combined, = self.run_json("run")["combined"]
        self.assertEqual((combined["function"], combined["runs"], combined["status"]), ("ProfilerStep", 2, "ok"))
        self.assertEqual((combined["active_ps"]["min"], combined["active_ps"]["max"]), (9_000_000, 9_000_000))

    def test_tree_by_module(self):
        self.write("a.json", trace([
            event("python_function", 42, 43, 0, 50, "nn.Module: Net_0"), event("python_function", 42, 43, 5, 9, "nn.Module: Linear_0"),
            event("python_function", 42, 43, 6, 2, "torch/nn.py(1): relu"), event("user_annotation", 42, 43, 4, 4, "forward"),
            *(event("cuda_runtime", 42, tid, ts, 1, "launch", correlation=i)
              for i, (tid, ts) in enumerate([(43, 6), (43, 13), (43, 14), (44, 7), (43, 60)], 1)),
            *(event("kernel", 0, 7, 100 + 10 * i, i, "k", correlation=i) for i in range(1, 7))]))
        rows = self.run_json("tree", "a.json", "--by", "module")["tree"]
        found = {}
        for row in rows:
            above = found[row["parent"]][0] + "/" if row["parent"] is not None else ""
            found[len(found)] = (above + row["name"], row["count"], row["total_ps"] // 1_000_000, row["self_ps"] // 1_000_000)
        self.assertEqual(sorted(found.values()), [("(launch not in the trace)", 1, 6, 6), ("(no module)", 2, 9, 9),
                                                  ("Net_0", 3, 6, 3), ("Net_0/Linear_0", 2, 3, 3)])
        rows = self.run_json("tree", "a.json", "--by", "module", "--function", "^forward$")["tree"]
        self.assertEqual([(row["name"], row["count"]) for row in rows], [("Net_0", 1), ("Linear_0", 1)])
        done = run("tree", self.write("b.json", trace()), "--by", "module", cwd=self.at)
        self.assertEqual(done.code, 65)
        self.assertIn("no nn.Modules", done.message)

    def test_very_deep_nests_have_an_end(self):
        deep = 60_000
        self.write("a.json", trace([event("user_annotation", 42, 43, i, 2 * deep - 2 * i, f"r{i}") for i in range(deep)]))
        rows = self.run_json("tree", "a.json", "--line", ".", "--device", "all")["tree"]
        self.assertEqual(len(rows), 4096)
        self.assertEqual((rows[-1]["depth"], rows[-1]["self_ps"], rows[-1]["child_ps"] > 0), (4095, 2_000_000, True))

    def test_ids_in_other_forms(self):
        for given in (1, 1.0, "1", 1e0):
            with self.subTest(given):
                _, rows = self.rows([event("user_annotation", 42, 43, 0, 9, "a"),
                                     event("cuda_runtime", 42, 43, 1, 2, "launch", correlation=given),
                                     event("kernel", 0, 7, 10, 5, correlation=1 if given == "1" else given)])
                self.assertEqual(rows["/device:GPU:0", "a"]["kernels_total"], 1)

    def test_a_base_that_is_none_is_refused(self):
        for base in ("soon", 1.5, [], {"a": 1}):
            done = run(self.write("a.json", trace(baseTimeNanoseconds=base)), cwd=self.at)
            self.assertEqual(done.code, 65, base)
            self.assertIn("no whole number of nanoseconds", done.message)
        for base, base_ns in ((None, 0), (1_756_000_000 * 10**9, 1_756_000_000 * 10**9), ("1756000000000000000", 1_756_000_000 * 10**9)):
            report = self.run_json(self.write("a.json", trace(baseTimeNanoseconds=base)))
            self.assertEqual(report["capture"]["base_ns"], base_ns, base)

    def test_why_nothing_was_executed_is_told(self):
        done = run(self.write("a.json", trace([EVENTS[0], event("kernel", 0, 7, "soon", 1), event("kernel", 0, 7, 1, -1)])),
                   cwd=self.at)
        self.assertEqual(done.code, 65)
        self.assertIn("1 x events without a name, or whose beginning or duration is no number, were skipped", done.message)
        self.assertIn("1 x events with a negative duration", done.message)

    def test_calls_of_python_nest_apart(self):
        self.write("a.json", trace([event("user_annotation", 42, 43, 5, 10, "forward"), event("cpu_op", 42, 43, 6, 3, "aten::mm"),
                                    event("python_function", 42, 43, 0, 8, "train.py(1): step"), *EVENTS[1:]]))
        rows = self.run_json("tree", "a.json", "--device", "all", "--line", "tid 43")["tree"]
        self.assertEqual([(row["line"], row["name"], row["depth"], row["self_ps"]) for row in rows], [
            ("pid 42 tid 43", "forward", 0, 7_000_000), ("pid 42 tid 43", "aten::mm", 1, 3_000_000),
            ("pid 42 tid 43 (python)", "train.py(1): step", 0, 8_000_000)])

    def test_energy_of_a_power_log_and_of_the_traces_counters(self):
        """A counter of energy on the clock of the trace: 400 W, 200 W, and 80 W where nothing runs."""
        base_ns, begin_ns, period_ns, idle_w = 1_756_000_000 * 10**9, 7 * 10**12, 10**7, 80
        draw, events, runs, at = random.Random(3), [], [], 0.0
        for _ in range(40):
            for name, watts in (("gemm", 400), ("softmax", 200)):
                dur = draw.uniform(20e3, 60e3)
                events.append(event("kernel", 0, 7, round(at, 3), round(dur, 3), name))
                runs.append((at, at + dur, watts))
                at += dur + draw.uniform(5e3, 20e3)

        def energy_uj(us):
            over_idle = sum((watts - idle_w) * max(0, min(us, end) - start) for start, end, watts in runs)
            return int(idle_w * (us + 1e6) + over_idle)

        channel = {"source": "nvml", "device": "GPU-1", "domain": "gpu", "quantity": "energy_uj", "kind": "cumulative",
                   "slow": False, "in_total": True}
        header = {"schema": "xplane-time.power-log.v1", "t": begin_ns, "machine": {}, "periods_ns": {"nvml": period_ns},
                  "clocks": {"monotonic_ns": begin_ns, "realtime_ns": base_ns - 10**9, "boottime_ns": begin_ns},
                  "devices": [{"id": "GPU-1", "source": "nvml", "index": 0, "ordinal": 0}], "channels": [channel]}
        readings = [{"t": begin_ns + n * period_ns, "s": 0, "r": [[0, 0, 20000, energy_uj(n * 1e4 - 1e6)]]}
                    for n in range(int(at / 1e4) + 200)]
        self.write("p.jsonl", "".join(json.dumps(line) + "\n" for line in (header, *readings)))
        self.write("a.json", trace(events, baseTimeNanoseconds=base_ns))
        taken = [energy_uj(n * 1e4) - energy_uj((n - 1) * 1e4) for n in range(1, int(at / 1e4))]
        counters = [counter("GPU 0 Counters", (n + 1) * 1e4, "chip_energy_nj", **{"": uj * 1000})
                    for n, uj in enumerate(taken)]
        self.write("b.json", trace(events + counters, baseTimeNanoseconds=base_ns))
        for command in (("a.json", "--power", "p.jsonl"), ("b.json",)):
            rows = {row["kernel"]: row for row in self.run_json("energy", *command)["kernels"]}
            for name, watts in (("gemm", 400), ("softmax", 200)):
                true_j = sum((end - start) * watts for start, end, each in runs if each == watts) / 1e6
                self.assertAlmostEqual(rows[name]["energy_j"], true_j, delta=0.05 * true_j)

    def test_where_has_its_steps_and_copies(self):
        self.write("a.json", trace([event("user_annotation", 42, 43, 0, 9, "ProfilerStep#4"),
                                    event("user_annotation", 42, 43, 20, 9, "ProfilerStep#5"),
                                    event("cuda_runtime", 42, 99, 1, 2, "launch", correlation=1),
                                    event("cuda_runtime", 42, 43, 21, 2, "launch", correlation=2),
                                    event("kernel", 0, 7, 10, 5, correlation=1),
                                    event("kernel", 0, 8, 30, 4, "k2", correlation=2, **{"Collective name": "allreduce"}),
                                    event("kernel", 0, 8, 36, 4, "cutlass::gemm::collective::CollectiveMma", correlation=2),
                                    event("gpu_memcpy", 0, 9, 50, 1, "CopyDeviceToHost", correlation=2, bytes=512)]))
        where = self.run_json("where", "a.json", "--steps")
        self.assertEqual([(row["name"], row["start_ps"], row["span_ps"]) for row in where["steps"]],
                         [("4", 10_000_000, 5_000_000), ("5", 30_000_000, 21_000_000)])
        device, = where["devices"]
        self.assertEqual((device["compute_ps"], device["collective_ps"], device["copy_ps"]), (9_000_000, 4_000_000, 1_000_000))
        self.assertEqual([(row["kernel"], row["bytes"]) for row in where["transfers"] if row["bytes"]], [("CopyDeviceToHost", 512)])


@unittest.skipUnless(KINETO.is_dir(), "no shared traces here")
class KnownAnswers(EndToEndTest):
    """Devices, kernels and events as somebody else computed them."""

    def same(self, got, want):
        self.assertTrue(math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-6), f"{got} is not {want}")

    def check(self, path, want):
        report = self.run_json(path, "--device", "all")
        self.assertEqual(report["capture"]["events"], want["events"])
        devices = {row["plane"]: row for row in report["devices"]}
        for row in want["devices"]:
            for name in ("executions", "busy_ps", "sum_ps"):
                self.same(devices[row["plane"]][name], row[name])
            for name in ("first_ps", "last_ps"):
                self.assertEqual(devices[row["plane"]][name] + 1000 * report["capture"]["base_ns"],
                                 row[name] + 1000 * want["base_ns"])
        kernels = {(row["plane"], row["kernel"]): row for row in report["kernels"]}
        for row in want["kernels"]:
            for name in ("count", "total_ps", "min_ps", "max_ps"):
                self.same(kernels[row["plane"], row["kernel"]][name], row[name])
        functions = {(row["plane"], row["function"]): row for row in report["functions"]}
        for row in want["functions"] + want["modules"]:
            mine = functions[row["plane"], row["function"]]
            self.assertEqual(mine["runs"], row["runs"], row["function"])
            if row["active_ps"] is None:
                self.assertIsNone(mine["active_ps"])
                continue
            self.assertEqual(mine["kernels_total"], row["kernels_total"])
            for name in ("n", "mean", "std", "min", "max", "median"):
                self.same(mine["active_ps"][name], row["active_ps"][name])
        self.check_modules(path, want)

    def check_modules(self, path, want):
        if not want["paths"]:
            return
        found, names = {}, []
        for row in self.run_json("tree", path, "--by", "module")["tree"]:
            names[row["depth"]:] = [row["name"]]
            found[row["plane"], "/".join(names)] = row
        for row in want["paths"]:
            mine = found[row["plane"], row["path"] or "(no module)"]
            self.same(mine["self_ps"], row["sum_ps"])

    def test_combined(self):
        want = json.loads((KINETO / "answers" / "combined" / "recsys.json").read_text())
        for name in want["traces"]:
            self.write(f"run/{name}", (KINETO / name).read_bytes())
        report = self.run_json("run")
        rows = {row["function"]: row for row in report["combined"]}
        for row in want["combined"]:
            mine = rows[row["function"]]
            self.assertEqual(mine["status"], row["status"], row["function"])
            for name, value in (row["active_ps"] or {}).items():
                self.same(mine["active_ps"][name], value)

    def test_answers(self):
        checked = 0
        for folder in (KINETO, KINETO / "quirks"):
            for path in sorted((folder / "answers").glob("*.json")):
                want = json.loads(path.read_text())
                if not want["devices"]:
                    continue
                with self.subTest(path.name):
                    self.check(folder / want["trace"], want)
                    checked += 1
        self.assertGreater(checked, 10)

    def test_damaged(self):
        for path in sorted((KINETO / "quirks" / "damaged").iterdir()):
            done = run(path, cwd=self.at)
            self.assertEqual(done.code, 65, path)
            self.assertTrue(done.message)


if __name__ == "__main__":
    unittest.main()
