"""energy: worlds whose truth is known, as traces and logs (tests/support/write_power_world.cc)."""
import json
import os
import subprocess
import unittest

from harness import EndToEndTest, run

WRITE_WORLD = os.environ.get("WRITE_POWER_WORLD")


@unittest.skipIf(WRITE_WORLD is None, "needs WRITE_POWER_WORLD")
class Energy(EndToEndTest):
    def energy(self, kind, *options, seed=1):
        """What is printed, and the truth."""
        base = self.at / f"{kind}{seed}"
        if not base.with_suffix(".truth.json").exists():
            subprocess.run([WRITE_WORLD, kind, str(seed), str(base)], check=True)
        done = run("energy", f"{base}.xplane.pb", "--power", f"{base}.power.jsonl", *options)
        return done, json.loads(base.with_suffix(".truth.json").read_text())

    def document(self, kind, *options, seed=1):
        done, truth = self.energy(kind, "--format", "json", *options, seed=seed)
        self.assertEqual(done.code, 0, done.message)
        return done.json, truth

    def check_numbers(self, document, truth, most_share_off):
        """All are there, near the truth, and mostly within their intervals."""
        inside = 0
        for row in document["kernels"]:
            lo, hi = row["energy_j_ci95"]
            self.assertLessEqual(lo, row["energy_j"])
            self.assertLessEqual(row["energy_j"], hi)
            self.assertAlmostEqual(row["energy_j"], truth[row["kernel"]],
                                   delta=most_share_off * truth[row["kernel"]])
            inside += lo <= truth[row["kernel"]] <= hi
        self.assertEqual(len(document["kernels"]), len(truth))
        self.assertGreaterEqual(inside, 0.75 * len(truth))

    def test_each_kernel_of_a_mixture(self):
        for kind, most_share_off in (("mix", 0.03), ("average", 0.06), ("busy", 0.25)):
            with self.subTest(kind):
                document, truth = self.document(kind)
                self.check_numbers(document, truth, most_share_off)
                [device] = document["devices"]
                self.assertFalse(device["poor_fit"])
                self.assertEqual(device["clock"], "capture_start")
                self.assertEqual(document["groups"], [])
                self.assertAlmostEqual(
                    device["measured_j"],
                    device["active_j"] + device["idle_j"] + device["residual_j"], places=6)

    def test_functions_are_the_sums_of_their_kernels(self):
        document, _ = self.document("mix")
        self.assertEqual(len(document["functions"]), 4)
        for row in document["functions"]:
            own = [each for each in document["kernels"] if each["function"] == row["function"]]
            self.assertAlmostEqual(row["energy_j"], sum(each["energy_j"] for each in own), places=6)
            self.assertEqual(row["count"], sum(each["count"] for each in own))
            # Errors of parts cancel or add up; the sum's is never more than theirs together.
            width = row["energy_j_ci95"][1] - row["energy_j_ci95"][0]
            self.assertLessEqual(width, sum(each["energy_j_ci95"][1] - each["energy_j_ci95"][0]
                                            for each in own) * 1.0001)

    def test_energy_of_a_run(self):
        document, _ = self.document("variants")
        self.assertEqual([row["variant_id"] for row in document["functions"] if row["runs"] is None], [])
        for row in document["functions"]:  # of one kernel each
            self.assertEqual(row["runs"], row["count"])
            self.assertAlmostEqual(row["per_run_j"], row["per_execution_j"], places=12)
        document, _ = self.document("mix")  # nothing tells where a run begins
        self.assertEqual({(row["runs"], row["per_run_j"]) for row in document["functions"]},
                         {(None, None)})

    def test_compare_and_pick_take_what_is_written(self):
        paths = {}
        for seed in (1, 2):
            done, _ = self.energy("variants", "--format", "json", seed=seed)
            paths[seed] = self.write(f"energies{seed}.json", done.out)
        done = run("compare", paths[1], paths[2], "--objective", "energy", "--format", "json")
        self.assertEqual(done.code, 10, done.message)  # worlds of other kernels
        self.assertEqual({row["metric"] for row in done.json["rows"]}, {"energy"})
        done = run("pick", paths[1], "--objective", "energy", "--format", "json")
        rows = {row["variant_id"]: row["energy_j"] for row in done.json["variants"]}
        self.assertEqual(len(rows), 8)
        self.assertEqual(done.json["pick"], min(rows, key=rows.get))

    def test_filters_choose_rows_and_change_no_number(self):
        whole, _ = self.document("mix")
        part, _ = self.document("mix", "--kernel", "kernel_[12]$")
        self.assertEqual([row for row in whole["kernels"] if row["kernel"] in ("kernel_1", "kernel_2")],
                         part["kernels"])
        done, _ = self.energy("mix", "--kernel", "none_such")
        self.assertEqual(done.code, 65)
        self.assertIn("no execution matches --kernel", done.message)

    def test_a_loop_that_is_always_the_same_has_no_numbers_but_its_sum(self):
        document, truth = self.document("periodic", seed=2)
        for row in document["kernels"]:
            self.assertIsNone(row["energy_j"])
            self.assertEqual(row["reason"], "not_separable")
        [group] = document["groups"]
        self.assertCountEqual(group["kernels"], truth)
        lo, hi = group["energy_j_ci95"]
        self.assertTrue(lo <= sum(truth.values()) <= hi, (lo, sum(truth.values()), hi))

    def test_a_pair_is_one_group_and_the_others_keep_their_numbers(self):
        document, truth = self.document("pair")
        grouped = {row["kernel"] for row in document["kernels"] if row["group"] is not None}
        self.assertEqual(grouped, {"kernel_0", "kernel_1"})
        [group] = document["groups"]
        self.assertAlmostEqual(group["energy_j"], truth["kernel_0"] + truth["kernel_1"],
                               delta=0.03 * group["energy_j"])
        for row in document["kernels"]:
            if row["group"] is None:
                self.assertAlmostEqual(row["energy_j"], truth[row["kernel"]],
                                       delta=0.03 * truth[row["kernel"]])

    def test_blocks_are_measured(self):
        document, truth = self.document("blocks")
        self.check_numbers(document, truth, 0.02)
        self.assertEqual({row["kind"] for row in document["kernels"]}, {"measured"})

    def test_what_no_trace_shows_is_a_poor_fit(self):
        for kind in ("other_load", "draws_nothing"):
            with self.subTest(kind):
                document, _ = self.document(kind)
                self.assertTrue(document["devices"][0]["poor_fit"])
                self.assertIn("poor_fit", [each["code"] for each in document["findings"]])

    def test_without_the_captures_start_the_clock_is_estimated(self):
        document, truth = self.document("no_clock")
        self.assertEqual(document["devices"][0]["clock"], "estimated")
        self.check_numbers(document, truth, 0.06)

    def test_half_a_log_is_labelled(self):
        document, truth = self.document("half")
        self.assertLess(document["devices"][0]["coverage"], 0.75)
        codes = [each["code"] for each in document["findings"]]
        self.assertIn("coverage", codes)
        self.assertIn("log_without_end", codes)
        for row in document["kernels"]:  # of what is covered
            if row["energy_j"] is not None:
                self.assertLess(row["energy_j"], truth[row["kernel"]])

    def test_what_cannot_be_known_is_refused_with_the_way_out(self):
        for kind, words in (("hour", "different times"), ("module", "whole module"),
                            ("no_map", "--map")):
            with self.subTest(kind):
                done, _ = self.energy(kind)
                self.assertEqual(done.code, 65)
                self.assertEqual(done.out, b"")
                self.assertIn(words, done.message)

    def test_a_map_says_which_device_it_is(self):
        document, truth = self.document("no_map", "--map", "0=GPU-b")
        self.assertIn("GPU-b", document["devices"][0]["sensor"])
        self.check_numbers(document, truth, 0.03)
        done, _ = self.energy("no_map", "--map", "0=GPU-c")
        self.assertEqual(done.code, 65)

    def test_usage(self):
        for options, words in (((), "--power LOG is missing"),
                               (("--power", "p.jsonl", "--map", "GPU-a"), "N=ID"),
                               (("--power", "p.jsonl", "--map", "0=a,0=b"), "twice")):
            with self.subTest(options):
                done = run("energy", "trace.xplane.pb", *options)
                self.assertEqual(done.code, 64)
                self.assertIn(words, done.message)

    def test_tables_and_csv(self):
        done, _ = self.energy("mix")
        self.assertIn("kernels\n", done.text)
        self.assertIn("measured = active + idle + residual", done.text)
        rows = self.energy("mix", "--format", "csv")[0].text.splitlines()
        self.assertEqual(len(rows), 9)
        self.assertIn("energy_j_ci95_lo", rows[0])


if __name__ == "__main__":
    unittest.main()
