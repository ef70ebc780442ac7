"""Compares xplane_time.compat with the original packages, bit by bit, on all recorded traces and on
synthetic ones. Skipped if the originals are not installed."""
import contextlib
import importlib.util
import io
import json
import logging
import os
import pathlib
import random
import tempfile
import unittest
from unittest import mock

if any(importlib.util.find_spec(name) is None for name in ("jax", "tune_jax", "xprof", "ejkernel")):
    raise unittest.SkipTest("tune-jax, xprof and ejkernel are needed: pip install '.[originals]', "
                            "pip install --no-deps ejkernel")

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
with contextlib.redirect_stderr(io.StringIO()):
    from tune_jax import profile_reader, tuning
    from tune_jax.profile_reader import xplane_pb2
    from xprof.cli.internal.oss import kernel_stats_tools

import jax
import numpy as np

import xplane_time
from xplane_time import compat
from xplane_time.compat import ejkernel, tune_jax, xprof

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TRACES = sorted((REPOSITORY / "testdata").glob("*.xplane.pb"))
TRACES += [path for path in sorted((REPOSITORY.parent / "shared/traces").glob("*.xplane.pb"))
           if "corrupt" not in path.name]
SEEDS = range(400)


def load_ejkernel():
    """Loads only the profiler module, because the whole package requires a GPU stack."""
    package = pathlib.Path(importlib.util.find_spec("ejkernel").origin).parent
    spec = importlib.util.spec_from_file_location("ejkernel_profiler",
                                                  package / "ops/execution/profiler.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ORIGINAL_EJKERNEL = load_ejkernel()
logging.getLogger().setLevel(logging.CRITICAL)

PLANES = ["/device:GPU:0", "/device:TPU:0 SparseCore", "/host:CPU", "/device:CUSTOM:x", "gpu-like"]
LINES = ["XLA Ops", "XLA Modules", "pallas", "LLO Ops", "Vector Instructions", "Stream #7(Kernel)",
         "Overlay", "Steps", "python", "XLA Ops"]
NAMES = ["jit_f", "jit_autotune_fn_1", "jit_autotune_fn_01", "jit_tune_jax_fn_7", "fusion.1", "42",
         "custom-call: x y", "%while (a)", "jit_f(5)[1]", "CHILD-jit_f(5)", "Pallas kernel", "\t a", " "]
STATS = ["hlo_module", "program_id", "run_id", "scope_range_id", "tf_op_name", "msg", "label",
         "other", "hlo_module"]
TEXTS = ["jit_f", "jit_g", "", "0", "jit_autotune_fn_2", "jit_tune_jax_fn_7", "custom_call x", "5"]


def set_value(stat, choose, references):
    kind = choose.choice(["int64", "uint64", "double", "str", "ref", "bytes", "none", "int64"])
    if kind == "int64":
        stat.int64_value = choose.choice([0, 5, 5, -7, 2**62])
    elif kind == "uint64":
        stat.uint64_value = choose.choice([0, 5, 12190760917235803885])
    elif kind == "double":
        stat.double_value = choose.choice([0.0, -0.0, 0.1, 1e22, 1e16, 123456789.125, 1e-5, 5.0,
                                           float("nan"), float("inf")])
    elif kind == "str":
        stat.str_value = choose.choice(TEXTS)
    elif kind == "ref":
        stat.ref_value = choose.choice([*references, 0, 99])
    elif kind == "bytes":
        stat.bytes_value = choose.choice([b"", b"it's", b'"\'\\', b"\n\x01~\x7f", b"\xff"])


def synthetic(seed, odd_stats=None):
    """A small trace with everything on which the definitions depend: ties, zero durations, repeated
    runs, stats of every type (also zero, missing and duplicate ones), and missing metadata."""
    choose = random.Random(seed)
    space = xplane_pb2.XSpace()
    if odd_stats is None:
        odd_stats = choose.random() < 0.5
    for _ in range(choose.randint(1, 3)):
        plane = space.planes.add(name=choose.choice(PLANES))
        for number, name in enumerate(NAMES, 1):
            if choose.random() < 0.95:
                plane.event_metadata[number].id = number
                plane.event_metadata[number].name = name
        for number, name in enumerate(STATS + TEXTS, 1):
            if choose.random() < 0.97:
                plane.stat_metadata[number].id = number
                plane.stat_metadata[number].name = name
        references = range(len(STATS) + 1, len(STATS) + len(TEXTS) + 1)
        unit_ps = choose.choice([1, 500, 1000, 999_983])
        base_ns = choose.choice([0, 0, 3, 1_770_000_000_123_456_789])
        few = choose.sample(range(1, len(NAMES) + 1), choose.randint(1, 4))
        for _ in range(choose.randint(1, 4)):
            line = plane.lines.add(name=choose.choice(LINES),
                                   timestamp_ns=base_ns + choose.randint(0, 3))
            for _ in range(choose.choice([0, 3, 12, 40])):
                event = line.events.add(metadata_id=choose.choice(few),
                                        duration_ps=choose.choice([0, 1, 2, 3, 7]) * unit_ps)
                if choose.random() < 0.03:
                    event.num_occurrences = 3
                else:
                    event.offset_ps = choose.randint(0, 30) * unit_ps
                for number in range(1, len(STATS) + 1):
                    if choose.random() > 0.25:
                        continue
                    stat = event.stats.add(metadata_id=number)
                    if odd_stats:
                        set_value(stat, choose, references)
                    elif STATS[number - 1].endswith("_id"):
                        stat.int64_value = choose.choice([5, 6])
                    else:
                        stat.ref_value = choose.choice(references)
    return space.SerializeToString()


def message_of(content):
    space = xplane_pb2.XSpace()
    space.ParseFromString(content)
    return space


def exact(times):
    """The result for an exact comparison: with the order of keys, and floats as bits."""
    return [(key, float(value).hex()) for key, value in times.items()]


class Counts:
    traces = planes = keys = original_failed = 0


class Differential(unittest.TestCase):
    """`contents`: name and bytes of each trace."""

    def contents(self):
        for path in TRACES:
            yield path.name, path.read_bytes()
        for seed in SEEDS:
            yield f"seed {seed}", synthetic(seed)

    def check_counts(self, counts, what):
        self.assertEqual(counts.traces, len(TRACES) + len(SEEDS))
        self.assertGreater(counts.keys, 2000)
        print(f"{what}: {counts.traces} traces, {counts.planes} planes, {counts.keys} keys equal; "
              f"the original failed {counts.original_failed} times")

    def test_ejkernel(self):
        counts = Counts()
        for number, (name, content) in enumerate(self.contents()):
            counts.traces += 1
            message = message_of(content)
            options = [{}] if number < len(TRACES) else [
                {"min_duration_ns": 0.0, "prefix_filter": ""},
                {"min_duration_ns": 0.5, "prefix_filter": "jit_", "max_events_per_profile": 9},
                {"min_duration_ns": 0.0, "prefix_filter": "jit_",
                 "event_filter_regex": "fusion|jit_[ag]|None", "max_events_per_profile": None}]
            for option in options:
                ours = ejkernel.Profiler(**option)
                original = ORIGINAL_EJKERNEL.Profiler(**option)
                profile = ours.parse_profile_from_bytes(content)
                self.assertEqual([plane.name for plane in profile.planes],
                                 [plane.name for plane in message.planes])
                for plane in range(len(message.planes)):
                    want = original.get_events_from_plane(message, plane)
                    got = ours.get_events_from_plane(profile, plane)
                    self.assertEqual(exact(got), exact(want), (name, plane, option))
                    counts.planes += 1
                    counts.keys += len(want)
        self.check_counts(counts, "ejkernel")

    def test_tune_jax(self):
        counts = Counts()
        for number, (name, content) in enumerate(self.contents()):
            counts.traces += 1
            for original, ours in (
                    (profile_reader.parse_profile_from_bytes(content),
                     tune_jax.parse_profile_from_bytes(content)),
                    (message_of(content), compat.Profile(message_of(content)))):
                for plane, _ in enumerate(original.planes):
                    for prefix, regex in (("", None), ("jit_", None), ("jit_", "fusion|CHILD|f")):
                        if regex is not None and number < len(TRACES) and plane > 3:
                            continue  # the original is slow here
                        counts.planes += 1
                        try:
                            want = profile_reader.get_events_from_plane(
                                original, plane, prefix, regex)
                        except UnicodeDecodeError:  # ProfileData cannot decode these bytes
                            counts.original_failed += 1
                            continue
                        got = tune_jax.get_events_from_plane(ours, plane, prefix, regex)
                        self.assertEqual(exact(got), exact(want), (name, plane, prefix, regex))
                        counts.keys += len(want)
        self.assertGreater(counts.original_failed, 0)
        self.check_counts(counts, "tune-jax")

    def test_xprof(self):
        counts = Counts()
        for number, (name, content) in enumerate(self.contents()):
            counts.traces += 1
            for option in ({}, {"limit": 0, "include_intra_kernel_regions": True},
                           {"kernel_name": "fusion.1"}, {"trace_matchers": ("jit_", "(")}):
                if option and number < len(TRACES) and len(content) > 2_000_000:
                    continue  # the original takes half a minute
                try:
                    want = json.loads(kernel_stats_tools.get_kernel_stats(
                        content, include_summary=True, **option))
                except RuntimeError as error:  # a name that consists only of spaces
                    self.assertIn("index out of range", str(error))
                    counts.original_failed += 1
                    xprof.device_time_attribution(content, **option)
                    continue
                counts.planes += 1
                if "info" in want:
                    with self.assertRaises(xplane_time.NothingFoundError):
                        xprof.device_time_attribution(content, **option)
                    continue
                got = xprof.device_time_attribution(content, **option)
                self.assertEqual(json.dumps(got), json.dumps(want), (name, option))
                counts.keys += len(want["kernel_records"]) + len(want["by_line_duration_ns"])
        self.assertGreater(counts.original_failed, 0)
        self.check_counts(counts, "xprof")

    def test_times_of_variants(self):
        choose = random.Random(5)
        compared = 0
        for _ in range(300):
            captures = []
            for _ in range(choose.randint(1, 20)):
                captures.append({f"jit_autotune_fn_{choose.randint(0, 9)}({k}-None)":
                                 choose.choice([0.0, choose.random(), 1e-6 * choose.random()])
                                 for k in range(choose.randint(1, 30))})
            original, ours = ORIGINAL_EJKERNEL.Profiler(), ejkernel.Profiler()
            feed = {"find_device_plane_ids": lambda *_: [0],
                    "parse_profile_from_bytes": lambda *_: None}
            with mock.patch.multiple(original, **feed, _tf_python_profiler_available=lambda: True,
                                     get_events_from_plane=mock.Mock(side_effect=captures)), \
                    mock.patch.multiple(ours, **feed, get_events_from_plane=mock.Mock(
                        side_effect=captures)), \
                    mock.patch("jax.profiler.trace", side_effect=written_trace), \
                    mock.patch("xplane_time.jax.capture", return_value=b""):
                want = original.profile_time_by_function_id(lambda: None, "gpu", len(captures))
                got = ours.profile_time_by_function_id(lambda: None, "gpu", len(captures))
            self.assertEqual(list(got.items()), list(want.items()))
            compared += len(want)
        self.assertGreater(compared, 1000)

    def test_times_of_tuned_functions(self):
        compared = twice = 0
        for seed in range(300):
            contents = tuned_captures(seed)
            waiting = iter(contents)
            with mock.patch("jax.profiler.trace", side_effect=written_trace), \
                    mock.patch.object(pathlib.Path, "read_bytes", lambda _: next(waiting)):
                try:
                    want = dict(tuning._time_with_profiler(lambda: None, "gpu", len(contents)))
                except RuntimeError as error:
                    self.assertIn("more than once", str(error))
                    with self.assertRaisesRegex(xplane_time.NothingFoundError, "more than once"):
                        tune_jax.function_timings(contents, "gpu")
                    twice += 1
                    continue
            self.assertEqual(tune_jax.function_timings(contents, "gpu"), want, seed)
            compared += len(want)
        self.assertGreater(compared, 300)
        self.assertGreater(twice, 5)
        print(f"tune-jax: {compared} times of functions equal, {twice} times an error as there")


def tuned_captures(seed):
    """Captures of up to 20 functions on up to 3 devices; some functions occur repeatedly."""
    choose = random.Random(seed)
    captures = []
    for _ in range(choose.randint(1, 7)):
        space = xplane_pb2.XSpace()
        for _ in range(choose.randint(1, 3)):
            plane = space.planes.add(name=choose.choice(["/device:GPU:0", "/host:CPU"]))
            order = choose.sample(range(20), choose.randint(1, 20))
            if choose.random() < 0.02:
                order.append(order[0])
            for place, function in enumerate(order):
                plane.event_metadata[function + 1].name = f"jit_tune_jax_fn_{function}"
                line = plane.lines.add() if place % 5 == 0 else line
                for kernel in range(choose.randint(1, 3)):
                    line.events.add(metadata_id=function + 1, offset_ps=place * 10**6 + kernel,
                                    duration_ps=choose.choice([0, choose.randint(1, 10**6)]))
        captures.append(space.SerializeToString())
    return captures


@contextlib.contextmanager
def written_trace(folder):
    yield
    (pathlib.Path(folder) / "a.xplane.pb").write_bytes(b"")


class Interface(unittest.TestCase):
    def test_what_has_no_bytes_is_refused_with_the_way_out(self):
        with self.assertRaisesRegex(xplane_time.ArgumentError, "pass the bytes"):
            compat.Profile(profile_reader.parse_profile_from_bytes(synthetic(1)))

    def test_planes_that_are_not_there(self):
        profiler = ejkernel.Profiler()
        profile = profiler.parse_profile_from_bytes(TRACES[0].read_bytes())
        with self.assertRaisesRegex(ejkernel.ProfilingError, "No planes found for device 'xpu'"):
            profiler.find_device_plane_ids(profile, "xpu")
        with self.assertRaisesRegex(ejkernel.ProfilingError, "out of range"):
            profiler.get_events_from_plane(profile, 1000)
        with self.assertRaises(IndexError):
            tune_jax.get_events_from_plane(profile, 1000)
        self.assertEqual(tune_jax.find_device_plane_ids(profile, "xpu"), [])

    def test_damage(self):
        content = TRACES[0].read_bytes()[:-7]
        with self.assertRaises(ejkernel.ProfilingError):
            ejkernel.Profiler.parse_profile_from_bytes(content)
        with self.assertRaises(xplane_time.DamagedTraceError):
            tune_jax.parse_profile_from_bytes(content)

    def test_tests_of_names_may_raise(self):
        profile = tune_jax.parse_profile_from_bytes(TRACES[0].read_bytes())
        with self.assertRaises(ZeroDivisionError):
            for plane in range(len(profile.planes)):
                profile.trace.tune_jax_times(plane, "", False, lambda key: 1 / 0)

    def test_identical_planes_stay(self):
        content = TRACES[0].read_bytes()
        self.assertEqual(len(compat.Profile(content * 2).planes),
                         2 * len(compat.Profile(content).planes))

    def test_in_a_jax_session(self):
        import jax.numpy as jnp

        def autotune_fn_3(x):
            return jnp.tanh(x @ x)

        run = jax.jit(autotune_fn_3)
        x = jnp.ones((200, 200))
        run(x).block_until_ready()
        times = ejkernel.Profiler(prefix_filter="").profile_time_by_function_id(
            lambda: run(x).block_until_ready(), "cpu", 3)
        for mean_s, std_s in times.values():
            self.assertGreater(mean_s, 0)
            self.assertTrue(np.isfinite(std_s))
        self.assert_frames_of_python(lambda: run(x).block_until_ready())
        profiler = ejkernel.Profiler(require_tf=True)
        if importlib.util.find_spec("tensorflow") is None:
            with self.assertRaisesRegex(ejkernel.ProfilingError, "hooks are not available"):
                profiler.profile_time_by_function_id(lambda: None, "cpu", 1)

    def assert_frames_of_python(self, closure):
        """Checks that frames are traced, as by the originals, although this slows the timed code."""
        from xplane_time import jax as captures

        kept, captured = [], captures.capture

        def keeping(*arguments, **options):
            kept.append(captured(*arguments, **options))
            return kept[-1]

        with mock.patch.object(captures, "capture", keeping):
            tune_jax.time_with_profiler(closure, "cpu", 1)
            ejkernel.Profiler().profile_time_by_function_id(closure, "cpu", 1)
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                closure()
            original = next(pathlib.Path(folder).rglob("*.xplane.pb")).read_bytes()
        has_frames = [b"$test_compat.py" in content for content in (original, *kept)]
        self.assertEqual(has_frames, [has_frames[0]] * 3)
        self.assertNotIn(b"$test_compat.py", captured(closure))


if __name__ == "__main__":
    unittest.main()
