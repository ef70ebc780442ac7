"""Tests that pick and compare do not decide about variants that ran but cannot be judged, about doubtful
results, or about a capture that is compared with itself."""
import json
import random
import re
import statistics
import unittest
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor

from harness import run
from test_compare import Decisions, benchmark, trace
from xspace import Plane, Ref, space

DELTA = 0.005  # the default of pick
SPACING_PS = 50_000_000  # between runs, so each is recognized


class Made:
    """A trace with two devices, and its true times[device][variant] in run order."""

    def __init__(self, seed):
        rng = random.Random(f"devices{seed}")
        self.variants = rng.randint(1, 4)
        self.ids = [str(i) for i in range(self.variants)]
        rounds = rng.randint(4, 9)
        noise = rng.choice((0.001, 0.005, 0.03))
        level = [rng.uniform(5e6, 9e6) for _ in range(self.variants)]
        kinds = rng.choices(("match", "counts", "apart", "one device"), (5, 1, 1, 1), k=self.variants)
        if rng.random() < 0.4:
            kinds = ["match"] * self.variants
        self.runs = [{id: [] for id in self.ids} for _ in range(2)]
        for device in range(2):
            for v, id in enumerate(self.ids):
                typical = level[v] * rng.uniform(0.8, 1.25)
                if kinds[v] == "one device" and device == 1:
                    continue
                count = rounds - (kinds[v] == "counts" and device == 1)
                late = device == 1 and kinds[v] == "apart"
                for k in range(count):
                    at = (k * self.variants + v) * SPACING_PS + rng.randrange(100_000)
                    at += 15_000_000 * late * (k == count - 1 or rng.random() < 0.5)
                    took = round(typical * (1 + noise * rng.gauss(0, 1)))
                    self.runs[device][id].append((at, took))

    def content(self):
        planes = []
        for device in range(2):
            plane = Plane(f"/device:GPU:{device}", id=device + 1)
            stream = plane.line("Stream #1(Kernel)", 5)
            events = sorted((at, took, id) for id, runs in self.runs[device].items()
                            for at, took in runs)
            for at, took, id in events:
                stream.event("k", at, took, hlo_module=Ref(f"jit_autotune_fn_{id}"),
                             hlo_op=Ref("op"), program_id=int(id) + 1)
            planes.append(plane)
        return space(*(plane for plane in planes if any(line.events for line in plane.lines)))

    def is_judged(self):
        """Whether each variant can be judged, by the definition, run by run."""
        devices = {id: [d for d in range(2) if self.runs[d][id]] for id in self.ids}
        if len({tuple(on) for on in devices.values()}) > 1:
            return False
        if devices[self.ids[0]] != [0, 1]:
            return True
        for id in self.ids:
            first, second = self.runs[0][id], self.runs[1][id]
            if len(first) != len(second):
                return False
            for (a, took_a), (b, took_b) in zip(first, second):
                if not (a <= b + took_b and b <= a + took_a):
                    return False
        return True

    def is_slower_everywhere(self, pick, margin):
        """Whether another variant is faster by the margin on every device that ran both."""
        def slower(other, device):
            own, its = ([took for _, took in self.runs[device][id]] for id in (pick, other))
            return statistics.median(own) > (1 + margin) * statistics.median(its)

        for other in self.ids:
            shared = [d for d in range(2) if self.runs[d][pick] and self.runs[d][other]]
            if other != pick and shared and all(slower(other, d) for d in shared):
                return True
        return False


class TwoDevices(Decisions):
    TRACES = 500

    def test_random_traces(self):
        made = [Made(seed) for seed in range(self.TRACES)]
        paths = [self.write(f"{i}.xplane.pb", one.content()) for i, one in enumerate(made)]
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda path: run("pick", path, "--format", "json"), paths))
        seen = {True: 0, False: 0}
        for seed, (one, answer) in enumerate(zip(made, done)):
            with self.subTest(seed):
                decision = answer.json
                seen[one.is_judged()] += 1
                if decision["pick"] is not None and one.is_judged():
                    margin = DELTA if decision["claim"] in ("tie", "pick") else 0
                    self.assertFalse(one.is_slower_everywhere(decision["pick"], margin), decision)
                if one.is_judged():
                    self.assertIn(answer.code, (0, 11, 12))
                    self.assertFalse([row for row in decision["variants"]
                                      if row["status"] == "not_judged"])
                    continue
                self.assertEqual((answer.code, decision["claim"]), (11, "undecided"))
                self.assertEqual((decision["pick"], decision["regret"]), (None, None))
                self.assertTrue(decision["doubts"])
                reasons = [row["reason"] for row in decision["variants"]
                           if row["status"] == "not_judged"]
                self.assertTrue(reasons)
                self.assertTrue(all(reasons))
        self.assertGreater(min(seen.values()), self.TRACES / 5, seen)

    def made(self, runs):
        """{device: {id: [(at_us, took_us)]}}"""
        one = Made(0)
        one.ids = sorted({id for of in runs.values() for id in of})
        one.runs = [{id: [(round(at * 1e6), round(took * 1e6)) for at, took in runs[d].get(id, [])]
                     for id in one.ids} for d in range(2)]
        return self.write("made.xplane.pb", one.content())

    def test_the_reason_and_the_other_way_are_named(self):
        rounds = range(6)
        path = self.made({
            0: {"0": [(300 * k, 7 + k / 100) for k in rounds],
                "1": [(300 * k + 100, 6) for k in rounds], "2": [(300 * k + 200, 9) for k in rounds]},
            1: {"0": [(300 * k, 7) for k in rounds], "1": [(300 * k + 100, 6) for k in rounds[:-1]],
                "2": [(300 * k + 200, 9) for k in rounds]}})
        done = run("pick", path)
        text = " ".join(done.text.split())
        self.assertEqual(done.code, 11, text)
        self.assertTrue(text.startswith("undecided: variant 1 ran, but cannot be judged"), text)
        self.assertIn("variant 1: its runs on 2 devices do not match: 6 on GPU:0, 5 on GPU:1", text)
        self.assertIn("Among the others variant 0 leads", text)
        self.assertIn("The smallest typical time on each device alone: variant 1 on every device", text)
        # The advice works.
        device, = re.findall(r"Judge one device: (--device \S+)\.", text)
        alone = run("pick", path, *device.split(), "--format", "json")
        self.assertEqual((alone.code, alone.json["pick"]), (0, "1"))
        suite = xml.etree.ElementTree.fromstring(run("pick", path, "--format", "junit").out)
        self.assertEqual(suite.get("skipped"), "2")  # the decision and variant 1

    def test_variants_that_share_no_device_are_not_compared(self):
        path = self.made({0: {"0": [(100 * k, 5) for k in range(6)],
                              "1": [(100 * k + 50, 6) for k in range(6)]},
                          1: {"2": [(100 * k, 4) for k in range(6)]}})
        done = run("pick", path, "--format", "json")
        self.assertEqual((done.code, done.json["pick"]), (11, None))
        status = {row["variant_id"]: (row["status"], row["reason"]) for row in done.json["variants"]}
        self.assertEqual(status["2"],
                         ("not_judged", "it ran on GPU:1, and the others ran on GPU:0"))

    def test_a_warm_up_run_that_is_skipped_leaves_the_others_matched(self):
        rounds = range(7)
        path = self.made({d: {"0": [(200 * k, 7 + d + k % 2 / 100) for k in rounds],
                              "1": [(200 * k + 100, 9 + d) for k in rounds]} for d in range(2)})
        done = run("pick", path, "--skip-runs", "1", "--format", "json")
        self.assertEqual((done.code, done.json["pick"]), (0, "0"))
        self.assertEqual([row["samples"] for row in done.json["variants"]], [6, 6])
        self.assertAlmostEqual(done.json["variants"][0]["centre_ps"], 8e6, delta=1e4)


class NotJudged(Decisions):
    VARIANTS = {"jit_autotune_fn_0": 10_000_000, "jit_autotune_fn_1": 12_000_000}

    def result(self, name, times_ps, seed, uncertain=()):
        """JSON of xplane-time with samples. The split of `uncertain` functions into runs is uncertain."""
        path, out = self.write("t.xplane.pb", trace(times_ps, seed)), self.at / name
        self.run_ok("functions", path, "--samples", "--format", "json", "-o", out)
        document = json.loads(out.read_text())
        for row in document["functions"]:
            if row["function"] in uncertain:
                row["status"] = "runs_uncertain"
        out.write_text(json.dumps(document))
        return out

    def test_a_variant_without_a_run_that_counts(self):
        times = {f"jit_autotune_fn_{i}": [time] * 8 for i, time in enumerate((10, 12, -1))}
        rows = [{"name": name, "real_time": time + 0.01 * i, "time_unit": "us"}
                for name, all in times.items() for i, time in enumerate(all)]
        path = self.write("b.json", json.dumps({"benchmarks": rows}))
        done = run("pick", path, "--format", "json")
        self.assertEqual((done.code, done.json["pick"], done.json["regret"]), (11, None, None))
        self.assertEqual(done.json["doubts"], ["variant 2: it has no usable run"])

    def test_a_variant_that_failed_is_no_candidate(self):
        rows = [{"name": f"jit_autotune_fn_{v}", "real_time": 10 + v * 9 + 0.01 * i, "time_unit": "us"}
                for i in range(8) for v in range(2)]
        rows.append({"name": "jit_autotune_fn_2", "error_occurred": True, "error_message": "no"})
        path = self.write("b.json", json.dumps({"benchmarks": rows}))
        done = run("pick", path, "--format", "json")
        self.assertEqual((done.code, done.json["pick"]), (0, "0"))
        self.assertEqual((done.json["variants"][2]["status"], done.json["variants"][2]["reason"]),
                         ("failed", "no"))

    def test_uncertain_runs_decide_nothing(self):
        sound = self.result("s.json", self.VARIANTS, 1)
        self.assertEqual(run("pick", sound).code, 0)
        doubtful = self.result("d.json", self.VARIANTS, 1, ["jit_autotune_fn_1"])
        done = run("pick", doubtful, "--format", "json")
        self.assertEqual((done.code, done.json["regret"]), (11, None))
        self.assertEqual(done.json["doubts"], ["variant 1: the split into runs is uncertain"])
        base = [self.result(f"b{i}.json", self.VARIANTS, f"b{i}") for i in range(6)]
        for typical, verdict in ((15_000_000, "slower"), (9_000_000, "faster"),
                                 (12_000_000, "same")):
            times = {**self.VARIANTS, "jit_autotune_fn_1": typical}
            for uncertain, code in (((), 10 if verdict == "slower" else 0),
                                    (["jit_autotune_fn_1"], 11)):
                with self.subTest(verdict, uncertain=uncertain):
                    head = [self.result(f"h{i}.json", times, f"h{i}", uncertain) for i in range(6)]
                    done = self.compare(base, head, "--format", "json")
                    self.assertEqual(done.code, code, done.text)
                    rows = {row["function"]: row["verdict"] for row in done.json["rows"]}
                    self.assertEqual(rows["jit_autotune_fn_1"],
                                     "cannot_tell" if uncertain else verdict)
                    self.assertEqual(rows["jit_autotune_fn_0"], "same")
                    if not uncertain:
                        continue
                    suite = xml.etree.ElementTree.fromstring(
                        self.compare(base, head, "--format", "junit").out)
                    self.assertEqual((suite.get("failures"), suite.get("skipped")), ("0", "1"))
                    skipped, = suite.iter("skipped")
                    self.assertIn("cannot_tell ?", skipped.get("message"))
                    self.assertIn("the split into runs is uncertain", skipped.get("message"))
                    self.assertRegex(self.compare(base, head).text, r"cannot tell \?")

    def test_a_function_that_ran_and_cannot_be_compared_is_11(self):
        base = [self.write(f"b{i}.json", benchmark({"BM_a": 100 + i, "BM_b": 50 + i}, i))
                for i in range(6)]
        odd = {"benchmarks": [{"name": name, "real_time": time, "time_unit": "ns"}
                              for name, time in [("BM_a", 101.5 + 0.3 * i) for i in range(5)]
                              + [("BM_b", 0)]]}
        head = [self.write(f"h{i}.json", json.dumps(odd)) for i in range(6)]
        for i, path in enumerate(head):
            path.write_text(path.read_text().replace("101.5", f"{101.5 + 0.1 * i}"))
        done = self.compare(base, head, "--max-mde", "50%")
        text = " ".join(done.text.split())
        self.assertEqual(done.code, 11, text)
        self.assertIn("1 function ran on both sides, but cannot be compared", text)
        self.assertIn("BM_b: it has no usable run in head", text)

    def test_a_function_on_other_devices_is_not_compared(self):
        def capture(name, seed, **ordinals):
            planes = []
            for ordinal in (0, 1):
                functions = {f: 10_000_000 for f, on in ordinals.items() if on == ordinal}
                plane = Plane(f"/device:GPU:{ordinal}", id=ordinal + 1)
                stream, rng = plane.line("Stream #1(Kernel)", 5), random.Random(f"{seed}{ordinal}")
                for k in range(10):
                    for at, (function, typical) in enumerate(functions.items()):
                        stream.event("k", k * SPACING_PS + at * 20_000_000,
                                     round(typical * (1 + 0.002 * rng.gauss(0, 1))),
                                     hlo_module=Ref(f"jit_{function}"), hlo_op=Ref("op"),
                                     program_id=ord(function))
                planes.append(plane)
            return self.write(name, space(*planes))

        base = [capture(f"b{i}.xplane.pb", f"b{i}", a=0, b=1, c=0) for i in range(5)]
        head = [capture(f"h{i}.xplane.pb", f"h{i}", a=0, b=1, c=1) for i in range(5)]
        done = self.compare(base, head, "--format", "json")
        self.assertEqual(done.code, 11, done.text)
        rows = [(row["function"], row["reason"]) for row in done.json["rows"]
                if row["verdict"] == "not_comparable"]
        self.assertEqual(rows, [("jit_c", "it ran on GPU:0 in base, on GPU:1 in head")] * 2)


US = 1_000_000  # picoseconds


def launched(times_us, seed, rounds=10, devices=1, lost=lambda function, run, kernel: False,
             with_modules=True, ran=lambda function, run: True, slow=None, noise=0.005, offset=0):
    """A capture of functions with two kernels each, which ran in rounds. Each kernel has a launch.

    `lost`: kernels that the trace lacks, although it has their launches. `slow`: factors by device.
    """
    rng = random.Random(seed)
    host = Plane("/host:CPU", id=99)
    thread = host.line("python", 5)
    gpus = [Plane(f"/device:GPU:{i}", id=i + 1) for i in range(devices)]
    streams = [gpu.line("Stream #1(Kernel)", 5) for gpu in gpus]
    now, number = 1000.0, 0
    for run_index in range(rounds):
        for program, (function, typical) in enumerate(times_us.items()):
            if not ran(function, run_index):
                continue
            begin, end = now, now
            for device, stream in enumerate(streams):
                at = begin + 20
                for kernel in range(2):
                    number += 1
                    took = typical / 2 * (1 + offset + noise * rng.gauss(0, 1)) * (slow or {}).get(device, 1)
                    thread.event("cudaLaunchKernel", round((begin + 4 * device + 2 * kernel) * US), US // 2,
                                 correlation_id=number)
                    if not lost(function, run_index, kernel):
                        stream.event(f"{function}_k{kernel}", round(at * US), round(took * US),
                                     correlation_id=number, hlo_module=Ref(function), hlo_op=Ref(f"op{kernel}"),
                                     program_id=program + 1)
                    at += took + 1
                end = max(end, at)
            if with_modules:
                thread.event(f"{function}:XLA GPU module", round((begin - 1) * US), 18 * US)
            now = end + 30
    return space(host, *gpus)


class LostKernels(Decisions):
    """If kernels of launches are not in the trace, their runs must not look fast."""

    TIMES = {"jit_autotune_fn_0": 100, "jit_autotune_fn_1": 120}

    def pick(self, *paths):
        return run("pick", *paths, "--format", "json", cwd=self.at)

    def statuses(self, done):
        return {row["variant_id"]: row["status"] for row in self.decision(done)["variants"]}

    def test_a_variant_that_lost_a_kernel_in_each_run_is_not_judged(self):
        lost = self.write("a.xplane.pb", launched(self.TIMES, 1, lost=lambda f, r, k: f[-1] == "1" and k == 1))
        done = self.pick(lost)
        self.assertEqual(done.code, 11, done.text)
        self.assertEqual(self.statuses(done), {"0": "leads", "1": "not_judged"})
        self.assertIn("variant 1: each of its runs lacks executions of its launches", done.text)
        result = run("report", lost, "--samples", "--format", "json", cwd=self.at)
        self.assertEqual({row["function"]: row["status"] for row in result.json["functions"]},
                         {"jit_autotune_fn_0": "ok", "jit_autotune_fn_1": "lost_executions"})
        self.assertEqual(self.pick(self.write("a.json", result.out)).code, 11)

    def test_a_variant_that_lost_all_kernels_is_not_absent(self):
        lost = self.write("a.xplane.pb", launched(self.TIMES, 1, lost=lambda f, r, k: f[-1] == "1"))
        done = self.pick(lost)
        self.assertEqual(done.code, 11, done.text)
        self.assertEqual(self.statuses(done), {"0": "leads", "1": "not_judged"})
        result = run("report", lost, "--samples", "--format", "json", cwd=self.at)
        self.assertEqual(self.pick(self.write("a.json", result.out)).code, 11)
        self.assertEqual(self.pick(self.write("b.xplane.pb", launched(
            self.TIMES, 1, lost=lambda f, r, k: f[-1] == "1", with_modules=True, rounds=2))).code, 11)

    def test_only_the_runs_that_lost_a_kernel_are_left_out(self):
        for seed in range(6):
            rng = random.Random(f"lost{seed}")
            runs = {r for r in range(16) if rng.random() < (0.2, 0.4, 0.6)[seed % 3]} - {15, 3, 7, 9, 12}
            content = launched(self.TIMES, seed, rounds=16,
                               lost=lambda f, r, k, of=runs: f[-1] == "1" and k == seed % 2 and r in of)
            path = self.write(f"{seed}.xplane.pb", content)
            done = self.pick(path)
            self.assertEqual((done.code, self.decision(done)["pick"]), (0, "0"), done.text)
            rows = {row["variant_id"]: row for row in self.decision(done)["variants"]}
            self.assertEqual((rows["0"]["samples"], rows["1"]["samples"]), (16, 16 - len(runs)))
            self.assertAlmostEqual(rows["1"]["ratio"], 1.2, delta=0.02)

    def test_what_runs_after_the_recording_blocks_nothing(self):
        content = launched(self.TIMES, 2, lost=lambda f, r, k: f[-1] == "1" and r == 9 and k == 1)
        done = self.pick(self.write("a.xplane.pb", content))
        self.assertEqual((done.code, self.decision(done)["pick"]), (0, "0"), done.text)
        rows = {row["variant_id"]: row["samples"] for row in self.decision(done)["variants"]}
        self.assertEqual(rows, {"0": 10, "1": 9})

    def test_losses_that_belong_to_no_known_run_leave_all_in_doubt(self):
        def lost(function, run_index, kernel):
            return function[-1] == "1" and kernel == 1

        done = self.pick(self.write("a.xplane.pb", launched(self.TIMES, 1, lost=lost, with_modules=False)))
        self.assertEqual(done.code, 11, done.text)
        self.assertIn("launches without an execution may belong to its runs", done.text)
        # One of 400 launches has no influence.
        few = launched(self.TIMES, 1, rounds=100, with_modules=False,
                       lost=lambda f, r, k: (f[-1], r, k) == ("1", 50, 1))
        self.assertEqual(self.pick(self.write("b.xplane.pb", few)).code, 0)

    def sides(self, names=("jit_f", "jit_g"), base_devices=1, **head):
        times = dict(zip(names, (100, 120)))
        paths = []
        for side, options in (("base", {"devices": base_devices}), ("head", head)):
            paths.append([self.write(f"{side}{i}.xplane.pb", launched(
                times, f"{side}{i}", offset=0.001 * random.Random(f"{side}{i}").gauss(0, 1), **options))
                for i in range(10)])
        return paths

    def test_a_function_that_lost_a_kernel_in_each_run_is_not_faster(self):
        done = self.compare(*self.sides(lost=lambda f, r, k: f == "jit_g" and k == 1), "--format", "json")
        self.assertEqual(done.code, 11, done.text)
        rows = {row["function"]: row for row in self.decision(done)["rows"]}
        self.assertEqual({name: row["verdict"] for name, row in rows.items()},
                         {"jit_f": "same", "jit_g": "not_comparable"})
        self.assertIn("lacks executions of its launches", rows["jit_g"]["reason"])

    def test_a_function_that_lost_all_kernels_is_not_comparable(self):
        for names in (("jit_f", "jit_g"), ("jit_autotune_fn_0", "jit_autotune_fn_1")):
            for devices in (1, 2):
                base, head = self.sides(names, devices, devices=devices,
                                        lost=lambda f, r, k, of=names: f == of[1])
                for done in (self.compare(base, head, "--format", "json"),
                             self.compare(head, base, "--format", "json")):
                    self.assertEqual(done.code, 11, done.text)
                    verdicts = {(row["function"], row["verdict"]) for row in self.decision(done)["rows"]}
                    self.assertEqual(verdicts, {(names[0], "same"), (names[1], "not_comparable")})
                    self.assertIn("the trace has no execution of it", done.text)

    def test_losses_in_some_runs_decide_by_the_others(self):
        done = self.compare(*self.sides(lost=lambda f, r, k: f == "jit_g" and k == 1 and r % 2 == 0),
                            "--format", "json")
        self.assertEqual(done.code, 0, done.text)
        self.assertEqual({row["verdict"] for row in self.decision(done)["rows"]}, {"same"})

    def test_a_device_that_only_head_has(self):
        base, head = self.sides(devices=2, slow={1: 3})
        for done in (self.compare(base, head, "--format", "json"), self.compare(head, base, "--format", "json")):
            self.assertEqual(done.code, 11, done.text)
            verdicts = {(row["function"], row["device"]): row["verdict"] for row in self.decision(done)["rows"]}
            self.assertEqual(verdicts, {("jit_f", "GPU:0"): "same", ("jit_g", "GPU:0"): "same",
                                        ("jit_f", "GPU:1"): "not_comparable",
                                        ("jit_g", "GPU:1"): "not_comparable"})
            self.assertIn("GPU:0, GPU:1", done.text)

    def test_captures_that_lack_a_variant_do_not_favour_it(self):
        paths = []
        for i in range(4):
            slow = {0: 1.2} if i < 2 else None
            paths.append(self.write(f"{i}.xplane.pb", launched(
                {"jit_autotune_fn_0": 100, "jit_autotune_fn_1": 103}, i, slow=slow, noise=0.002,
                ran=lambda f, r, of=i: of >= 2 or f[-1] == "0")))
        done = self.pick(*paths)
        self.assertEqual((done.code, self.decision(done)["pick"]), (0, "0"), done.text)
        p_best = {row["variant_id"]: row["p_best"] for row in self.decision(done)["variants"]}
        self.assertGreater(p_best["0"], 0.99)
        self.assertLess(p_best["1"], 0.01)

    def test_two_captures_decide_what_one_and_three_decide(self):
        times = {f"jit_autotune_fn_{i}": 100 + 10 * i for i in range(4)}
        paths = [self.write(f"{i}.xplane.pb", launched(times, f"two{i}", rounds=6, noise=0.01))
                 for i in range(16)]
        decided = [self.pick(*paths[i:i + 2]).code == 0 for i in range(15)]
        self.assertGreaterEqual(sum(decided), 14)


class Shared(Decisions):
    TIMES = {"jit_a": 10_000_000, "jit_b": 5_000_000}

    def test_a_capture_against_itself_shows_nothing(self):
        one = self.side("one", self.TIMES, 10)
        copies = [self.write(f"copy{i}.xplane.pb", path.read_bytes()) for i, path in enumerate(one)]
        for base, head, words in ((one[:1], one[:1], "both sides are the same file"),
                                  (one, one, "both sides are the same files"),
                                  (one, copies, "both sides are the same captures"),
                                  (one[:1], copies[:1], "both sides are the same capture")):
            for options in ((), ("--paired",), ("--offset-std", "1%")):
                with self.subTest(words, options=options):
                    done = self.compare(base, head, *options)
                    self.assertEqual(done.code, 12, done.text)
                    self.assertTrue(done.text.startswith(f"no verdict: {words}\n"), done.text)
        suite = xml.etree.ElementTree.fromstring(self.compare(one, one, "--format", "junit").out)
        self.assertEqual((suite.get("tests"), suite.get("skipped")), ("2", "2"))

    def test_a_glob_that_catches_some_of_the_other_side(self):
        base, head = self.side("base", self.TIMES, 8), self.side("head", self.TIMES, 8)
        self.assertEqual(self.compare(base, head).code, 0)
        done = self.compare(base, head + base[:2], "--format", "json")
        self.assertEqual((done.code, done.json["shared_captures"]), (12, 2))
        self.assertEqual(done.json["explanation"], "no verdict: 2 of 8 captures of base are also in head")
        # A proof remains valid in spite of lost kernels.
        slower = self.side("slower", {**self.TIMES, "jit_a": 12_000_000}, 8)
        self.assertEqual(self.compare(base, slower + base[:1]).code, 10)


class Advice(Decisions):
    """Tests the advice on more captures. The times of functions are normal quantiles."""

    def captures(self, name, count, **functions):
        """Makes captures. `functions`: (typical time, spread); the centres have exactly this spread."""
        z = [statistics.NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)]
        scale = statistics.stdev(z)
        order = {f: random.Random(f"{name}{f}").sample(z, count) for f in functions}
        paths = []
        for i in range(count):
            rows = [{"name": f, "real_time": typical * (1 + spread * order[f][i] / scale) + 1e-6 * k,
                     "time_unit": "ns"}
                    for f, (typical, spread) in functions.items() for k in range(6)]
            paths.append(self.write(f"{name}{count}_{i}.json", json.dumps({"benchmarks": rows})))
        return paths

    NOISY = (1000, 0.5)

    def sides(self, count, spread=0.07, **functions):
        return (self.captures("base", count, BM_large=(100, spread), **functions),
                self.captures("head", count, BM_large=(140, spread), **functions))

    def row(self, decision, function):
        row, = (row for row in decision["rows"] if row["function"] == function)
        return row

    def test_a_large_effect_is_not_told_what_the_noisiest_needs(self):
        base, head = self.sides(3, BM_noisy=self.NOISY, BM_calm=(10, 0.001))
        done = self.compare(base, head)
        text = " ".join(done.text.split())
        self.assertEqual(done.code, 12, text)
        self.assertIn("no verdict: 3 captures a side; BM_noisy needs more than 1000 a side", text)
        decision = self.compare(base, head, "--format", "json").json
        row = self.row(decision, "BM_large")
        self.assertTrue(0.001 < row["p_value"] < 0.1, row)
        self.assertEqual(row["needed_for"], "change")
        self.assertLess(row["needed_captures"], 30)
        self.assertIsNone(self.row(decision, "BM_noisy")["needed_captures"])
        self.assertRegex(done.text, r"BM_large +too little data +.*\+40\.\d .* 0\.0\d+ ")
        self.assertRegex(text, r"BM_large: \+40\.\d % is not proved \(p = 0\.0\d+\); "
                               r"\d+ to \d+ captures a side would prove it ")

    def test_the_captures_that_are_named_decide(self):
        base, head = self.sides(3)
        needed = self.compare(base, head, "--format", "json").json["rows"][0][
            "needed_captures"]
        self.assertGreater(needed, 3)
        self.assertEqual(self.compare(*self.sides(needed)).code, 10)

    def test_intervals_and_p_values_are_in_the_table(self):
        times = {"jit_a": 10_000_000, "jit_b": 5_000_000}
        base = self.side("base", times, 6)
        done = self.compare(base, self.side("head", {**times, "jit_a": 12_000_000}, 6))
        self.assertEqual(done.code, 10, done.text)
        self.assertRegex(done.text, r"function +verdict .*change % +interval % +p\b")
        self.assertRegex(done.text, r"jit_a +slower .*\+\d+\.\d+ \.\. \+\d+\.\d+ +(<?0\.\d+)")


class DiffHeadline(Decisions):
    def capture(self, name, seed, offset, **times_ps):
        """A capture with the kernels of one function. The offset makes `wild` slower."""
        plane, rng, at = Plane("/device:GPU:0", id=1), random.Random(seed), 0
        stream = plane.line("Stream #1(Kernel)", 5)
        for _ in range(6):
            for kernel, typical in times_ps.items():
                off = offset if kernel == "wild" else 0
                took = round(typical * (1 + off + 0.001 * rng.gauss(0, 1)))
                stream.event(kernel, at, took, hlo_module=Ref("jit_f"), hlo_op=Ref(kernel),
                             program_id=1)
                at += took + 1_000
            at += 1_000_000_000
        return self.write(name, space(plane))

    def test_a_tiny_new_op_is_not_above_a_large_change(self):
        """A new op of a microsecond is certain, but a thousandth of the run at most."""
        base = self.capture("b.pb", "b", 0, wild=10_000_000_000)
        head = self.capture("h.pb", "h", 0.09, wild=10_000_000_000, tiny=1_000_000)
        done = run("diff", base, head)
        self.assertIn("changes in the mean span of a run, sorted by the part that exceeds noise", done.text)
        rows = run("diff", base, head, "--format", "json").json["rows"]
        self.assertEqual([row["head"]["op"] for row in rows if row["head"]["op"]][:2], ["wild", "tiny"])
        large = self.capture("l.pb", "l", 0.09, wild=10_000_000_000, fresh=100_000_000)
        rows = run("diff", base, large, "--format", "json").json["rows"]
        self.assertEqual(rows[0]["head"]["op"], "fresh")

    def test_rows_that_are_proved_are_counted_beside_a_total_that_is_not(self):
        offsets = (-0.2, -0.1, 0.0, 0.1, 0.2)
        base = [self.capture(f"b{i}.pb", f"b{i}", off, wild=50_000_000)
                for i, off in enumerate(offsets)]
        head = [self.capture(f"h{i}.pb", f"h{i}", off, wild=50_000_000, new=1_000_000,
                             fresh=2_000_000) for i, off in enumerate(offsets)]
        done = run("diff", "--base", *base, "--head", *head)
        headline = " ".join(done.text.split("\n\n")[0].split())
        self.assertRegex(headline, r"; total not proved \(-\S+ us to \+\S+ us\); 2 rows proved$")
        decision = run("diff", "--base", *base, "--head", *head, "--format", "json").json
        lo, hi = decision["total"]["delta_ci_ps"]
        for ps in (lo, hi):
            self.assertIn(f"{abs(ps) / 1e6:.3g}"[:3], headline)
        self.assertEqual([row["verdict"] for row in decision["rows"]].count("more"), 2)


class LeftOut(Decisions):
    def test_times_of_google_benchmark_that_do_not_count_are_counted(self):
        for bad, why in ((-5, "negative: 2"), (0, "zero: 2"), (1e308, "over 106 days: 2"),
                         (1e17, "over 106 days: 2")):
            with self.subTest(bad):
                def document(seed):
                    rows = json.loads(benchmark({"BM_x": 100, "BM_y": 50}, seed))
                    for at in (3, 14):
                        rows["benchmarks"][at]["real_time"] = bad
                    return json.dumps(rows)

                base = [self.write(f"b{i}.json", document(i)) for i in range(5)]
                head = [self.write(f"h{i}.json", document(i + 9)) for i in range(5)]
                done = self.compare(base, head, "--max-mde", "50%", "--format", "json")
                self.assertEqual(done.code, 0, done.text)
                self.assertIn(f"in all 10 captures: 2 of 20 times left out ({why})", done.json["notes"])
                self.assertEqual(done.json["rows"][0]["base"]["samples"], 45)


class PairsOfVariants(Decisions):
    """The verdict of pick contradicts no pair of variants that it prints."""

    def capture(self, name, rounds, tick_ps=1):
        """`rounds`: {variant: time in us} of each round, in run order."""
        plane, at = Plane("/device:GPU:0", id=1), 0
        stream = plane.line("Stream #1(Kernel)", 5)
        for one in rounds:
            for id, took_us in one.items():
                took = round(took_us * 1e6 / tick_ps) * tick_ps
                stream.event(f"k{id}", at, took, hlo_module=Ref(f"jit_autotune_fn_{id}"),
                             hlo_op=Ref("op"), program_id=int(id) + 1)
                at += took + 100_000
        return self.write(f"{name}.xplane.pb", space(plane))

    def rounds(self, seed, typical_us, count, noise=0.001):
        rng = random.Random(seed)
        return [{id: time * (1 + noise * rng.gauss(0, 1)) for id, time in typical_us.items()}
                for _ in range(count)]

    def pick(self, *arguments):
        return run("pick", *arguments, "--format", "json")

    def text(self, *arguments):
        return " ".join(run("pick", *arguments).text.split())

    def rotating(self, seed, count, step=0.05, more=None):
        """Each of three variants is faster than the next one in two of three rounds."""
        rounds = self.rounds(seed, {"0": 10, "1": 10, "2": 10} | (more or {}), count, 0.0005)
        for i, one in enumerate(rounds):
            for v in range(3):
                one[str(v)] *= 1 + step * ((v + i) % 3)
        return rounds

    def test_captures_that_disagree_name_no_winner(self):
        for majority, minority, count in ((2, 1, 10), (3, 2, 10), (6, 4, 10), (11, 9, 4), (2, 1, 100)):
            with self.subTest(f"{majority} against {minority}"):
                paths = [self.capture(f"c{i}", self.rounds(
                             f"{i}{majority}", {"0": 10, "1": 11} if i < majority else {"0": 11, "1": 10},
                             count)) for i in range(majority + minority)]
                done = self.pick(*paths)
                self.assertEqual((done.code, done.json["claim"]), (11, "undecided"))
                self.assertLess(done.json["variants"][0]["p_best"], 0.9)
                for row in done.json["variants"][1:]:
                    self.assertLess(row["ratio_ci"][0], 1)
                    self.assertGreater(row["ratio_ci"][1], 1)

    def test_captures_that_agree_name_the_winner(self):
        paths = [self.capture(f"c{i}", self.rounds(i, {"0": 10, "1": 11}, 10)) for i in range(5)]
        for count in (1, 2, 3, 5):
            done = self.pick(*paths[:count])
            self.assertEqual((done.code, done.json["pick"]), (0, "0"), count)

    def test_a_cycle_has_no_pick(self):
        path = self.capture("cycle", self.rotating(1, 30))
        done = self.pick(path)
        self.assertEqual((done.code, done.json["claim"], done.json["pick"], done.json["regret"]),
                         (11, "undecided", None, None))
        self.assertFalse(done.json["may_be_equal"])
        doubt, = done.json["doubts"]
        self.assertRegex(doubt, r"no variant is the fastest: within the rounds that both ran in, "
                                r"variant (.) is proved slower than variant (.), \2 than (.), \3 than \1")
        text = self.text(path)
        self.assertIn("undecided: the order of the variants is contradictory", text)
        self.assertNotIn("leads", text)
        # A variant that is faster than each of them wins, however close it is.
        done = self.pick(self.capture("beside", self.rotating(2, 30, more={"3": 9.99})))
        self.assertEqual((done.code, done.json["pick"]), (0, "3"))

    def test_variants_that_share_no_round(self):
        first = self.capture("first", self.rounds(1, {"0": 10, "1": 11}, 20))
        second = self.capture("second", self.rounds(2, {"1": 11, "2": 10.5}, 20))
        done = self.pick(first, second)
        self.assertEqual((done.code, done.json["claim"], done.json["regret"]),
                         (12, "too_little_data", None))
        rows = {row["variant_id"]: row for row in done.json["variants"]}
        self.assertEqual((rows["2"]["ratio"], rows["2"]["ratio_ci"], rows["2"]["status"]),
                         (None, None, "open"))
        self.assertIn("Variants 0 and 2 never ran in the same round, so they cannot be compared: run all "
                      "variants in every round.", self.text(first, second))
        for output in ("table", "markdown", "csv", "junit", "benchmark", "html"):
            self.assertEqual(run("pick", first, second, "--format", output).code, 12, output)
        together = self.capture("both", self.rounds(3, {"0": 10, "1": 11, "2": 10.5}, 20))
        self.assertEqual(self.pick(together).code, 0)

    def test_variants_that_share_few_rounds(self):
        rounds = self.rounds(4, {"0": 10, "1": 11, "2": 10.5}, 20)
        one = self.capture("one", [{id: time for id, time in each.items() if i < 2 or id != "2"}
                                   for i, each in enumerate(rounds[:4])])
        other = self.capture("other", [{id: time for id, time in each.items() if id != "0"}
                                       for each in rounds])
        self.assertEqual(self.pick(one, other).code, 12)
        self.assertIn("Variants 0 and 2 ran together in fewer than four rounds: run every variant once in "
                      "each of at least four rounds.", self.text(one, other))
        self.assertEqual(self.pick(self.capture("all", rounds)).code, 0)

    def test_a_coarse_clock(self):
        def made(work):
            return [{"0": 0.1 * work, "1": 0.102 * work, "2": 0.2 * work + 0.002 * (i % 2)}
                    for i in range(12)]
        path = self.capture("coarse", made(1), tick_ps=2000)
        done = self.pick(path)
        self.assertEqual((done.code, done.json["claim"]), (11, "undecided"))
        self.assertIsNone(done.json["needed_units_least"])
        lo, hi = done.json["variants"][1]["ratio_ci"]
        self.assertTrue(lo < 1 < hi)
        self.assertIn("The difference may be an error of the clock, whose step is 2 ns.", self.text(path))
        longer = self.capture("longer", made(10), tick_ps=2000)
        self.assertEqual(self.pick(longer).code, 0, "the advice")

    def test_the_captures_that_are_needed_are_explained(self):
        stated = 0
        for seed in range(40):
            rng = random.Random(f"captures{seed}")
            paths = [self.capture(f"c{i}", self.rounds(
                         f"{seed}{i}", {"0": 10, "1": 10.5 * (1 + 0.02 * rng.gauss(0, 1))}, 6))
                     for i in range(5)]
            done = self.pick(*paths)
            if done.json["needed_units_least"] is None or done.json["needed_unit"] != "capture":
                continue
            stated += 1
            self.assertRegex(self.text(*paths), "[0-9]+ captures in total, each as long as now, ")
        self.assertGreater(stated, 3)

    def test_random_traces(self):
        seen = {}
        for seed in range(150):
            rng = random.Random(f"pairs{seed}")
            variants, count = rng.randint(2, 5), rng.randint(1, 3)
            step, gap = rng.choice((0, 0.003, 0.05)), rng.choice((0, 0.0005, 0.02))
            spread, lost = rng.choice((0, 0, 0.03)), rng.choice((0, 0.1))
            tick = rng.choice((1, 1, 20_000))
            paths = []
            for c in range(count):
                absent = rng.choice((None, None, None, str(rng.randrange(variants))))
                typical = {str(v): 10 * (1 + gap * v) * (1 + spread * rng.gauss(0, 1))
                           for v in range(variants) if str(v) != absent}
                rounds = self.rounds(f"{seed}{c}", typical, rng.randint(3, 40), rng.choice((0.0003, 0.01)))
                for i, one in enumerate(rounds):
                    for v in list(one):
                        one[v] *= 1 + step * ((int(v) + i) % variants)
                        if len(one) > 1 and rng.random() < lost:
                            del one[v]
                paths.append(self.capture(f"r{seed}_{c}", rounds, tick))
            delta = rng.choice((0.0, 0.005, 0.05))
            done = self.pick(*paths, "--delta", str(delta))
            with self.subTest(seed):
                decision = done.json
                claim = decision["claim"]
                seen[claim] = seen.get(claim, 0) + 1
                leader = decision["pick"]
                for row in decision["variants"]:
                    ci = row["ratio_ci"]
                    if row["ratio"] is None:
                        self.assertIsNone(ci)
                        self.assertNotEqual(done.code, 0)
                    if ci is None:
                        self.assertNotEqual(done.code, 0, "a variant that ran was not judged")
                        continue
                    self.assertTrue(ci[0] <= row["ratio"] <= ci[1])
                    if leader is not None:
                        self.assertGreaterEqual(ci[1], 1, "a variant is proved faster")
                    if claim == "tie" and row["variant_id"] not in decision["tied"]:
                        self.assertGreater(ci[0], 1)
                    if claim == "winner" and row["variant_id"] != leader:
                        self.assertGreater(ci[0], 1)
                if claim == "tie" or claim == "pick":
                    self.assertLessEqual(decision["regret"], delta + 1e-12)
                if decision["may_be_equal"]:
                    self.assertTrue(any(row["ratio_ci"][0] <= 1 <= row["ratio_ci"][1]
                                        for row in decision["variants"] if row["variant_id"] != leader))
        for claim in ("winner", "tie", "pick", "undecided", "too_little_data"):
            self.assertGreaterEqual(seen.get(claim, 0), 2, seen)


if __name__ == "__main__":
    unittest.main()
