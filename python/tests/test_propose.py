"""Proposers of xplane_time.propose under the real `xplane-time tune`."""
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import textwrap
import unittest

import xplane_time
from xplane_time import propose

COMMAND = pathlib.Path(sys.executable).parent / "xplane-time"
SPACE = {"schema": "xplane-time.space.v1", "name": "test", "parameters": [
    {"name": "a", "type": "int", "values": [1, 2, 4, 8, 16, 32, 64, 128]},
    {"name": "b", "type": "float", "range": {"min": 0, "max": 2, "step": 0.25}},
    {"name": "c", "type": "string", "values": ["row", "column", "tile"]},
    {"name": "d", "type": "bool"}], "constraints": ["a != 128 or d"]}

# The timer returns the time that the variant states, so no test depends on the machine's speed.
HARNESS = """
    import math
    from xplane_time.harness import serve

    def build(params):
        if params["c"] == "column" and params["d"]:
            raise ValueError("no such kernel")
        def run():
            return 7
        run.cost = 100 + 9 * abs(math.log2(params["a"] / 16)) + 20 * abs(params["b"] - 1.25)
        run.cost += {"row": 0, "column": 15, "tile": 30}[params["c"]]
        return run

    serve(build, timer=lambda run: int(run() * run.cost * 1000), device_class="test")
"""


class ProposeTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.at = pathlib.Path(temporary.name)
        (self.at / "space.json").write_text(json.dumps(SPACE))
        (self.at / "harness.py").write_text(textwrap.dedent(HARNESS))

    def tune(self, count, proposer, *options, code=0):
        done = subprocess.run(
            [COMMAND, "tune", "space.json", "--format", "json", "--strategy", f"ask:{count}",
             "--proposer", shlex.join([sys.executable, *proposer]), *options, "--",
             sys.executable, "harness.py"], cwd=self.at, capture_output=True, text=True,
            timeout=300, env={**os.environ, "XDG_RUNTIME_DIR": str(self.at)})
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def picked(self, result):
        return next(row["params"] for row in result["variants"] if row["id"] == result["pick"])


class Kit(ProposeTest):
    def test_any_optimizer(self):
        (self.at / "mine.py").write_text(textwrap.dedent("""
            import itertools, json
            from xplane_time.propose import serve

            def start(space):
                assert [each.type for each in space.parameters] == ["int", "float", "string", "bool"]
                assert space.constraints == ["a != 128 or d"]
                points = itertools.product(*(each.values for each in space.parameters))
                names = [each.name for each in space.parameters]
                def ask(count):
                    return [dict(zip(names, each)) for each in itertools.islice(points, count)]
                def tell(result):
                    with open("told", "a") as file:
                        print(json.dumps([result.proposal, result.status]), file=file)
                return ask, tell

            serve(start)
        """))
        result = self.tune(1000, ["mine.py"])
        self.assertEqual((result["search"]["proposed"], result["search"]["refused"]), (432, 27))
        self.assertEqual(self.picked(result), {"a": 16, "b": 1.25, "c": "row", "d": False})
        told = [json.loads(line) for line in (self.at / "told").read_text().splitlines()]
        self.assertEqual(sorted(each[0] for each in told), list(range(432)))
        self.assertEqual({each[1] for each in told}, {"ok", "refused", "compile_error"})

    def test_a_proposer_needs_a_driver(self):
        with self.assertRaisesRegex(xplane_time.ArgumentError, "xplane-time tune SPACE --strategy"):
            propose.serve(lambda space: (lambda count: [], print))


@unittest.skipIf(importlib.util.find_spec("optuna") is None, "optuna is not installed")
class Optuna(ProposeTest):
    PROPOSER = ["-m", "xplane_time.propose_optuna"]

    def test_it_comes_close_with_few(self):
        result = self.tune(60, self.PROPOSER, "--seed", "3")
        self.assertEqual((result["search"]["searched"] <= 60, result["search"]["raced"]), (True, 8))
        best = self.picked(result)
        cost = next(row["searched"] for row in result["variants"] if row["id"] == result["pick"])
        self.assertLess(cost, 7 * 1000 * 112, best)  # the best 5 % of the space; the best cost is 700,000

    def test_the_same_seed_proposes_the_same(self):
        ids = [[row["id"] for row in self.tune(24, self.PROPOSER, "--seed", seed,
                                               "--store", name)["variants"]]
               for seed, name in (("1", "a.db"), ("1", "b.db"), ("2", "c.db"))]
        self.assertEqual(ids[0], ids[1])
        self.assertNotEqual(ids[0], ids[2])

    def test_results_of_an_earlier_run_are_learned_from(self):
        (self.at / "fragile.py").write_text(textwrap.dedent("""
            import sys
            from xplane_time import propose, propose_optuna

            def start(space):
                ask, tell = propose_optuna.start(space)
                asked = []
                def ask_twice(count):
                    asked.append(count)
                    if len(asked) == 3 and space.told == 0:
                        sys.exit("gone")
                    return ask(count)
                return ask_twice, tell

            propose.serve(start)
        """))
        self.assertIn("gone", self.tune(40, ["fragile.py"], code=69))
        result = self.tune(40, ["fragile.py"], "--resume")
        self.assertTrue(result["resumed"])
        ids = [row["id"] for row in result["variants"]]
        self.assertEqual((len(ids), len(set(ids))), (40, 40))


if __name__ == "__main__":
    unittest.main()
