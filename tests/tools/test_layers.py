"""Tests of layers: forward and backward passes together or separate, joined names, stacks without repeats,
and the message if --scope has no match."""
import gzip
import random
import unittest

from harness import TESTDATA, EndToEndTest, run
from xspace import Plane, Ref, space

TRAIN = TESTDATA / "gpu" / "h200_train.xplane.pb.gz"
KINETO = TESTDATA / "kineto_training.json"

# Scopes of JAX and TensorFlow, and their folded paths without the op.
FOLDED = {
    "jit(f)/jvp(layer2)/dot_general": "jit(f) layer2",
    "jit(f)/transpose(jvp(layer2))/dot_general": "jit(f) layer2",
    "jit(f)/vmap(transpose(vmap(jvp(layer2))))/mul": "jit(f) layer2",
    "jit(f)/vmap(jvp(jvp(layer2)))/tanh": "jit(f) layer2",
    "jit(f)/transpose(jvp(jvp()))/checkpoint/layer2/mul": "jit(f) layer2",
    "jit(f)/transpose(jvp(jvp()))/checkpoint/rematted_computation/layer2/tanh": "jit(f) layer2",
    "jit(f)/transpose(jvp(layer2))/checkpoint[policy=None]/mul": "jit(f) layer2",
    "jit(f)/jit(main)/transpose(jvp(checkpoint))/rematted_computation/layer2/tanh": "jit(f) jit(main) layer2",
    "jit(f)/jvp()/while/body/closed_call/layer3/tanh": "jit(f) while body layer3",
    "jit(f)/transpose(jvp())/while/body/closed_call/checkpoint/layer3/mul": "jit(f) while body layer3",
    "jit(f)/transpose(jvp(while))/body/layer3/mul": "jit(f) while body layer3",
    "jit(f)/transpose(jvp(Model/block))/mlp/add": "jit(f) Model block mlp",
    "jit(f)/transpose(jvp(jit(log_softmax)))/sub": "jit(f) jit(log_softmax)",
    "jit(f)/vmap(BTNH,BSNH->BNTS)/dot_general": "jit(f) BTNH,BSNH->BNTS",
    "jit(f)/jvp()/gather": "jit(f)",
    # These are not wrappers but an op, a function and a scope of the user.
    "jit(f)/layer4/transpose": "jit(f) layer4",
    "jit(f)/pmap(g)/add": "jit(f) pmap(g)",
    "jit(f)/transpose(a)(b)/add": "jit(f) transpose(a)(b)",
    "gradient_tape/model/dense/MatMul": "model dense",
    "model/dense/MatMul": "model dense",
}
JOINED = {
    "jit(f)/layer5/mul;jit(f)/layer5/add": "jit(f) layer5",
    "jit(f)/jvp(layer6)/mul;jit(f)/transpose(jvp(layer6))/mul": "jit(f) layer6 mul",
    "jit(g)/a/mul;jit(h)/b/add": "jit(g) a mul",
    "jit(f)/jvp(a;b)/mul": "jit(f) a;b mul",  # a semicolon in brackets is part of the name
}


def trace(scopes, **stats):
    """A trace with one op per scope. The ops take 10 ps, 11 ps, ..."""
    plane = Plane("/device:GPU:0")
    stream = plane.line("Stream #1(Kernel)")
    for i, scope in enumerate(scopes):
        stream.event(f"k{i}", 1000 * i, 10 + i, hlo_module=Ref("jit_f"), hlo_op=Ref(f"op.{i}"),
                     program_id=1, **({"tf_op": Ref(scope)} if scope else {}),
                     **{key: Ref(value[i]) for key, value in stats.items()})
    return space(plane)


class Layers(EndToEndTest):
    def self_times(self, *arguments):
        """Self times by path. Two spaces separate the scopes of a path."""
        paths, times = [], {}
        for row in self.run_json("tree", *arguments)["tree"]:
            above = () if row["parent"] is None else paths[row["parent"]]
            paths.append((*above, row["name"]))
            if row["self_ps"]:
                times[" ".join(paths[-1])] = row["self_ps"]
        return times

    def test_each_form_is_folded(self):
        for i, (scope, path) in enumerate(FOLDED.items()):
            op = scope[scope.rfind("/") + 1:]
            file = self.write(f"{i}.xplane.pb", trace([scope]))
            with self.subTest(scope):
                self.assertEqual(self.self_times(file, "--by", "scope", "--fold"), {f"{path} {op}": 10})
                apart = self.self_times(file, "--by", "scope")
                self.assertEqual(list(apart)[0].replace(" ", "/"), scope.replace(" ", "/"))

    def test_a_folded_layer_is_the_sum_of_its_passes(self):
        scopes = [scope for scope, path in FOLDED.items() if path == "jit(f) layer2"]
        rows = self.run_json("tree", self.write("t.xplane.pb", trace(scopes)), "--by", "scope", "--fold")["tree"]
        layer = next(row for row in rows if row["name"] == "layer2")
        self.assertEqual((layer["count"], layer["total_ps"]),
                         (len(scopes), sum(10 + i for i in range(len(scopes)))))
        self.assertEqual(sum(row["name"] == "layer2" for row in rows), 1)

    def test_joined_names(self):
        scopes = list(JOINED)
        file = self.write("t.xplane.pb", trace(scopes))
        folded = self.self_times(file, "--by", "scope", "--fold")
        expected = {}
        for i, path in enumerate(JOINED.values()):
            expected[path] = expected.get(path, 0) + 10 + i
        self.assertEqual(folded, expected)
        apart = self.self_times(file, "--by", "scope")
        self.assertEqual(apart["jit(f) layer5"], 10)
        self.assertEqual(apart["jit(f)"], 11)  # this is the only common scope of the passes
        self.assertEqual(sum(apart.values()), sum(folded.values()))

    def test_a_recorded_step(self):
        apart = self.run_json("tree", TRAIN, "--by", "scope")["tree"]
        folded = self.run_json("tree", TRAIN, "--by", "scope", "--fold")["tree"]
        total = lambda rows, *names: sum(row["total_ps"] for row in rows if row["name"] in names)
        for layer in ("layer_0", "layer_1"):
            both = total(apart, f"jvp({layer})", f"transpose(jvp({layer}))")
            # Only the folded layer contains fusions of both passes.
            self.assertGreater(both, 0)
            self.assertGreater(total(folded, layer), both)
        self.assertGreater(total(folded, "layer_0", "layer_1"), 0.7 * total(folded, "jit(train_step)"))
        for rows in (apart, folded):
            self.assertEqual([row["name"] for row in rows if ";" in row["name"]], [])
        roots = lambda rows: sum(row["total_ps"] for row in rows if row["depth"] == 0)
        self.assertEqual(roots(apart), roots(folded))
        self.assertNotRegex(" ".join(row["name"] for row in folded), r"jvp|transpose\(|vmap")

    def test_hostile_names(self):
        random.seed(5)
        pieces = ("jvp(", "transpose(", "vmap(", ")", "/", ";", "layer", "checkpoint", "[", "]", "")
        scopes = ["jit(f)/" + "".join(random.choices(pieces, k=random.randrange(12))) for _ in range(200)]
        scopes += ["jvp(" * 20000 + "a" + ")" * 20000 + "/mul", "vmap(a/" * 500 + ")" * 500,
                   "a;" * 5000, "a/" * 5000 + "b;" + "a/" * 5000]
        file = self.write("t.xplane.pb", trace(scopes))
        for options in ((), ("--fold",)):
            self.assertEqual(sum(self.self_times(file, "--by", "scope", *options).values()),
                             sum(10 + i for i in range(len(scopes))))

    def test_layers_of_energies(self):
        """Two scopes of a recorded trace are renamed to names of the same length, the two passes of one
        layer. The energy of the folded layer is their sum."""
        recorded = gzip.decompress((TESTDATA / "gpu" / "h200_mixture.xplane.pb.gz").read_bytes())
        names = {b"jit(product)/dot_general": b"jit(f)/jvp(layer2)/dot_g",
                 b"jit(stream)/add": b"jit(f)/layer2/a"}
        for name, renamed in names.items():
            self.assertEqual(len(name), len(renamed))
            self.assertIn(name, recorded)
            recorded = recorded.replace(name, renamed)
        given = (self.write("t.xplane.pb", recorded), "--power", TESTDATA / "gpu" / "h200_mixture.power.jsonl",
                 "--layer-re", r"^jit\(f\)/([^/]*)")
        layers = lambda *more: {row["layer"]: row["energy_j"]
                                for row in run("energy", *given, *more, "--format", "json").json["layers"]}
        apart, folded = layers(), layers("--fold")
        self.assertEqual((set(apart), set(folded)), ({"jvp(layer2)", "layer2"}, {"layer2"}))
        self.assertAlmostEqual(folded["layer2"], sum(apart.values()), delta=1e-6 * folded["layer2"])
        options = run("energy", *given, "--fold", "--format", "json").json["options"]
        self.assertEqual(options["fold"], 1)

    def test_fold_is_for_scopes(self):
        for options in ((), ("--by", "source"), ("--by", "module")):
            done = run("tree", TRAIN, "--fold", *options)
            self.assertEqual((done.code, done.out), (64, b""))
            self.assertIn("--by scope", done.message)
        options = self.run_json("tree", TRAIN, "--by", "scope", "--fold")["options"]
        self.assertEqual((options["by"], options["fold"]), ("scope", 1))

    def test_stacks_repeat_no_call(self):
        stacks = {
            # An inlined function: the stack of its call is followed by the stack of its own trace.
            "m.py:9\nt.py:4\nl.py:3\na.py:2\nt.py:4\nl.py:3\na.py:2": "m.py:9 t.py:4 l.py:3 a.py:2",
            "m.py:9\na.py:2\nm.py:9\na.py:2\nw.py:1": "m.py:9 a.py:2 w.py:1",
            "m.py:9\nf.py:1\nf.py:1\nf.py:1": "m.py:9 f.py:1",             # recursion
            "m.py:9\nf.py:1\ng.py:2\nf.py:1": "m.py:9 f.py:1",             # the last frame repeats an earlier one
            "m.py:9\nw.py:1\na.py:2\nw.py:1\nb.py:3": "m.py:9 w.py:1 a.py:2 b.py:3",  # a wrapper is called twice
            "m.py:9\na.py:2": "m.py:9 a.py:2",
        }
        for i, (stack, path) in enumerate(stacks.items()):
            file = self.write(f"{i}.xplane.pb", trace(["jit(f)/add"], source_stack=[stack]))
            with self.subTest(stack):
                self.assertEqual(self.self_times(file, "--by", "source"), {path: 10})


class ScopeAdvice(EndToEndTest):
    COMMANDS = (("report",), ("functions",), ("kernels",), ("headroom",), ("tree",), ("tree", "--by", "scope"),
                ("tree", "--by", "source"))

    def refused(self, *arguments):
        done = run(*arguments, cwd=self.at)
        self.assertNotEqual(done.code, 0, arguments)
        self.assertEqual(done.out, b"")
        return done.message

    def test_every_command_knows_scopes(self):
        for command in self.COMMANDS:
            if command[0] == "functions":
                continue
            self.assertTrue(self.run_ok(*command, TRAIN, "--scope", "layer_1").out, command)

    def test_energies(self):
        given = (TESTDATA / "energy" / "jax_cpu_mixture.xplane.pb",
                 "--power", TESTDATA / "energy" / "replayed.power.jsonl")
        whole = {row["function"]: row for row in self.run_json("energy", *given)["kernels"]}
        for pattern in (r"matmul_1024\)", "record_jax_cpu.py"):  # a name scope, a source line
            some = self.run_json("energy", *given, "--scope", pattern)
            names = {"jit_matmul_1024"} if "1024" in pattern else set(whole)
            self.assertEqual({row["function"] for row in some["kernels"]}, names)
            for row in some["kernels"]:
                self.assertEqual(row["energy_j"], whole[row["function"]]["energy_j"])
        self.assertIn("tree --by scope lists", self.refused("energy", *given, "--scope", "none_such"))

    def test_a_trace_with_scopes_lists_them(self):
        for command in self.COMMANDS:
            message = self.refused(*command, TRAIN, "--scope", "atention")
            self.assertIn("did you mean attention", message, command)
            self.assertIn("tree --by scope lists the names", message)
        self.assertIn("attention", self.run_ok("tree", TRAIN, "--by", "scope").text)

    def test_a_pytorch_trace_has_none(self):
        for command in self.COMMANDS:
            message = self.refused(*command, KINETO, "--scope", "layer")
            self.assertIn("no op of this trace has a name scope", message, command)
            self.assertIn("PyTorch does not record them", message)
            self.assertNotIn("--by scope", message)
        # The advice works: --function, and --by module.
        self.run_ok("tree", KINETO, "--by", "module")
        function = self.run_json("functions", KINETO)["functions"][0]["function"]
        self.assertTrue(self.run_json("kernels", KINETO, "--function", function)["kernels"])

    def test_a_trace_without_any(self):
        file = self.write("t.xplane.pb", trace([None, None]))
        for command in self.COMMANDS:
            message = self.refused(*command, file, "--scope", "layer")
            self.assertIn("no op of this trace has a name scope", message, command)
            self.assertIn("jax.named_scope", message)


if __name__ == "__main__":
    unittest.main()
