"""Records real sessions of jax on its CPU backend. Skipped if jax is not installed."""
import importlib.util
import pickle
import tempfile
import unittest
from unittest import mock

if importlib.util.find_spec("jax") is None:
    raise unittest.SkipTest("jax is not installed")

import jax
import jax.numpy as jnp

import xplane_time
from xplane_time import jax as harness


# On the CPU, jax 0.6.0 writes no run_id, so runs cannot be separated. From 0.6.2 to 0.7.1, it writes no
# executions at all.
STATS = xplane_time.open(harness.capture(lambda: jnp.ones(3) + 1)).stats["name"]
TELLS_RUNS = "run_id" in STATS
HAS_EXECUTIONS = "hlo_op" in STATS


def chain(length):
    def run(x):
        for i in range(length):
            x = jnp.tanh(x @ x * 0.01 + i)
        return x
    return run


class Variants(unittest.TestCase):
    def setUp(self):
        self.x = jnp.ones((160, 160))

    @unittest.skipIf(TELLS_RUNS, "this jax separates runs")
    def test_without_run_ids_nothing_is_made_up(self):
        why = "does not separate runs" if HAS_EXECUTIONS else f"jax {jax.__version__}; on the CPU"
        with self.assertRaisesRegex(xplane_time.NothingFoundError, why):
            harness.time_variants({"a": chain(1)}, self.x)
        self.assertEqual(harness.time_variants({"a": chain(1)}, self.x, fallback="wall").clock,
                         "wall")
        run = jax.jit(chain(2))
        if HAS_EXECUTIONS:
            found = harness.profile(lambda: run(self.x))
            self.assertEqual((found.by_function, found.uncertain), ({}, {"jit_run"}))
        else:
            with self.assertRaises(xplane_time.NothingFoundError):
                harness.profile(lambda: run(self.x))

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_order_of_clearly_different_variants(self):
        lengths = (5, 1, 8, 3)
        timing = harness.time_variants({n: chain(2 * n) for n in lengths}, self.x, repeats=9)
        medians = timing.medians_ps
        self.assertEqual(set(medians), set(lengths))
        self.assertEqual(list(medians.values()), sorted(medians.values()))
        self.assertLess(medians[1], medians[8])  # an eighth of the work
        self.assertEqual({len(times) for times in timing.samples_ps.values()}, {9})
        self.assertIn(timing.clock, ("profile", "device"))
        self.assertEqual(timing.aliases, {})

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_variants_of_one_program_are_one(self):
        def one(x):
            return x * 2 + 1

        def other(y):
            z = y * 2
            return z + 1

        timing = harness.time_variants({"a": one, "b": other, "c": chain(2)}, self.x)
        self.assertEqual(timing.aliases, {"b": "a"})
        self.assertEqual(timing.samples_ps["a"], timing.samples_ps["b"])
        self.assertIn("the same program as 'a'", repr(timing))

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_verdict(self):
        variants = {"slow": chain(40), 1: chain(1), "again": lambda x: chain(1)(x)}
        timing = harness.time_variants(variants, self.x, repeats=12)
        choice = timing.pick()
        self.assertEqual((choice.claim, choice.pick, timing.fastest), ("winner", "1", 1))
        self.assertTrue(choice.to_dict()["in_rounds"])
        self.assertEqual(choice.to_dict()["clock"], timing.clock)
        self.assertEqual(choice.variants["units"], [12, 12])
        self.assertEqual(choice.variants["variant_id"], ["1", "slow"])  # the alias is not measured
        shown = repr(timing)
        for line in (choice.explanation, *choice.reasons,
                     "The probability of a wrong claim is at most 0.01."):
            self.assertIn(line, shown.splitlines())
        self.assertEqual(pickle.loads(pickle.dumps(timing)), timing)
        self.assertEqual(timing.pick(delta=0.5, alpha=0.2).to_dict()["options"]["delta"], 0.5)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "alpha"):
            timing.pick(alpha=0)

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_the_verdict_is_that_of_the_command_on_the_capture(self):
        contents = []

        def kept(closure):
            contents.append(capture(closure))
            return contents[-1]

        capture = harness.capture
        with mock.patch.object(harness, "capture", kept):
            timing = harness.time_variants({0: chain(1), 1: chain(9), 2: chain(3)}, self.x)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/c.xplane.pb"
            with open(path, "wb") as file:
                file.write(contents[-1])
            pattern = "^jit_autotune_fn_([0-9]+)_"
            want = xplane_time.pick(path, id_pattern=pattern, function=pattern).to_dict()
        got = timing.pick().to_dict()
        for key in ("claim", "pick", "regret", "tied", "in_rounds", "clock", "metric", "mde"):
            self.assertEqual(got[key], want[key], key)
        for mine, other in zip(got["variants"], want["variants"], strict=True):
            self.assertEqual({**mine, "function": ""}, {**other, "function": ""})

    def test_without_enough_rounds_it_is_undecided(self):
        timing = harness.time_variants({"a": chain(1), "b": chain(30)}, self.x, repeats=3,
                                       fallback="wall")
        self.assertEqual((timing.pick().claim, timing.fastest), ("too_little_data", None))
        self.assertIn("At least four rounds are needed", repr(timing))
        self.assertNotIn("The probability of a wrong claim", repr(timing))

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_as_a_data_frame(self):
        import polars
        timing = harness.time_variants({"a": chain(1), (2, "x"): chain(2), "c": chain(2)}, self.x,
                                       repeats=4)
        self.assertEqual(timing.aliases, {"c": (2, "x")})
        runs = timing.runs
        self.assertEqual(runs.columns, ["variant", "device", "run", "start_ps", "time_ps"])
        self.assertEqual(len(runs), 8)
        self.assertEqual(runs["start_ps"], sorted(runs["start_ps"]))
        for frame in (polars.DataFrame(timing), timing.to_polars()):
            times = frame.filter(polars.col("variant") == "(2, 'x')")["time_ps"]
            self.assertEqual(times.to_list(), timing.samples_ps[2, "x"])
        self.assertEqual(list(timing.to_pandas()["run"]), runs["run"])
        self.assertEqual(timing.to_arrow().num_rows, 8)

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_in_a_notebook(self):
        hostile = "<img src=x>"
        timing = harness.time_variants({hostile: chain(1), "b": chain(30), "same": chain(1)}, self.x)
        shown = timing._repr_html_()
        self.assertNotIn("<img", shown)
        self.assertIn("&lt;img", shown)
        self.assertEqual(shown.count("<tr>"), 4)
        self.assertIn("the same program as", shown)
        self.assertIn("winner: variant", shown)

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_ids_with_one_text_stay_apart(self):
        timing = harness.time_variants({1: chain(30), "1": chain(1), "'1'": chain(3), "1 #2": chain(5)},
                                       self.x)
        self.assertEqual(len(set(timing._names().values())), 4)
        self.assertEqual(timing.fastest, "1")
        self.assertIsInstance(timing.fastest, str)

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_ids_may_be_anything_hashable(self):
        timing = harness.time_variants({(64, "fast"): chain(1), None: chain(2)}, self.x, repeats=2)
        self.assertEqual(set(timing.samples_ps), {(64, "fast"), None})

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_others_of_the_same_name_are_not_taken_for_a_variant(self):
        def autotune_fn_0(x):
            return x + 1

        other = jax.jit(autotune_fn_0)
        other(self.x)

        def variant(x):
            return jax.pure_callback(lambda y: other(y), x, x)

        timing = harness.time_variants({"a": variant}, self.x, repeats=3)
        self.assertEqual(len(timing.samples_ps["a"]), 3)

    def test_a_variant_that_fails_says_so(self):
        def broken(x):
            raise RuntimeError("no such tile")
        with self.assertRaisesRegex(RuntimeError, "no such tile") as caught:
            harness.time_variants({"ok": chain(1), "broken": broken}, self.x)
        self.assertIn("in variant 'broken'", "".join(caught.exception.__notes__))

    def test_without_a_profiler_the_clock_is_labelled(self):
        variants = {"a": chain(1), "b": chain(30)}
        failing = mock.patch.object(harness, "capture",
                                    side_effect=harness.CaptureError("no profiler"))
        with failing, self.assertRaises(harness.CaptureError):
            harness.time_variants(variants, self.x)
        with failing:
            timing = harness.time_variants(variants, self.x, fallback="wall", repeats=3)
        self.assertEqual(timing.clock, "wall")
        self.assertGreater(min(timing.medians_ps.values()), 0)
        self.assertEqual({len(times) for times in timing.samples_ps.values()}, {3})
        self.assertEqual(set(timing.runs["device"]), {None})
        with failing:
            timing = harness.time_variants(variants, self.x, fallback="wall", repeats=12)
        self.assertEqual(timing.fastest, "a")
        self.assertEqual((timing.pick().to_dict()["clock"], timing.pick().to_dict()["metric"]),
                         ("wall", "call"))

    def test_arguments(self):
        for call in (lambda: harness.time_variants({}, self.x),
                     lambda: harness.time_variants({"a": chain(1)}, self.x, repeats=0),
                     lambda: harness.time_variants([chain(1)], self.x),
                     lambda: harness.time_variants({"a": chain(1)}, self.x, fallback="wal"),
                     lambda: harness.profile(lambda: 1, warmup=-1)):
            with self.assertRaises(xplane_time.ArgumentError):
                call()


class Captures(unittest.TestCase):
    def test_in_memory_with_the_jax_that_is_installed(self):
        with mock.patch.object(tempfile, "TemporaryDirectory", side_effect=AssertionError):
            self.assertTrue(harness.capture(lambda: jnp.ones(3) + 1))

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_profile(self):
        run = jax.jit(chain(3))
        x = jnp.ones((100, 100))
        found = harness.profile(lambda: run(x), repeats=4)
        self.assertEqual(len(found.by_function["jit_run"]), 4)
        self.assertEqual(found.by_variant, {})
        self.assertGreater(found.trace.event_count, 0)

    def test_on_disk_where_there_is_no_session(self):
        run = jax.jit(chain(2))
        x = jnp.ones((100, 100))
        run(x)
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(harness, "_session_class", return_value=None), \
                mock.patch.object(tempfile, "tempdir", folder):
            content = harness.capture(lambda: run(x))
            self.assertEqual(list(__import__("pathlib").Path(folder).iterdir()), [])
        trace = xplane_time.open(content)
        if HAS_EXECUTIONS:
            self.assertEqual(trace.functions()["function"], ["jit_run"])
        else:
            self.assertGreater(trace.event_count, 0)

    def test_what_a_closure_raises_comes_through_and_the_next_capture_works(self):
        def broken():
            raise ValueError("mine")
        for session in (harness._session_class(), None):
            with mock.patch.object(harness, "_session_class", return_value=session):
                with self.assertRaisesRegex(ValueError, "mine"):
                    harness.capture(broken)
                self.assertTrue(harness.capture(lambda: jnp.ones(3) + 1))

    @unittest.skipUnless(TELLS_RUNS, "this jax does not separate runs")
    def test_what_did_not_run_equally_often_is_not_trusted(self):
        def sometimes(x):
            return x + 1

        run, other = jax.jit(chain(1)), jax.jit(sometimes)
        x = jnp.ones((50, 50))
        jax.block_until_ready((run(x), other(x)))
        turn = iter([True, True, False])
        found = harness.profile(lambda: [run(x), other(x) if next(turn) else x], repeats=3,
                                warmup=0)
        self.assertEqual(found.uncertain, {"jit_sometimes"})
        self.assertEqual({name: len(times) for name, times in found.by_function.items()},
                         {"jit_run": 3})

    def test_a_second_session_is_refused_with_the_reason(self):
        with self.assertRaisesRegex(harness.CaptureError, "one trace at a time"):
            harness.capture(lambda: harness.capture(lambda: jnp.ones(3) + 1))

    def test_nothing_ran(self):
        with self.assertRaises(xplane_time.NothingFoundError):
            harness.profile(lambda: None)

    def test_errors_can_be_sent(self):
        error = pickle.loads(pickle.dumps(harness.CaptureError("why")))
        self.assertEqual((type(error), error.code, str(error)),
                         (harness.CaptureError, "UNAVAILABLE", "why"))


if __name__ == "__main__":
    unittest.main()
