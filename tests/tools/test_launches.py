"""Tests of launch configurations (registers, shared memory, occupancy, grid, block), and of work that the
user declares for kernels without a program."""
import json
import unittest

from harness import TESTDATA, EndToEndTest, csv_rows, run
from xspace import Plane, Ref, space

FIELDS = ("registers", "static_shared_bytes", "dynamic_shared_bytes", "shared_bytes",
          "theoretical_occupancy", "estimated_occupancy", "grid", "block")
NOTHING = (None,) * len(FIELDS)

DETAILS = {
    "regs:38 shm:16 grid:160,1,1 block:1024,1,1": (38, None, None, 16, None, None, "160,1,1", "1024,1,1"),
    "regs:38 static_shared:64 dynamic_shared:512 grid:8,2,1 block:256,1,1 occ_pct:75":
        (38, 64, 512, 576, 0.75, None, "8,2,1", "256,1,1"),
    "grid:8,8,4 block:256,1,1 private_mem:0 group_mem:33792 occ_pct:0":
        (None, None, None, 33792, None, None, "8,8,4", "256,1,1"),
    # From uninitialized memory: impossible numbers of registers and threads.
    "regs:2191500840 static_shared:32462 dynamic_shared:0 grid:69840,1,1 block:256,1,1 occ_pct:0":
        (None, None, None, None, None, None, "69840,1,1", "256,1,1"),
    "regs:687194767361 shm:139940664643419 grid:5120,18446744073709547520,2093056"
    " block:4096,64,139909901844480": NOTHING,
    "regs:0 shm:0 grid:0,0,0 block:0,0,0": NOTHING,
    "regs:18 shm:0 grid:4,1 block:32,1,1": (18, None, None, 0, None, None, None, "32,1,1"),
    "regs: shm:x grid: block:": NOTHING,
    "regs:1 block:1024,2,1": NOTHING,
    "block": NOTHING,
    "": NOTHING,
}


def trace(*executions):
    """A trace of `executions`, each (kernel, duration_ps, stats)."""
    plane = Plane("/device:GPU:0")
    stream = plane.line("Stream #1(Kernel)")
    for i, (kernel, duration_ps, stats) in enumerate(executions):
        stream.event(kernel, 1_000_000 * i, duration_ps, **stats)
    return space(plane)


def config(row):
    return tuple(row[field] for field in FIELDS)


class Launches(EndToEndTest):
    def kernels(self, path, *options):
        return {row["kernel"]: row for row in self.run_json("kernels", path, *options)["kernels"]}

    def test_forms_of_xplane(self):
        for as_reference in (False, True):
            rows = self.kernels(self.write("t.xplane.pb", trace(*(
                (f"k{i}", 100, {"kernel_details": Ref(text) if as_reference else text})
                for i, text in enumerate(DETAILS)))))
            for i, (text, expected) in enumerate(DETAILS.items()):
                with self.subTest(text):
                    self.assertEqual(config(rows[f"k{i}"]), expected)
                    known = None if expected == NOTHING else 1
                    self.assertEqual((rows[f"k{i}"]["launch_count"], rows[f"k{i}"]["launch_configs"]),
                                     (known, known))

    def test_occupancy_of_its_own(self):
        rows = self.kernels(self.write("t.xplane.pb", trace(
            ("a", 9, {"kernel_details": "regs:8 shm:0 grid:1,1,1 block:32,1,1 occ_pct:0",
                      "theoretical_occupancy_pct": 62.5}),
            ("b", 9, {"theoretical_occupancy_pct": 0.0}),
            ("c", 9, {"theoretical_occupancy_pct": 101.0}))))
        self.assertEqual(rows["a"]["theoretical_occupancy"], 0.625)
        self.assertEqual([config(rows[name]) for name in "bc"], [NOTHING] * 2)

    def test_executions_that_differ(self):
        small, large = ("regs:16 shm:0 grid:1,1,1 block:64,1,1", "regs:16 shm:0 grid:9,1,1 block:64,1,1")
        path = self.write("t.xplane.pb", trace(
            ("k", 10, {"kernel_details": small}), ("k", 900, {"kernel_details": large}),
            ("k", 10, {"kernel_details": small}), ("k", 10, {}), ("other", 5, {"kernel_details": large})))
        rows = self.kernels(path)
        self.assertEqual(len(rows), 2)
        row = rows["k"]
        self.assertEqual((row["count"], row["total_ps"], row["grid"], row["launch_count"], row["launch_configs"]),
                         (4, 930, "1,1,1", 2, 2))
        wide = self.run_ok("kernels", path, "--wide").text
        self.assertIn("executions of 1 kernel differ in their launch configuration", wide)
        self.assertRegex(wide, r"regs +shared B +grid +block +configs")
        # Filters select executions, and so also their configurations.
        self.assertEqual(self.kernels(path, "--max-events", "1")["k"]["launch_configs"], 1)
        self.assertEqual(self.kernels(path, "--min-duration", "0.5")["k"]["grid"], "9,1,1")

    def test_statistics_are_the_same_as_without(self):
        """Configurations do not split rows, and do not change other numbers."""
        stats = [{"kernel_details": f"regs:16 shm:0 grid:{i % 3 + 1},1,1 block:64,1,1"} for i in range(30)]
        executions = [(f"k{i % 2}", 100 + 7 * i % 50, stats[i]) for i in range(30)]
        with_them = self.kernels(self.write("a.xplane.pb", trace(*executions)))
        without = self.kernels(self.write("b.xplane.pb", trace(*((k, d, {}) for k, d, _ in executions))))
        for name, row in without.items():
            same = {key: value for key, value in row.items() if key not in (*FIELDS, "launch_count", "launch_configs")}
            self.assertEqual({key: with_them[name][key] for key in same}, same)
            self.assertEqual(with_them[name]["launch_configs"], 3)

    def test_many_configurations(self):
        """If a kernel has more configurations than are kept, their number is unknown."""
        executions = [("k", 10, {"kernel_details": f"regs:16 shm:0 grid:{i + 1},1,1 block:64,1,1"})
                      for i in range(17_000)]
        row = self.kernels(self.write("t.xplane.pb", trace(*executions)))["k"]
        self.assertEqual((row["count"], config(row), row["launch_configs"]), (17_000, NOTHING, None))

    def test_pytorch(self):
        def kernel(name, start, **args):
            return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": 5,
                    "args": {"device": 0, "stream": 7, **args}}
        path = self.write("t.json", json.dumps({"schemaVersion": 1, "traceEvents": [
            kernel("a", 0, **{"grid": [160, 2, 1], "block": [128, 1, 1], "registers per thread": 40,
                              "shared memory": 4096, "est. achieved occupancy %": 31}),
            kernel("b", 10, **{"grid": [1, 1, 1], "block": [32, 1, 1], "registers per thread": 8,
                               "shared memory": 0, "est. achieved occupancy %": 0}),
            kernel("c", 20), kernel("d", 30, grid="x", block=[1], **{"registers per thread": -3})]}, indent=1))
        rows = self.kernels(path)
        self.assertEqual(config(rows["a"]), (40, None, None, 4096, None, 0.31, "160,2,1", "128,1,1"))
        self.assertEqual(config(rows["b"]), (8, None, None, 0, None, 0, "1,1,1", "32,1,1"))
        self.assertEqual([config(rows[name]) for name in "cd"], [NOTHING] * 2)

    def test_columns(self):
        path = self.write("t.xplane.pb", trace(("k", 10, {"kernel_details": list(DETAILS)[1]})))
        self.assertNotIn("regs", self.run_ok("kernels", path).text)
        wide = self.run_ok("kernels", path, "--wide").text
        self.assertRegex(wide, r"regs +shared B +occ % +grid +block")
        self.assertRegex(wide, r"38 +576 +75.0 +8,2,1 +256,1,1")
        chosen = self.run_ok("kernels", path, "--columns", "regs,grid").text
        self.assertRegex(chosen, r"kernel +regs +grid\n")
        row, = csv_rows(self.run_ok("kernels", path, "--format", "csv").text)
        self.assertEqual((row["registers"], row["grid"]), ("38", "8,2,1"))
        # A report does not read configurations.
        self.assertEqual(config(self.run_json("report", path)["kernels"][0]), NOTHING)


class DeclaredWork(EndToEndTest):
    PEAKS = ("--peak-flops", "1T", "--peak-bandwidth", "1T")

    def setUp(self):
        super().setUp()
        # Each kernel has 3 executions of 1 us.
        self.trace = self.write("t.xplane.pb", trace(*(
            (kernel, 1_000_000, {}) for _ in range(3) for kernel in ("flash_fwd", "flash_bwd", "sort_7"))))

    def work(self, *entries):
        return self.write("work.json", json.dumps({"work": entries}))

    def rows(self, *options):
        return {row["op"]: row for row in self.run_json("headroom", self.trace, *self.PEAKS, *options)["ops"]}

    def test_figures(self):
        work = self.work({"kernel": "flash_fwd", "flops": 250_000, "bytes": 100_000},
                         {"pattern": "^sort_", "bytes": 500_000})
        rows = self.rows("--work", work)
        fwd, bwd, sort = (rows[name] for name in ("flash_fwd", "flash_bwd", "sort_7"))
        self.assertEqual((fwd["flops"], fwd["bytes"], fwd["flops_source"], fwd["bytes_source"]),
                         (250_000, 100_000, "declared", "declared"))
        self.assertEqual((fwd["roof"], fwd["executions"], fwd["total_ps"]), ("full", 3, 3_000_000))
        # 250,000 FLOPs at 1 TFLOP/s are 250 ns; 3 executions.
        self.assertAlmostEqual(fwd["roof_ps"], 750_000)
        self.assertAlmostEqual(fwd["recoverable_ps"], 2_250_000)
        self.assertAlmostEqual(fwd["flops_share"], 0.25)
        self.assertEqual((fwd["bound"], fwd["reason"]), ("neither", None))
        self.assertEqual((sort["roof"], sort["flops"], sort["flops_source"]), ("memory", None, None))
        self.assertAlmostEqual(sort["roof_ps"], 1_500_000)
        self.assertEqual((bwd["roof"], bwd["reason"], bwd["flops_source"]), (None, "no_program", None))
        self.assertEqual(self.run_json("headroom", self.trace, "--work", work)["options"]["work"], str(work))

    def test_an_exact_name_is_no_pattern(self):
        rows = self.rows("--work", self.work({"kernel": "sort_7", "bytes": 1}))
        self.assertEqual([name for name, row in rows.items() if row["bytes_source"] == "declared"], ["sort_7"])

    def test_the_first_entry_counts(self):
        rows = self.rows("--work", self.work({"kernel": "flash_bwd", "flops": 7}, {"pattern": "flash", "flops": 9}))
        self.assertEqual((rows["flash_bwd"]["flops"], rows["flash_fwd"]["flops"]), (7, 9))

    def test_a_declaration_without_a_kernel(self):
        done = run("headroom", self.trace, "--work", self.work({"kernel": "flash_fwt", "flops": 1}))
        self.assertEqual((done.code, done.out), (1, b"") if done.code == 1 else (done.code, b""))
        self.assertNotEqual(done.code, 0)
        self.assertIn("no op or kernel matches kernel 'flash_fwt'; did you mean flash_fwd", done.message)
        # The advice works.
        self.assertIn("flash_fwd", self.run_ok("kernels", self.trace).text)
        # Declared work also matches a kernel that a filter excludes.
        self.rows("--work", self.work({"kernel": "flash_fwd", "flops": 1}), "--kernel", "sort")

    def test_bad_files(self):
        good = {"kernel": "flash_fwd", "flops": 1}
        for content, part in (
                ("", "not a JSON object"), ("[1]", "not a JSON object"), ("{}", 'no list "work"'),
                ('{"work": 3}', "work: must be a list"), ('{"work": [3]}', "work[0]: must be an object"),
                (json.dumps({"work": [good, {"kernel": "a"}]}), "work[1]: needs flops, bytes or both"),
                (json.dumps({"work": [{"flops": 1}]}), "work[0]: needs either kernel"),
                (json.dumps({"work": [{**good, "pattern": "x"}]}), "work[0]: needs either kernel"),
                (json.dumps({"work": [{"kernel": "a", "flop": 1}]}),
                 'work[0]: unknown member "flop"; valid members: kernel, pattern, flops, bytes'),
                (json.dumps({"work": [{}]}), "work[0]: needs either kernel"),
                (json.dumps({"work": []}), "work: declares nothing"), (json.dumps({"work": {}}), "work: declares nothing"),
                (json.dumps({"work": [good], "peak": 1}), 'top level: unknown member "peak"; valid members: work'),
                ('{"work": [{"kernel": "a", "flops": 1, "flops": 2}]}', 'work.json: member "flops" occurs twice'),
                (json.dumps({"work": [good]})[:-1] + ', "work": []}', 'work.json: member "work" occurs twice'),
                (json.dumps({"work": [{"kernel": "a", "flops": -1}]}), "work[0].flops"),
                (json.dumps({"work": [{"kernel": "a", "flops": "1"}]}), "work[0].flops"),
                ('{"work": [{"kernel": "a", "flops": 1e999}]}', "work.json"),
                (json.dumps({"work": [{"pattern": "(", "flops": 1}]}), "missing )")):
            with self.subTest(content):
                done = run("headroom", self.trace, "--work", self.write("work.json", content))
                self.assertNotEqual(done.code, 0)
                self.assertEqual(done.out, b"")
                self.assertIn(part, done.message)
        self.assertIn("no such file", run("headroom", self.trace, "--work", self.at / "none.json").message.lower())

    def test_the_result_is_never_the_declaration(self):
        work = self.work({"kernel": "flash_fwd", "flops": 1})
        before = work.read_bytes()
        self.assertNotEqual(run("headroom", self.trace, "--work", work, "--format", "json", "-o", work).code, 0)
        self.assertEqual(work.read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
