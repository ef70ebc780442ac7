"""Tests of brief on traces with one planted cause: the first line names it, the first finding has its size."""
import re
import unittest

from harness import EndToEndTest, in_parallel, run
from planted import FORMATS, KINDS, make
from test_schemas import schemas

try:
    import jsonschema
except ImportError:
    jsonschema = None

SEEDS = range(20)


class Planted(EndToEndTest):
    def brief(self, case, name):
        path = self.write(name + case.suffix, case.content)
        text, document = run("brief", path), run("brief", path, "--format", "json")
        self.assertEqual((text.code, document.code), (0, 0), text.message)
        return text.text.splitlines()[0], document.json

    def check(self, kind, format, seed):
        """Describes the error; empty if the result is correct."""
        case = make(kind, format, seed)
        line, document = self.brief(case, f"{kind}_{format}_{seed}")
        missing = [word for word in case.words if not re.search(word, line, re.IGNORECASE)]
        if missing:
            return f"{kind} {format} {seed}: no {missing} in: {line}"
        if line != document["headline"]:
            return f"{kind} {format} {seed}: the first line is not the headline"
        first = document["findings"][0]
        size_us = (first["recoverable_ps"] or 0) / 1e6
        if first["code"] != case.code or abs(size_us - case.size_us) > 0.05 * case.size_us:
            return f"{kind} {format} {seed}: {first['code']} of {size_us:.0f} us, not {case.code} of {case.size_us:.0f} us"
        return ""

    def test_the_first_line_names_the_cause_and_the_first_finding_has_its_size(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                wrong = in_parallel(lambda at: self.check(kind, *at), [(f, seed) for f in FORMATS for seed in SEEDS])
                self.assertEqual([each for each in wrong if each], [])

    def test_a_healthy_trace_has_no_cause(self):
        def check(at):
            case = make("healthy", *at)
            line, document = self.brief(case, f"healthy_{at[0]}_{at[1]}")
            named = all(re.search(word, line) for word in case.words)
            codes = {each["code"] for each in document["findings"]}
            return "" if named and codes <= {"largest_op", "roof_unknown"} else f"{at}: {line} {codes}"

        wrong = in_parallel(check, [(f, seed) for f in FORMATS for seed in SEEDS])
        self.assertEqual([each for each in wrong if each], [])

    def test_the_input_wait_is_in_where(self):
        for format in FORMATS:
            case = make("input_bound", format, 0)
            path = self.write("t" + case.suffix, case.content)
            finding = self.run_json("brief", path)["findings"][0]
            devices = self.run_json("where", path)["devices"]
            self.assertEqual(finding["recoverable_ps"], sum(each["waits_for_input_ps"] for each in devices))
            self.assertIn("input %", self.run_ok("where", path, "--wide").text)

    def test_the_largest_ops(self):
        for format in FORMATS:
            case = make("slow_op", format, 1)
            document = self.run_json("brief", self.write("t" + case.suffix, case.content))
            largest = document["ops"][0]
            self.assertRegex(largest["op"], case.words[0])
            self.assertAlmostEqual(largest["time_ps"] / 1e6, case.size_us, delta=1)
            times = [each["time_ps"] for each in document["ops"]]
            self.assertEqual(times, sorted(times, reverse=True))
            self.assertLessEqual(sum(times), document["span_ps"])

    @unittest.skipIf(jsonschema is None, "jsonschema is not installed")
    def test_schema(self):
        validators = {name: jsonschema.Draft202012Validator(schema) for name, schema in schemas().items()
                      if name in ("brief", "where")}
        for kind in KINDS:
            case = make(kind, "gpu", 1)
            path = self.write("t" + case.suffix, case.content)
            for name, validator in validators.items():
                errors = [error.message for error in validator.iter_errors(self.run_json(name, path))]
                self.assertEqual(errors, [], kind)


if __name__ == "__main__":
    unittest.main()
