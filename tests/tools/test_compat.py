"""Tests of compat and --compat through the program. python/tests/test_compat.py compares the numbers with
the original packages."""
import json
import unittest

import jsonschema

from harness import EndToEndTest, REPOSITORY, run
from xspace import Plane, space

VARIANTS = REPOSITORY / "testdata/jax_cpu_variants.xplane.pb"


def gpu(*starts_us, name="jit_autotune_fn_1"):
    plane = Plane("/device:GPU:0")
    line = plane.line("Stream #16")
    for start_us in starts_us:
        line.event("k", start_us * 10**6, 5 * 10**6, hlo_module=name, program_id=5)
    return space(plane)


class Compat(EndToEndTest):
    def compat(self, *arguments):
        done = self.run_json(*arguments)
        schema = json.loads(run("report", "--compat", "xprof", "--json-schema").text)
        jsonschema.validate(done, schema)
        return done

    def test_ejkernel(self):
        trace = self.write("a.xplane.pb", gpu(0, 10, 90))
        found = self.compat(trace, "--compat", "ejkernel")
        self.assertEqual(found["keys"], [{"input": 0, "plane": "/device:GPU:0",
                                          "key": "jit_autotune_fn_1(5-None)", "time_s": 5e-6}])
        self.assertEqual(found["variants"],
                         [{"variant_id": "1", "n": 1, "mean_s": 5e-6, "std_s": 0.0}])
        self.assertEqual(self.compat(trace, "--compat", "ejkernel", "--min-duration", "6000")["keys"],
                         [])
        self.assertEqual(
            self.compat(trace, "--compat", "ejkernel", "--kernel", "nothing")["keys"][0]["time_s"], 0)

    def test_tune_jax_over_captures(self):
        name = "jit_tune_jax_fn_3"
        traces = [self.write(f"{i}.xplane.pb", gpu(0, 10 * i, name=name)) for i in (1, 2, 3, 5)]
        found = self.compat("functions", *traces, "--compat", "tune-jax")
        self.assertEqual([row["time_s"] for row in found["keys"]], [15e-6, 25e-6, 35e-6, 55e-6])
        (variant,) = found["variants"]
        self.assertEqual((variant["variant_id"], variant["n"]), ("3", 2))
        self.assertAlmostEqual(variant["mean_s"], 3e-5, delta=1e-15)
        self.assertAlmostEqual(variant["std_s"], 5e-6, delta=1e-15)

    def test_the_same_capture_twice_is_one(self):
        trace = self.write("a.xplane.pb", gpu(0, 10, 90))
        self.assertEqual(len(self.compat(trace, trace, "--compat", "ejkernel")["keys"]), 1)
        none = run(trace, VARIANTS, "--compat", "ejkernel", "--device", "gpu")
        self.assertEqual(none.code, 65)
        self.assertIn(f"{VARIANTS}: no plane's name contains", none.message)

    def test_xprof(self):
        trace = self.write("a.xplane.pb", gpu(0, 10, 90))
        found = self.compat(trace, "--compat", "xprof")
        self.assertEqual(found["total_device_duration_ns"], 15000)
        self.assertEqual(found["kernel_records"][0]["execution_count"], 3)
        self.assertEqual(run(VARIANTS, "--compat", "xprof").code, 65)

    def test_tables_say_whose_definition_it_is(self):
        trace = self.write("a.xplane.pb", gpu(0, 10, 90))
        for tool in ("ejkernel", "tune-jax", "xprof"):
            for form in ("table", "markdown"):
                shown = run(trace, "--compat", tool, "--format", form)
                self.assertEqual(shown.code, 0, shown.message)
                self.assertIn(f"definition of {tool}; docs/migrating.md", shown.text)
                self.assertLessEqual(max(map(len, shown.text.splitlines())),
                                     80 if form == "table" else 400)
            rows = run(trace, "--compat", tool, "--format", "csv").text.splitlines()
            self.assertEqual(len(rows), 2)

    def test_planes_are_chosen_by_a_word(self):
        found = self.compat(VARIANTS, "--compat", "tune-jax")
        self.assertEqual((found["device"], len(found["keys"])), ("cpu", 48))
        none = run(VARIANTS, "--compat", "tune-jax", "--device", "gpu")
        self.assertEqual(none.code, 65)
        self.assertIn('no plane\'s name contains "gpu"; the trace has: ', none.message)

    def test_options_that_mean_nothing_are_refused(self):
        for option in (["--metric", "span"], ["--trim", "iqr"], ["--max-events", "3"],
                       ["--function", "f"]):
            done = run(VARIANTS, "--compat", "tune-jax", *option)
            self.assertEqual(done.code, 64)
            self.assertIn(f"{option[0]} has no effect with --compat tune-jax", done.message)

    def test_the_command_says_what_the_flag_says(self):
        trace = self.write("a.xplane.pb", gpu(0, 10, 90))
        for tool, options in (("ejkernel", ("--min-duration", "6000")),
                              ("ejkernel", ("--max-events", "2")),
                              ("tune-jax", ("--prefix", "jit", "--kernel", "k")),
                              ("xprof", ("--top", "1", "--format", "json"))):
            for form in ((), ("-o", "x.json")):
                flag = run(trace, "--compat", tool, *options, *form, cwd=self.at)
                kept = (self.at / "x.json").read_bytes() if form else b""
                command = run("compat", tool, trace, *options, *form, cwd=self.at)
                self.assertEqual((command.code, command.out, command.err), (0, flag.out, b""))
                self.assertEqual((self.at / "x.json").read_bytes() if form else b"", kept)
        schema = run("compat", "--json-schema").text
        self.assertEqual(schema, run("report", "--compat", "xprof", "--json-schema").text)

    def test_the_command_refuses_what_its_tool_has_not(self):
        for arguments, words in ((("xprof", VARIANTS, "--prefix", "x"),
                                  "--prefix has no effect with compat xprof"),
                                 (("tune-jax", VARIANTS, "--top", "3"),
                                  "--top has no effect with compat tune-jax"),
                                 (("xprof", VARIANTS, "--metric", "span"),
                                  "not expected: --metric"),
                                 ((VARIANTS,), "not in {ejkernel,tune-jax,xprof}"),
                                 ((), "no TOOL given"), (("xprof",), "no TRACE given")):
            done = run("compat", *arguments)
            self.assertEqual((done.code, done.out), (64, b""))
            self.assertIn(words, done.message)


if __name__ == "__main__":
    unittest.main()
