"""Tests of energy on simulated traces and logs with known energies (tests/support/write_power_world.cc)."""
import csv
import gzip
import json
import os
import random
import subprocess
import unittest
import xml.etree.ElementTree

from harness import REPOSITORY, TESTDATA, EndToEndTest, memory_can_be_limited, run
from xspace import Plane, Ref, Unsigned, space, tpu

WRITE_WORLD = os.environ.get("WRITE_POWER_WORLD")


@unittest.skipIf(WRITE_WORLD is None, "needs WRITE_POWER_WORLD")
class Energy(EndToEndTest):
    def energy(self, kind, *options, seed=1):
        """Returns the output and the true energies."""
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
        """All kernels are present, near the truth, and mostly within their intervals."""
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

    def test_a_sensor_that_is_polled_as_often_as_it_publishes(self):
        """The sensor is polled every 20 ms and publishes every 19 ms. Each poll sees a new value, so
        only the dates of the sensor show when it was published."""
        for seed in (1, 2):
            document, truth = self.document("dated", seed=seed)
            self.check_numbers(document, truth, 0.02)
            [device] = document["devices"]
            self.assertFalse(device["poor_fit"])
            self.assertAlmostEqual(device["window_ns"], 20e6, delta=0.2e6)
            self.assertAlmostEqual(device["period_ns"], 19e6, delta=0.1e6)

    @unittest.skipUnless(memory_can_be_limited(), "a sanitizer needs memory")
    def test_memory_does_not_grow_with_the_time_that_a_trace_claims(self):
        _, truth = self.energy("stop_of_centuries")
        base = self.at / "stop_of_centuries1"
        done = run("energy", f"{base}.xplane.pb", "--power", f"{base}.power.jsonl", "--format", "json",
                   limit_bytes=2 ** 30)
        self.assertEqual(done.code, 0, done.message)
        [device] = done.json["devices"]
        self.assertLess(device["coverage"], 0.01)
        for row in done.json["kernels"]:
            self.assertAlmostEqual(row["energy_j"], truth[row["kernel"]],
                                   delta=0.1 * truth[row["kernel"]])

    def test_planes_with_the_same_name_share_no_sensor(self):
        """One sensor measures one device, so its energy is not given to each of two planes."""
        gpu = TESTDATA / "gpu"
        content = gzip.decompress((gpu / "h200_mixture.xplane.pb.gz").read_bytes())
        words = ("--power", gpu / "h200_mixture.power.jsonl", "--format", "json")
        self.assertEqual(run("energy", self.write("one.xplane.pb", content), *words).code, 0)
        twin = Plane("/device:GPU:0", id=77)
        twin.line("Stream #1(Kernel)").event("k", 0, 1_000_000, hlo_module=Ref("jit_f"), hlo_op=Ref("op"), program_id=1)
        done = run("energy", self.write("two.xplane.pb", content + space(twin)), *words)
        self.assertEqual((done.code, done.out), (65, b""), done.text[:300])
        self.assertIn("several planes of the file have this name", done.message)

    def test_functions_are_the_sums_of_their_kernels(self):
        document, _ = self.document("mix")
        self.assertEqual(len(document["functions"]), 4)
        for row in document["functions"]:
            own = [each for each in document["kernels"] if each["function"] == row["function"]]
            self.assertAlmostEqual(row["energy_j"], sum(each["energy_j"] for each in own), places=6)
            self.assertEqual(row["count"], sum(each["count"] for each in own))
            # Errors of parts may cancel. The error of the sum never exceeds the sum of their errors.
            width = row["energy_j_ci95"][1] - row["energy_j_ci95"][0]
            self.assertLessEqual(width, sum(each["energy_j_ci95"][1] - each["energy_j_ci95"][0]
                                            for each in own) * 1.0001)

    def test_energy_of_a_run(self):
        document, _ = self.document("variants")
        self.assertEqual([row["variant_id"] for row in document["functions"] if row["runs"] is None], [])
        for row in document["functions"]:  # each has one kernel
            self.assertEqual(row["runs"], row["count"])
            self.assertAlmostEqual(row["per_run_j"], row["per_execution_j"], places=12)
        document, _ = self.document("mix")  # the begin of a run is unknown
        self.assertEqual({(row["runs"], row["per_run_j"]) for row in document["functions"]},
                         {(None, None)})

    def test_compare_and_pick_take_what_is_written(self):
        paths = {}
        for seed in (1, 2):
            done, _ = self.energy("variants", "--format", "json", seed=seed)
            paths[seed] = self.write(f"energies{seed}.json", done.out)
        done = run("compare", paths[1], paths[2], "--objective", "energy", "--format", "json")
        self.assertEqual(done.code, 10, done.message)  # the worlds have different kernels
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
                for how in ("table", "markdown"):
                    text = self.energy(kind, "--format", how)[0].text
                    self.assertLess(text.index("Do not trust the numbers for GPU:0"),
                                    text.index("measured J"))
        self.assertNotIn("Do not trust", self.energy("mix")[0].text)

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
        for row in document["kernels"]:  # energy of the covered part
            if row["energy_j"] is not None:
                self.assertLess(row["energy_j"], truth[row["kernel"]])

    def cut_log(self, kind, share, *options):
        """Runs with only the first part of the log."""
        self.energy(kind)
        lines = (self.at / f"{kind}1.power.jsonl").read_text().splitlines(keepends=True)
        log = self.write(f"cut_{kind}_{share}.jsonl", "".join(lines[:int(share * len(lines))]).encode())
        return run("energy", str(self.at / f"{kind}1.xplane.pb"), "--power", log, *options)

    def test_what_no_window_saw_is_unknown_and_not_nothing(self):
        self.energy("blocks")
        done = self.cut_log("blocks", 0.35, "--format", "json", "--layers",
                            str(self.at / "blocks1.layers.csv"))
        self.assertEqual(done.code, 0, done.message)
        known = {row["kernel"]: row for row in done.json["kernels"] if row["reason"] is None}
        unseen = {row["kernel"] for row in done.json["kernels"] if row["reason"] == "not_covered"}
        self.assertTrue(known)
        self.assertTrue(unseen)
        self.assertEqual(len(known) + len(unseen), 4)
        for table in ("kernels", "functions", "layers"):
            for row in done.json[table]:
                self.assertEqual(row["status"], "ok" if row["reason"] is None else "unknown")
                self.assertEqual(row["energy_j"] is None, row["reason"] is not None)
                if row["energy_j"] is None:
                    self.assertEqual((row["mean_w"], row["per_execution_j"], row["share"]),
                                     (None, None, None))
                else:
                    self.assertGreater(row["energy_j"], 0)
        for row in done.json["functions"]:  # each has two kernels
            number = int(row["function"][-1])
            members = {f"kernel_{2 * number}", f"kernel_{2 * number + 1}"}
            self.assertEqual(row["reason"], "not_covered" if members & unseen else None)
        layers = {row["layer"].strip('layer, "'): row["reason"] for row in done.json["layers"]}
        self.assertEqual(layers, {name[-1]: "not_covered" if name in unseen else None
                                  for name in known.keys() | unseen})
        table = self.cut_log("blocks", 0.35).text
        self.assertIn("not covered", table)
        self.assertIn("energy and busy cover only the logged part, count covers the whole capture",
                      " ".join(table.split()))
        self.assertNotIn("energy and busy cover", self.energy("blocks")[0].text)

    def test_an_execution_of_half_a_log_is_the_mean_of_all(self):
        whole, truth = self.document("mix")
        done = self.cut_log("mix", 0.3, "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        for row in done.json["functions"]:
            [of_all] = [each for each in whole["functions"] if each["function"] == row["function"]]
            number = int(row["function"][-1])
            joules = (truth[f"kernel_{2 * number}"] + truth[f"kernel_{2 * number + 1}"]) / row["count"]
            self.assertEqual(row["count"], of_all["count"])
            self.assertAlmostEqual(row["per_execution_j"], joules, delta=0.04 * joules)

    def test_a_run_has_an_interval(self):
        for document in (self.document("variants")[0],
                         self.cut_log("variants", 0.4, "--format", "json").json):
            for row in document["functions"]:
                lo_j, hi_j = row["per_run_j_ci95"]
                self.assertLess(lo_j, row["per_run_j"])
                self.assertLess(row["per_run_j"], hi_j)
                # With one kernel, the relative error is that of its energy.
                self.assertAlmostEqual(hi_j / row["per_run_j"],
                                       row["energy_j_ci95"][1] / row["energy_j"], places=9)

    def test_few_windows_are_refused(self):
        self.energy("mix")
        lines = (self.at / "mix1.power.jsonl").read_text().splitlines(keepends=True)
        end_ns = json.loads(lines[0])["clocks"]["monotonic_ns"] + 1_800_000_000
        log = self.write("short.jsonl", "".join(each for each in lines
                                                if json.loads(each).get("t", 0) < end_ns))
        done = run("energy", str(self.at / "mix1.xplane.pb"), "--power", log)
        self.assertEqual((done.code, done.out), (65, b""))
        self.assertIn("20 updates", done.message)

    def test_a_devices_sums_are_those_of_its_kernels(self):
        for kind in ("mix", "quarter", "blocks", "half"):
            with self.subTest(kind):
                document, _ = self.document(kind)
                [device] = document["devices"]
                active_j = sum(row["active_j"] for row in document["kernels"])
                self.assertAlmostEqual(device["active_j"], active_j, delta=1e-6 * active_j)
                self.assertAlmostEqual(
                    device["active_j"] + device["idle_j"] + device["residual_j"],
                    device["measured_j"], delta=1e-6 * device["measured_j"])
                # The residual is the energy outside of all windows.
                self.assertLess(abs(device["residual_j"] + device["unseen_j"]),
                                0.002 * device["measured_j"])

    def test_never_idle_is_said(self):
        document, _ = self.document("busy")
        unknown = [row for row in document["kernels"] if row["active_j"] is None]
        self.assertTrue(unknown)
        self.assertIn("never_idle", [each["code"] for each in document["findings"]])
        document, _ = self.document("mix")
        self.assertNotIn("never_idle", [each["code"] for each in document["findings"]])

    def test_functions_of_one_group_say_so(self):
        document, _ = self.document("periodic")
        groups = {row["kernel"]: row["group"] for row in document["kernels"]}
        for row in document["functions"]:
            number = int(row["function"][-1])
            of = {groups[f"kernel_{2 * number}"], groups[f"kernel_{2 * number + 1}"]}
            if row["energy_j"] is None and len(of) == 1 and None not in of:
                self.assertEqual((row["reason"], {row["group"]}), ("not_separable", of))

    def test_what_cannot_be_known_is_refused_with_the_way_out(self):
        for kind, words in (("hour", "do not overlap in time"), ("module", "whole module"),
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
        for given, code, words in (("0=GPU-c", 65, "with --map: GPU-a, GPU-b"),
                                   ("5=GPU-b", 64, "no device 5"),
                                   ("1=GPU-b,0=GPU-b", 64, "two devices are mapped to GPU-b")):
            done, _ = self.energy("no_map", "--map", given)
            self.assertEqual((done.code, done.out), (code, b""))
            self.assertIn(words, done.message)

    def test_marked_layers_without_a_trace(self):
        _, truth = self.energy("mix")
        base = self.at / "mix1"
        done = run("energy", "--layers", f"{base}.layers.csv", "--power", f"{base}.power.jsonl",
                   "--format", "json", "--device", "gpu:0")
        self.assertEqual(done.code, 0, done.message)
        document = done.json
        self.assertEqual(document["options"], {"device": "gpu:0"})
        self.assertNotIn("capture", document)
        self.assertEqual(document["kernels"], [])
        self.assertEqual([each["path"] for each in document["inputs"]], [f"{base}.layers.csv"])
        for row in document["layers"]:
            joules = truth["kernel_" + row["layer"].strip('layer, "')]
            self.assertAlmostEqual(row["energy_j"], joules, delta=0.04 * joules)
        self.assertEqual(len(document["layers"]), 8)
        self.assertIn("short_layers", [each["code"] for each in document["findings"]])
        rows = run("energy", "--layers", f"{base}.layers.csv", "--power", f"{base}.power.jsonl",
                   "--format", "csv").text.splitlines()
        self.assertEqual(len(rows), 9)
        self.assertIn(",layer,", rows[0])

    def test_marked_layers_beside_a_trace_are_what_ran_in_them(self):
        for kind in ("mix", "half"):
            with self.subTest(kind):
                self.energy(kind)
                document, _ = self.document(kind, "--layers", str(self.at / f"{kind}1.layers.csv"))
                kernels = {row["kernel"][-1]: row for row in document["kernels"]}
                self.assertEqual(len(document["layers"]), 8)
                for row in document["layers"]:
                    kernel = kernels[row["layer"].strip('layer, "')]
                    self.assertEqual(row["count"], kernel["count"])
                    self.assertAlmostEqual(row["busy_ps"], kernel["busy_ps"],
                                           delta=1e-4 * kernel["busy_ps"])
                    if kernel["energy_j"] is not None:
                        for name in ("energy_j", "per_execution_j", "active_j"):
                            self.assertAlmostEqual(row[name], kernel[name], delta=2e-3 * kernel[name])

    def test_marked_layers_of_another_time(self):
        self.energy("mix")
        text = (self.at / "mix1.layers.csv").read_text().replace(",1770000", ",1771000")
        (self.at / "later.csv").write_text(text)
        done = run("energy", "--layers", str(self.at / "later.csv"), "--power",
                   str(self.at / "mix1.power.jsonl"))
        self.assertEqual(done.code, 65)
        self.assertIn("do not overlap in time", done.message)
        for name, times in (("later.csv", None), ("relative.csv", "1,2"), ("only_head.csv", "")):
            with self.subTest(name):
                if times is not None:
                    self.write(name, "layer_name,start_time,end_time\n" + (times and f"a,{times}\n"))
                done, _ = self.energy("mix", "--layers", str(self.at / name))
                self.assertEqual((done.code, done.out), (65, b""))
                self.assertIn(name, done.message)
                self.assertIn("no runs of layers" if times == "" else "do not overlap in time", done.message)

    def test_a_layer_without_time_of_its_own_has_no_number(self):
        self.energy("mix")
        lines = (self.at / "mix1.layers.csv").read_text().splitlines()
        begins = lines[1].split(",")[-2]
        layers = self.write("none.csv", "\ufeff" + "\n".join(
            lines + [f"without,0,{begins},{begins}"] * 2))
        options = ("--layers", layers, "--power", str(self.at / "mix1.power.jsonl"), "--format", "json")
        done = run("energy", *options)
        self.assertEqual(done.code, 0, done.message)
        self.assertEqual(len(done.json["layers"]), 9)
        [row] = [each for each in done.json["layers"] if each["reason"] is not None]
        self.assertEqual((row["layer"], row["reason"], row["count"], row["energy_j"]),
                         ("without", "no_times", 2, None))
        self.write("none.csv", f"layer_name,start_time,end_time\na,{begins},{begins}\n")
        done = run("energy", *options)
        self.assertEqual(done.code, 65)
        self.assertIn("have zero duration", done.message)

    def test_layers_by_a_pattern(self):
        whole, _ = self.document("mix")
        self.assertIn("model/layer_3/op", [row["layer"] for row in whole["layers"]])
        document, _ = self.document("mix", "--layer-re", "layer_([0-2])")
        self.assertCountEqual([row["layer"] for row in document["layers"]], ["0", "1", "2"])
        for row in document["layers"]:
            of_scope = [each for each in whole["layers"] if row["layer"] in each["layer"]]
            self.assertEqual([row["energy_j"]], [each["energy_j"] for each in of_scope])
        document, _ = self.document("mix", "--layer-re", "none_(such)")
        self.assertIn("no_layer", [each["code"] for each in document["findings"]])
        for pattern, words in (("layer_.", "needs a group"), ("(", "--layer-re (")):
            done, _ = self.energy("mix", "--layer-re", pattern)
            self.assertEqual(done.code, 64)
            self.assertIn(words, done.message)

    def test_a_stated_power_is_modelled_and_has_no_interval(self):
        self.energy("mix")
        head = json.loads((self.at / "mix1.power.jsonl").read_text().splitlines()[0])
        stated = {"id": "constant", "source": "constant", "name": "constant", "ordinal": None}
        head["devices"][0].update(stated)
        head["channels"][0].update({"source": "constant", "device": "constant",
                                    "domain": "constant", "quantity": "power_mw",
                                    "kind": "instant", "prior_period_ns": None})
        lines = [json.dumps(head)] + [json.dumps({"t": head["t"] + i * 10_000_000, "s": 0,
                                                  "r": [[0, 0, 0, 120_000]]}) for i in range(9)]
        log = self.at / "stated.jsonl"
        log.write_text("\n".join(lines) + "\n")
        done = run("energy", str(self.at / "mix1.xplane.pb"), "--power", str(log), "--format", "json",
                   "--layers", str(self.at / "mix1.layers.csv"))
        self.assertEqual(done.code, 0, done.message)
        document = done.json
        for row in document["kernels"] + document["layers"]:
            self.assertEqual(row["kind"], "modelled")
            self.assertAlmostEqual(row["energy_j"], 120 * row["busy_ps"] / 1e12, places=6)
            self.assertIsNone(row["energy_j_ci95"])
            self.assertIsNone(row["active_j"])
        self.assertIn("modelled", [each["code"] for each in document["findings"]])
        self.assertIsNone(document["devices"][0]["clock"])
        table = run("energy", str(self.at / "mix1.xplane.pb"), "--power", str(log)).text
        self.assertNotIn("+-0.0%", table)

    def test_says_whether_the_plan_was_reached(self):
        plan = self.at / "plan.json"
        kernels = [f"kernel_{i}" for i in range(8)]
        for precision, names, code, words in (
                (0.04, kernels, 0, "all 8 kernels of the plan reach a precision of +-4 %"),
                (0.007, kernels, 12, "is not reached for"),
                (0.04, kernels[:7] + ["other"], 12, "for 1 of 8 kernels: other did not run"),
                (0.04, [], 65, "contains no kernels")):
            plan.write_text(json.dumps({"schema": "xplane-time.power-plan.v1", "precision": precision,
                                        "kernels": [{"kernel": name} for name in names]}))
            done, _ = self.energy("mix", "--plan", str(plan), "--format", "json")
            self.assertEqual(done.code, code, done.message)
            if code == 65:
                self.assertIn(words, done.message)
                continue
            [finding] = [each for each in done.json["findings"]
                         if each["code"] == ("precision_missed" if code else "precision_reached")]
            self.assertIn(words, finding["message"])
        plan.write_text("{}")
        done, _ = self.energy("mix", "--plan", str(plan))
        self.assertEqual(done.code, 65)
        self.assertIn("no plan", done.message)
        done, _ = self.energy("periodic", "--plan", str(self.written_plan(kernels)), seed=2)
        self.assertEqual(done.code, 12)

    def written_plan(self, kernels):
        path = self.at / "plan.json"
        path.write_text(json.dumps({"schema": "xplane-time.power-plan.v1", "precision": 0.01,
                                    "kernels": [{"kernel": name} for name in kernels]}))
        return path

    def test_a_picture(self):
        svg = self.at / "layers.svg"
        self.document("mix", "--layer-re", "(layer_[0-9])", "--svg", str(svg))
        picture = xml.etree.ElementTree.parse(svg).getroot()
        texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        for word in ("GPU:0", "measured", "layer_0", "layer_3", "power, W"):
            self.assertIn(word, texts)
        paths = [each.get("d") for each in picture.iter("{http://www.w3.org/2000/svg}path")]
        self.assertEqual([path.count("L") > 150 for path in paths[-2:]], [True, True])
        # A lane that ran continuously is one block, except for its edges.
        self.document("blocks", "--layers", str(self.blocks_as_one()), "--svg", str(svg))
        picture = xml.etree.ElementTree.parse(svg).getroot()
        lanes = [each for each in picture.iter("{http://www.w3.org/2000/svg}rect")
                 if each.get("fill-opacity")]
        self.assertLessEqual(len(lanes), 3)
        self.assertGreater(max(float(each.get("width")) for each in lanes
                               if each.get("fill-opacity") == "1.00"), 700)

    def blocks_as_one(self):
        """A layers file with one layer, from the first execution to the last."""
        self.energy("blocks")
        rows = list(csv.DictReader((self.at / "blocks1.layers.csv").open(newline="")))
        path = self.at / "one.csv"
        path.write_text("layer_name,start_time,end_time\nall,%s,%s\n" % (
            min(row["start_time"] for row in rows), max(row["end_time"] for row in rows)))
        return path

    def test_usage(self):
        for options, words in ((("--power", "p.jsonl", "--map", "GPU-a"), "N=ID"),
                               (("--power", "p.jsonl", "--map", "0=a,0=b"), "twice"),
                               (("--power", "p.jsonl", "--layers", "l.csv", "--layer-re", "x"),
                                "--layer-re")):
            with self.subTest(options):
                done = run("energy", "trace.xplane.pb", *options)
                self.assertEqual(done.code, 64)
                self.assertIn(words, done.message)

    def test_power_counters_of_the_trace_need_no_log(self):
        for kind, options, most_share_off in (
                ("counter_power", (), 0.06), ("counter_deltas", (), 0.03),
                ("counter_energies", ("--map", "0=chip"), 0.03)):
            with self.subTest(kind):
                base = self.at / f"{kind}1"
                self.energy(kind)
                done = run("energy", f"{base}.xplane.pb", "--format", "json", *options)
                self.assertEqual(done.code, 0, done.message)
                self.check_numbers(done.json, json.loads((self.at / f"{kind}1.truth.json").read_text()),
                                   most_share_off)
                [device] = done.json["devices"]
                self.assertEqual(device["clock"], "trace")
                self.assertEqual(device["sensor"].split()[0], "trace")
                self.assertIn(device["sensor"].split()[1], ("power_mw", "chip_energy_nj"))

    def test_a_counter_of_the_trace_that_was_reset(self):
        self.energy("counter_reset")
        truth = json.loads((self.at / "counter_reset1.truth.json").read_text())
        done = run("energy", str(self.at / "counter_reset1.xplane.pb"), "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        [finding] = [each for each in done.json["findings"] if each["code"] == "counter_reset"]
        self.assertIn("reset or jumped 1 time (before ", finding["message"])
        [device] = done.json["devices"]
        self.assertGreater(device["coverage"], 0.97)
        self.assertLess(device["coverage"], 0.9999)
        self.check_numbers(done.json, truth, 0.03)
        self.assertFalse(device["poor_fit"])

    def test_a_counter_of_a_log_that_was_reset(self):
        whole, truth = self.document("mix")
        lines = [json.loads(line) for line in (self.at / "mix1.power.jsonl").read_text().splitlines()]
        polls = [line for line in lines if "r" in line]
        first_ns = lines[0]["clocks"]["monotonic_ns"]
        value, resets_s = polls[0]["r"][0][3], []
        for begin, offset in ((len(polls) // 3, 1 - value), (len(polls) // 2, 10 ** 13)):
            resets_s.append((polls[begin]["t"] - first_ns) / 1e9)
            for line in polls[begin:]:  # first a reset to about 0, then a jump of 10 MJ
                line["r"][0][3] += offset
        lines[0]["channels"][0]["max_plausible_mw"] = 1_000_000
        log = self.write("reset.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        done = run("energy", str(self.at / "mix1.xplane.pb"), "--power", log, "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        [finding] = [each for each in done.json["findings"] if each["code"] == "counter_reset"]
        self.assertIn("2 times", finding["message"])
        for reset_s in resets_s:
            self.assertIn(f"{reset_s:.6g}", finding["message"])
        [device] = done.json["devices"]
        self.assertFalse(device["poor_fit"])
        [before] = whole["devices"]
        self.assertGreater(device["coverage"], before["coverage"] - 0.03)
        self.assertLess(device["coverage"], before["coverage"])
        self.assertAlmostEqual(device["measured_j"] / device["coverage"],
                               before["measured_j"] / before["coverage"],
                               delta=0.01 * before["measured_j"])
        self.check_numbers(done.json, truth, 0.03)
        self.assertNotIn("coverage", [each["code"] for each in done.json["findings"]])

    def missing_polls(self, kind, keeps):
        """The results for the device from the complete log, and from a log without some readings."""
        whole, _ = self.document(kind)
        lines = (self.at / f"{kind}1.power.jsonl").read_text().splitlines(keepends=True)
        kept = [each for i, each in enumerate(lines) if keeps(i) or "\"r\"" not in each]
        log = self.write("missing.jsonl", "".join(kept))
        done = run("energy", str(self.at / f"{kind}1.xplane.pb"), "--power", log, "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        return whole["devices"][0], done.json["devices"][0]

    def test_a_counter_loses_nothing_of_what_polls_missed(self):
        chance = random.Random(1)
        for name, keeps in (("half", lambda _: chance.random() < 0.5),
                            ("every second", lambda i: i % 2 == 0),
                            ("a gap", lambda i: not 150 < i < 200)):
            with self.subTest(name):
                whole, device = self.missing_polls("mix", keeps)
                self.assertGreater(device["coverage"], 0.97)
                self.assertAlmostEqual(device["measured_j"] / device["coverage"],
                                       whole["measured_j"] / whole["coverage"],
                                       delta=0.005 * whole["measured_j"])

    def test_what_no_reading_is_the_mean_of_is_not_covered(self):
        for kind in ("average", "quarter"):
            with self.subTest(kind):
                whole, device = self.missing_polls(kind, lambda i: not 150 < i < 250)  # 5 s
                self.assertGreater(whole["coverage"], 0.95)
                self.assertLess(device["coverage"], whole["coverage"] - 0.15)
                self.assertLess(device["measured_j"], 0.9 * whole["measured_j"])

    def test_without_a_log_and_without_one_counter(self):
        self.energy("mix")
        self.energy("counter_energies")
        for kind, words in (("mix", "give --power LOG"),
                            ("counter_energies", "chip_energy_nj, hbm_energy_nj")):
            done = run("energy", str(self.at / f"{kind}1.xplane.pb"))
            self.assertEqual(done.code, 65)
            self.assertEqual(done.out, b"")
            self.assertIn(words, done.message)

    def test_usage_without_a_trace(self):
        self.energy("mix")
        base = self.at / "mix1"
        self.assertIn("--power LOG is missing", run("energy", "--layers", "l.csv").message)
        for options, words in ((("--device", "tpu"), "use gpu, gpu:1"),
                               (("--kernel", "x"), "--kernel")):
            with self.subTest(options):
                done = run("energy", "--layers", f"{base}.layers.csv", "--power",
                           f"{base}.power.jsonl", *options)
                self.assertEqual(done.code, 64)
                self.assertIn(words, done.message)

    def test_tables_and_csv(self):
        done, _ = self.energy("mix")
        self.assertIn("kernels\n", done.text)
        self.assertIn("measured = active + idle + residual", done.text)
        rows = self.energy("mix", "--format", "csv")[0].text.splitlines()
        self.assertEqual(len(rows), 9)
        self.assertIn("energy_j_ci95_lo", rows[0])

    def test_each_table_is_csv(self):
        document, _ = self.document("pair")
        for table in ("devices", "kernels", "functions", "layers", "sources", "groups"):
            with self.subTest(table):
                done, _ = self.energy("pair", "--format", "csv", "--table", table)
                self.assertEqual(done.code, 0, done.message)
                rows = list(csv.DictReader(done.text.splitlines()))
                self.assertEqual(len(rows), len(document[table]))
                for row, of_json in zip(rows, document[table]):
                    known = of_json.get("energy_j", of_json.get("measured_j"))
                    text = row.get("energy_j", row.get("measured_j"))
                    self.assertEqual(float(text) if text else None, known)
        done, _ = self.energy("pair", "--table", "groups")
        self.assertEqual(done.code, 64)
        self.assertIn("--format csv", done.message)

    def test_columns_of_each_table(self):
        done, _ = self.energy("mix", "--columns", "energy,windows")
        self.assertEqual(done.code, 0, done.message)
        lines = done.text.splitlines()
        self.assertIn(["device", "windows"], [line.split() for line in lines])
        self.assertIn(["kernel", "energy", "J"], [line.split() for line in lines])
        done, _ = self.energy("mix", "--columns", "none_such")
        self.assertEqual(done.code, 64)
        for name in ("idle", "share", "kernels", "note"):
            self.assertIn(name, done.message)

    def test_notes_follow_warnings(self):
        done, _ = self.energy("no_clock")
        for title in ("suspicious in this trace", "notes on this trace"):
            self.assertLessEqual(done.text.count(title), 1, done.text)


class Blocks:
    """Blocks of three kernels or of idle time, each with constant power, as a trace and as readings."""

    WATTS = {"a": 200, "b": 300, "c": 150, None: 80}
    START_UNIX_NS, START_MONOTONIC_NS = 1_770_000_000_000_000_000, 5_000_000_000_000

    def __init__(self, seed, lengths_s=(0.1, 0.7), span_s=40):
        self.random, self.blocks, at_s = random.Random(seed), [], 1.0
        while at_s < span_s:
            length_s = round(self.random.uniform(*lengths_s), 4)
            self.blocks.append((at_s, at_s + length_s, self.random.choice(list(self.WATTS))))
            at_s += length_s
        self.end_s = at_s + 1
        self.joules = {kernel: sum((to - at) * self.WATTS[kernel] for at, to, each in self.blocks
                                   if each == kernel) for kernel in "abc"}

    def watts(self, at_s):
        kernel = next((each for at, to, each in self.blocks if at <= at_s < to), None)
        return self.WATTS[kernel]

    def device_joules(self, from_s, to_s):
        """The true energy between two times."""
        busy = [(self.WATTS[each] - 80) * max(0, min(to, to_s) - max(at, from_s))
                for at, to, each in self.blocks]
        return 80 * (to_s - from_s) + sum(busy)

    def readings(self, period_s, milliwatts, publishes_s=None):
        """Readings (seconds, mW). With `publishes_s`, the sensor publishes less often than it is read."""
        found, published, value = [], None, None
        at_s = 0.0
        while at_s < self.end_s:
            slot = None if publishes_s is None else int(at_s / publishes_s)
            if slot is None or slot != published:
                value = milliwatts(self.watts(at_s if slot is None else slot * publishes_s))
                published = slot
            found.append((at_s, value))
            at_s += period_s
        return found

    def trace(self, readings=()):
        gpu = Plane("/device:GPU:0")
        stream, counters = gpu.line("Stream #1(Kernel)"), gpu.line("_counters_")
        for at, to, kernel in self.blocks:
            if kernel is not None:
                stream.event(kernel, round(at * 1e12), round((to - at) * 1e12))
        for at_s, value in readings:
            counters.event("power_mw", round(at_s * 1e12), 0, power_mw=value)
        times = Plane("Task Environment", id=2)
        times.plane_stat("profile_start_time", Unsigned(self.START_UNIX_NS))
        times.plane_stat("profile_stop_time", Unsigned(self.START_UNIX_NS + round(self.end_s * 1e9)))
        return space(gpu, times)

    def log(self, readings, kind="instant", quantity="power_mw", clock_off_ns=0, dates=None):
        """A power log of the readings. `dates`: the age of each reading in seconds."""
        start = self.START_MONOTONIC_NS
        lines = [{"schema": "xplane-time.power-log.v1", "t": start,
                  "clocks": {"monotonic_ns": start,
                             "realtime_ns": self.START_UNIX_NS + clock_off_ns, "boottime_ns": start},
                  "machine": {"host": "world", "kernel": "", "cpu": ""}, "command": "",
                  "periods_ns": {"nvml": 20_000_000},
                  "devices": [{"id": "GPU-a", "name": "Made Up", "source": "nvml", "index": 0,
                               "ordinal": 0, "pci_bus_id": "", "driver": "", "mig": False,
                               "shared": False, "note": ""}],
                  "channels": [{"source": "nvml", "device": "GPU-a", "domain": "gpu",
                                "quantity": quantity, "kind": kind, "slow": False, "in_total": True,
                                "wrap_range": None, "max_plausible_mw": None,
                                "prior_period_ns": None, "prior_window_ns": None, "note": ""}],
                  "absent": []}]
        for i, (at_s, value) in enumerate(readings):
            date = [] if dates is None else [None, -round(dates[i] * 1e9)]
            lines.append({"t": start + round(at_s * 1e9), "s": 0, "r": [[0, 0, 20_000, value, *date]]})
        lines.append({"t": start + round((self.end_s + 1) * 1e9),
                      "end": {"reason": "stopped", "readers": [], "dropped": 0}})
        return "".join(json.dumps(line) + "\n" for line in lines)


class EqualReadings(EndToEndTest):
    """If the power is exactly constant or coarsely rounded, consecutive readings are equal."""

    def values(self, blocks):
        """Functions from the true power to a reading in mW."""
        noise = blocks.random.gauss
        return {"exact": lambda watts: watts * 1000,
                "whole watts": lambda watts: round(watts + noise(0, 0.3)) * 1000,
                "steps of 5 W": lambda watts: round((watts + noise(0, 2)) / 5) * 5000,
                "fine, but limited": lambda watts: min(300_000, round((watts + noise(0, 1)) * 1000)
                                                       if watts < 300 else 300_000)}

    def check(self, blocks, trace, log=None, most_off=0.004, lag_ns=0.05e9):
        options = () if log is None else ("--power", self.write("power.jsonl", log))
        done = run("energy", self.write("blocks.xplane.pb", trace), *options, "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        [device] = done.json["devices"]
        self.assertGreater(device["coverage"], 0.99)
        self.assertFalse(device["poor_fit"], done.json["findings"])
        truth = blocks.device_joules(0, blocks.end_s)
        self.assertAlmostEqual(device["measured_j"], truth, delta=0.005 * truth)
        self.assertLess(abs(device["lag_ns"]), lag_ns)
        for row in done.json["kernels"]:
            truth = blocks.joules[row["kernel"]]
            self.assertAlmostEqual(row["energy_j"], truth, delta=most_off * truth)
        self.assertEqual(len(done.json["kernels"]), 3)
        return device

    def test_samples_of_a_track_are_readings(self):
        for period_s in (0.01, 0.02, 0.1):
            for name in self.values(Blocks(1)):
                with self.subTest(name, period_s=period_s):
                    blocks = Blocks(1)
                    readings = blocks.readings(period_s, self.values(blocks)[name])
                    device = self.check(blocks, blocks.trace(readings), lag_ns=1.5e9 * period_s,
                                        most_off=0.004 if period_s < 0.1 else 0.03)
                    self.assertAlmostEqual(device["period_ns"], period_s * 1e9, delta=1e4)

    def test_blocks_in_step_with_the_samples(self):
        blocks = Blocks(2)
        blocks.blocks = [(i / 2, (i + 1) / 2, "abc"[i // 2 % 3] if i % 2 else None)
                         for i in range(2, 80)]
        blocks.joules = {kernel: 13 * 0.5 * blocks.WATTS[kernel] for kernel in "abc"}
        blocks.end_s = 41
        self.check(blocks, blocks.trace(blocks.readings(0.01, lambda watts: watts * 1000)))

    def test_polls_of_a_log(self):
        """The sensor publishes a value for each poll, or about one for five polls."""
        for publishes_s in (None, 0.1003):
            for name in self.values(Blocks(3)):
                with self.subTest(name, publishes_s=publishes_s):
                    blocks = Blocks(3)
                    readings = blocks.readings(0.02, self.values(blocks)[name], publishes_s)
                    self.check(blocks, blocks.trace(), blocks.log(readings),
                               most_off=0.004 if publishes_s is None else 0.03)

    def test_a_date_of_its_own_makes_an_equal_reading_a_new_one(self):
        for name in self.values(Blocks(4)):
            with self.subTest(name):
                blocks = Blocks(4)
                readings = blocks.readings(0.02, self.values(blocks)[name], publishes_s=0.0503)
                ages_s = [at_s % 0.0503 for at_s, _ in readings]
                device = self.check(blocks, blocks.trace(), blocks.log(readings, dates=ages_s),
                                    most_off=0.02)
                self.assertAlmostEqual(device["period_ns"], 50.3e6, delta=1e4)

    def test_a_gap_is_not_a_constant_power(self):
        blocks = Blocks(5)
        readings = [each for each in blocks.readings(0.02, lambda watts: watts * 1000)
                    if not 10 < each[0] < 16]
        done = run("energy", self.write("blocks.xplane.pb", blocks.trace(readings)), "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        [device] = done.json["devices"]
        self.assertAlmostEqual(device["coverage"], 1 - 6 / blocks.end_s, delta=0.01)


class EarlyPower(EndToEndTest):
    """The sensor shows power before it is drawn, because the clocks disagree."""

    def test_a_log_whose_clock_is_off(self):
        blocks = Blocks(6, lengths_s=(0.1, 0.5))
        readings = blocks.readings(0.02, lambda watts: 1000 * watts + blocks.random.randrange(1500))
        trace = self.write("blocks.xplane.pb", blocks.trace())
        for off_s, is_early in ((0, False), (0.2, True), (-0.2, False)):
            with self.subTest(off_s=off_s):
                log = self.write("power.jsonl", blocks.log(readings, clock_off_ns=round(-off_s * 1e9)))
                done = run("energy", trace, "--power", log, "--format", "json")
                self.assertEqual(done.code, 0, done.message)
                [device] = done.json["devices"]
                self.assertAlmostEqual(device["lag_ns"], -off_s * 1e9, delta=0.045e9)
                self.assertEqual(device["poor_fit"], is_early)
                self.assertEqual(device["clock"], "estimated" if off_s == 0.2 else device["clock"])
                messages = " ".join(each["message"] for each in done.json["findings"])
                self.assertEqual("shows power before it is drawn" in messages, is_early)
                for row in done.json["kernels"]:
                    truth = blocks.joules[row["kernel"]]
                    self.assertAlmostEqual(row["energy_j"], truth, delta=0.01 * truth)

    def test_a_track_of_the_trace_has_no_clock_of_its_own(self):
        blocks = Blocks(7)
        readings = [(at_s, round(1000 * blocks.watts(at_s + 0.4)) + blocks.random.randrange(1500))
                    for at_s, _ in blocks.readings(0.01, lambda watts: watts)]
        done = run("energy", self.write("blocks.xplane.pb", blocks.trace(readings)), "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        [device] = done.json["devices"]
        self.assertGreater(device["lag_ns"], -0.1e9)
        self.assertTrue(device["poor_fit"])


class DamagedReadings(EndToEndTest):
    def check(self, blocks, document, count, value, place):
        [device] = document["devices"]
        truth = blocks.device_joules(0, blocks.end_s)
        self.assertAlmostEqual(device["measured_j"], truth, delta=0.01 * truth)
        self.assertTrue(0 <= device["residual_share"] < 0.01)
        [finding] = [each for each in document["findings"] if each["code"] == "negative_readings"]
        self.assertEqual(finding["severity"], "warning")
        for words in (f"{count} readings are negative", str(value), place, "skipped"):
            self.assertIn(words, finding["message"])
        for row in document["kernels"]:
            truth = blocks.joules[row["kernel"]]
            self.assertAlmostEqual(row["energy_j"], truth, delta=0.01 * truth)

    def test_negative_powers_are_skipped_with_their_place(self):
        for milliwatts in (lambda watts: watts * 1000, None):
            blocks = Blocks(8)
            noise = blocks.random.randrange
            readings = blocks.readings(0.02, milliwatts or (lambda watts: watts * 1000 + noise(2000)))
            readings = [(at_s, -value if i % 50 == 7 else value)
                        for i, (at_s, value) in enumerate(readings)]
            negative = [each for each in readings if each[1] < 0]
            trace = self.write("track.xplane.pb", blocks.trace(readings))
            done = run("energy", trace, "--format", "json")
            self.assertEqual(done.code, 0, done.message)
            self.check(blocks, done.json, len(negative), negative[0][1], "power_mw at 0.14 s")
            trace = self.write("blocks.xplane.pb", blocks.trace())
            log = self.write("power.jsonl", blocks.log(readings))
            done = run("energy", trace, "--power", log, "--format", "json")
            self.assertEqual(done.code, 0, done.message)
            at_ns = blocks.START_MONOTONIC_NS + round(negative[0][0] * 1e9)
            self.check(blocks, done.json, len(negative), negative[0][1], f"power.jsonl, t {at_ns}")

    def test_a_sensor_that_is_mostly_negative_is_refused(self):
        blocks = Blocks(9)
        for keeps in (0, 3):  # all readings are negative, or two thirds
            readings = [(at_s, value if keeps and i % keeps == 0 else -value) for i, (at_s, value)
                        in enumerate(blocks.readings(0.02, lambda watts: watts * 1000))]
            trace = self.write("track.xplane.pb", blocks.trace(readings))
            log = self.write("power.jsonl", blocks.log(readings))
            plain = self.write("blocks.xplane.pb", blocks.trace())
            for arguments in ((trace,), (plain, "--power", log)):
                done = run("energy", *arguments, "--format", "json")
                self.assertEqual((done.code, done.out), (65, b""))
                self.assertIn("readings are negative", done.message)
                self.assertIn("record again", done.message)


class SharedKernels(EndToEndTest):
    """Layers run the same kernels, so the name scope belongs to an execution and not to a kernel."""

    def world(self, seed):
        """A trace, and the true values of its layers: joules, executions and busy seconds."""
        blocks, layers = Blocks(seed, lengths_s=(0.05, 0.3), span_s=60), {}
        gpu = Plane("/device:GPU:0")
        stream = gpu.line("Stream #1(Kernel)")
        shares = {"a": ("attention", "mlp", "mlp", "mlp"), "b": ("attention", "attention", "mlp"),
                  "c": ("norm",)}
        for at, to, kernel in blocks.blocks:
            if kernel is None:
                continue
            layer = blocks.random.choice(shares[kernel])
            stream.event(kernel, round(at * 1e12), round((to - at) * 1e12), hlo_module="jit_step",
                         program_id=7, hlo_op=f"{kernel}.{layer}", tf_op=f"model/{layer}/dot")
            row = layers.setdefault(f"model/{layer}/dot", [0, 0, 0])
            row[0] += (to - at) * blocks.WATTS[kernel]
            row[1] += 1
            row[2] += to - at
        noise = blocks.random.gauss
        counters = gpu.line("_counters_")
        for at_s, value in blocks.readings(0.02, lambda watts: round(watts * 1000 * noise(1, 0.01))):
            counters.event("power_mw", round(at_s * 1e12), 0, power_mw=value)
        times = Plane("Task Environment", id=2)
        times.plane_stat("profile_start_time", Unsigned(blocks.START_UNIX_NS))
        times.plane_stat("profile_stop_time",
                         Unsigned(blocks.START_UNIX_NS + round(blocks.end_s * 1e9)))
        return self.write("layers.xplane.pb", space(gpu, times)), blocks, layers

    def test_a_kernel_is_split_among_its_layers_by_busy_time(self):
        for seed in (1, 2, 3):
            with self.subTest(seed=seed):
                trace, blocks, layers = self.world(seed)
                done = run("energy", trace, "--format", "json")
                self.assertEqual(done.code, 0, done.message)
                rows = {row["layer"]: row for row in done.json["layers"]}
                self.assertEqual(set(rows), set(layers))
                for name, (joules, count, busy_s) in layers.items():
                    row = rows[name]
                    self.assertAlmostEqual(row["energy_j"], joules, delta=0.01 * joules)
                    self.assertLess(row["energy_j_ci95"][0], row["energy_j"])
                    self.assertLess(abs(row["energy_j"] - joules),
                                    2 * (row["energy_j_ci95"][1] - row["energy_j"]))
                    self.assertEqual(row["count"], count)
                    self.assertAlmostEqual(row["busy_ps"] / 1e12, busy_s, delta=1e-6)
                    self.assertAlmostEqual(row["per_execution_j"], row["energy_j"] / count, places=6)
                kernels = done.json["kernels"]
                self.assertAlmostEqual(sum(row["energy_j"] for row in rows.values()),
                                       sum(row["energy_j"] for row in kernels), places=6)
                self.assertAlmostEqual(sum(row["active_j"] for row in rows.values()),
                                       sum(row["active_j"] for row in kernels), places=6)

    def test_a_scope_leaves_only_its_own_executions_in_the_layers(self):
        trace, _, layers = self.world(1)
        whole = run("energy", trace, "--format", "json").json
        part = run("energy", trace, "--scope", "model/mlp", "--format", "json").json
        [row] = part["layers"]
        self.assertEqual(row["count"], layers["model/mlp/dot"][1])
        [same] = [each for each in whole["layers"] if each["layer"] == row["layer"]]
        self.assertAlmostEqual(row["energy_j"], same["energy_j"], places=6)


class OtherDevices(EndToEndTest):
    def test_no_sensor_measures_a_tpu_but_its_own_counter(self):
        trace = self.write("tpu.xplane.pb", space(tpu(0)))
        log = REPOSITORY / "testdata/energy/replayed.power.jsonl"
        for options, words in (((), "the trace contains no power of this device"),
                               (("--power", str(log)), "no sensor of power record measures tpu:0")):
            done = run("energy", str(trace), *options)
            self.assertEqual((done.code, done.out), (65, b""))
            self.assertIn(words, done.message)


class RealTrace(EndToEndTest):
    """A trace of JAX on a CPU, with the log that testdata/energy/replay_power.py made."""

    def test_energies_of_a_jax_trace(self):
        folder = REPOSITORY / "testdata/energy"
        done = run("energy", str(folder / "jax_cpu_mixture.xplane.pb"), "--power",
                   str(folder / "replayed.power.jsonl"), "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        document = done.json
        [device] = document["devices"]
        self.assertEqual(device["sensor"], "rapl package-0 package energy_uj")
        self.assertEqual((device["clock"], device["poor_fit"]), ("capture_start", False))
        self.assertAlmostEqual(device["period_ns"], 20e6, delta=0.05e6)
        watts = {"jit_matmul_768": 50, "jit_matmul_1024": 75, "jit_matmul_1408": 100}
        self.assertEqual({row["function"] for row in document["functions"]}, set(watts))
        for row in document["functions"]:
            self.assertAlmostEqual(row["mean_w"], watts[row["function"]],
                                   delta=0.02 * watts[row["function"]])
            self.assertEqual(row["kind"], "attributed")
        capture = document["capture"]
        seconds = (capture["stop_unix_ns"] - capture["start_unix_ns"]) / 1e9
        self.assertAlmostEqual(device["idle_j"], 20 * seconds * device["coverage"], delta=4)

    def test_energies_of_a_gpu_are_those_of_each_function_alone(self):
        """An H200 that is at its power limit at times. The truth is NVML's counter for each function alone."""
        folder = REPOSITORY / "testdata/gpu"
        done = run("energy", str(folder / "h200_mixture.xplane.pb.gz"), "--power",
                   str(folder / "h200_mixture.power.jsonl"), "--format", "json")
        self.assertEqual(done.code, 0, done.message)
        [device] = done.json["devices"]
        self.assertEqual((device["clock"], device["poor_fit"]), ("capture_start", False))
        self.assertAlmostEqual(device["period_ns"], 100e6, delta=0.1e6)
        self.assertIn("power_limit", [each["code"] for each in done.json["findings"]])
        truth = json.loads((folder / "h200_mixture.truth.json").read_text())
        idle_w = truth["idle"]["joules"] / truth["idle"]["s"]
        for row in done.json["functions"]:
            alone = truth[row["function"].removeprefix("jit_")]
            # Between two runs the device waits for the host.
            run_s = row["busy_ps"] / 1e12 / row["runs"]
            waits_s = max(0, alone["s"] - alone["runs"] * run_s)
            if row["function"] == "jit_product":
                waits_s = 0  # alone, it is always at the power limit, and slower
            alone_j = (alone["joules"] - idle_w * waits_s) / alone["runs"]
            self.assertAlmostEqual(row["energy_j"] / row["runs"], alone_j, delta=0.03 * alone_j)


if __name__ == "__main__":
    unittest.main()
