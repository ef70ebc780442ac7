"""Compares xplane_time.compat.hta with HolisticTraceAnalysis (HTA) on synthetic traces, and on recorded
traces of PyTorch if they are available. Skipped if HTA is not installed.

HTA computes in doubles, and rounds to whole microseconds. To compare all digits, HTA gets copies of the
traces in which one "microsecond" is a picosecond, so all times are whole numbers. Its results on the
unchanged traces are measured for docs/migrating.md.
"""
import contextlib
import decimal
import gzip
import importlib.util
import json
import logging
import pathlib
import random
import tempfile
import unittest
import warnings
from unittest import mock

if any(importlib.util.find_spec(name) is None for name in ("hta", "pandas", "plotly", "networkx")):
    raise unittest.SkipTest("HolisticTraceAnalysis is needed: pip install '.[originals]', "
                            "pip install --no-deps HolisticTraceAnalysis")

import pandas
from hta.trace_analysis import TraceAnalysis

import xplane_time
from xplane_time.compat import hta

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
KINETO = REPOSITORY.parent / "shared/traces/kineto"
RECORDED = [["a100_nccl_graphs.json.gz"], ["mi300_resnet_ddp.json.gz"], ["cpu_torch215.json.gz"],
            ["recsys_rank0.json.gz", "recsys_rank1.json.gz"]]
RECORDED += [[f"quirks/{name}.json"] for name in ("base_last", "epoch_exact", "launches", "order", "pid_collision",
                                                  "two_devices", "year_2021")]
UNREADABLE = {"array": AttributeError, "bad_bytes": UnicodeDecodeError, "nan": OverflowError,
              "number_forms": TypeError, "odd_events": TypeError}  # the error of HTA
SEEDS = range(40)
PS = 1_000_000
NO_CUT = {"num_kernels": 10**6}
# HTA stores small numbers in short integers: ends of events overflow, and pandas 3 refuses the ids of
# many events. Large offsets avoid both. The times of recorded traces are also far from 0.
FAR_IDS, FAR_PS = 10**6, 2**40


def setUpModule():
    """Disables the log of HTA, which also has warnings about future changes of pandas."""
    logging.disable(logging.CRITICAL)
    unittest.addModuleCleanup(logging.disable, logging.NOTSET)
    quiet = warnings.catch_warnings()
    quiet.__enter__()
    unittest.addModuleCleanup(quiet.__exit__, None, None, None)
    warnings.simplefilter("ignore")


def event(cat, ts, dur, name, **args):
    return {"ph": "X", "cat": cat, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "name": name, "args": args}


def kernel(ts, dur, name, correlation, stream=7, cat="kernel"):
    return event(cat, ts, dur, name, stream=stream, correlation=correlation)


def launch(ts, correlation, cat="cuda_runtime"):
    return event(cat, ts, 1, "cudaLaunchKernel", correlation=correlation)


def step(number, ts, dur, cat="user_annotation"):
    return event(cat, ts, dur, f"ProfilerStep#{number}")


def written(folder, name, events):
    path = pathlib.Path(folder) / f"{name}.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events,
                                "distributedInfo": {"rank": 0, "world_size": 1}},
                               default=float))
    return path


def recorded(name):
    content = (KINETO / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    return json.loads(content, parse_float=decimal.Decimal)["traceEvents"]


def in_picoseconds(events):
    """The events in whole "microseconds", without those that HTA skips."""
    timed = [dict(each, ts=decimal.Decimal(str(each["ts"])), dur=decimal.Decimal(str(each["dur"])))
             for each in events if each.get("ph") == "X"]
    begin = min(each["ts"] for each in timed)
    for each in timed:
        each["ts"], each["dur"] = FAR_PS + int((each["ts"] - begin) * PS), int(each["dur"] * PS)
        args = each.get("args")
        if args and args.get("correlation", 0) > 0:
            each["args"] = dict(args, correlation=args["correlation"] + FAR_IDS)
    return timed


def analyzed(paths, with_last=False):
    return TraceAnalysis({rank: str(path) for rank, path in paths.items()}, "/", with_last)


def records(frame):
    return frame.to_dict("records")


def breakdown(analyzer, **options):
    return analyzer.get_gpu_kernel_breakdown(visualize=False, **options)


def unrounded():
    return mock.patch.dict("os.environ", HTA_DISABLE_NS_ROUNDING="1")


NAMES = ["gemm", "gemm<float>", "ncclDevKernel_AllReduce", "ncclKernel_SendRecv", "ncclInit", "Memset (Device)",
         "Memcpy HtoD", "dma_copy", "my_Memcpy", "Event Sync", "Context Sync", "Stream Sync", "a", "b", "others"]


def synthetic(seed):
    """Events with everything on which the definitions depend: duplicate launches, launches of other
    kernels or without kernels, launches at both ends of steps, ties, types without events, host
    events with a stream, and annotations of the device."""
    choose = random.Random(seed)
    span = choose.choice([30, 400, 40_000])
    names = choose.sample(NAMES, choose.randint(1, len(NAMES)))
    events = [step(i, i * span // 3, span // 3) for i in range(choose.choice([0, 1, 2, 3, 3]))]
    if choose.random() < 0.3:
        events += [step(i, i * span // 3 + 9, span // 3, "gpu_user_annotation") for i in range(len(events))]
    ids = range(choose.choice([3, 60]))
    for _ in range(choose.choice([4, 40, 120])):
        ts, dur = choose.randint(0, span), choose.choice([0, 1, 2, choose.randint(0, span // 4)])
        correlation = choose.choice(ids)
        kind = choose.random()
        if kind < 0.5:
            stream = choose.choice([0, 7, 7, 20, "7", "x", -1, -2])
            events.append(kernel(ts, dur, choose.choice(names), correlation, stream,
                                 choose.choice(["kernel", "gpu_memcpy", "cuda_sync"])))
            events[-1]["pid"] = choose.choice([0, 0, 1])
        elif kind < 0.85:
            events.append(launch(ts, correlation, choose.choice(["cuda_runtime", "cuda_driver"])))
        else:
            args = choose.choice([{}, {"stream": 7}, {"correlation": correlation}])
            events.append(event(choose.choice(["cpu_op", "gpu_user_annotation", "Trace", "cuda_sync"]),
                                ts, dur, choose.choice(names), **args))
    events.append(dict(launch(0, 1), args={}))
    unit_us = choose.choice([decimal.Decimal(text) for text in ("1", "0.001", "0.000001")])
    return [dict(each, ts=each["ts"] * unit_us, dur=each["dur"] * unit_us) for each in events]


class Differential(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rows = self.failed = 0

    def traces(self, originals, name):
        """The paths of the original trace and of the copy for HTA."""
        base = written(self.folder, name, originals)
        return base, written(self.folder, f"{name}_ps", in_picoseconds(originals))

    def check(self, paths, copies, what):
        for with_last in (False, True):
            try:
                theirs = analyzed(copies, with_last)
                want_time = records(theirs.get_temporal_breakdown(visualize=False))
            except IndexError:  # HTA has no rows left
                self.failed += 1
                with self.assertRaises(xplane_time.NothingFoundError, msg=what):
                    hta.TraceAnalysis(paths, include_last_profiler_step=with_last)
                continue
            ours = hta.TraceAnalysis(paths, include_last_profiler_step=with_last)
            self.check_time(ours.get_temporal_breakdown(), want_time, what)
            for options in ({}, {"num_kernels": 3, "duration_ratio": 0.5}, NO_CUT,
                            {"include_memory_kernels": False, **NO_CUT}):
                self.check_kernels(ours, theirs, options, (what, with_last, options))

    def check_time(self, got, want, what):
        for row in want:
            for name in row:
                if name.endswith("(us)"):
                    row[name] /= PS
                elif row["kernel_time(us)"] == 0 and name != "rank":
                    row[name] = None  # the share of a zero time is unknown; HTA has NaN
        self.assertEqual(got, want, what)

    def check_kernels(self, ours, theirs, options, what):
        want_types, want_kernels = breakdown(theirs, **options)
        got_types, got_kernels = ours.get_gpu_kernel_breakdown(**options)
        self.assertEqual(list(want_kernels.columns), list(got_kernels[0]) if got_kernels else
                         list(want_kernels.columns))
        # If one type ends when another begins, HTA has a row with 0 or none, depending on its sorting.
        want = {row["kernel_type"]: (row["sum"] / PS, row["percentage"])
                for row in records(want_types) if row["sum"]}
        got = {row["kernel_type"]: (row["sum"], row["percentage"]) for row in got_types}
        self.assertEqual(got, want, what)
        sums = [row["sum"] for row in got_types]
        self.assertEqual(sums, sorted(sums, reverse=True))
        want = records(want_kernels)
        if options is not NO_CUT and tied_sums(ours):
            return  # the sorting of HTA decides which of them are "others"
        self.assertEqual(len(got_kernels), len(want), what)
        for mine, its in zip(got_kernels, want):
            for name, value in its.items():
                if name in ("stddev", "mean (us)"):
                    self.assertAlmostEqual(mine[name], value / PS, delta=1e-9 * value / PS, msg=what)
                else:
                    self.assertEqual(mine[name], value / PS if name.endswith("(us)") else value, what)
        self.rows += len(want)

    def test_synthetic(self):
        for seed in SEEDS:
            path, copy = self.traces(synthetic(seed), f"seed{seed}")
            self.check({0: path}, {0: copy}, f"seed {seed}")
        self.assertGreater(self.rows, 600)
        self.assertLess(self.failed, len(SEEDS))
        print(f"hta: {2 * len(SEEDS)} synthetic analyses, {self.rows} rows equal; "
              f"the original failed {self.failed} times")

    def test_ranks_together(self):
        """The set of steps is determined from all ranks."""
        for seed in range(0, 16, 2):
            both = [self.traces(synthetic(seed + rank), f"seed{seed}_{rank}") for rank in (0, 1)]
            self.check({rank: path for rank, (path, _) in enumerate(both)},
                       {rank: copy for rank, (_, copy) in enumerate(both)}, f"seed {seed}, 2 ranks")
        self.assertGreater(self.rows, 100)

    @unittest.skipUnless(KINETO.is_dir(), "no shared traces here")
    def test_recorded(self):
        for names in RECORDED:
            paths, copies = {}, {}
            for rank, name in enumerate(names):
                paths[rank] = KINETO / name
                copies[rank] = written(self.folder, f"rank{rank}", in_picoseconds(recorded(name)))
            self.check(paths, copies, names)
        self.assertEqual(self.failed, 2)  # cpu_torch215 has no GPU kernels
        print(f"hta: {self.rows} rows of recorded traces equal")

    @unittest.skipUnless(KINETO.is_dir(), "no shared traces here")
    def test_what_it_does_not_read(self):
        for name, error in UNREADABLE.items():
            path = KINETO / f"quirks/{name}.json"
            with self.assertRaises(error):
                analyzed({0: path})
            self.assertGreater(hta.TraceAnalysis({0: path}).get_temporal_breakdown()[0]["compute_time(us)"], 0)


def tied_sums(analyzer):
    rows = analyzer.get_gpu_kernel_breakdown(**NO_CUT)[1]
    return len({(row["rank"], row["kernel_type"], row["sum (us)"]) for row in rows}) < len(rows)


class Differences(unittest.TestCase):
    """Checks the statements of docs/migrating.md about HTA, on unchanged traces."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def both(self, events, with_last=False):
        path = written(self.folder, "trace", events)
        ours = hta.TraceAnalysis({0: path}, include_last_profiler_step=with_last)
        return analyzed({0: path}, with_last), ours

    def times(self, events):
        theirs, ours = self.both(events)
        return records(theirs.get_temporal_breakdown(visualize=False))[0], ours.get_temporal_breakdown()[0]

    def test_rounding(self):
        events = [kernel(10 * i + 0.3, 1.4, "gemm", i) for i in range(1000)]
        theirs, ours = self.times(events)
        self.assertEqual((theirs["compute_time(us)"], ours["compute_time(us)"]), (0, 1400))
        with unrounded():
            theirs, ours = self.both(events)
            of_type, of_name = breakdown(theirs)
            self.assertAlmostEqual(of_name["sum (us)"].sum(), 1400)
            self.assertEqual(of_type["sum"].sum(), 1000)  # HTA rounds each piece down
        self.assertEqual(ours.get_gpu_kernel_breakdown()[0][0]["sum"], 1400)

    def test_sums_below_zero_and_the_assertion(self):
        events = [kernel(10.3 * i, 5.2, "gemm", i) for i in range(100)]
        events += [kernel(10.3 * i + 7.1, 0.5, "Memset (Device)", i, cat="gpu_memset") for i in range(100)]
        theirs, ours = self.both(events)
        with self.assertRaises(AssertionError):
            theirs.get_temporal_breakdown(visualize=False)
        sums = {row["name"]: row["sum (us)"] for row in records(breakdown(theirs)[1])}
        self.assertLess(sums["Memset (Device)"], 0)
        self.assertEqual(ours.get_temporal_breakdown()[0]["non_compute_time(us)"], 50)

    def test_the_last_step_and_what_has_no_launch(self):
        t = 10**12
        events = [step(0, t, 100), step(1, t + 100, 50), launch(t + 10, 1), launch(t + 110, 2),
                  kernel(t + 20, 5, "gemm", 1), kernel(t + 120, 7, "gemm", 2), kernel(t + 1, 2, "gemm", 99)]
        after = [launch(t + 300, 3), kernel(t + 310, 20, "gemm", 3)]
        self.check_sum(events, 5)
        self.check_sum(events, 12, with_last=True)
        self.check_sum(events + after, 5)
        self.check_sum(events + after, 32, with_last=True)
        rows = xplane_time.open(pathlib.Path(self.folder, "trace.json")).kernels()
        self.assertEqual([(row["count"], row["total_ps"]) for row in rows], [(4, 34 * PS)])
        self.check_sum([*events, launch(t + 11, 1, "cuda_driver")], 10)  # the kernel has two launches
        self.check_sum(events[1:], 14)  # only one step

    def check_sum(self, events, sum_us, with_last=False):
        theirs, ours = self.both(events, with_last)
        self.assertEqual(breakdown(theirs)[1]["sum (us)"].sum(), sum_us)
        self.assertEqual(ours.get_gpu_kernel_breakdown()[1][0]["sum (us)"], sum_us)

    def test_an_operator_with_a_stream_counts(self):
        events = [step(0, 0, 100), step(1, 100, 100), launch(10, 1), kernel(20, 5, "triton_mm", 1),
                  event("cpu_op", 5, 80, "triton_mm", stream=7)]
        theirs, ours = self.times(events)
        self.assertEqual(theirs["compute_time(us)"], 80)
        self.assertEqual(ours["compute_time(us)"], 80)
        devices = xplane_time.open(pathlib.Path(self.folder, "trace.json")).report().devices
        self.assertEqual([row["busy_ps"] for row in devices], [5 * PS])

    def test_beyond_so_many_names_max_is_the_sum(self):
        events = [kernel(100 * i, 1 + i % 4 + i, f"k{i % 4}", i) for i in range(40)]
        theirs, ours = self.both(events)
        for analyzer in (lambda **how: records(breakdown(theirs, **how)[1]),
                         lambda **how: ours.get_gpu_kernel_breakdown(**how)[1]):
            longest = {row["name"]: (row["sum (us)"], row["max (us)"]) for row in analyzer()}
            self.assertEqual(longest["k3"], (250, 43))
            longest = {row["name"]: (row["sum (us)"], row["max (us)"]) for row in analyzer(num_kernels=2)}
            self.assertEqual(longest, {"k3": (250, 250), "k2": (230, 230), "others": (400, 210)})

    @unittest.skipUnless(int(pandas.__version__.split(".")[0]) >= 3, "this pandas is before 3")
    def test_pandas_3(self):
        events = [event("cpu_op", i, 1, "op") for i in range(33_000)]
        events += [launch(1, 1), kernel(2, 5, "gemm", 1)]
        with self.assertRaisesRegex(TypeError, "Invalid value .* for dtype 'int"):
            analyzed({0: written(self.folder, "trace", events)})

    @unittest.skipUnless(KINETO.is_dir(), "no shared traces here")
    def test_recorded(self):
        a100 = KINETO / "a100_nccl_graphs.json.gz"
        kernel_us = [self.kernel_us(analyzed({0: a100}, with_last)) for with_last in (False, True)]
        rows = xplane_time.open(a100).kernels()
        ours = (sum(row["count"] for row in rows), sum(row["total_ps"] for row in rows) / PS)
        self.assertEqual([*kernel_us, ours], [(5500, 318_168), (6875, 390_237), (7747, 449_763)])

    @unittest.skipUnless(KINETO.is_dir(), "no shared traces here")
    def test_recorded_in_nanoseconds(self):
        mi300 = self.with_far_ids("mi300_resnet_ddp.json.gz")
        theirs, ours = analyzed({0: mi300}), hta.TraceAnalysis({0: mi300})
        rounded = records(theirs.get_temporal_breakdown(visualize=False))[0]
        exact = ours.get_temporal_breakdown()[0]
        self.assertEqual([round(row["kernel_time(us)"] - row["idle_time(us)"], 3) for row in (rounded, exact)],
                         [54_976, 56_234.067])
        self.assertEqual(self.kernel_us(theirs), self.kernel_us(analyzed({0: mi300}, True)))
        frame = theirs.t.get_trace(0)
        of_device = frame[frame["stream"].ne(-1)]
        self.assertEqual((of_device["iteration"].notna().sum(), len(of_device)), (12, 2685))
        steps = xplane_time.open(mi300).samples(function="^ProfilerStep$")
        self.assertEqual(steps["kernels"], [895] * 3)
        with unrounded():
            theirs = analyzed({0: mi300})
        types = [{row["kernel_type"]: row["sum"] for row in rows} for rows in (
            records(breakdown(theirs)[0]), ours.get_gpu_kernel_breakdown()[0])]
        self.assertEqual([row["COMPUTATION"] for row in types], [6876, 7316.921])
        for name, time_us in records(theirs.get_temporal_breakdown(visualize=False))[0].items():
            self.assertAlmostEqual(time_us, exact[name], delta=0.002)

    def kernel_us(self, analyzer):
        frame = analyzer.t.get_trace(0)
        of_device = frame[frame["stream"].ne(-1)]
        return len(of_device), of_device["dur"].sum()

    def with_far_ids(self, name):
        """Writes the trace with larger ids, which HTA can read with pandas 3."""
        events = recorded(name)
        for each in events:
            if (each.get("args") or {}).get("correlation", 0) > 0:
                each["args"]["correlation"] += FAR_IDS
        return written(self.folder, "far", events)


class Interface(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def rank(self, name, rank, dur, opened=open):
        content = {"traceEvents": [kernel(0, dur, "gemm", 1)], "distributedInfo": {"rank": rank}}
        with opened(self.at / name, "wb") as file:
            file.write(json.dumps(content, indent=1).encode())

    def test_ranks_of_a_directory_of_names_and_given(self):
        self.rank("a.json", 1, 5)
        self.rank("b.json.gz", 0, 7, gzip.open)
        self.rank("c.txt", 0, 9)
        for analyzer in (hta.TraceAnalysis(trace_dir=self.at),
                         hta.TraceAnalysis(["a.json", "b.json.gz"], self.at),
                         hta.TraceAnalysis({1: "a.json", 0: self.at / "b.json.gz"}, self.at)):
            rows = analyzer.get_temporal_breakdown()
            self.assertEqual([(row["rank"], row["compute_time(us)"]) for row in rows], [(0, 7), (1, 5)])
        rows = hta.TraceAnalysis({5: self.at / "a.json"}).get_temporal_breakdown()
        self.assertEqual(rows[0]["rank"], 5)
        self.rank("d.json", 1, 9)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "d.json and .*a.json are both of rank 1"):
            hta.TraceAnalysis(trace_dir=self.at)

    def test_what_is_refused(self):
        self.rank("a.json", 0, 5)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "to_html"):
            hta.TraceAnalysis(trace_dir=self.at).get_temporal_breakdown(visualize=True)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "no trace"):
            hta.TraceAnalysis([])
        with self.assertRaisesRegex(xplane_time.NothingFoundError, "no category"):
            hta.TraceAnalysis({0: REPOSITORY / "testdata/jax_cpu_variants.xplane.pb"})
        written(self.at, "a", [event("cpu_op", 0, 1, "op")])
        with self.assertRaisesRegex(xplane_time.NothingFoundError, "no kernel that this definition"):
            hta.TraceAnalysis({0: self.at / "a.json"})


if __name__ == "__main__":
    unittest.main()
