"""Harnesses of xplane_time.harness under the real `xplane-time tune`."""
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import xplane_time
from xplane_time import harness

try:
    import numpy
except ImportError:
    numpy = None

COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"


class HarnessTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)

    def tune(self, variants, program, *options, code=0, workloads=None):
        space = {"schema": "xplane-time.space.v1", "name": "test",
                 "variants": [{"params": each} for each in variants]}
        if workloads is not None:
            space["workloads"] = workloads
        (self.at / "space.json").write_text(json.dumps(space))
        (self.at / "harness.py").write_text(textwrap.dedent(program))
        done = subprocess.run(
            [COMMAND, "tune", "space.json", "--format", "json", *options, "--", sys.executable,
             "harness.py"], cwd=self.at, capture_output=True, text=True, timeout=300,
            env={**os.environ, "XDG_RUNTIME_DIR": str(self.at)})
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def picked(self, result):
        return next(row["params"] for row in result["variants"] if row["id"] == result["pick"])


# The timer returns the time that the variant states, so no test depends on the machine's speed.
CALLABLES = """
    import itertools
    from xplane_time.harness import serve

    turn = itertools.count()

    def build(params):
        if params.get("fails") == "build":
            raise ValueError("no such tile")
        if params.get("fails") == "memory":
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")
        def run():
            if params.get("fails") == "run":
                raise RuntimeError("illegal address")
            return 8 if params.get("fails") == "result" else 7
        run.cost = params.get("cost", 50)
        return run

    def timer(run):
        run()
        return run.cost * 1000 + next(turn) * 7919 % 13

    serve(build, reference=lambda: 7, timer=timer, device_class="test", parallel_prepare=2)
"""


@unittest.skipIf(numpy is None, "numpy is not installed")
class Grid(unittest.TestCase):
    EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "grid"

    def test_the_example_has_the_original_tree_and_is_sound(self):
        with tempfile.TemporaryDirectory() as at:
            env = {**os.environ, "XDG_RUNTIME_DIR": at}
            done = subprocess.run(
                [COMMAND, "grid", "space.json", "--samples", "6", "--baseline", "softmax", "-o",
                 f"{at}/results", "--format", "json", "--", sys.executable, "harness.py"],
                cwd=self.EXAMPLE, capture_output=True, text=True, timeout=300, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = {row["setting"]: row for row in json.loads(done.stdout)["settings"]}
            self.assertEqual({row["n"] for row in rows.values()}, {6})
            self.assertEqual(rows["softmax"]["accuracy"], 1)
            self.assertGreater(rows["mincut_l0.7_t0"]["kv_cache_reduction"],
                               rows["mincut_l0.3_t0"]["kv_cache_reduction"])
            self.assertTrue(pathlib.Path(at, "results/csv/mincut_l0.3_t2.csv").exists())
            verified = subprocess.run([COMMAND, "verify", f"{at}/results/witness.zip"], env=env,
                                      capture_output=True, text=True, timeout=60)
            self.assertEqual(verified.returncode, 0, verified.stdout)

    def test_metrics_are_what_json_has(self):
        self.assertEqual(harness._numbers({"a": numpy.int64(3), "b": numpy.float32(0.5), "c": None,
                                           "d": float("nan"), "e": True, "f": 1 << 60}),
                         {"a": 3, "b": 0.5, "c": None, "d": None, "e": 1, "f": 1 << 60})


class Callables(HarnessTest):
    def test_the_fastest_right_one(self):
        variants = [{"cost": cost} for cost in (130, 100, 170)]
        variants += [{"fails": how} for how in ("build", "memory", "result", "run")]
        result = self.tune(variants, CALLABLES)
        self.assertEqual(self.picked(result), {"cost": 100})
        statuses = {row["params"]["fails"]: row["status"] for row in result["variants"]
                    if "fails" in row["params"]}
        self.assertEqual(statuses, {"build": "compile_error", "memory": "oom",
                                    "result": "wrong_result", "run": "runtime_error"})
        self.assertEqual(result["harness"]["device_class"], "test")

    def test_energies_are_those_that_are_given(self):
        program = CALLABLES.replace("serve(build, ", "serve(build, energy=lambda p: p.get('uj'), ")
        energies = {7.4: 7, None: None, -1.0: None}
        space = {"schema": "xplane-time.space.v1",
                 "variants": [{"params": {"uj": each}} for each in energies]}
        (self.at / "space.json").write_text(json.dumps(space))
        (self.at / "harness.py").write_text(textwrap.dedent(program))
        done = subprocess.run(
            [COMMAND, "grid", "space.json", "--samples", "3", "-o", "out", "--format", "json", "--",
             sys.executable, "harness.py"], cwd=self.at, capture_output=True, text=True,
            timeout=300, env={**os.environ, "XDG_RUNTIME_DIR": str(self.at)})
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["params"]["uj"]: row for row in json.loads(done.stdout)["settings"]}
        self.assertEqual({uj: row["energy_uj"] for uj, row in rows.items()}, energies)
        self.assertEqual(rows[-1.0]["status"], "runtime_error")
        self.assertIn("returned -1.0, not microjoules", rows[-1.0]["message"])

    def test_workloads(self):
        program = """
            from xplane_time.harness import serve
            def build(params, workload):
                def run():
                    return workload["n"]
                run.cost = abs(params["best_at"] - workload["n"]) + 10
                return run
            serve(build, reference=lambda workload: workload["n"], timer=lambda run: run.cost * 10**6)
        """
        result = self.tune([{"best_at": n} for n in (1, 5, 9)], program,
                           workloads=[{"id": "a", "params": {"n": 1}},
                                      {"id": "b", "params": {"n": 9}, "weight": 5}])
        self.assertEqual(self.picked(result), {"best_at": 9})

    def test_the_energy_is_that_of_the_timed_calls(self):
        program = """
            import time
            from xplane_time.harness import serve, wall_timer

            timed = False

            def build(params):
                return lambda: time.sleep(0.1 if timed else 0.5)

            def timer(run):
                global timed
                timed = True
                try:
                    return wall_timer(run)
                finally:
                    timed = False

            serve(build, timer=timer, device_class="test")
        """
        result = self.tune([{"x": 0}, {"x": 1}], program, "--objective", "energy",
                           "--power-source", "constant:100", "--budget-runs", "2", code=12)
        for row in result["variants"]:
            took_s, from_energy_s = row["typical_ps"] / 1e12, row["typical_uj"] / 100e6
            self.assertGreaterEqual(from_energy_s, took_s * 0.999)
            self.assertLess(from_energy_s, took_s + 0.4)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_a_timer_may_give_any_number(self):
        program = """
            import numpy
            from xplane_time.harness import serve

            def build(params):
                run = lambda: {"x": numpy.arange(3), "y": (numpy.ones(2),)}
                run.params = params
                return run

            def timer(run):
                run()
                return eval(run.params["gives"])

            serve(build, reference=lambda: {"x": numpy.arange(3), "y": (numpy.ones(2),)},
                  timer=timer)
        """
        kinds = ["numpy.int64(10**8)", "1.2e8 + 0.25", "numpy.float32(1.4e8)", "10**9"]
        wrong = ["float('nan')", "float('inf')", "-5", "None"]
        result = self.tune([{"gives": each} for each in kinds + wrong], program)
        self.assertEqual(self.picked(result), {"gives": kinds[0]})
        rows = {row["params"]["gives"]: row for row in result["variants"]}
        for each in wrong:
            self.assertEqual(rows[each]["eliminated"]["reason"], "runtime_error", each)
            self.assertRegex(rows[each]["message"], "the timer returned .*, not picoseconds")

    def test_a_variant_that_exits(self):
        program = """
            import sys
            from xplane_time.harness import serve

            def build(params):
                if params.get("at") == "build":
                    sys.exit(2)
                if params.get("at") == "interrupt":
                    raise KeyboardInterrupt
                calls = []
                def run():
                    calls.append(1)
                    if params.get("at") == "verify" or params.get("at") == "run" and len(calls) > 1:
                        sys.exit(3)
                    return 1
                run.cost = params.get("cost", 50)
                return run

            def timer(run):
                run()
                return run.cost * 10**6

            serve(build, reference=lambda: 1, timer=timer)
        """
        result = self.tune([{"cost": 100}, {"cost": 150}, *({"at": at} for at in (
            "build", "interrupt", "verify", "run"))], program)
        self.assertEqual(self.picked(result), {"cost": 100})
        rows = {row["params"].get("at"): row for row in result["variants"]}
        self.assertEqual({at: rows[at]["status"] for at in ("build", "interrupt", "verify")},
                         {"build": "compile_error", "interrupt": "compile_error",
                          "verify": "runtime_error"})
        self.assertEqual(rows["run"]["eliminated"]["reason"], "runtime_error")

    def test_an_interrupt_ends_it(self):
        """A real SIGINT ends the harness, both while it waits and while a variant runs."""
        program = textwrap.dedent("""
            import time
            from xplane_time.harness import serve

            def build(params):
                return lambda: time.sleep(params["s"])

            serve(build, reference=lambda: None)
        """)
        for seconds in (0, 1000):
            to_read, to_write = os.pipe()
            from_read, from_write = os.pipe()
            process = subprocess.Popen(
                [sys.executable, "-c", program], pass_fds=(to_read, from_write),
                stderr=subprocess.DEVNULL,
                # SIGINT may be ignored if the tests run in the background.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
                env={**os.environ, "XPLANE_TIME_HARNESS_IN": str(to_read),
                     "XPLANE_TIME_HARNESS_OUT": str(from_write)})
            self.addCleanup(process.kill)
            for end in (to_read, from_write):
                os.close(end)
            with os.fdopen(to_write, "w", buffering=1) as to, os.fdopen(from_read) as answers:
                to.write('{"v": 1, "type": "prepare", "request": 1, "variant": "a", '
                         f'"params": {{"s": {seconds}}}}}\n')
                self.assertIn("prepared", answers.readline())
                to.write('{"v": 1, "type": "verify", "request": 2, "variant": "a"}\n')
                if seconds == 0:
                    self.assertIn("verified", answers.readline())
                # Python handles a signal that arrives just before a blocking call only after the call.
                # So the test sends it repeatedly, as a user would.
                for _ in range(60):
                    process.send_signal(signal.SIGINT)
                    try:
                        self.assertNotEqual(process.wait(timeout=1), 0)
                        break
                    except subprocess.TimeoutExpired:
                        pass
                else:
                    self.fail("60 interrupts did not end it")
                self.assertEqual(answers.readline(), "")

    def test_a_harness_needs_a_driver(self):
        with self.assertRaisesRegex(xplane_time.ArgumentError, "xplane-time tune SPACE -- "):
            harness.serve(lambda params: lambda: None)


class Checks(unittest.TestCase):
    def test_results(self):
        harness.check_result(3, 3, None)
        harness.check_result((1, [2]), (1, [2]), None)
        harness.check_result(3, 4, lambda got, wanted: got + 1 == wanted)
        for got, wanted, check in ((3, 4, None), ((1,), (1, 2), None),
                                   (3, 3, lambda got, wanted: False)):
            with self.assertRaises(harness.WrongResultError):
                harness.check_result(got, wanted, check)

    def assert_wrong(self, got, wanted, check=None, message=""):
        with self.assertRaisesRegex(harness.WrongResultError, message):
            harness.check_result(got, wanted, check)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_arrays(self):
        ones = numpy.ones((3, 3))
        harness.check_result(ones * (1 + 1e-5), ones, None)
        for wrong in (ones * 1.01, numpy.ones((3, 4)), ones * numpy.nan):
            self.assert_wrong(wrong, ones)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_what_a_check_says(self):
        for no in (False, 0, numpy.False_, numpy.array(False), numpy.array([True, False])):
            self.assert_wrong(3, 3, lambda got, wanted, no=no: no, "the check failed")
        for yes in (None, True, 1, numpy.True_, numpy.array([True, True])):
            harness.check_result(3, 3, lambda got, wanted, yes=yes: yes)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_integers_are_exact(self):
        wanted = numpy.arange(1000, 3000)
        harness.check_result(wanted.copy(), wanted, None)
        for dtype in (numpy.int64, numpy.uint8, numpy.int32):
            self.assert_wrong((wanted + 1).astype(dtype), wanted.astype(dtype), message="of 2000")
        self.assert_wrong(wanted + 0.5, wanted)
        self.assert_wrong(numpy.array([True, False]), numpy.array([True, True]), message="1 of 2")
        self.assert_wrong(numpy.array(["a"]), numpy.array(["b"]))

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_arrays_within(self):
        wanted = {"x": (numpy.ones(3), [numpy.arange(3)]), "y": 2}
        harness.check_result({"y": 2, "x": [numpy.ones(3) + 1e-6, (numpy.arange(3),)]}, wanted,
                             None)
        self.assert_wrong({"x": (numpy.ones(3), [numpy.arange(3) + 1]), "y": 2}, wanted,
                          message=r"^\['x'\]\[1\]\[0\]: 3 of 3 values")
        for wrong in ({"x": wanted["x"]}, {**wanted, "z": 1}, {"x": wanted["x"], "y": 3}, 5,
                      {"x": numpy.ones(3), "y": 2}, {"x": (numpy.ones(3),), "y": 2}):
            self.assert_wrong(wrong, wanted)

    @unittest.skipIf(importlib.util.find_spec("ml_dtypes") is None, "ml_dtypes is not installed")
    def test_types_that_numpy_does_not_know(self):
        import ml_dtypes

        ones = numpy.ones(4)
        harness.check_result(ones.astype(ml_dtypes.bfloat16), ones.astype(ml_dtypes.bfloat16), None)
        self.assert_wrong((ones * 2).astype(ml_dtypes.bfloat16), ones.astype(ml_dtypes.bfloat16))
        harness.check_result(ones.astype(ml_dtypes.int4), ones.astype(ml_dtypes.int4), None)
        self.assert_wrong((ones * 2).astype(ml_dtypes.int4), ones.astype(ml_dtypes.int4))


@unittest.skipIf(importlib.util.find_spec("jax") is None, "jax is not installed")
class Jax(HarnessTest):
    def test_programs(self):
        program = """
            import jax.numpy as jnp
            from xplane_time.harness import serve_jax

            x = jnp.ones((96, 96)) / 96

            def build(params):
                def run(x):
                    for _ in range(params["length"]):
                        x = jnp.tanh(x @ x)
                    return x * 0 + (2 if params.get("wrong") else 1)
                return run, (x,)

            serve_jax(build, reference=lambda: jnp.ones((96, 96)), fallback_wall=True)
        """
        result = self.tune([{"length": 1}, {"length": 12}, {"length": 1, "again": True},
                            {"length": 1, "wrong": True}], program)
        rows = {json.dumps(row["params"]): row for row in result["variants"]}
        self.assertEqual(self.picked(result), {"length": 1})
        self.assertEqual(rows['{"again": true, "length": 1}']["alias_of"],
                         rows['{"length": 1}']["id"])
        self.assertEqual(rows['{"length": 1, "wrong": true}']["status"], "wrong_result")
        self.assertIn(result["harness"]["clock"], ("profile", "device", "wall"))

    def test_all_devices_count(self):
        """The time of a program is its time on the slowest of its devices."""
        program = textwrap.dedent("""
            import jax, jax.numpy as jnp, numpy
            from jax.sharding import Mesh, NamedSharding, PartitionSpec
            import xplane_time
            from xplane_time import harness_jax

            if not harness_jax._traces_tell_runs_apart():
                raise SystemExit(77)
            split = NamedSharding(Mesh(numpy.array(jax.devices()), ("d",)), PartitionSpec("d"))
            x = jax.device_put(jnp.ones((256, 256)), split)

            def build(params):
                def run(x):
                    for _ in range(params["length"]):
                        x = jnp.tanh(x @ x.T)
                    return x
                return run, (x,)

            captured = []
            def kept(run):
                captured.append(capture(run))
                return captured[-1]

            capture, harness_jax.capture = harness_jax.capture, kept
            programs = harness_jax.Programs(build, None, None, False)
            for name, length in (("a", 1), ("b", 3)):
                programs.prepare(name, {"length": length})
                programs.verify(name)
            order = ["b", "a", "b"]
            times = programs.run_round(order, 2, "", lambda slot: None)
            rows = xplane_time.open(captured[0]).samples(device="cpu", id_pattern="_([0-9]+)$")
            runs = {}
            for row in sorted(rows, key=lambda row: row["start_ps"]):
                if row["function"].startswith("jit_autotune_fn_"):
                    of = runs.setdefault(row["variant_id"], {})
                    of.setdefault(row["ordinal"], []).append(row["active_ps"])
            assert {key: [len(own) for own in of.values()] for key, of in runs.items()} == {
                "0": [2, 2], "1": [5, 5]}, runs
            slowest = {key: [max(pair) for pair in zip(*of.values())] for key, of in runs.items()}
            a, b = slowest["0"], slowest["1"][1:]
            assert [each.t_ps for each in times] == [
                sum(b[:2]) // 2, sum(a) // 2, sum(b[2:]) // 2], (times, runs)
        """)
        environment = {**os.environ, "JAX_PLATFORMS": "cpu",
                       "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env=environment, timeout=300, check=False)
        if done.returncode == 77:
            self.skipTest("this jax does not separate runs")
        self.assertEqual(done.returncode, 0, done.stderr)

    def programs(self, fails=(), **arguments):
        """`fails`: variants with runs that raise, after they were prepared."""
        from xplane_time import harness_jax

        class Programs(harness_jax.Programs):
            def _run(self, variant, workload):
                if variant in fails:
                    raise RuntimeError("illegal address")
                return super()._run(variant, workload)

        given = {"reference": None, "check": None, "fallback_wall": True, **arguments}
        programs = Programs(**given)
        for variant in ("a", "b"):
            programs.prepare(variant, {"x": ord(variant)})
        return programs

    def test_one_that_fails_to_open_a_round_is_the_one_that_failed(self):
        programs = self.programs(fails="b", build=lambda params: (lambda x: x * 2, (1.0,)))
        begun = []
        times = programs.run_round(["b", "a", "b"], 1, "", begun.append)
        self.assertEqual(begun, [0, 1, 2])
        self.assertEqual([type(each) for each in times],
                         [RuntimeError, harness.Timed, RuntimeError])

    def test_trees_of_arrays_are_results(self):
        import jax

        class Pair:
            def __init__(self, one, other):
                self.both = (one, other)

        jax.tree_util.register_pytree_node(Pair, lambda pair: (pair.both, None),
                                           lambda _, both: Pair(*both))

        def build(params):
            return lambda x: {"p": Pair(x, [x * 2, x * 0 + params["x"]])}, (1.0,)

        programs = self.programs(build=build, reference=lambda: {"p": Pair(1.0, (2.0, 97.0))})
        programs.verify("a")
        with self.assertRaisesRegex(harness.WrongResultError, "1 of 1 values are wrong"):
            programs.verify("b")


if __name__ == "__main__":
    unittest.main()
