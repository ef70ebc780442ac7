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
