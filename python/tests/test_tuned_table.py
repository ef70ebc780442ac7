"""Looks up tuned tables from Python. The rules are those of TunedTable::Find (tests/tune/store_test.cc)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import xplane_time

COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"
KEY = {"driver": "550", "framework": '{"jax":"0.10"}', "flags": "-x", "code_hash": "c0de",
       "protocol_hash": "p1"}


def entry(params, **more):
    return {"workload": "matmul[64]", "device_class": "H100", **KEY, "params": params, **more}


class Lookup(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)

    def table(self, *entries):
        path = self.at / "tuned.json"
        path.write_text(json.dumps({"schema": "xplane-time.tuned.v1", "entries": entries}))
        return xplane_time.tuned(path)

    def test_levels_say_what_differs(self):
        table = self.table(entry({"block": 32}))
        asked, levels = dict(KEY), ["any_protocol", "any_driver", "any_version", "any_flags",
                                    "any_code"]
        self.assertEqual(table.lookup("matmul[64]", "H100", **asked).level, "exact")
        for name, level in zip(("protocol_hash", "driver", "framework", "flags", "code_hash"),
                               levels):
            del asked[name]
            match = table.lookup("matmul[64]", "H100", **asked)
            self.assertEqual((match.level, match.params), (level, {"block": 32}))
        self.assertIsNone(table.lookup("matmul[64]", "A100", **KEY))
        self.assertIsNone(table.lookup("matmul", "H100", **KEY))
        self.assertIsNone(table.lookup("matmul[64]", "H100", **KEY, objective="energy"))

    def test_the_latest_wins_and_an_exact_one_before_it(self):
        table = self.table(entry({"block": 3}, recorded_unix_s=30, driver="560"),
                           entry({"block": 1}, recorded_unix_s=10),
                           entry({"block": 2}, recorded_unix_s=20))
        self.assertEqual(table.lookup("matmul[64]", "H100", **KEY).params, {"block": 2})
        self.assertEqual(table.lookup("matmul[64]", "H100").params, {"block": 3})
        self.assertIn("3 entries", repr(table))

    def test_what_tune_exports_is_read(self):
        (self.at / "harness.py").write_text(
            "from xplane_time.harness import serve\n"
            "def build(params):\n"
            "    run = lambda: None\n"
            "    run.cost = params['cost']\n"
            "    return run\n"
            "serve(build, timer=lambda run: run.cost * 10**6, device_class='test')\n")
        (self.at / "space.json").write_text(json.dumps(
            {"schema": "xplane-time.space.v1", "name": "mine",
             "variants": [{"params": {"cost": cost}} for cost in (130, 100)]}))
        for command in (("tune", "space.json", "--", sys.executable, "harness.py"),
                        ("tune", "export", "--format", "tuned", "-o", "tuned.json")):
            subprocess.run([COMMAND, *command], cwd=self.at, check=True, capture_output=True,
                           env={**os.environ, "XDG_RUNTIME_DIR": str(self.at)})
        match = xplane_time.tuned(self.at / "tuned.json").lookup("mine", "test")
        self.assertEqual((match.params, match.level), ({"cost": 100}, "any_code"))

    def test_what_is_no_table_is_refused_with_the_place(self):
        good = json.dumps({"schema": "xplane-time.tuned.v1", "entries": []})
        for text, what in (
                ("{", "not JSON"), ("[" * 100_000, "not JSON"), ("[]", "not a tuned table"),
                ('{"schema": "x"}', "not a tuned table"),
                (good.replace("[]", "{}"), r"\$.entries: is not a list"),
                (good.replace("[]", "[1]"), r"\$.entries\[0\]: is not an object"),
                (good.replace("[]", '[{"workload": "w"}]'), 'has no "device_class"'),
                (good.replace("[]", json.dumps([entry([])])), ".params: is not an object"),
                (good.replace("[]", json.dumps([entry({}, driver=5)])), ".driver: 5 is not a string"),
                (good.replace("[]", json.dumps([entry({}, recorded_unix_s="x")])),
                 ".recorded_unix_s: 'x' is not a whole number")):
            (self.at / "bad.json").write_text(text)
            with self.assertRaisesRegex(xplane_time.ArgumentError, f"bad.json: .*{what}"):
                xplane_time.tuned(self.at / "bad.json")
        with self.assertRaises(xplane_time.MissingInputError):
            xplane_time.tuned(self.at / "none.json")
        with self.assertRaises(xplane_time.InputError):
            xplane_time.tuned(self.at)


if __name__ == "__main__":
    unittest.main()
