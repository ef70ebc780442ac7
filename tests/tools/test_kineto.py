"""Tests of traces of PyTorch's profiler (Kineto), through the program."""
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
        for content, why in ((trace()[:-1], f"it is truncated (byte {len(trace()) - 1})"),
                             (trace() + b"x", f"more than one document (byte {len(trace())})"),
                             (b'{"events": []}', 'without "traceEvents"'),
                             (host_only, "no executions on ")):
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
    """The first launch of each correlation id. The id 0 counts as missing."""
    launches = {}
    for each in sorted((e for e in events if e["cat"] in LAUNCHES), key=lambda e: e["ts"]):
        launches.setdefault(each["args"].get("correlation"), each)
    return {correlation: each for correlation, each in launches.items() if correlation}


def runs_by_hand(events):
    """{function: [(device, (start, end) of each execution of the run)]} as in docs/kineto.md; slow."""
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
    """{(device, path of modules): executions}. Executions without a launch have no path."""
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
    """Events with ranges that nest, straddle or are empty, on two threads of two processes, and with
    launches that have executions or not. Each process has separate correlation ids."""
    events = []
    for _ in range(draw.randrange(1, 12)):
        kind = draw.choice(["user_annotation", "user_annotation", "python_function", "cpu_op"])
        name = {"python_function": f"nn.Module: SomeLayerWithALongName_{draw.randrange(9)}",
                "user_annotation": draw.choice([f"ProfilerStep#{draw.randrange(3)}", "forward", "backward"])}.get(kind, "op")
        events.append(event(kind, draw.choice([41, 42]), draw.choice([51, 52]), draw.randrange(30), draw.randrange(20), name))
    for correlation in range(draw.randrange(1, 20)):
        process = draw.choice([41, 42])
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            events.append(event(draw.choice(LAUNCHES), process, draw.choice([51, 52]),
                                draw.randrange(50) + len(events) / 100, 1, "launch", correlation=correlation))
        for _ in range(draw.choice([0, 1, 1, 3])):
            events.append(event(draw.choice(["kernel", "gpu_memcpy"]), draw.choice([0, 0, 1]), draw.choice([7, 8]),
                                draw.randrange(100), draw.randrange(9), "k", correlation=correlation))
    draw.shuffle(events)
    return events


def find_device_lines(planes):
    """The names of the lines of all devices."""
    return [line["line"] for plane in planes["planes"] if plane["kind"] != "cpu" for line in plane["lines"]]


class OddPids(EndToEndTest):
    """The category of an event shows that it ran on a device, whatever its pid is."""

    def events(self, pid, tid=7, **args):
        return [event("kernel", pid, tid, 200 * i, 100, "gemm", stream=7, **args) for i in range(10)]

    def planes(self, events):
        report = self.run_json(self.write("a.json", trace(events)))
        return {row["plane"]: (row["executions"], row["busy_ps"]) for row in report["devices"]}

    def test_every_form_is_a_device(self):
        all_ten = (10, 1_000_000_000)
        for pid, plane in ((0, "GPU:0"), (3, "GPU:3"), ("3", "GPU:3"), (3.0, "GPU:3"), ("3.0", "GPU:3"), ("GPU 3", "GPU:3"),
                           ("cuda 3", "GPU:3"), (-1, "GPU:2"), (None, "GPU:2"), (True, "GPU:2"), (0.5, "GPU:2"),
                           ([0], "GPU:2"), (1e30, "GPU:2"), (2**31 - 1, "GPU:2147483647"), ("Spans", "GPU:2"),
                           ("", "GPU:2"), (" ", "GPU:2"), ("é\n", "GPU:2"), ("stream 9", "GPU:2"), ("[TP03] 3", "GPU:3 [TP03]"),
                           ("rank3", "GPU:2 [rank3]")):
            with self.subTest(pid):
                found = self.planes(self.events(pid, device=2))
                self.assertEqual(list(found.values()), [all_ten])
                self.assertEqual(set(found), {"/device:" + plane})

    def test_none_at_all(self):
        events = self.events(0, device=1)
        for each in events:
            del each["pid"]
        self.assertEqual(self.planes(events), {"/device:GPU:1": (10, 1_000_000_000)})
        for each in events:
            del each["args"]["device"]
        self.assertEqual(self.planes(events), {"/device:GPU:0": (10, 1_000_000_000)})

    def test_devices_that_only_arguments_tell_are_apart(self):
        events = [{**each, "args": {**each["args"], "device": i % 2}} for i, each in enumerate(self.events(-1))]
        self.assertEqual(self.planes(events), {"/device:GPU:0": (5, 500_000_000), "/device:GPU:1": (5, 500_000_000)})

    def test_texts_that_nothing_else_tells_apart_are_apart(self):
        events = [{**each, "pid": "ab"[i % 2]} for i, each in enumerate(self.events("a"))]
        self.assertEqual(self.planes(events),
                         {"/device:GPU:0 [a]": (5, 500_000_000), "/device:GPU:0 [b]": (5, 500_000_000)})

    def test_forms_of_one_number_are_one(self):
        events = [{**each, "pid": [0, "0", 0.0, "GPU 0"][i % 4], "tid": [7, "7", 7.0, "stream 7"][i % 4]}
                  for i, each in enumerate(self.events(0))]
        self.assertEqual(self.planes(events), {"/device:GPU:0": (10, 1_000_000_000)})
        self.assertEqual(find_device_lines(self.run_json("planes", "a.json")), ["Stream #7"])

    def test_a_missing_thread_is_the_stream_of_the_arguments(self):
        events = self.events(0)
        for each in events:
            del each["tid"]
        self.write("a.json", trace(events))
        self.assertEqual(find_device_lines(self.run_json("planes", "a.json")), ["Stream #7"])

    def test_launches_of_processes_in_other_forms(self):
        for pid in (42, "42", 42.0, "python", None):
            with self.subTest(pid):
                events = [event("user_annotation", pid, 43, 0, 9, "forward"),
                          event("cuda_runtime", pid, 43, 1, 2, "launch", correlation=1),
                          event("kernel", "GPU 0", "stream 7", 10, 5, correlation=1)]
                row, = self.run_json(self.write("a.json", trace(events)))["functions"]
                self.assertEqual((row["function"], row["kernels_total"]), ("forward", 1))


def rank(process, device, name, kernel_us=100, later_us=0, thread=1):
    """Events of a rank. All ranks use the same correlation ids."""
    events = [event("user_annotation", process, thread, 1000 + later_us, 1000, name)]
    for i in range(10):
        events.append(event("cuda_runtime", process, thread, 1010 + 20 * i + later_us, 5, "launch", correlation=i + 1))
        events.append(event("kernel", device, 7, 1500 + 110 * i + later_us, kernel_us, "gemm", correlation=i + 1, device=0))
    return events


def by_time(events):
    return sorted(events, key=lambda each: each["ts"])


def hosts_first(events):
    return sorted(events, key=lambda each: each["cat"] == "kernel")


class MergedRanks(EndToEndTest):
    def functions(self, events, **more):
        self.report = self.run_json(self.write("merged.json", trace(events, **more)))
        return {row["function"]: (row["host"], row["plane"], row["kernels_total"], row["active_ps"]["mean"] / 1e6)
                for row in self.report["functions"]}

    def codes(self):
        return {row["code"]: row["count"] for row in self.report["diagnostics"]}

    def test_each_rank_has_its_own_kernels(self):
        two = rank(1000, 0, "zero"), rank(2000, 1, "one", 105)
        late = rank(1000, 0, "zero"), rank(2000, 1, "one", 105, later_us=2000)
        text = rank("[TP00] 1000", "[TP00] 0", "zero"), rank("[TP01] 2000", "[TP01] 1", "one", 105)
        for what, events in (("end to end", two[0] + two[1]), ("turned", two[1] + two[0]),
                             ("by time", by_time(late[0] + late[1])), ("hosts first", hosts_first(late[0] + late[1]))):
            with self.subTest(what):
                self.assertEqual(self.functions(events), {
                    "zero": ("pid 1000", "/device:GPU:0", 10, 1000.0), "one": ("pid 2000", "/device:GPU:1", 10, 1050.0)})
                self.assertNotIn("shared_correlation", self.codes())
        for what, events in (("texts", text[0] + text[1]), ("texts by time", by_time(text[0] + text[1]))):
            with self.subTest(what):
                self.assertEqual(self.functions(events), {
                    "zero": ("TP00", "/device:GPU:0", 10, 1000.0), "one": ("TP01", "/device:GPU:1", 10, 1050.0)})

    def test_ranks_that_call_their_devices_alike_are_apart(self):
        for first, second in (("[TP00] 0", "[TP01] 0"), ("0 [TP00]", "0 [TP01]"), ("TP00 0", "TP01 0")):
            with self.subTest(first):
                events = rank(first.replace("0 ", "1000 ") if first[0] == "0" else first[:-1] + "1000", first, "zero")
                events += rank(second.replace("0 ", "2000 ", 1) if second[0] == "0" else second[:-1] + "2000", second, "one", 105)
                self.assertEqual(self.functions(by_time(events), distributedInfo={"rank": 0, "world_size": 2}), {
                    "zero": ("TP00", "/device:GPU:0", 10, 1000.0), "one": ("TP01", "/device:GPU:0", 10, 1050.0)})

    def test_labels_of_processes_alone(self):
        events = rank("[TP00] 5", 0, "zero") + rank("[TP01] 6", 1, "one", 105)
        self.assertEqual(self.functions(events), {"zero": ("pid [TP00] 5", "/device:GPU:0", 10, 1000.0),
                                                  "one": ("pid [TP01] 6", "/device:GPU:1", 10, 1050.0)})

    def test_two_processes_of_a_rank(self):
        events = []
        for label in ("TP00", "TP01"):
            events += rank(f"[{label}] 5", f"[{label}] 0", "zero") + rank(f"[{label}] 6", f"[{label}] 1", "one", 105)
        report = self.run_json(self.write("a.json", trace(events)))
        self.assertEqual(sorted((row["host"], row["plane"], row["function"], row["kernels_total"]) for row in report["functions"]),
                         [(f"{label} pid [{label}] {pid}", f"/device:GPU:{pid - 5}", name, 10)
                          for label in ("TP00", "TP01") for pid, name in ((5, "zero"), (6, "one"))])

    def test_events_that_are_skipped_make_no_process(self):
        events = rank(1000, 0, "zero") + rank(2000, 1, "one", 105)
        plain = self.run_json(self.write("a.json", trace(events)))["devices"]
        odd = [event("cpu_op", 77, 1, 5, -1), event("kernel", 5, 1, 5, None), event("kernel", 6, 1, "soon", 1)]
        report = self.run_json(self.write("a.json", trace(events + odd)))
        self.assertEqual(report["devices"], plain)
        self.assertEqual(report["capture"]["planes"], 4)

    def test_what_cannot_be_told_is_in_no_function(self):
        alike = rank(1000, 0, "zero") + rank(2000, 1, "one", 105)
        one_device = rank(1000, 0, "zero") + rank(2000, 0, "one", 105)
        for events in (by_time(alike), hosts_first(alike), one_device):
            self.assertEqual(self.functions(events), {})
            self.assertEqual(self.codes().get("shared_correlation"), 20)
            self.assertEqual(sum(row["executions"] for row in self.report["devices"]), 20)
        told = self.run_ok("merged.json").text.replace("\n  ", " ")
        self.assertIn("share their correlation id with another process of the file", told)
        # The advice works: give a file for each rank.
        self.write("ranks/0.json", trace(rank(1000, 0, "zero")))
        self.write("ranks/1.json", trace(rank(2000, 0, "one", 105)))
        rows = {row["function"]: row["active_ps"]["mean"] / 1e6 for row in self.run_json("ranks")["functions"]}
        self.assertEqual(rows, {"zero": 1000.0, "one": 1050.0})

    def test_processes_with_ids_of_their_own_are_one_host(self):
        events = rank(1000, 0, "zero") + rank(2000, 1, "one", 105)
        for each in events[21:]:
            if "correlation" in each["args"]:
                each["args"]["correlation"] += 5 * 2**32
        self.assertEqual(self.functions(by_time(events)), {
            "zero": (None, "/device:GPU:0", 10, 1000.0), "one": (None, "/device:GPU:1", 10, 1050.0)})

    def test_a_process_of_several_devices(self):
        events = [event("user_annotation", 1, 1, 0, 100, "both")]
        for i in range(10):
            events += [event("cuda_runtime", 1, 1, 1 + i, 1, "launch", correlation=i + 1),
                       event("kernel", i % 2, 7, 200 + 20 * i, 10, "gemm", correlation=i + 1)]
        report = self.run_json(self.write("a.json", trace(events)))
        self.assertEqual([(row["host"], row["kernels_total"]) for row in report["functions"]], [(None, 5), (None, 5)])


def raw(name, before='"ph": "X", "cat": "kernel", ', after=', "pid": 0, "tid": 7, "ts": 5, "dur": 10'):
    """An event with an unescaped name."""
    return '{' + before + f'"name": "{name}"' + after + '}'


class BareQuotes(EndToEndTest):
    """Names with unescaped quotes."""

    NAMES = ['a"b', '"', '""', 'a "b", c(1): f', 'f({"k": "v", "w": 1})', '["a", "b"]', "f('x', \"y\"): z", 'a", "b", "c',
             'a":"b', '"a"', '": ', '",', '"]', 'operator"" _s(char const*)']
    # The text up to the first quote of these names is valid JSON.
    REFUSED = ['x"}, y', '"}', 'a"}b']

    def read(self, events):
        self.write("a.json", '{"schemaVersion": 1, "traceEvents": [' + ",\n".join(events) + "]}")
        return self.run_json("a.json")

    def test_what_ends_an_event_is_refused_with_the_place(self):
        for name in self.REFUSED:
            for event in (raw(name), raw(name, '"ph": "s", "id": 1, ', ', "cat": "c"')):
                done = run(self.write("a.json", '{"traceEvents": [' + raw("first") + ", " + event + ", " + raw("last") + "]}"), cwd=self.at)
                self.assertEqual((done.code, done.out), (65, b""))
                self.assertIn("(byte ", done.message)

    def test_of_kernels(self):
        for name in [*self.NAMES, '{"ts": "x", "dur": "y"}']:
            with self.subTest(name):
                report = self.read([raw("first"), raw(name), raw("last")])
                self.assertEqual({row["kernel"]: row["count"] for row in report["kernels"]}, {"first": 1, name: 1, "last": 1})
                self.assertEqual([row["code"] for row in report["diagnostics"] if row["severity"] == "warning"],
                                 ["irregular_json"])

    def test_in_events_that_are_skipped(self):
        for name in self.NAMES:
            for before, after in (('"ph": "s", "id": 1, ', ', "cat": "c"'), ('"ph": "s", "id": 1, "pid": 0, "tid": 7, "ts": 3, ', ''),
                                  ('"ph": "i", "s": "t", ', ', "pid": 1, "tid": 2, "ts": 4, "args": {"a": 1}')):
                with self.subTest(name + before):
                    report = self.read([raw("first"), raw(name, before, after), raw("second"), raw(name, before, after), raw("last")])
                    self.assertEqual(sum(row["count"] for row in report["kernels"]), 3)
                    self.assertEqual({row["code"]: row["count"] for row in report["diagnostics"]}.get("irregular_json"), 2)

    def test_random_names(self):
        """Names are read unchanged, or the trace is refused with the byte. Kernels are never lost silently."""
        draw = random.Random(4)
        read = 0
        for _ in range(150):
            name = "".join(draw.choice('"":,{}[] ab1') for _ in range(draw.randrange(1, 12)))
            before, after = draw.choice([('"ph": "X", "cat": "kernel", ', ', "pid": 0, "tid": 7, "ts": 5, "dur": 10'),
                                         ('"ph": "s", "id": 1, ', ', "cat": "c"')])
            self.write("a.json", '{"traceEvents": [' + ", ".join([raw("first"), raw(name, before, after), raw("last")]) + "]}")
            done = run("a.json", "--format", "json", cwd=self.at)
            if done.code:
                self.assertEqual(done.code, 65)
                self.assertIn("(byte ", done.message)
                continue
            counts = {row["kernel"]: row["count"] for row in done.json["kernels"]}
            self.assertEqual((counts.get("first"), counts.get("last")), (1, 1), name)
            read += 1
        self.assertGreater(read, 100)


class OtherWriters(EndToEndTest):
    def refused(self, name, content):
        done = run(self.write(name, content), "--device", "all", cwd=self.at)
        self.assertEqual((done.code, done.out), (65, b""), done)
        return done.message

    def xprof(self, process, category=None):
        events = [{"ph": "M", "pid": 3, "name": "process_name", "args": {"name": process}},
                  {"ph": "M", "pid": 3, "tid": 2, "name": "thread_name", "args": {"name": "XLA Ops"}},
                  {"ph": "X", "pid": 3, "tid": 2, "ts": 1.5, "dur": 2, "name": "fusion.1", "args": {"run_id": "7"}}, {}]
        if category:
            events[2]["cat"] = category
        return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode()

    def test_chrome_json_of_jax_asks_for_the_xplane_file(self):
        for process in ("/device:TPU:0", "/host:CPU", "vm-0 /device:GPU:1", "/device:GPU:0 (pid 3)",
                        "/job:localhost/replica:0/task:0/device:GPU:0 Compute"):
            for content in (self.xprof(process), self.xprof(process, "Op"), gzip.compress(self.xprof(process))):
                message = self.refused("run/vm.trace.json.gz", content)
                self.assertIn("give the .xplane.pb beside it", message)
        # The advice works.
        self.write("run/vm.xplane.pb", (TESTDATA / "jax_cpu_variants.xplane.pb").read_bytes())
        self.assertGreater(self.run_json("run/vm.xplane.pb")["devices"][0]["executions"], 0)

    def test_what_has_categories_of_kineto_is_kinetos(self):
        for category in ("kernel", "gpu_memcpy"):
            report = self.run_json(self.write("a.json", self.xprof("/device:GPU:3", category)))
            self.assertEqual(report["devices"][0]["executions"], 1)
        report = self.run_json(self.write("a.json", self.xprof("/host:CPU", "cpu_op")))
        self.assertEqual([(row["plane"], row["executions"]) for row in report["devices"]], [("/host:CPU", 1)])

    def test_ascend_is_named(self):
        events = [{"ph": "M", "pid": 8, "name": "process_name", "args": {"name": "Ascend Hardware"}},
                  {"ph": "X", "pid": 8, "tid": 2, "ts": "1695000000.5", "dur": 12.5, "name": "MatMul", "args": {"Task Type": "AI_CORE"}},
                  {"ph": "X", "pid": 9, "tid": 2, "ts": "1695000000.1", "dur": 12.5, "name": "aten::mm", "cat": "cpu_op", "args": {}}]
        for content in (json.dumps(events).encode(), json.dumps(events[:2]).encode()):
            self.assertIn("trace of an Ascend NPU", self.refused("trace_view.json", content))

    def proton(self, streams, **more):
        return b"".join(json.dumps({"displayTimeUnit": "us", "traceEvents": [
            {"name": "matmul", "cat": "kernel", "ph": "X", "ts": 7 + 110 * i + at, "dur": 100, "args": {"call_stack": ["ROOT"]}, **more, **ids}
            for i in range(10)]}).encode() + b"\n" for at, ids in enumerate(streams))

    def test_proton_has_a_document_a_stream(self):
        for streams in (({"tid": 7}, {"tid": 8}), ({"pid": "stream 7", "tid": "kernels"}, {"pid": "stream 8", "tid": "kernels"})):
            for count in (1, 2):
                report = self.run_json(self.write("a.chrome_trace", self.proton(streams[:count])))
                self.assertEqual([(row["plane"], row["executions"], row["sum_ps"]) for row in report["devices"]],
                                 [("/device:GPU:0", 10 * count, 10 * count * 100_000_000)])
                self.assertEqual(find_device_lines(self.run_json("planes", "a.chrome_trace")), ["Stream #7", "Stream #8"][:count])
        broken = self.proton(({"tid": 7}, {"tid": 8}))
        self.assertIn(f"(byte {len(broken) - 5}", self.refused("a.json", broken[:-5]))
        self.assertIn("more than one document", self.refused("a.json", broken + trace()))

    def test_mtia(self):
        events = []
        for i in range(10):
            events += [event("user_annotation", 42, 43, 300 * i, 200, "fwd"),
                       event("mtia_runtime", 42, 43, 300 * i + 10, 20, "runFunction", correlation=i + 1),
                       event("mtia_ccp_events", 0, 1, 300 * i + 60, 100, "op_kernel", correlation=i + 1)]
        report = self.run_json(self.write("a.json", trace(events)))
        self.assertEqual([(row["plane"], row["kind"], row["executions"]) for row in report["devices"]],
                         [("/device:MTIA:0", "custom", 10)])
        row, = report["functions"]
        self.assertEqual((row["function"], row["runs"], row["active_ps"]["mean"]), ("fwd", 10, 100_000_000))
        for selector in ("custom", "custom:0", "MTIA:0", "MTIA", "/device:MTIA:0", "re:MTIA", "all"):
            self.assertEqual(self.run_json("a.json", "--device", selector)["devices"], report["devices"], selector)

    def test_other_vendors_categories(self):
        events = [event("GCU_MEMCPY", 0, 7, 0, 5, "copy"), event("xpu_memset", 0, 7, 10, 5, "set"), event("kernel", 0, 7, 20, 5),
                  event("hpu_op", 42, 43, 0, 1), event("GCU_USER_ANNOTATION", 0, 7, 0, 50, "step")]
        report = self.run_json(self.write("a.json", trace(events)))
        self.assertEqual([(row["plane"], row["executions"]) for row in report["devices"]], [("/device:GPU:0", 3)])
        self.assertEqual({row["kernel"]: row["category"] for row in report["kernels"]},
                         {"copy": "copy", "set": "copy", "k": "compute"})

    def test_what_the_profiler_said(self):
        self.write("a.json", trace(WARNING=["Dropped 123456 records: buffer full"], ERROR=["CUPTI failed", 7, None], INFO=["fine"]))
        report = self.run_json("a.json")
        self.assertEqual([(row["severity"], row["message"]) for row in report["diagnostics"][:2]], [
            ("error", "the profiler reported an error: CUPTI failed"),
            ("warning", "the profiler reported a warning: Dropped 123456 records: buffer full")])
        self.assertIn("Dropped 123456 records", self.run_ok("a.json").text.replace("\n  ", " "))
        for odd in ("text", None, {"a": 1}, []):
            self.assertEqual([row for row in self.run_json(self.write("b.json", trace(WARNING=odd)))["diagnostics"]
                              if row["code"] == "producer_warning"], [])

    def test_counters_that_are_not_read(self):
        events = [*EVENTS, *(counter("GPU 0 Counters", i, "sm__throughput", value=i) for i in range(5)),
                  counter("GPU 0 Counters", 3, "dram__bytes", value=7), counter("GPU 0 Counters", 3, "power_mw", power_mw=7)]
        row, = (row for row in self.run_json(self.write("a.json", trace(events)))["diagnostics"] if row["code"] == "counters_not_read")
        self.assertEqual((row["severity"], row["count"]), ("info", 6))
        self.assertIn("dram__bytes, sm__throughput", row["message"])


class MadeTrace(EndToEndTest):
    def test_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, TESTDATA / "make_kineto.py"], check=True, capture_output=True).stdout
        self.assertEqual(made, (TESTDATA / "kineto_training.json").read_bytes())


class Functions(EndToEndTest):
    """Tests of steps, annotations and modules as functions."""

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
        self.assertIn("Ne: N runs without an execution in the trace", text)

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
            self.assertIn("not a whole number of nanoseconds", done.message)
        for base, base_ns in ((None, 0), (1_756_000_000 * 10**9, 1_756_000_000 * 10**9), ("1756000000000000000", 1_756_000_000 * 10**9)):
            report = self.run_json(self.write("a.json", trace(baseTimeNanoseconds=base)))
            self.assertEqual(report["capture"]["base_ns"], base_ns, base)

    def test_why_nothing_was_executed_is_told(self):
        done = run(self.write("a.json", trace([EVENTS[0], event("kernel", 0, 7, "soon", 1), event("kernel", 0, 7, 1, -1)])),
                   cwd=self.at)
        self.assertEqual(done.code, 65)
        self.assertIn("1 x events without a name, a numeric start or a numeric duration were skipped", done.message)
        self.assertIn("1 x events with a negative duration", done.message)

    def test_calls_of_python_nest_apart(self):
        self.write("a.json", trace([event("user_annotation", 42, 43, 5, 10, "forward"), event("cpu_op", 42, 43, 6, 3, "aten::mm"),
                                    event("python_function", 42, 43, 0, 8, "train.py(1): step"), *EVENTS[1:]]))
        rows = self.run_json("tree", "a.json", "--device", "all", "--line", "tid 43")["tree"]
        self.assertEqual([(row["line"], row["name"], row["depth"], row["self_ps"]) for row in rows], [
            ("pid 42 tid 43", "forward", 0, 7_000_000), ("pid 42 tid 43", "aten::mm", 1, 3_000_000),
            ("pid 42 tid 43 (python)", "train.py(1): step", 0, 8_000_000)])

    def test_energy_of_a_power_log_and_of_the_traces_counters(self):
        """An energy counter on the clock of the trace, with 400 W, 200 W, and 80 W when the device is idle."""
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
                         [("4", 10_000_000, 5_000_000), ("5", 20_000_000, 31_000_000)])
        device, = where["devices"]
        self.assertEqual((device["compute_ps"], device["collective_ps"], device["copy_ps"]), (9_000_000, 4_000_000, 1_000_000))
        self.assertEqual([(row["kernel"], row["bytes"]) for row in where["transfers"] if row["bytes"]], [("CopyDeviceToHost", 512)])


@unittest.skipUnless(KINETO.is_dir(), "no shared traces here")
class KnownAnswers(EndToEndTest):
    """Compares devices, kernels and events with independent results."""

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


class Roofs(EndToEndTest):
    def test_the_lack_of_a_compiled_program_is_explained(self):
        for command in ("headroom", "brief"):
            text = " ".join(run(command, TESTDATA / "kineto_training.json").text.split())
            self.assertIn("PyTorch records none", text)
            self.assertIn("--work FILE declares them", text)


if __name__ == "__main__":
    unittest.main()
