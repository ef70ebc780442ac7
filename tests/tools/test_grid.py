"""Tests of grid through the program: settings, tables, figures, the witness, and all failures."""
import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest
import xml.dom.minidom

from harness import BINARY, HERE, csv_rows, run
from test_verify import BundleTest, chain, files_of, packed, samples_of

RESULTS = ("setting,coherence_delta,kv_cache_reduction,peak_mem_reduction,energy_reduction,"
           "p95_latency_us,accuracy")
SPACE = {"schema": "xplane-time.space.v1", "name": "mincut",
         "parameters": [{"name": "cost", "type": "int", "values": [100, 130]},
                        {"name": "t", "type": "float", "values": [0.5]}],
         "variants": [{"id": "softmax", "params": {"cost": 160}}]}
SETTINGS = ["softmax", "mincut_cost100_t0.5", "mincut_cost130_t0.5"]


class GridTest(BundleTest):
    samples = 12

    def command(self, *options, space=None, harness=("metrics",)):
        self.write("space.json", json.dumps(space or SPACE))
        return [str(each) for each in ("grid", "space.json", "--samples", self.samples, "-o", "out",
                                       "--quiet", *options, "--", sys.executable,
                                       HERE / "fake_harness.py", self.at / "log", *harness)]

    def grid(self, *options, code=0, **more):
        done = self.run_here(*self.command(*options, **more))
        self.assertEqual(done.code, code, done.message)
        return done

    def read(self, name):
        return (self.at / "out" / name).read_text()

    def rows(self, name):
        return csv_rows(self.read(name))

    def names(self):
        root = self.at / "out"
        return sorted(str(each.relative_to(root)) for each in root.rglob("*")
                      if each.is_file() and not each.name.startswith("grid.db"))

    def verified(self):
        done = self.run_here("verify", "out/witness.zip", "--format", "json")
        self.assertEqual(done.code, 0, done.text)
        return done.json


class Tree(GridTest):
    def test_the_files_and_headers_are_the_original_ones(self):
        self.grid("--baseline", "softmax")
        others = SETTINGS[1:]
        self.assertEqual(self.names(), sorted(
            ["csv/baseline.csv", "csv/results.csv", "results.json", "figs/latency.svg",
             "witness.zip"] + [f"csv/{each}.csv" for each in others] +
            [f"csv/{each}.memory.csv" for each in SETTINGS] +
            [f"witness/{each}.jsonl" for each in SETTINGS]))
        self.assertTrue(self.read("csv/results.csv").startswith(RESULTS + ",n,failed,"))
        for name in ("baseline", *others):
            self.assertEqual(self.read(f"csv/{name}.csv").splitlines()[0],
                             "sample_id,wall_time_us,kernel_time_us,seq_len")
            self.assertEqual(len(self.rows(f"csv/{name}.csv")), self.samples)
        memory = self.rows("csv/softmax.memory.csv")
        self.assertEqual(list(memory[0]), ["timestamp_us", "peak_rss_bytes", "kv_cache_bytes",
                                           "activation_bytes", "temp_buffer_bytes"])
        self.assertEqual(memory[0]["kv_cache_bytes"], "1600")
        self.assertEqual(memory[0]["activation_bytes"], "", "unknown is an empty cell")
        self.assertLess(abs(int(memory[0]["timestamp_us"]) / 1e6 - time.time()), 600)
        xml.dom.minidom.parseString(self.read("figs/latency.svg"))

    def test_numbers_are_those_of_the_samples(self):
        self.grid("--baseline", "softmax", "--format", "json")
        rows = {row["setting"]: row for row in self.rows("csv/results.csv")}
        self.assertEqual(list(rows), SETTINGS)
        row = rows["mincut_cost100_t0.5"]
        self.assertAlmostEqual(float(row["kv_cache_reduction"]), 1 - 100 / 160)
        self.assertAlmostEqual(float(row["coherence_delta"]), 0.06)
        self.assertAlmostEqual(float(row["accuracy"]), 0.5)
        self.assertAlmostEqual(float(row["tokens"]), 12.5)
        self.assertEqual((row["n"], row["failed"], row["energy_reduction"]), ("12", "0", ""))
        self.assertEqual(float(rows["softmax"]["kv_cache_reduction"]), 0)
        walls = [float(each["wall_time_us"]) for each in self.rows("csv/mincut_cost100_t0.5.csv")]
        self.assertAlmostEqual(float(row["median_latency_us"]), statistics.median(walls))
        lo, hi = (float(row[f"median_latency_us_ci95_{end}"]) for end in ("lo", "hi"))
        self.assertLessEqual(lo, float(row["median_latency_us"]))
        self.assertGreaterEqual(hi, float(row["median_latency_us"]))
        witness = samples_of((self.at / "out/witness/mincut_cost100_t0.5.jsonl").read_bytes())
        for row in self.rows("csv/mincut_cost100_t0.5.csv"):
            sample = witness[int(row["sample_id"]) + 1]
            self.assertEqual(sample["sample_id"], int(row["sample_id"]))
            self.assertAlmostEqual(sample["t_ps"] / 1e6, float(row["wall_time_us"]))
        self.assertEqual(json.loads(self.read("results.json"))["no_energy"],
                         "the harness reported no energy, and --energy was not given")

    def test_the_table_tells_settings_apart_and_has_the_signs_of_the_csv(self):
        space = {**SPACE, "name": "mm", "parameters": [
            {"name": "mode", "type": "string", "values": ["a", "b"]},
            {"name": "tile", "type": "int", "values": [32, 128]},
            {"name": "cost", "type": "int", "values": [120]}]}
        text = self.grid(space=space, harness=("metrics", "energy")).text
        names = [line.split()[0] for line in text.splitlines()[3:8]]
        self.assertEqual(names, ["softmax"] + [f"cost120_mode{mode}_tile{tile}" for mode in "ab"
                                               for tile in (32, 128)])
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        text = self.grid("--resume", "--format", "markdown", space=space,
                         harness=("metrics", "energy")).text
        header, _, _, line = [row.split(" | ") for row in text.splitlines() if " | " in row][:4]
        self.assertAlmostEqual(
            float(line[header.index("less KV %")]),
            100 * float(self.rows("csv/results.csv")[1]["kv_cache_reduction"]))

    def test_settings_are_interleaved_and_in_another_order_each_round(self):
        self.grid()
        rounds = {}
        for name in SETTINGS:
            for sample in samples_of((self.at / f"out/witness/{name}.jsonl").read_bytes())[1:]:
                rounds.setdefault(sample["round"], {})[sample["slot"]] = name
        self.assertEqual(len(rounds), self.samples)
        for order in rounds.values():
            self.assertEqual(sorted(order.values()), sorted(SETTINGS))
        self.assertGreater(len({tuple(sorted(order.items())) for order in rounds.values()}), 2)

    def test_energies_of_the_harness_make_a_front(self):
        space = {**SPACE, "variants": [{"id": "softmax", "params": {"cost": 160, "energy": 9}}],
                 "parameters": [{"name": "cost", "type": "int", "values": [100, 130]},
                                {"name": "energy", "type": "int", "values": [5, 7]}]}
        done = self.grid("--format", "json", space=space, harness=("metrics", "energy"))
        rows = {row["setting"]: row for row in done.json["settings"]}
        self.assertEqual({name for name, row in rows.items() if row["on_front"]},
                         {"mincut_cost100_energy5"})
        self.assertAlmostEqual(rows["mincut_cost100_energy5"]["energy_reduction"], 1 - 5 / 9)
        self.assertIsNone(done.json["no_energy"])
        xml.dom.minidom.parseString(self.read("figs/energy_latency.svg"))
        self.verified()

    def test_without_a_sensor_energy_is_unknown_with_the_reason(self):
        (self.at / "root").mkdir()
        done = self.grid("--energy", "--sysfs-root", "root", "--nvml-library", "/none",
                         "--format", "json", harness=("metrics", "device=cpu"))
        self.assertIn("no sensor measures the energy of cpu", done.json["no_energy"])
        self.assertEqual({row["energy_reduction"] for row in self.rows("csv/results.csv")}, {""})

    def test_a_stated_power_has_no_blocks_and_a_run_without_a_sample_leaves_no_folder(self):
        done = self.grid("--energy", "--power-source", "constant:65", harness=(), code=69)
        self.assertIn("measured in blocks, which requires a sensor instead of a stated power",
                      done.message)
        self.assertFalse((self.at / "out").exists())
        (self.at / "out").mkdir()
        command = self.command()
        done = self.run_here(*command[:command.index("--") + 1], "/none")
        self.assertEqual(done.code, 69, done.message)
        self.assertEqual(list((self.at / "out").iterdir()), [])

    def test_a_harness_without_metrics_has_latencies(self):
        done = self.grid(harness=())
        for explained in ("less ... %", "coherence"):  # explanations of hidden columns
            self.assertNotIn(explained, done.text)
        self.assertNotIn("csv/softmax.memory.csv", self.names())
        self.assertEqual({row["accuracy"] for row in self.rows("csv/results.csv")}, {""})
        self.verified()


class Faults(GridTest):
    def test_a_setting_that_crashes_leaves_and_the_others_stay(self):
        space = {**SPACE, "variants": SPACE["variants"] + [
            {"id": "crashes", "params": {"cost": 1, "mode": "run-crash"}},
            {"id": "wrong", "params": {"cost": 1, "mode": "wrong"}},
            {"id": "program", "params": {"cost": 160, "program": "1"}},
            {"id": "alias", "params": {"cost": 160, "program": "1", "more": 0}}]}
        done = self.grid("--format", "json", space=space)
        rows = {row["setting"]: row for row in done.json["settings"]}
        self.assertEqual((rows["crashes"]["n"], rows["crashes"]["failed"]), (0, 2))
        self.assertTrue(rows["crashes"]["status"].startswith("crash"))
        self.assertEqual(rows["wrong"]["status"], "wrong_result")
        for name in (*SETTINGS, "program", "alias"):
            self.assertEqual(rows[name]["n"], self.samples, name)
        row = self.rows("csv/results.csv")[1]
        self.assertEqual((row["p95_latency_us"], row["failed"]), ("", "2"))
        for row in self.rows("csv/results.csv"):
            self.assertEqual(row["status"], rows[row["setting"]]["status"])
            self.assertEqual(row["message"], rows[row["setting"]]["message"] or "")
        self.verified()

    def test_settings_are_told_by_name(self):
        space = {**SPACE, "parameters": [{"name": "mode", "type": "string", "values": [
            "fine", "broken", "crash"]}, {"name": "cost", "type": "int", "values": [5]}]}
        command = self.command("--baseline", "mincut_cost5_modefine", "--progress", "always",
                               space=space)
        command.remove("--quiet")
        done = self.run_here(*command)
        self.assertEqual(done.code, 0, done.message)
        self.assertIn("setting mincut_cost5_modebroken: compile_error", done.message)
        self.assertIn("prepared 3 of 4, 1 failed", done.message)
        self.assertNotRegex(done.message + done.text, r"\bv[0-9a-f]{16}")
        self.assertEqual(json.loads(self.read("results.json"))["baseline"],
                         "mincut_cost5_modefine")
        done = self.run_here(*self.command("--baseline", "x", space=space))
        self.assertIn("settings: softmax, mincut_cost5_modefine, mincut_cost5_modebroken, ",
                      done.message)

    def test_exits(self):
        failing = {"schema": SPACE["schema"], "variants": [{"id": "a", "params": {"mode": "broken"}}]}
        self.grid(space=failing, code=20)
        shutil.rmtree(self.at / "out")
        failing["variants"][0]["params"]["mode"] = "wrong"
        self.grid(space=failing, code=21)
        shutil.rmtree(self.at / "out")
        failing["variants"].append({"id": "b", "params": {"cost": 1}})
        self.grid(space=failing, code=12)

    def test_lines_that_cannot_be_meant_so(self):
        for options, message in (((), "no harness given"), (("--baseline", "x"), "unknown setting \"x\""),
                                 (("--samples", "0"), "--samples"),
                                 (("--power-source", "rapl"), "requires --energy")):
            command = self.command(*options)
            if not options:
                command = command[:command.index("--")]
            done = self.run_here(*command)
            self.assertEqual(done.code, 64, done.message)
            self.assertIn(message, done.message)
        self.assertFalse((self.at / "out").exists())
        workloads = {**SPACE, "workloads": [{"id": "w", "params": {}}]}
        self.assertIn("a grid does not support `workloads`", self.grid(space=workloads, code=64).message)
        for name in ("results", "a/b", "..", "baseline"):
            space = {**SPACE, "variants": [*SPACE["variants"], {"id": name, "params": {"cost": 1}}]}
            self.assertIn("cannot be used as a file name", self.grid(space=space, code=64).message)

    def test_the_log_of_the_harness_is_none_of_the_grids_files(self):
        for name in ("grid.db", "grid.db-wal", "grid.db-shm", "grid.db-journal", "grid.db-lock",
                     "witness.zip", "results.json", "csv/results.csv", "csv/new", "figs/latency.svg",
                     "witness/softmax.jsonl", "./csv/../csv/x", "witness"):
            done = self.run_here(*self.command("--harness-log", f"out/{name}"))
            self.assertEqual((done.code, done.out), (64, b""), (name, done.message))
            self.assertIn("--harness-log", done.message)
            self.assertFalse((self.at / "out").exists())
        (self.at / "link").symlink_to("out/witness")
        done = self.run_here(*self.command("--harness-log", "link/softmax.jsonl"))
        self.assertEqual(done.code, 64, done.message)
        command = self.command()
        command[command.index("space.json")] = "out/csv/space.json"
        self.write("out/csv/space.json", json.dumps(SPACE))
        self.assertEqual(self.run_here(*command).code, 64, "an input is no output")
        shutil.rmtree(self.at / "out")
        self.grid("--harness-log", "out.log")
        self.grid("--harness-log", "out/harness.log", "--resume")

    def test_an_empty_name_in_a_list_does_not_take_the_next_option(self):
        for names in (",", "constant:5,", ",constant:5", "constant:5,,constant:6"):
            done = self.run_here(*self.command("--energy", "--power-source", names))
            self.assertEqual(done.code, 64, done.message)
            self.assertIn("--power-source: ", done.message)
            self.assertIn("contains an empty name", done.message)

    def test_folders_of_others_are_left_alone(self):
        self.write("out/mine.txt", "x")
        self.assertIn("but no grid", self.grid(code=64).message)
        (self.at / "out/mine.txt").unlink()
        self.grid()
        before = self.read("csv/results.csv")
        self.assertIn("continue it with --resume", self.grid(code=64).message)
        self.assertEqual(self.read("csv/results.csv"), before)

    def test_metrics_have_no_names_of_columns_that_are_made_here(self):
        self.grid()
        columns = set(self.rows("csv/results.csv")[0]) - {"tokens", "coherence"}
        may_be_said = {each for each in RESULTS.split(",") if each.endswith(("_reduction", "_delta"))}
        for name in (columns | {"t_ps"}) - may_be_said - {"accuracy"}:
            shutil.rmtree(self.at / "out", ignore_errors=True)
            space = {**SPACE, "variants": [{"id": "a", "params": {"cost": 1, "metric": name}}]}
            message = self.grid(space=space, code=69).message
            self.assertIn(f'metrics["{name}"]: ', message)
            self.assertIn("not in its metrics" if name in ("t_ps", "energy_uj") else
                          "use another name", message)

    def test_metrics_that_are_no_numbers_are_no_answer(self):
        harness = self.write("harness.py", f"""
import json, os, sys
requests = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_IN"]))
answers = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_OUT"]), "w")
for line in requests:
    request = json.loads(line)
    kind = {{"hello": "hello", "prepare": "prepared", "run_round": "result"}}.get(request["type"])
    if kind is None: break
    answer = {{"v": 1, "type": kind, "request": request.get("request", 0), "status": "ok",
              "device": "fake", "device_class": "fake", "clock": "wall"}}
    if kind == "result":
        answer["samples"] = [{{"slot": i, "status": "ok", "t_ps": 5, "metrics": {{"a": "text"}}}}
                             for i in range(len(request["order"]))]
    answers.write(json.dumps(answer) + "\\n"); answers.flush()
""")
        self.write("space.json", json.dumps(SPACE))
        done = self.run_here("grid", "space.json", "-o", "out", "--", sys.executable, harness)
        self.assertEqual(done.code, 69)
        self.assertIn('metrics["a"]: must be a number', done.message)


class Resume(GridTest):
    samples = 60

    def kill_after(self, rounds):
        process = subprocess.Popen([str(BINARY), *self.command(harness=("metrics", "slow"))],
                                   cwd=self.at, env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        witness = self.at / "out/witness/softmax.jsonl"
        while process.poll() is None:
            if witness.exists() and witness.read_bytes().count(b"\n") > rounds:
                break
            time.sleep(0.005)
        process.kill()
        process.wait()
        return samples_of(witness.read_bytes().rpartition(b"\n")[0])

    def test_a_run_that_was_killed_goes_on_and_its_witness_too(self):
        before = self.kill_after(9)
        self.assertGreater(len(before), 9)
        self.assertLess(len(before), 61)
        self.assertFalse((self.at / "out/witness.zip").exists())
        with (self.at / "out/witness/softmax.jsonl").open("a") as file:
            file.write('{"previous":"half a li')
        self.grid("--resume", harness=("metrics", "slow"))
        after = samples_of((self.at / "out/witness/softmax.jsonl").read_bytes())
        self.assertEqual(after[:len(before)], before)
        self.assertEqual(len(after), 61)
        found = self.verified()
        self.assertEqual((found["chains"], found["samples"]), (3, 180))
        rounds = [line for line in (self.at / "log").read_text().splitlines()
                  if line.startswith("round ")]
        self.assertLessEqual(len(rounds), 61, "at most the round that was killed runs twice")
        again = self.read("csv/results.csv")
        self.grid("--resume", harness=("metrics", "slow"))
        self.assertEqual(self.read("csv/results.csv"), again, "from the store")

    def test_a_stopped_run_shows_what_there_is(self):
        self.write("space.json", json.dumps(SPACE))
        process = subprocess.Popen([str(BINARY), *self.command(harness=("metrics", "slow"))],
                                   cwd=self.at, env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        witness = self.at / "out/witness/softmax.jsonl"
        while not (witness.exists() and witness.read_bytes().count(b"\n") > 5):
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("continue with --resume", out)
        self.assertFalse(json.loads(self.read("results.json"))["complete"])
        self.assertFalse((self.at / "out/witness.zip").exists())

    def test_a_witness_that_was_changed_is_not_gone_on_with(self):
        self.kill_after(9)
        path = self.at / "out/witness/softmax.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        lines[4] = lines[4].replace('"status":"ok"', '"status":"OK"')
        path.write_text("".join(lines))
        done = self.grid("--resume", harness=("metrics", "slow"), code=65)
        self.assertIn("witness/softmax.jsonl: line 5: differs from the stored sample",
                      done.message)

    def test_a_full_disk(self):
        command = self.command()
        done = subprocess.run(["bash", "-c", 'ulimit -f 120; exec "$@"', "bash", str(BINARY),
                               *command], cwd=self.at, env=self.environment, capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, 74, done.stderr)
        for part in (b"grid.db: no space left", b"--resume"):
            self.assertIn(part, done.stderr)
        before = samples_of(
            (self.at / "out/witness/softmax.jsonl").read_bytes().rpartition(b"\n")[0])
        self.assertGreater(len(before), 1)
        self.grid("--resume")
        after = samples_of((self.at / "out/witness/softmax.jsonl").read_bytes())
        self.assertEqual((len(after), after[:len(before)]), (self.samples + 1, before))
        self.verified()

    def test_another_question_is_not_this_one(self):
        self.samples = 4
        self.grid()
        self.samples = 5
        message = self.grid("--resume", "--calls", "3", "--seed", "9", "--baseline", SETTINGS[1],
                            harness=("metrics", "device=other"), code=64).message
        for change in ("samples: 4 then, 5 now", "calls: 1 then, 3 now",
                       f"baseline: softmax then, {SETTINGS[1]} now", "seed: ", "9 now", "then, other now",
                       "tune show --store out/grid.db"):
            self.assertIn(change, message)
        self.samples = 4
        space = {**SPACE, "variants": []}
        self.assertIn("the settings of the space",
                      self.grid("--resume", space=space, code=64).message)


class Forgery(GridTest):
    def setUp(self):
        super().setUp()
        self.grid("--baseline", "softmax")
        self.bundle = (self.at / "out/witness.zip").read_bytes()
        self.files = files_of(self.bundle)

    def test_it_is_sound_and_has_all_but_the_figures(self):
        found = self.verified()
        self.assertIn("csv/results.csv", found["checked"])
        self.assertIn("space.json", found["checked"])
        for name in ("machine", "source", "configuration.seed", "result.energy_kind"):
            self.assertIn(name, found["not_compared"])
        self.assertEqual(sorted(self.files), sorted(
            [each for each in self.names() if each != "witness.zip" and "figs/" not in each] +
            ["manifest.json", "space.json"]))
        for name, content in self.files.items():
            if name not in ("manifest.json", "space.json"):
                self.assertEqual(self.read(name).encode(), content, name)

    def test_results_that_do_not_follow_from_the_samples(self):
        results = self.files["csv/results.csv"].replace(b",0.5,12,0,", b",0.9,12,0,", 1)
        self.assertNotEqual(results, self.files["csv/results.csv"])
        self.assert_problem(packed({**self.files, "csv/results.csv": results}), "csv/results.csv",
                            "differs from the result of the samples", 2)
        lines = self.files["csv/baseline.csv"].splitlines(keepends=True)
        self.assert_problem(packed({**self.files, "csv/baseline.csv": b"".join(lines[:-1])}),
                            "csv/baseline.csv", "differs from the result of the samples", self.samples + 1)

    def test_samples_that_were_left_out(self):
        name = f"witness/{SETTINGS[1]}.jsonl"
        samples = samples_of(self.files[name])
        self.assert_problem(packed({**self.files, name: chain(samples[:-1])}), "csv/results.csv",
                            "differs from the result of the samples")
        self.assert_problem(packed({**self.files, name: chain(samples[:3] + samples[4:])}), name,
                            "not the next one", 4)
        other = self.files[f"witness/{SETTINGS[2]}.jsonl"]
        self.assert_problem(packed({**self.files, name: other}), name, "belongs to another setting", 1)

    def test_another_configuration(self):
        manifest = json.loads(self.files["manifest.json"])
        manifest["configuration"]["seed"] = 8
        forged = {**self.files, "manifest.json": json.dumps(manifest).encode()}
        self.assert_problem(packed(forged), f"witness/{SETTINGS[0]}.jsonl", "configuration", 1)
        for change in ({"id": "other"}, {"params": {"cost": 99, "t": 0.5}}):
            manifest = json.loads(self.files["manifest.json"])
            manifest["result"]["settings"][1].update(change)
            forged = {**self.files, "manifest.json": json.dumps(manifest).encode()}
            self.assert_problem(packed(forged), "manifest.json", "settings differ from those of space")
        space = self.files["space.json"].replace(b"130", b"131")
        self.assert_problem(packed({**self.files, "space.json": space}), "space.json", "hash")
        self.assert_problem(packed({**self.files, "more.txt": b"x"}), "more.txt",
                            "is not a file of a grid")


if __name__ == "__main__":
    unittest.main()
