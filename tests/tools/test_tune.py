"""Tests of tune through the program, with a fake harness that fails in all ways."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unittest
import zlib

try:
    import jsonschema
except ImportError:
    jsonschema = None

from harness import BINARY, HERE, REPOSITORY, TESTDATA, EndToEndTest, csv_rows, environment, run


def space(*variants):
    """A space. `variants`: the parameters of each variant."""
    return json.dumps({"schema": "xplane-time.space.v1", "name": "fake",
                       "variants": [{"params": each} for each in variants]})


THREE = ({"cost": 100}, {"cost": 130}, {"cost": 160})


class TuneTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.log = self.at / "harness.log"
        self.environment = environment(XDG_RUNTIME_DIR=str(self.at))

    def command(self, *variants, options=(), harness=()):
        self.write("space.json", space(*variants))
        return [str(each) for each in ("tune", "space.json", *options, "--", sys.executable,
                                       HERE / "fake_harness.py", self.log, *harness)]

    def tune(self, *variants, options=(), harness=(), **more):
        return run(*self.command(*variants, options=options, harness=harness), cwd=self.at,
                   env=self.environment, **more)

    def result(self, *variants, code=0, **more):
        done = self.tune(*variants, **{**more, "options": (*more.get("options", ()), "--format",
                                                           "json")})
        self.assertEqual(done.code, code, done.message)
        found = self.valid(done.json)
        found["by_params"] = {json.dumps(row["params"]): row for row in found["variants"]}
        return found

    def valid(self, result):
        if jsonschema is not None:
            schema = json.loads(run("tune", "--json-schema").text)
            jsonschema.Draft202012Validator(schema).validate(result)
        return result

    def status(self, result, **params):
        return result["by_params"][json.dumps(params)]["status"]

    def rounds(self):
        done = run("tune", "export", "--format", "csv", cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 0, done.message)
        return csv_rows(done.text)


class Loop(TuneTest):
    def test_the_fastest_is_picked(self):
        found = self.result(*THREE)
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100})
        self.assertIn(found["claim"], ("pick", "winner"))
        self.assertEqual(found["runs"], len(self.rounds()))
        shown = run("tune", "show", 1, "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual(shown.json["pick"], found["pick"])
        self.assertIn("fake", run("tune", "show", cwd=self.at, env=self.environment).text)

    def test_the_schema_is_the_stored_one(self):
        stored = REPOSITORY / "src" / "output" / "schemas" / "tune.v1.json"
        done = run("tune", "--json-schema")
        self.assertEqual((done.code, done.text.strip()), (0, stored.read_text().strip()))

    def test_a_worse_tail_is_flagged(self):
        found = self.result({"cost": 100, "spiky": 1}, {"cost": 101}, {"cost": 150},
                            options=("--stop", "claim", "--delta", "0.1%"))
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100, "spiky": 1})
        rival = found["by_params"]['{"cost": 101}']
        self.assertIn((rival["id"], "spikes"),
                      [(each["rival"], each["what"]) for each in found["tail_flags"]])
        self.assertGreater(picked["spike_rate"], rival["spike_rate"])
        text = run("tune", "show", "1", cwd=self.at, env=self.environment).text
        self.assertIn("The tail of the pick is worse than that of", " ".join(text.split()))
        again = run("tune", "replay", "1", "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual(again.json["tail_flags"], found["tail_flags"])
        self.assertEqual(self.result(*THREE)["tail_flags"], [])

    def test_the_table_says_what_was_decided(self):
        done = self.tune(*THREE)
        self.assertEqual(done.code, 0, done.message)
        self.assertRegex(done.text, r"^(pick|winner): v[0-9a-f]{16} \(cost=100\)\n")
        self.assertLessEqual(max(map(len, done.text.splitlines())), 80)
        self.assertNotIn("a framework says hello", done.text + done.message)

    def test_one_program_is_measured_once(self):
        found = self.result({"cost": 100, "program": "a"}, {"cost": 100, "program": "a", "x": 1},
                            {"cost": 150})
        aliases = [row["alias_of"] for row in found["variants"]]
        self.assertEqual(aliases, [None, found["variants"][0]["id"], None])
        self.assertNotIn(found["variants"][1]["id"], {row["variant"] for row in self.rounds()})

    def test_the_incumbent_is_compared_with_in_rounds_of_their_own(self):
        found = self.result(*THREE, options=("--incumbent", '{"cost": 160}'))
        self.assertEqual(found["confirmation"]["rounds"], 10)
        low, high = found["confirmation"]["speedup_ci95"]
        self.assertTrue(low < 1.6 < high and high - low < 0.3, found["confirmation"])

    def test_a_tie_keeps_the_incumbent(self):
        same = [{"cost": 100, "x": x} for x in range(2)]
        found = self.result(*same, options=("--incumbent", '{"cost": 100, "x": 1}'))
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"]["x"], 1)

    def test_workloads_share_a_choice(self):
        def times(*weights):
            self.write("w.json", json.dumps({
                "schema": "xplane-time.space.v1", "variants": [{"params": each} for each in THREE],
                "workloads": [{"id": f"w{i}", "params": {}, "weight": weight}
                              for i, weight in enumerate(weights)]}))
            command = self.command(*THREE)
            command[1] = "w.json"
            done = run(*command, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 0, done.message)
            return [int(row["t_ps"]) for row in self.rounds() if row["status"] == "ok"]

        expected = times(1, 3)
        self.assertTrue(90e6 < min(expected) < 110e6 and max(expected) < 180e6)  # weighted means
        for scale in (1e12, 1e-9, 1e300, 1e-300):  # weights are relative
            self.assertEqual(times(scale, 3 * scale), expected)

    def test_replay_and_exports(self):
        found = self.result(*THREE)
        again = run("tune", "replay", "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual((again.code, again.json["pick"]), (0, found["pick"]))
        for given, delta in (("0.1%", 0.001), ("0.12345678%", 0.0012345678)):
            other = run("tune", "replay", 1, "--delta", given, "--format", "json", cwd=self.at,
                        env=self.environment)
            self.assertEqual(other.json["delta"], delta)
        done = run("tune", "export", "--format", "json", cwd=self.at, env=self.environment).json
        self.assertEqual(done["schema"], "xplane-time.tune.v1")
        results = run("tune", "export", "--format", "t4", cwd=self.at, env=self.environment).json
        self.assertEqual(len(results["results"]), 3)
        tuned = run("tune", "export", "--format", "tuned", cwd=self.at, env=self.environment).json
        self.assertEqual(tuned["schema"], "xplane-time.tuned.v1")
        self.assertEqual([entry["params"] for entry in tuned["entries"]],
                         [{"cost": 100}])

    def test_budget(self):
        same = [{"cost": 100, "x": x} for x in range(2)]
        found = self.result(*same, options=("--budget-runs", "12", "--stop", "claim"), code=11)
        self.assertEqual((found["claim"], found["stop_reason"]), ("undecided", "budget_runs"))
        self.assertLessEqual(found["runs"], 12)


    def test_the_gpu_that_a_map_names(self):
        for file, text in (("name", "amdgpu"), ("power1_average", "35000000")):
            self.write(f"sys/class/hwmon/hwmon0/{file}", text + "\n")
        for more, known in (((), False), (("--map", "0=hwmon0"), True)):
            done = self.tune({"cost": 1}, options=(
                "--objective", "energy", "--power-source", "hwmon", "--sysfs-root", "sys",
                "--budget-runs", 2, *more), harness=("device=gpu:0",))
            self.assertEqual("no sensor measures the energy of gpu:0" not in done.message, known, done)

    @unittest.skipUnless(os.environ.get("HARNESS_PROBE"), "HARNESS_PROBE names no program")
    def test_a_harness_in_cpp(self):
        self.write("space.json", space(*THREE, {"broken": 1}, {"wrong": 1}, {"fails": 1}))
        done = run("tune", "space.json", "--format", "json", "--", os.environ["HARNESS_PROBE"],
                   cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 0, done.message)
        statuses = {json.dumps(row["params"]): row["status"] for row in done.json["variants"]}
        self.assertEqual((statuses['{"broken": 1}'], statuses['{"wrong": 1}']),
                         ("compile_error", "wrong_result"))
        picked = next(row for row in done.json["variants"] if row["id"] == done.json["pick"])
        self.assertEqual(picked["params"], {"cost": 100})
        self.write("space.json", space({"sleep_ms": 300}, {"sleep_ms": 301}))
        done = run("tune", "space.json", "--objective", "energy", "--power-source", "constant:100",
                   "--budget-runs", 2, "--format", "json", "--", os.environ["HARNESS_PROBE"],
                   cwd=self.at, env=self.environment)
        for row in done.json["variants"]:  # only of the timed call, without the untimed call before it
            took_s, from_energy_s = row["typical_ps"] / 1e12, row["typical_uj"] / 100e6
            self.assertGreaterEqual(from_energy_s, took_s * 0.999)
            self.assertLess(from_energy_s, took_s + 0.25)
        alone = subprocess.run([os.environ["HARNESS_PROBE"]], capture_output=True, check=False)
        self.assertEqual((alone.returncode, b"requires a driver" in alone.stderr), (64, True))


class Stored(TuneTest):
    """Reads a store with several sessions, objectives and budgets."""
    SAME = [{"cost": 100, "x": x} for x in range(2)]

    def run_tune(self, *arguments):
        return run("tune", *arguments, cwd=self.at, env=self.environment)

    def tuned(self, *arguments):
        return self.run_tune("export", *arguments, "--format", "tuned")

    def test_only_what_was_decided_is_exported(self):
        self.assertEqual(self.tuned().code, 66)
        undecided = ("--budget-runs", 4, "--stop", "claim")
        self.result(*self.SAME, options=undecided, code=12)
        self.assertIn("no session has reached a decision", self.tuned().message)
        decided = self.result(*THREE)
        self.result(*THREE, options=("--budget-runs", 3), code=12)
        for done in (self.tuned(), self.tuned(2)):
            self.assertEqual(done.code, 0, done.message)
            self.assertEqual([entry["id"] for entry in done.json["entries"]], [decided["pick"]])
            self.assertEqual(done.json["entries"][0]["objective"], "time")
        self.assertIn("session 3 has no decision", self.tuned(3).message)
        self.assertEqual(self.tuned(9).code, 66)
        self.result(*THREE, options=("--resume",))  # the third session continues, and decides
        entries = self.tuned().json["entries"]
        time.sleep(1.1)  # times in the store are whole seconds
        self.result(*THREE, options=("--resume",))
        self.assertEqual(self.tuned().json["entries"], entries)

    def test_a_larger_budget_goes_on(self):
        claim = ("--stop", "claim", "--resume", "--confirm", 0)
        first = self.result(*self.SAME, options=(*claim, "--budget-runs", 12), code=11)
        for budget in (12, 6):
            again = self.result(*self.SAME, options=(*claim, "--budget-runs", budget), code=11)
            self.assertEqual((again["session"], again["runs"], again["stop_reason"]),
                             (1, first["runs"], "budget_runs"))
        done = self.tune(*self.SAME, options=(*claim, "--budget-runs", 12))
        self.assertIn("The budget of 12 runs is spent; a larger --budget-runs continues", done.text)
        self.assertIn("session 1 was read from the store", done.message)
        more = self.result(*self.SAME, options=(*claim, "--budget-runs", 4000))
        self.assertEqual((more["session"], more["claim"]), (1, "tie"))
        self.assertGreater(more["runs"], 12)
        fewer = self.result(*self.SAME, options=(*claim, "--budget-runs", 12))
        self.assertEqual((fewer["claim"], fewer["runs"]), ("tie", more["runs"]))

    def test_damage_shows_where_it_is(self):
        self.result(*THREE)
        self.result(*THREE)
        database = sqlite3.connect(self.at / "tune.db")
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE sample SET t_ps = 3 * t_ps WHERE round IN "
                         "(SELECT id FROM round WHERE session = 1)")
        database.commit()
        database.close()
        for arguments in (("show",), ("show", 1), ("export", "--format", "tuned"),
                          ("export", 1, "--format", "tuned"), ("export", 1), ("replay", 1)):
            done = self.run_tune(*arguments)
            self.assertEqual(done.code, 65, (arguments, done.message))
            self.assertRegex(done.message, "tune.db: session 1: round 0 of batch 1 has a wrong "
                                           "checksum", arguments)
        for arguments in (("show", 2), ("export", 2, "--format", "tuned")):
            self.assertEqual(self.run_tune(*arguments).code, 0)

    def damaged(self, *statements):
        """A copy of the store without triggers, changed by `statements`."""
        shutil.copy(self.at / "tune.db", self.at / "damaged.db")
        database = sqlite3.connect(self.at / "damaged.db")
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
        database.commit()
        database.close()

    def assert_damage(self, *statements, words, actions=(("show",), ("show", 1), ("replay", 1),
                                                         ("export", 1, "--bundle", "x.zip"))):
        self.damaged(*statements)
        for action in actions:
            for form in ((), ("--format", "json")):
                if form and ("--bundle" in action or "--format" in action):
                    continue
                done = self.run_tune(*action, "--store", "damaged.db", *form)
                self.assertEqual((done.code, done.out), (65, b""), (statements, action, done.message))
                self.assertIn("damaged.db: ", done.message)
                self.assertIn(words, done.message, (statements, action))
        self.assertFalse((self.at / "x.zip").exists())

    def test_a_version_that_was_never_written(self):
        self.result(*THREE)
        everything = (("show",), ("show", 1), ("replay",), ("export",), ("export", "--bundle", "x"),
                      ("export", "--format", "tuned"))
        for version in (-1, -2, -5, -(2 ** 31)):
            self.assert_damage(f"PRAGMA user_version = {version}", words=f"is {version},",
                               actions=everything)
            done = self.tune(*THREE, options=("--store", "damaged.db", "--resume"))
            self.assertEqual(done.code, 65, done.message)
        for version in (0, 1, 2, 5, 2 ** 31 - 1):
            self.damaged(f"PRAGMA user_version = {version}")
            for action in everything:
                done = self.run_tune(*action, "--store", "damaged.db")
                self.assertEqual(done.code, 65, (version, action, done.message))

    def test_a_verdict_without_its_checksum(self):
        self.result(*THREE)
        whole = self.run_tune("show", 1, "--format", "json")
        earlier = "UPDATE session SET crc32 = NULL"  # as in stores of earlier versions
        self.damaged(earlier, "UPDATE verdict SET crc32 = NULL")
        done = self.run_tune("show", 1, "--format", "json", "--store", "damaged.db")
        self.assertEqual(done.out, whole.out)
        self.assertIn("damaged.db: session 1 is unverified: it has rows without a checksum", done.message)
        changes = ("'{'", "'[]'", "'null'", "''", "x'ff'", "substr(verdict_json, 2)",
                   "verdict_json || 'x'", "json_set(verdict_json, '$.claim', 'never')",
                   "json_set(verdict_json, '$.pick', 'another')")
        for change in changes:
            self.assert_damage(earlier, f"UPDATE verdict SET crc32 = NULL, verdict_json = {change}",
                               words="its verdict cannot be read")
        for change in ("'$.variants', 3", "'$.runs', 'many'", "'$.variants[0].samples', 'x'",
                       "'$.objective', 'none'", "'$.harness', 1"):
            self.assert_damage(earlier, "UPDATE verdict SET crc32 = NULL, "
                               f"verdict_json = json_set(verdict_json, {change})",
                               words="its verdict cannot be read", actions=(("show", 1),))

    def test_a_checksum_that_is_missing(self):
        self.result(*THREE)
        self.result(*THREE, options=("--seed", "7"))  # session 2
        everything = (("show",), ("show", 1), ("replay", 1), ("export", 1, "--format", "tuned"),
                      ("export", 1, "--format", "csv"), ("export", 1, "--bundle", "x.zip"))
        for change in ("variant SET crc32 = NULL WHERE id = 1",
                       "variant SET crc32 = NULL, params_json = '{\"cost\": 1}' WHERE id = 1",
                       "variant SET crc32 = NULL", "verdict SET crc32 = NULL WHERE session = 1",
                       "verdict SET crc32 = NULL, claim = 'tie', verdict_json = "
                       "json_set(verdict_json, '$.claim', 'tie') WHERE session = 1"):
            self.assert_damage(f"UPDATE {change}", words="session 1: a checksum is missing",
                               actions=everything)
            done = self.tune(*THREE, options=("--store", "damaged.db", "--resume"))
            self.assertEqual(done.code, 65, (change, done.message))
        # An earlier version writes no session after one with a checksum.
        self.assert_damage("UPDATE session SET crc32 = NULL WHERE id = 2",
                           words="session 2: a checksum is missing", actions=(("show",), ("show", 2)))
        self.assertEqual(self.run_tune("show", 1, "--store", "damaged.db").message, "")
        self.damaged("UPDATE session SET crc32 = NULL WHERE id = 1")
        rows = self.run_tune("show", "--store", "damaged.db", "--format", "json")
        self.assertEqual([row["verified"] for row in rows.json["sessions"]], [False, True])
        for action in everything[:-1]:
            done = self.run_tune(*action, "--store", "damaged.db")
            self.assertEqual(done.code, self.run_tune(*action).code, done.message)
            self.assertIn("session 1 is unverified", done.message)

    def test_footnotes_explain_columns_that_are_shown(self):
        self.result(*THREE)
        wide = environment(COLUMNS="200")
        tables = [run("tune", "show", 1, cwd=self.at, env={**self.environment, "COLUMNS": "200"}),
                  run("pick", TESTDATA / "jax_cpu_variants.xplane.pb", env=wide)]
        for done, first, terms in zip(tables, ("variant ", "variant "), (
                {"time %", "typical"}, {"typical", "slower %", "interval", "P(best)"})):
            lines = done.text.splitlines()
            at = next(i for i, line in enumerate(lines) if line.startswith(first) and "typical" in line)
            notes = " ".join(lines[at + 1:])
            explained = {term for term in ("time %", "energy %", "EDP %", "more %", "slower %", "typical",
                                           "interval", "P(best)") if f"{term}: " in notes}
            self.assertEqual(explained, terms, notes)
            for term in explained:
                self.assertIn(term, lines[at])

    def test_rounds_that_are_missing(self):
        self.result(*THREE, options=("--baseline", '{"cost": 160}'))
        rounds = [row[0] for row in sqlite3.connect(self.at / "tune.db").execute(
            "SELECT id FROM round ORDER BY id")]
        self.assertGreater(len(rounds), 5)
        for lost in (rounds[0], rounds[1], rounds[len(rounds) // 2], rounds[-1]):
            for with_samples in (False, True):
                self.assert_damage(
                    f"DELETE FROM round WHERE id = {lost}",
                    *([f"DELETE FROM sample WHERE round = {lost}"] if with_samples else []),
                    words="session 1: rounds are missing")
        self.damaged("DELETE FROM verdict", f"DELETE FROM round WHERE id = {rounds[-1]}")
        done = self.run_tune("replay", 1, "--store", "damaged.db")
        self.assertEqual(done.code, 65, "its samples are still there")
        self.assertIn("rounds are missing", done.message)

    def test_rows_that_moved_to_another_session(self):
        self.result(*THREE)
        self.result(*THREE, options=("--seed", "7"))  # session 2
        everything = (("show",), ("show", 1), ("replay", 1), ("export", 1, "--bundle", "x.zip"))
        for table in ("variant", "round", "verdict"):
            self.assert_damage(f"UPDATE {table} SET session = 99 WHERE id = 1", words="session",
                               actions=everything)
        move = "UPDATE variant SET session = 2 WHERE id = 1"
        # Session 2 may have a variant of that name.
        free = "UPDATE variant SET variant = 'other' WHERE session = 2 AND variant = " \
               "(SELECT variant FROM variant WHERE id = 1)"
        self.assert_damage(free, move, words="has a wrong checksum", actions=everything)
        # A variant without samples, which nothing but its checksum protects.
        self.damaged("INSERT INTO variant(session, variant, params_json, crc32) "
                     "SELECT 2, 'extra', '{}', crc32 FROM variant WHERE id = 1")
        done = self.run_tune("show", 2, "--store", "damaged.db")
        self.assertEqual(done.code, 65, done.message)

    def test_checksums_of_an_earlier_version(self):
        self.result(*THREE)
        whole = self.run_tune("show", 1, "--format", "json").out
        rows = sqlite3.connect(self.at / "tune.db").execute(
            "SELECT id, variant, params_json, mem_bytes FROM variant").fetchall()
        changes = []
        for at, *texts in rows:
            texts = ["-" if each is None else str(each) for each in texts]
            content = "".join(f"{len(each)}:{each}," for each in texts)
            changes.append(f"UPDATE variant SET crc32 = {zlib.crc32(content.encode())} WHERE id = {at}")
        self.damaged(*changes, "PRAGMA user_version = 3")
        done = self.run_tune("show", 1, "--format", "json", "--store", "damaged.db")
        self.assertEqual((done.code, done.out), (0, whole), done.message)
        self.damaged(*changes, "UPDATE variant SET params_json = '{}' WHERE id = 1")
        done = self.run_tune("show", 1, "--store", "damaged.db")
        self.assertEqual(done.code, 65, done.message)

    def test_damaged_configurations(self):
        self.result(*THREE)
        for change in ("'{'", "'7'", "''", "json_set(config_json, '$.alpha', 7)",
                       "json_set(config_json, '$.delta', 'x')",
                       "json_set(config_json, '$.stop', 'never')"):
            self.assert_damage(f"UPDATE session SET crc32 = NULL, config_json = {change}",
                               words="its decision rule is damaged", actions=(("replay", 1),))
        for change in ("'{'", "'7'", "''", "x'ff'"):
            self.assert_damage("UPDATE session SET crc32 = NULL",
                               f"UPDATE variant SET crc32 = NULL, params_json = {change}",
                               words="cannot be read")
        self.damaged("UPDATE variant SET params_json = '{}' WHERE id = 1")
        done = self.tune(*THREE, options=("--store", "damaged.db", "--resume"))
        self.assertEqual(done.code, 65, done.message)
        self.assert_damage("DELETE FROM variant WHERE variant NOT IN "
                           "(SELECT pick FROM verdict)", words="session 1",
                           actions=(("replay", 1), ("export", 1, "--bundle", "x.zip")))

    def test_what_is_refused_leaves_no_store(self):
        for code, options, harness in (
                (64, ("--delta", "200%"), None), (64, ("--alpha", "0.9"), None),
                (64, ("--canary", 1), None), (64, ("--incumbent", "nobody"), None),
                (64, ("--baseline", "nobody"), None), (64, ("--map", "x"), None),
                (69, (), "/no/such/harness")):
            command = self.command(*THREE, options=options)
            if harness is not None:
                command[command.index("--") + 1:] = [harness]
            done = run(*command, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, code, (options, done.message))
            self.assertFalse(list(self.at.glob("tune.db*")), options)
            self.assertFalse(self.log.exists(), options)

    def test_a_dry_run_lists_what_would_be_run(self):
        self.write("space.json", space(*THREE))
        done = self.run_tune("space.json", "--list")
        self.assertEqual((done.code, done.message), (0, ""))
        text = " ".join(done.text.split())
        self.assertIn("fake: 3 variants, all The race takes 3 runs per round while no variant is "
                      "eliminated. The number of rounds depends on the noise of the runs: "
                      "--budget-runs limits it.", text)
        limited = self.run_tune("space.json", "--list", "--budget-runs", 40).text
        self.assertIn("the race ends after at most 40 runs", " ".join(limited.split()))
        self.assertRegex(done.text, r"\nv[0-9a-f]{16}  cost=130\n")
        many = [{"cost": cost} for cost in range(100, 116)]
        command = [*self.command(*many, options=("--list", "--format", "json", "--strategy",
                                                 "halving:4", "--calls", 3))]
        plan = run(*command, cwd=self.at, env=self.environment).json
        self.assertEqual((plan["schema"], len(plan["variants"]), plan["calls"]),
                         ("xplane-time.tune-plan.v1", 16, 3))
        self.assertEqual((plan["search_runs"], plan["raced"]), (16 + 2 * 8, 4))
        self.assertNotIn("race_runs", plan, "the noise is not known before a run")
        self.assertEqual(list(self.at.glob("tune.db*")), [])
        self.assertFalse(self.log.exists())
        command.remove("--list")
        found = run(*command, cwd=self.at, env=self.environment).json
        self.assertEqual([row["id"] for row in plan["variants"]],
                         [row["id"] for row in found["variants"]])
        self.assertEqual((found["search"]["runs"], found["search"]["raced"]), (32, 4))

    def test_the_page_shows_what_comes_out(self):
        page = (REPOSITORY / "docs" / "tuning.md").read_text()
        self.write("space.json", re.search("```json\n(.*?)```", page, re.DOTALL)[1])
        harness = ("--", sys.executable, HERE / "fake_harness.py", self.log)
        for options, more in ((("--list",), ()), (("--quiet",), harness)):
            wanted = re.search(rf"```\n\$ xplane-time tune space.json {options[0]}.*?\n(.*?)```",
                               page, re.DOTALL)[1]
            self.assertEqual(self.run_tune("space.json", *options, *more).text, wanted)

    def test_an_endless_space_is_refused(self):
        done = self.run_tune("/dev/zero", "--list")
        self.assertNotEqual(done.code, 0)
        self.assertIn("/dev/zero: larger than 64 MiB and not a regular file", done.message)

    def test_the_words_of_the_answer_do_not_contradict_each_other(self):
        text = " ".join(self.tune(*THREE).text.split())
        self.assertNotRegex(text, "not proved|possible loss is nothing")
        self.assertRegex(text, r"No variant is more than 0.5 % faster; smaller differences were "
                               r"not examined \(use --stop claim\)|Every other variant is proved")
        for variants in (({"cost": 100},), ({"cost": 100}, {"mode": "broken"}),
                         ({"cost": 100}, {"mode": "status-runtime_error"})):
            text = " ".join(self.tune(*variants).text.split())
            self.assertIn("There was no other variant to compare it with.", text)
            self.assertNotRegex(text, "proved|lose|more than|Estimated")

    def test_why_it_does_not_go_on(self):
        self.tune(*self.SAME, options=("--budget-runs", 4))
        done = self.tune(*self.SAME, options=("--resume", "--delta", "2%", "--workload", "other"))
        self.assertRegex(done.message, "starting a new session: session 1 has no decision, but "
                                       "differs in workload, delta\n")
        self.assertNotIn("new session", self.tune(*self.SAME).message)

    def test_replay_keeps_to_what_is_recorded(self):
        found = self.result(*self.SAME, options=("--stop", "claim", "--budget-runs", 12), code=11)
        again = self.run_tune("replay", "--format", "json").json
        self.assertEqual((again["stop_reason"], again["interrupted"], again["runs"]),
                         ("recorded_rounds", False, found["runs"]))
        self.assertEqual((again["harness"]["name"], again["harness"]["clock"]), ("fake", "wall"))
        text = self.run_tune("replay").text
        self.assertIn("The recorded rounds are too few", text)
        self.assertNotIn("--resume", text)
        fewer = self.run_tune("replay", "--budget-runs", 5, "--seed", 9, "--format", "json").json
        self.assertEqual((fewer["runs"], fewer["seed"], fewer["stop_reason"]), (4, 9, "budget_runs"))
        self.assertEqual(self.run_tune("replay", "--canary", 3).code, 64)
        missing = self.run_tune("replay", "--incumbent", "nobody")
        self.assertIn(f"measured variants: {found['variants'][0]['id']}, ", missing.message)

    def test_workloads_keep_their_own_samples(self):
        self.write("w.json", json.dumps({
            "schema": "xplane-time.space.v1", "variants": [{"params": each} for each in THREE],
            "workloads": [{"id": "small", "params": {}}, {"id": "big", "params": {}, "weight": 3}]}))
        command = self.command(*THREE)
        command[1] = "w.json"
        self.assertEqual(run(*command, cwd=self.at, env=self.environment).code, 0)
        for row in self.rounds():
            mean_ps = (int(row["t_ps_small"]) + 3 * int(row["t_ps_big"])) / 4
            self.assertAlmostEqual(int(row["t_ps"]), mean_ps, delta=1)
        sample = self.run_tune("export", "-o", "x.json")
        self.assertEqual(sample.code, 0)
        rounds = json.loads((self.at / "x.json").read_text())["rounds"]
        self.assertEqual([each["id"] for each in rounds[1]["samples"][0]["workloads"]],
                         ["small", "big"])

    def test_suffixes(self):
        self.result(*THREE, {"mode": "broken"})
        for name, first in (("x.json", "{"), ("x.csv", "session,"), ("x", "session,")):
            self.assertEqual(self.run_tune("export", "-o", name).code, 0)
            self.assertTrue((self.at / name).read_text().startswith(first), name)
        for action in (("show",), ("show", 1), ("replay",)):
            self.assertEqual(self.run_tune(*action, "-o", "y.json").code, 0)
            self.assertIn("schema", json.loads((self.at / "y.json").read_text()))
            refused = self.run_tune(*action, "-o", "y.csv")
            self.assertEqual(refused.code, 64)
            self.assertIn("unknown suffix .csv", refused.message)
        self.assertEqual(self.run_tune("export", "-o", "x.txt").code, 64, "a session is no table")
        failed = [row for row in self.rounds() if row["status"] == "compile_error"]
        self.assertEqual([(row["slot"], row["t_ps"]) for row in failed], [("", "")])

    def test_the_table_of_variants(self):
        done = self.tune(*THREE, {"mode": "broken"},
                         options=("--workload", "w" * 60))
        head, _, table = done.text.partition("\n\n")
        self.assertRegex(head, r"\d+ runs in \d+ rounds, session 1\.")
        self.assertRegex(table, r"variant +parameters +typical us +runs +time %")
        self.assertRegex(table, r"cost=130 .*\d\d\d\.\d")
        self.assertRegex(table, r"\nv[0-9a-f]{16}: broken\n")
        shown = self.run_tune("show")
        self.assertRegex(shown.text, "session  begun \\(UTC\\) .*  rounds  decided")
        rounds = {row["round"] for row in self.rounds() if row["slot"]}
        self.assertIn(f"  {len(rounds)}  pick ", shown.text.replace("winner", "pick"))
        many = [{"block": n, "layout": "a-rather-long-word", "other": "common"} for n in range(3)]
        shared = self.tune(*many, options=("--store", "other.db")).text
        self.assertIn("\nall variants: layout=a-rather-long-word other=common\n", shared)
        self.assertIn("block=2", shared)

    def test_a_traceback_is_lines_on_the_terminal_and_its_error_in_the_table(self):
        words = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no\x1b tile\n'
        done = self.tune(*THREE, {"mode": "broken", "text": words}, options=("--progress", "always"))
        self.assertIn('compile_error Traceback (most recent call last):\n    File "x.py", line 1\n'
                      '  ValueError: no\\x1b tile\n', done.message)
        self.assertRegex(done.text, r"\nv[0-9a-f]{16}: ValueError: no\\x1b tile\n")

    def test_values_are_not_cut(self):
        long = [{"alpha_of_the_kernel": 1000 + n, "beta_of_the_kernel": 2000 + n,
                 "gamma_of_the_kernel": 3000 + n} for n in range(3)]
        text = self.tune(*long).text
        for n in range(3):
            self.assertIn(f"{1000 + n} {2000 + n} {3000 + n}", text)
        self.assertIn("parameters: alpha_of_the_kernel beta_of_the_kernel", text)

    def test_mistakes(self):
        self.write("harness.py", "import jax")
        self.write("space.json", space(*THREE))
        for arguments, what in (
                (("shwo",), "tune shwo: neither a command (show, export, replay, decide) nor"),
                (("space.json", "python", "harness.py"), "follow --"),
                (("space.json", "--"), "no command after --"),
                (("harness.py", "--", "x"), "the first argument of tune is SPACE"),
                (("space.json", "--budget-time", "abc", "--", "x"), "'abc' is not a number of"),
                (("space.json", "--canary", "-1", "--", "x"), "--canary: '-1' is not a count"),
                (("space.json", "--alpha", "0", "--", "x"), "alpha 0 must be above 0 and"),
                (("space.json", "--run-limit", "1", "--", "x"),
                 "xplane-time: --run-limit: '1' is neither 0 nor at least 2"),
                (("space.json", "--run-limit", "x", "--", "x"), "'x' is neither 0 nor at least 2"),
                (("space.json", "--strategy", "random:0", "--", "x"), "not 'random:0'"),
                (("space.json", "--baseline", "{", "--", "x"), "--baseline: params: not JSON")):
            done = self.run_tune(*arguments)
            self.assertEqual(done.code, 64, done.message)
            self.assertIn(what, done.message)
        missing = self.run_tune("show", "--store", "nope.db")
        self.assertEqual(missing.code, 66)
        self.assertIn("nope.db: no such store; tune creates it", missing.message)

    def test_help_of_subcommands_shows_examples(self):
        for action in ("show", "export", "replay", "decide"):
            text = self.run_ok("tune", action, "--help").text
            self.assertIn(f"\nExamples:\n  xplane-time tune {action}", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)


class SeveralDevices(TuneTest):
    def on(self, devices, *variants, options=(), **more):
        return self.result(*(variants or THREE), options=("--devices", devices, *options), **more)

    def test_one_harness_each_and_one_answer(self):
        found = self.on("0,left", harness=["devices"])
        self.assertEqual(self.log.read_text().count("0 0 0\n"), 1)
        self.assertEqual(self.log.read_text().count("left - -\n"), 1)
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100})
        check = found["devices"]
        self.assertEqual(check["classes"], [[f"fake:{self.log} (0)", f"fake:{self.log} (left)"]])
        self.assertEqual((check["splits"], check["lost"]), ([], []))
        rows = self.rounds()
        self.assertGreater(len(rows), found["runs"])  # includes the runs of the device check
        text = " ".join(run("tune", "show", 1, cwd=self.at, env=self.environment).text.split())
        self.assertRegex(text, r"The 2 devices agree: in \d+ separate rounds a difference of \d")

    def test_two_classes(self):
        found = self.on("0,1", {"cost": 100, "more_on_1": 30}, {"cost": 110}, code=11)
        self.assertEqual(len(found["devices"]["classes"]), 2)
        self.assertEqual((found["claim"], found["stop_reason"]), ("undecided", "device_classes"))
        done = self.tune({"cost": 100, "more_on_1": 30}, {"cost": 110}, options=("--devices", "1,0"))
        self.assertEqual(done.code, 11)
        text = " ".join(done.text.split())
        self.assertIn("no common answer: 2 classes of devices; over all devices, the leader is", text)
        self.assertIn("Devices that agree: [", text)
        for action in (("tune", "export", 1, "--bundle", "x.zip"), ("verify", "x.zip")):
            done = run(*action, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 0, done.message + done.text)
        self.assertRegex(text, r"takes [+-]\d+\.\d+ % on .*\([01]\) and [+-]\d+\.\d+ % on ")
        done = run("tune", "export", "--format", "tuned", cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 65, done.message)
        self.assertIn("no session has reached a decision yet", done.message)

    def test_it_goes_on_is_replayed_and_verified(self):
        first = self.on("0,1")
        again = self.on("0,1", options=["--resume"])
        self.assertTrue(again["resumed"])
        for each in ("pick", "runs", "devices"):
            self.assertEqual(again[each], first[each])
        done = self.tune(*THREE, options=("--devices", "1,0", "--resume"))  # the order has no effect
        self.assertIn("no runs were left to measure: session 1 was read", done.message)
        other = self.on("0,1,2", options=["--resume"])
        self.assertFalse(other["resumed"])
        replayed = run("tune", "replay", 1, "--format", "json", cwd=self.at, env=self.environment)
        self.assertEqual(replayed.json["pick"], first["pick"])
        for action in (("tune", "export", 1, "--bundle", "x.zip"), ("verify", "x.zip")):
            done = run(*action, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 0, done.message + done.text)

    def test_a_device_that_does_not_start_is_named(self):
        found = self.on("0,1", harness=["mute=1"], code=11)
        self.assertIn(found["claim"], ("pick", "winner"), "of the device that is left")
        self.assertEqual([each["device"] for each in found["devices"]["lost"]], ["1"])
        self.assertIsNone(found["devices"]["mde"])
        self.assertEqual(len(found["devices"]["devices"]), 1)
        done = self.tune(*THREE, options=("--devices", "0,1"), harness=["mute=1"])
        self.assertIn("lost the device 1; the others continue: the harness", done.message)
        self.assertEqual(done.code, 11)
        self.assertIn("The device 1 was lost, so its agreement is unknown",
                      " ".join(done.text.split()))
        for action in (("replay", 1), ("show", 1)):
            again = run("tune", *action, cwd=self.at, env=self.environment)
            self.assertEqual(again.code, 11 if action[0] == "replay" else 0, again.message)

    def test_devices_of_two_kinds_are_refused(self):
        done = self.tune(*THREE, options=("--devices", "0,1"), harness=["kind=1"])
        self.assertEqual(done.code, 69)
        self.assertIn('(1) has device_class "another", but ', done.message)
        self.assertIn("tune each kind separately", done.message)

    def test_what_devices_do_not_go_with(self):
        for wanted, options in (("the names must differ", ["0,0"]),
                                ("contains an empty name", [","]), ("contains an empty name", ["0,"]),
                                ("contains an empty name", ["0,,1"]), ("empty", [""]),
                                ("supports only one device", ["0,1", "--clock-mhz", "1000"]),
                                ("has no effect with --list", ["0,1", "--list"])):
            done = self.tune(*THREE, options=("--devices", *options))
            self.assertEqual(done.code, 64, done.text)
            self.assertIn(wanted, done.message)


class Misbehaving(TuneTest):
    OPTIONS = ("--slot-timeout", "0.5", "--prepare-timeout", "0.5")

    def test_each_failure_has_its_status_and_the_rest_is_decided(self):
        modes = ("broken", "wrong", "prepare-crash", "prepare-hang", "prepare-killed",
                 "prepare-exit", "verify-crash", "verify-hang", "run-crash", "run-hang",
                 "run-killed", "run-exit")
        found = self.result(*THREE, *({"mode": mode} for mode in modes), options=self.OPTIONS)
        statuses = {mode: self.status(found, mode=mode) for mode in modes[:8]}
        self.assertEqual(statuses, {
            "broken": "compile_error", "wrong": "wrong_result", "prepare-crash": "crash(11)",
            "prepare-hang": "timeout", "prepare-killed": "oom", "prepare-exit": "crash",
            "verify-crash": "crash(11)", "verify-hang": "timeout"})
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100})
        ids = {row["id"]: row["params"].get("mode") for row in found["variants"]}
        seen = {(ids[row["variant"]], row["status"]) for row in self.rounds()}
        self.assertLessEqual({("run-crash", "crash(11)"), ("run-hang", "timeout"),
                              ("run-killed", "oom"), ("run-exit", "crash")}, seen)
        for mode in ("run-crash", "run-hang", "run-killed", "run-exit"):
            out = found["by_params"][json.dumps({"mode": mode})]["eliminated"]
            self.assertIsNotNone(out, mode)

    def test_a_harness_that_never_sends_hello(self):
        self.write("space.json", space(*THREE))
        pid = self.at / "pid"
        script = f"echo $$ > {pid}; exec sleep 1000"
        for command in (("tune",), ("grid", "-o", "bundle")):
            began = time.monotonic()
            done = run(*command, "space.json", "--hello-timeout", "0.5", "--", "sh", "-c", script, cwd=self.at,
                       env=self.environment)
            self.assertLess(time.monotonic() - began, 20)
            self.assertEqual((done.code, done.out), (69, b""), done.message)
            self.assertIn('the harness "sh" did not send hello: no answer within 0.5 s, so it was '
                          "killed", done.message)
            self.assertIn("raise --hello-timeout", done.message)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid.read_text()), 0)
        slow_start = ("sh", "-c", 'sleep 1; exec "$0" "$@"')
        for seconds, is_late in ((0.5, True), (30, False)):  # more time, as advised
            command = self.command(*THREE, options=("--hello-timeout", seconds))
            at = command.index("--") + 1
            done = run(*command[:at], *slow_start, *command[at:], cwd=self.at, env=self.environment)
            self.assertEqual(done.code == 69, is_late, done.message)

    def test_the_run_limit_ends_what_is_far_slower(self):
        found = self.result(*THREE, {"mode": "stuck"}, options=("--run-limit", "2"))
        row = found["by_params"]['{"mode": "stuck"}']
        self.assertEqual(row["eliminated"]["reason"], "timeout")
        self.assertIn("--run-limit 2", row["message"])
        picked = next(row for row in found["variants"] if row["id"] == found["pick"])
        self.assertEqual(picked["params"], {"cost": 100})

    def test_what_stood_still_once_is_not_blamed(self):
        found = self.result(*THREE, options=("--run-limit", "2"), harness=("stalls",))
        self.assertEqual({row["status"] for row in self.rounds()}, {"ok"})
        self.assertEqual(self.log.read_text().count("started"), 2)
        self.assertIn(found["claim"], ("pick", "winner"))

    def test_without_slots_the_guilty_one_is_found(self):
        found = self.result(*THREE, {"mode": "run-crash"}, harness=("no-slots",))
        ids = {row["id"]: row["params"].get("mode") for row in found["variants"]}
        crashed = {ids[row["variant"]] for row in self.rounds() if row["status"] == "crash(11)"}
        self.assertEqual(crashed, {"run-crash"})

    def test_a_status_of_the_round_is_of_the_one_that_has_it_alone(self):
        found = self.result(*THREE, {"mode": "bad-round"}, {"mode": "status-runtime_error"})
        row = found["by_params"]['{"mode": "bad-round"}']
        self.assertEqual(row["eliminated"]["reason"], "oom")
        self.assertIn("all of it", row["message"])
        ids = {row["id"]: row["params"] for row in found["variants"]}
        self.assertEqual(ids[found["pick"]], {"cost": 100})
        bad = {json.dumps(ids[row["variant"]]) for row in self.rounds() if row["status"] == "oom"}
        self.assertEqual(bad, {'{"mode": "bad-round"}'})
        failed = found["by_params"]['{"mode": "status-runtime_error"}']
        self.assertEqual(failed["message"], "status-runtime_error")  # the message of the sample

    def test_what_nobody_is_to_blame_for_is_tried_again(self):
        for when in ("prepare", "verify"):
            self.log.write_text("")
            found = self.result(*THREE, {"mode": f"{when}-busy"})
            self.assertEqual(self.status(found, mode=f"{when}-busy"), "ok")
            self.assertEqual(self.log.read_text().count("busy"), 3)
        lasting = [{"mode": f"{when}-{status}"} for when in ("prepare", "verify")
                   for status in ("infra", "throttled", "no_events")]
        found = self.result(*THREE, *lasting)
        for each in lasting:  # the retries end
            self.assertEqual(self.status(found, **each), each["mode"].split("-")[1])

    def test_signs_of_life_give_no_more_time(self):
        found = self.result(*THREE, {"mode": "prepare-beats"}, {"mode": "run-beats"},
                            options=self.OPTIONS)
        self.assertEqual(self.status(found, mode="prepare-beats"), "timeout")
        row = found["by_params"]['{"mode": "run-beats"}']
        self.assertEqual(row["eliminated"]["reason"], "timeout")

    def test_a_crash_is_seen_while_a_child_of_it_lives(self):
        found = self.result(*THREE, {"mode": "prepare-crash"}, {"mode": "run-crash"},
                            options=("--slot-timeout", "5", "--prepare-timeout", "5"),
                            harness=("forks",))
        self.assertEqual(self.status(found, mode="prepare-crash"), "crash(11)")
        row = found["by_params"]['{"mode": "run-crash"}']
        self.assertEqual(row["eliminated"]["reason"], "crash")

    def test_long_requests_and_long_answers_at_once(self):
        long = [{"cost": cost, "text": str(cost) * 100_000} for cost in (100, 130, 160, 190)]
        found = self.result(*long, options=("--slot-timeout", "5", "--prepare-timeout", "5"))
        self.assertEqual({row["status"] for row in found["variants"]}, {"ok"})
        self.assertEqual(self.log.read_text().count("started"), 1)

    def test_another_device_after_a_crash_ends_the_run(self):
        for what in ("device", "device_class", "clock", "code_hash", "driver"):
            self.log.write_text("")
            done = self.tune(*THREE, {"mode": "run-crash"}, harness=(f"other-{what}",))
            self.assertEqual(done.code, 69, done.message)
            self.assertIn(f'changed after a restart: {what} "profile", not "', done.message)

    def test_everything_fails(self):
        done = self.result({"mode": "broken"}, {"mode": "prepare-crash"}, code=20)
        self.assertEqual((done["claim"], done["pick"]), ("all_failed", None))
        self.assertIsNone(done["delta"], "nothing was decided")
        self.assertEqual(self.result({"mode": "wrong"}, code=21)["claim"], "all_failed")
        self.assertEqual(self.result({"mode": "status-runtime_error"}, code=20)["claim"],
                         "all_failed")

    def test_a_harness_that_cannot_work_ends_the_run_with_the_reason(self):
        os.mkfifo(f"{self.log}.fifo")
        for harness, variants, what in (
                (("mute",), THREE, "did not send hello: it ended: exit 7"),
                ((), ({"mode": "run-garbage"},), "violates the protocol"),
                (("truncated",), THREE, "the trace of a round"),
                (("fifo",), THREE, "harness.log.fifo is not a regular file"),
                (("no-samples",), THREE, "neither samples nor a trace"),
                (("hello-twice",), THREE, "an unexpected hello"),
                ((), ({"mode": "prepare-garbage"},), "violates the protocol"),
                ((), ({"mode": "verify-garbage"},), "violates the protocol")):
            done = self.tune(*variants, harness=harness)
            self.assertEqual(done.code, 69, done.message)
            self.assertIn(what, done.message)
        self.write("space.json", space(*THREE))
        done = run("tune", "space.json", "--", "/no/such/harness", cwd=self.at,
                   env=self.environment)
        self.assertEqual(done.code, 69)
        self.assertIn("/no/such/harness: the harness cannot start", done.message)

    def test_spaces(self):
        for content, code, what in (
                (space(), 64, "the space has no configurations"),
                ('{"schema": "xplane-time.space.v1", "parameters": [{"name": "a", "type": "int",'
                 ' "values": [1, 2]}], "constraints": ["a > 1", "a < 2"]}', 64, "contradictory"),
                ("{", 64, "space.json")):
            command = self.command()
            self.write("space.json", content)
            done = run(*command, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, code, done.message)
            self.assertIn(what, done.message)
        self.assertIn(self.result({"cost": 1})["claim"], ("pick", "winner"))

    def test_usage(self):
        self.write("space.json", space(*THREE))
        for arguments, what in ((("tune",), "no SPACE"), (("tune", "space.json"), "no harness"),
                                (("tune", "space.json", "--delta", "5", "--", "x"), "share"),
                                (("tune", "space.json", "--incumbent", "nobody", "--",
                                  sys.executable, HERE / "fake_harness.py", self.log),
                                 'the incumbent "nobody"')):
            done = run(*arguments, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 64, done.message)
            self.assertIn(what, done.message)

    def test_options_that_would_do_nothing_are_refused(self):
        for option, *value in (
                ("--store", "x.db"), ("--resume",), ("--harness-log", "x"), ("--delta", "1%"),
                ("--slot-timeout", 5), ("--run-limit", 5), ("--confirm", 5), ("--canary", 0),
                ("--power-source", "rapl"), ("--progress", "never"), ("--budget-time", 5)):
            done = self.tune(*THREE, options=("--list", option, *value))
            self.assertEqual(done.code, 64, (option, done.message))
            self.assertIn(f"{option} has no effect with --list", done.message)
        done = self.tune(*THREE, options=("--confirm", 5))
        self.assertEqual(done.code, 64, done.message)
        self.assertIn("--confirm requires --baseline or --incumbent", done.message)

    def test_a_log_that_takes_no_more_is_told(self):
        done = self.tune(*THREE, options=("--harness-log", "/dev/full", "--quiet"))
        self.assertEqual((done.code, done.message),
                         (0, "xplane-time: /dev/full: cannot write the harness's log: No space left "
                             "on device; its further output is not logged\n"))

    def test_an_empty_file_is_a_new_store(self):
        self.write("tune.db", "")
        for action in ("show", "replay", "export"):
            done = run("tune", action, cwd=self.at, env=self.environment)
            self.assertEqual((done.code, done.message),
                             (65, "xplane-time: tune.db: is empty, without a session; tune "
                                  "creates one\n"))
        self.assertIn(self.result(*THREE)["claim"], ("pick", "winner"))

    def test_places_to_write(self):
        done = self.tune(*THREE, options=("--harness-log", "no/dir/x"))
        self.assertEqual(done.code, 73, done.message)
        self.assertIn("no/dir/x: cannot write the harness's log", done.message)
        self.environment["XDG_RUNTIME_DIR"] = str(self.at / "gone")  # as with sudo
        self.environment["TMPDIR"] = str(self.at)
        self.assertIn(self.result(*THREE)["claim"], ("pick", "winner"))
        self.assertEqual(len(list(self.at.glob("xplane-time-*.locks"))), 1)

    def test_locks_follow_no_link(self):
        del self.environment["XDG_RUNTIME_DIR"]
        scratch = self.at / "scratch"
        scratch.mkdir()
        self.environment["TMPDIR"] = str(scratch)
        locks = scratch / f"xplane-time-{os.geteuid()}.locks"
        victim = self.write("victim", b"precious\n" * 1000)
        before = victim.read_bytes()
        (scratch / "folder").mkdir()
        for make, words in ((lambda: locks.symlink_to(victim), "is a symbolic link"),
                            (lambda: locks.symlink_to(self.at / "later"), "is a symbolic link"),
                            (lambda: os.link(victim, locks), "has other hard links"),
                            (lambda: os.mkfifo(locks), "is not a regular file")):
            make()
            done = self.tune(*THREE)
            self.assertEqual(done.code, 73, done.message)
            self.assertIn(f"{locks}: {words}", done.message)
            self.assertEqual(victim.read_bytes(), before)
            self.assertFalse((self.at / "later").exists())
            locks.unlink()
        if os.geteuid() == 0:
            locks.write_bytes(b"")
            os.chown(locks, 65534, 65534)
            done = self.tune(*THREE)
            self.assertEqual(done.code, 73, done.message)
            self.assertIn("belongs to another user", done.message)
            locks.unlink()
            foreign = self.at / "foreign"
            foreign.mkdir()
            os.chown(foreign, 65534, 65534)
            self.environment["XDG_RUNTIME_DIR"] = str(foreign)  # as with sudo -E
        self.assertIn(self.result(*THREE)["claim"], ("pick", "winner"))
        self.assertTrue(locks.is_file(), "our own file")
        for store_lock in (self.at / "linked.db-lock",):
            store_lock.symlink_to(victim)
            done = self.tune(*THREE, options=("--store", "linked.db"))
            self.assertEqual(done.code, 73, done.message)
            self.assertIn("linked.db-lock: is a symbolic link", done.message)
            self.assertEqual(victim.read_bytes(), before)

    def test_a_store_on_a_file_system_for_reading_alone(self):
        disk = self.at / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("no file system may be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        self.result(*THREE, options=("--store", "disk/t.db"))
        for end in ("-wal", "-shm"):
            (disk / f"t.db{end}").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for action in (("show",), ("show", 1), ("replay", 1), ("export", 1)):
            done = run("tune", *action, "--store", "disk/t.db", cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 0, (action, done.message))
        done = self.tune(*THREE, options=("--store", "disk/t.db"))
        self.assertEqual(done.code, 74, done.message)
        self.assertIn("read-only", done.message)
        done = run("tune", "export", "--bundle", "disk/b.zip", "--store", "disk/t.db", cwd=self.at,
                   env=self.environment)
        self.assertEqual(done.code, 73, done.message)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        (disk / "t.db-wal").write_bytes(b"x" * 100)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        done = run("tune", "show", "--store", "disk/t.db", cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 74, done.message)
        self.assertIn("copy both files", done.message)

    def test_a_bundle_on_a_full_disk(self):
        self.result(*THREE)
        done = run("tune", "export", "--bundle", "/dev/full", cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 73, done.message)
        self.assertIn("/dev/full: cannot write", done.message)
        disk = self.at / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", disk], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("no file system may be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        done = run("tune", "export", "--bundle", "disk/b.zip", cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 73, done.message)
        self.assertIn("disk/b.zip: cannot write: No space left", done.message)
        self.assertEqual(os.listdir(disk), [])

    def test_names_that_are_not_utf8(self):
        name = b"w\xff\xfe".decode("utf-8", "surrogateescape")
        self.assertEqual(self.tune(*THREE, options=("--workload", name)).code, 0)
        for action in (("show",), ("show", 1), ("replay", 1), ("export", 1, "--format", "json"),
                       ("export", 1), ("export", "--format", "tuned"),
                       ("export", 1, "--bundle", "b.zip")):
            done = run("tune", *action, cwd=self.at, env=self.environment)
            self.assertEqual(done.code, 0, (action, done.message))
        done = run("verify", "b.zip", cwd=self.at, env=self.environment)
        self.assertEqual(done.code, 0, done.text)

    def test_a_full_disk(self):
        command = [BINARY, *self.command(*THREE)]
        done = subprocess.run(["bash", "-c", 'ulimit -f 40; exec "$@"', "bash", *map(str, command)],
                              cwd=self.at, env=self.environment, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 74, done.stderr)
        for part in (b"tune.db: no space left", b"--resume"):
            self.assertIn(part, done.stderr)
        found = self.result(*THREE, options=("--resume",))
        self.assertIn(found["claim"], ("pick", "winner"))

    def test_results_that_cannot_be_written(self):
        refused = self.tune(*THREE, options=("-o", "no/x"))
        self.assertEqual(refused.code, 73)
        self.assertIn("no/x: cannot write", refused.message)
        self.assertFalse(self.log.exists(), "before the run")
        self.result(*THREE)
        for form in ("csv", "json", "t4", "tuned"):
            for output, path in (("-o /dev/full", "/dev/full"), ("-o no/x", "no/x"),
                                 (">&-", "standard output"), (">/dev/full", "standard output")):
                done = self.shell(f"tune export --format {form} {output}")
                self.assertEqual(done.returncode, 73, (form, output, done.stderr))
                self.assertIn(f"xplane-time: {path}: cannot write".encode(), done.stderr)
            self.assertEqual(self.shell(f"tune export --format {form} | true").stderr, b"")

    def shell(self, line):
        return subprocess.run(["bash", "-c", f'set -o pipefail; "$0" {line}', BINARY], cwd=self.at,
                              env=self.environment, capture_output=True, timeout=60, check=False)


class Resuming(TuneTest):
    CLAIM = ("--stop", "claim", "--delta", "0.5%")
    SAME = [{"cost": 100, "x": x} for x in range(3)]

    def start(self, *options, harness=()):
        return subprocess.Popen(
            [BINARY, *self.command(*self.SAME, options=(*self.CLAIM, *options, "--format", "json"),
                                   harness=("slow", *harness))],
            cwd=self.at, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def comparable(self, result):
        return {key: value for key, value in result.items()
                if key not in ("session", "resumed", "by_params", "harness")}

    def wait_for_rounds(self, count):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.log.exists() and self.log.read_text().count("round") >= count:
                return
            time.sleep(0.002)
        self.fail("no rounds")

    def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(self):
        undisturbed = self.result(*self.SAME, options=(*self.CLAIM, "--store", "other.db"))
        total = self.log.read_text().count("round")
        self.assertGreater(total, 20)
        choose = random.Random(3)
        for _ in range(8):
            before = self.log.read_text().count("round")
            process = self.start("--resume")
            self.wait_for_rounds(before + choose.randint(0, 4))
            time.sleep(choose.random() * 0.01)
            process.kill()
            process.communicate()
        found = self.result(*self.SAME, options=(*self.CLAIM, "--resume"))
        self.assertTrue(found["resumed"])
        self.assertEqual(self.comparable(found), self.comparable(undisturbed))
        numbers = [(row["batch"], row["round"], row["slot"]) for row in self.rounds()]
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_a_stop_is_told_and_resumed(self):
        for sign in (signal.SIGINT, signal.SIGTERM):
            before = self.log.read_text().count("round") if self.log.exists() else 0
            process = self.start("--resume")
            self.wait_for_rounds(before + 2)
            process.send_signal(sign)
            out, message = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 75)
            self.assertIn(b"interrupted; continue with --resume", message)
            partial = self.valid(json.loads(out))
            self.assertEqual((partial["interrupted"], partial["stop_reason"]),
                             (True, "interrupted"))
            # The harness gets a message, and may end by itself.
            self.assertRegex(self.log.read_text(), r"cancel\nbye\n$")
        self.assertFalse(self.result(*self.SAME, options=(*self.CLAIM, "--resume"))["interrupted"])

    def test_two_at_once(self):
        process = self.start()
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for_rounds(1)
        second = self.tune(*self.SAME, options=("--store", "second.db"))
        self.assertEqual(second.code, 65, second.message)
        self.assertIn(f"is in use by another tuning with process {process.pid} ", second.message)

    def test_two_devices_at_once_in_one_store(self):
        process = self.start(harness=("device=gpu:0",))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for_rounds(1)
        few = (*self.CLAIM, "--budget-runs", 9, "--resume")
        for _ in range(2):  # a separate session, which continues
            other = self.tune(*self.SAME, options=few, harness=("device=gpu:1",))
            self.assertIn(other.code, (0, 11, 12), other.message)
            self.assertIn("session 2 on fake (gpu:1)", other.message)
        self.assertRegex(self.tune(*self.SAME, options=few, harness=("device=gpu:2",)).message,
                         r"session \d has no decision, but differs in device\n")

    def left(self):
        """The running processes of the harness and of the driver."""
        script = str(HERE / "fake_harness.py")
        return [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                if str(self.log) in read(path) and script in read(path)]

    def wait_until_none_is_left(self):
        deadline = time.monotonic() + 20
        while left := self.left():
            if time.monotonic() > deadline:
                self.fail(f"left: {left}")
            time.sleep(0.05)

    def test_the_harness_goes_with_its_driver(self):
        process = self.start()
        self.wait_for_rounds(1)
        process.kill()
        process.communicate()
        self.wait_until_none_is_left()

    def test_what_the_harness_started_goes_with_its_driver(self):
        """The harness hangs. It is the child of a shell, and has a child itself."""
        self.write("space.json", space({"mode": "run-hang"}, {"cost": 100}))
        for end in (signal.SIGKILL, signal.SIGTERM):
            self.log.write_text("")
            process = subprocess.Popen(
                [BINARY, "tune", "space.json", "--", "bash", "-c", '"$@"; true', "bash",
                 sys.executable, HERE / "fake_harness.py", self.log, "forks"], cwd=self.at,
                env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            self.wait_for_rounds(1)
            self.assertGreaterEqual(len(self.left()), 4)
            process.send_signal(end)
            process.wait(timeout=30)
            self.wait_until_none_is_left()


def read(path):
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    unittest.main()
