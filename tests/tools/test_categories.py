"""Tests which kernels count (--exclude-kernel, --scope), and which are collectives or copies."""
import json
import unittest

from harness import TESTDATA, EndToEndTest, run

TRAIN = TESTDATA / "gpu" / "h200_train.xplane.pb.gz"
VARIANTS = TESTDATA / "jax_cpu_variants.xplane.pb"
KINETO = TESTDATA / "kineto_training.json"

COLLECTIVES = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "rccl_main",
               "mscclKernel_Sum_half_Simple", "hcclKernel", "nvshmemi_transfer_rma",
               "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
               "void deep_ep::internode_ll::combine<true>", "two_shot_all_reduce_kernel")
COMPUTE = ("triton_poi_fused_all_reduce_norm_0", "triton_red_fused_conditional_3", "while_loop_kernel",
           "_combined_routing_memset", "_masked_memcpy_kernel", "small_reduce_kernel",
           "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>")


def kernel(name, start, duration=10, cat="kernel"):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": duration,
            "args": {"device": 0, "stream": 7}}


def trace(*events):
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


class Categories(EndToEndTest):
    def categories(self, path, *options):
        rows = self.run_json("kernels", path, *options)["kernels"]
        return {row["kernel"]: row["category"] for row in rows}

    def test_kernels_of_pytorch(self):
        names = (*COLLECTIVES, *COMPUTE)
        events = [kernel(name, 20 * i) for i, name in enumerate(names)]
        events.append(kernel("anything", 1000, cat="gpu_memset"))
        path = self.write("t.json", trace(*events))
        expected = {name: "collective" for name in COLLECTIVES} | {name: "compute" for name in COMPUTE}
        self.assertEqual(self.categories(path), expected | {"anything": "copy"})

    def test_the_user_states_the_category(self):
        path = self.write("t.json", trace(kernel("my_exchange", 0), kernel("my_move", 20, 5),
                                          kernel("gemm", 40, 30), kernel("rccl_main", 100)))
        options = ("--collective-re", "exchange", "--copy-re", "move|exchange|rccl")
        expected = {"my_exchange": "collective", "my_move": "copy", "gemm": "compute", "rccl_main": "copy"}
        self.assertEqual(self.categories(path, *options), expected)
        device, = self.run_json("where", path, *options)["devices"]
        self.assertEqual((device["collective_ps"], device["copy_ps"]), (10_000_000, 15_000_000))
        plain, = self.run_json("where", path)["devices"]
        self.assertEqual((plain["collective_ps"], plain["copy_ps"]), (10_000_000, 0))
        for command in ("report", "kernels", "where", "headroom", "brief"):
            with self.subTest(command):
                answer = self.run_json(command, path, *options)
                self.assertEqual(answer["options"], {"collective_re": "exchange", "copy_re": "move|exchange|rccl"})

    def test_every_command_that_takes_the_patterns_heeds_them(self):
        path = self.write("t.json", trace(kernel("my_exchange", 0), kernel("gemm", 40, 30)))
        asked = ("--collective-re", "exchange")
        for command in ("report", "kernels", "where", "headroom", "brief"):
            with self.subTest(command):
                one = self.run_json(command, path)
                other = self.run_json(command, path, *asked)
                one.pop("options", None), other.pop("options")
                self.assertNotEqual(one, other)
        self.assertNotEqual(self.run_json("diff", path, path), self.run_json("diff", path, path, *asked))
        self.run_ok("summarize", path, *asked, "-o", "asked.xts")
        self.run_ok("summarize", path, "-o", "plain.xts")
        done = run("fleet", "asked.xts", "plain.xts", cwd=self.at)
        self.assertEqual(done.code, 65)
        self.assertIn("collective_re", done.message)
        done = run("fleet", "asked.xts", *asked, cwd=self.at)
        self.assertEqual(done.code, 64)
        self.assertIn("xplane-time summarize", done.message)

    def test_a_pattern_without_a_match_is_a_warning(self):
        path = self.write("t.json", trace(kernel("my_exchange", 0), kernel("gemm", 40, 30)))
        for command, trace_path, option, value in (("functions", KINETO, "--exclude", "jit_lop"),
                                                   ("kernels", path, "--exclude-kernel", "gemn"),
                                                   ("where", path, "--collective-re", "exchnage"),
                                                   ("headroom", path, "--copy-re", "move")):
            found = self.run_json(command, trace_path, option, value)["diagnostics"]
            entry, = (each for each in found if each["code"] == "pattern_without_match")
            self.assertEqual(entry["severity"], "warning")
            self.assertTrue(entry["message"].endswith(f"has no effect: {option} {value}"), entry["message"])
        for options in (("--exclude-kernel", "gem"), ("--collective-re", "change"), ("--copy-re", "^gemm$")):
            found = self.run_json("kernels", path, *options)["diagnostics"]
            self.assertNotIn("pattern_without_match", [each["code"] for each in found])

    def test_a_bad_pattern_names_its_option(self):
        for option in ("--collective-re", "--copy-re", "--exclude-kernel"):
            done = run("kernels", VARIANTS, option, "a(")
            self.assertEqual(done.code, 64)
            self.assertIn(option, done.message)


class ExcludeKernel(EndToEndTest):
    FLUSH = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>"

    def benchmark(self):
        """A trace of ten calls, each with an L2 flush of 300 us and two kernels of 8 and 9 us."""
        events = []
        for i in range(10):
            at = 1000 * i
            events.append({"ph": "X", "cat": "user_annotation", "name": "call", "pid": 1, "tid": 1,
                           "ts": at, "dur": 100, "args": {}})
            for k, (name, start, duration) in enumerate(((self.FLUSH, 50, 300), ("a", 360, 8), ("b", 370, 9))):
                correlation = 3 * i + k + 1
                events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                               "ts": at + 1 + k, "dur": 0.5, "args": {"correlation": correlation}})
                each = kernel(name, at + start, duration)
                each["args"]["correlation"] = correlation
                events.append(each)
        return self.write("t.json", trace(*events))

    def test_an_l2_flush_does_not_count(self):
        path = self.benchmark()
        calls = lambda *options: self.run_json("functions", path, *options)["functions"][0]["active_ps"]["mean"]
        self.assertEqual(calls(), 317_000_000)
        self.assertEqual(calls("--exclude-kernel", "FillFunctor"), 17_000_000)
        self.assertEqual(calls("--kernel", "^[ab]$", "--exclude-kernel", "b"), 8_000_000)

    def test_excluded_is_the_complement_of_kernel(self):
        for path, pattern in ((VARIANTS, "tanh"), (TRAIN, "gemm"), (KINETO, "nccl|Memcpy")):
            rows = lambda *options: {(row["plane"], row["ordinal"], row["kernel"], row["function"], row["program_id"]):
                                     (row["count"], row["total_ps"])
                                     for row in self.run_json("kernels", path, *options)["kernels"]}
            matching, others = rows("--kernel", pattern), rows("--exclude-kernel", pattern)
            self.assertTrue(matching and others)
            self.assertFalse(matching.keys() & others.keys())
            self.assertEqual(matching | others, rows())

    def test_comparisons_record_it(self):
        self.run_ok("functions", VARIANTS, "--samples", "--exclude-kernel", "tanh", "--format", "json", "-o", "a.json")
        done = run("compare", "a.json", VARIANTS, cwd=self.at)
        self.assertEqual(done.code, 65)
        self.assertIn("exclude_kernel", done.message)


class Scope(EndToEndTest):
    """Scopes and source lines that exist only in the Hlo Protos."""

    def count(self, path, *options):
        return sum(row["count"] for row in self.run_json("kernels", path, *options)["kernels"])

    def roots(self, path, *options):
        return sum(row["count"] for row in self.run_json("tree", path, "--by", "scope", *options)["tree"]
                   if row["depth"] == 0)

    def test_kernels_and_tree_agree_on_what_matches(self):
        for path in (VARIANTS, TRAIN):
            rows = self.run_json("tree", path, "--by", "scope")["tree"]
            names = sorted({row["name"] for row in rows if row["name"].isidentifier()})[:8]
            lines = sorted({line for row in rows for line in row["lines"]})[:4]
            self.assertTrue(names)
            for pattern in (*names, *(line.replace(".", r"\.") + "$" for line in lines)):
                with self.subTest(f"{path.name} {pattern}"):
                    matching = self.count(path, "--scope", pattern)
                    self.assertGreater(matching, 0)
                    self.assertEqual(matching, self.roots(path, "--scope", pattern))
                    functions = self.run_json("functions", path, "--scope", pattern)["functions"]
                    self.assertTrue(functions)

    def test_a_scope_that_is_not_there(self):
        done = run("kernels", TRAIN, "--scope", "no_such_scope")
        self.assertEqual(done.code, 65)
        self.assertIn("--scope", done.message)


if __name__ == "__main__":
    unittest.main()
