"""Tests of the options of diff: its units, the stated variation, and --top."""
import random
import unittest

from harness import EndToEndTest, run
from xspace import Plane, Ref, space


class Diff(EndToEndTest):
    def capture(self, name, seed, noise=0.05, runs=30, gap_ps=1_000_000, **times_ps):
        """A capture with the kernels of one function. Each kernel of a run varies by `noise`."""
        plane, rng, at = Plane("/device:GPU:0"), random.Random(seed), 0
        stream = plane.line("Stream #1(Kernel)", 5)
        for _ in range(runs):
            for kernel, typical_ps in times_ps.items():
                took = round(typical_ps * (1 + noise * rng.gauss(0, 1)))
                stream.event(kernel, at, took, hlo_module=Ref("jit_f"), hlo_op=Ref(kernel), program_id=1)
                at += took + 1_000
            at += gap_ps
        return self.write(name, space(plane))

    def ok(self, *arguments):
        done = run("diff", *arguments, cwd=self.at)
        self.assertEqual(done.code, 0, done.message)
        return done

    def both(self, *arguments):
        return self.ok(*arguments, "--format", "json").json, " ".join(self.ok(*arguments).text.split())

    def test_the_stated_variation_is_added_to_that_of_the_runs(self):
        kernels = {f"k{at}": 1_000_000 * (at + 1) for at in range(12)}
        base = self.capture("base.pb", 1, **kernels)
        head = self.capture("head.pb", 2, **kernels)
        widths = []
        for offset in ("0", "0.1%", "1%"):
            decision, text = self.both(base, head, "--offset-std", offset)
            total = decision["total"]
            lo, hi = total["delta_ci_ps"]
            self.assertLess(lo, total["delta_ps"])
            self.assertEqual(total["verdict"], "unproven")
            self.assertLess(lo, 0)
            self.assertGreater(hi, 0)
            self.assertIn("total not proved (-", text)
            widths.append(hi - lo)
        self.assertEqual(widths, sorted(widths))
        # The variation of the runs: 12 kernels by 5 % each, in 30 runs a side.
        sd = (sum((0.05 * ps) ** 2 for ps in kernels.values()) * 2 / 30) ** 0.5
        self.assertGreater(widths[0], 2 * 2 * sd)
        self.assertLess(widths[0], 2 * 6 * sd)

    def test_false_claims_with_a_stated_variation_of_0(self):
        """Without a change, at most one comparison in 1,000 may have a proved row."""
        for seed in range(40):
            base = self.capture("base.pb", f"b{seed}", runs=8, a=50_000_000, b=20_000_000)
            head = self.capture("head.pb", f"h{seed}", runs=8, a=50_000_000, b=20_000_000)
            decision = self.ok(base, head, "--offset-std", "0", "--min-effect", "0", "--format", "json").json
            verdicts = {row["verdict"] for row in decision["rows"]} | {decision["total"]["verdict"]}
            self.assertFalse(verdicts & {"more", "less"}, (seed, decision["total"]))

    def test_a_change_that_is_proved_but_small(self):
        base = self.capture("base.pb", 1, noise=0.001, a=50_000_000, b=20_000_000)
        head = self.capture("head.pb", 2, noise=0.001, a=50_500_000, b=20_000_000)
        decision, text = self.both(base, head, "--offset-std", "0", "--min-effect", "5%")
        total = decision["total"]
        self.assertGreater(total["delta_ci_ps"][0], 0)
        self.assertLess(total["p_value"], 0.001)
        self.assertEqual(total["verdict"], "unproven")
        self.assertIn("not proved to exceed --min-effect, 5 % of base", total["reason"])
        self.assertIn("total not proved to change by more than --min-effect, 5.0 % of base (+", text)
        self.assertNotIn("no verdict", text)
        self.assertEqual(self.ok(base, head, "--offset-std", "0", "--min-effect", "0.1%",
                                 "--format", "json").json["total"]["verdict"], "more")

    def test_the_note_on_whole_captures(self):
        base = self.capture("base.pb", 1, a=50_000_000)
        head = self.capture("head.pb", 2, a=60_000_000)
        for given in ((), ("--per", "run")):
            self.assertEqual(self.both(base, head, *given)[0]["per"], "run")
        decision, text = self.both(base, head, "--per", "capture")
        self.assertEqual(decision["per"], "capture")
        whole = "whole captures are compared, and their amounts of work may differ"
        self.assertIn(f"note: {whole}", text)
        self.assertNotIn("have runs", text)
        plane = Plane("/device:GPU:0")
        plane.line("Stream #1(Kernel)", 5).event("a", 0, 50_000_000)
        bare = self.write("bare.pb", space(plane))
        decision, text = self.both(bare, bare)
        self.assertEqual(decision["per"], "capture")
        self.assertIn(f"not all captures have steps, and not all have runs: {whole}", text)

    def test_top_selects_rows_in_all_formats(self):
        kernels = {f"k{at}": 1_000_000 * (at + 1) for at in range(6)}
        base, head = self.capture("base.pb", 1, **kernels), self.capture("head.pb", 2, **kernels)
        everything = self.ok(base, head, "--format", "json").json
        for top in (0, 1, 3, 100):
            decision = self.ok(base, head, "--top", top, "--format", "json").json
            self.assertEqual(decision["rows"], everything["rows"][:top])
            for name in ("total", "sums", "functions"):
                self.assertEqual(decision[name], everything[name])
            self.assertEqual(decision["options"], {"top": top})
            lines = self.ok(base, head, "--top", top, "--format", "csv").text.splitlines()
            self.assertEqual(len(lines), 1 + min(top, len(everything["rows"])))


if __name__ == "__main__":
    unittest.main()
