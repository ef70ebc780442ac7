"""No command overwrites its inputs, also through links."""
import json
import os
import sqlite3
import subprocess
import sys
import time
import unittest

from harness import BINARY, EndToEndTest, environment, run
from xspace import gpu, space

TRACE = space(gpu(0))
SPACE = json.dumps({"schema": "xplane-time.space.v1",
                    "parameters": [{"name": "a", "type": "int", "values": [1, 2]}]})
LOG = '{"type": "header", "version": 1}\n'


class OutputsNeverHitInputs(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.files = {name: self.write(name, content) for name, content in {
            "t.pb": TRACE, "u.pb": TRACE, "s.json": SPACE, "p.jsonl": LOG,
            "logs/plugins/profile/1/host.xplane.pb": TRACE}.items()}
        self.write("x.db", "")
        sqlite3.connect(self.at / "x.db").executescript("create table a (b)")
        self.files["x.db"] = self.at / "x.db"
        (self.at / "link.pb").symlink_to("t.pb")
        (self.at / "link2.pb").symlink_to("link.pb")
        os.link(self.at / "t.pb", self.at / "hard.pb")
        (self.at / "later.db").symlink_to("new.db")  # the target does not exist yet

    def refused(self, *arguments, names=()):
        before = {name: path.read_bytes() for name, path in self.files.items()}
        listed = sorted(os.listdir(self.at))
        with self.subTest(arguments):
            done = run(*arguments, cwd=self.at)
            self.assertEqual((done.code, done.out), (64, b""), done.message)
            self.assertRegex(done.message, r"\Axplane-time: [^\n]+ refer to the same file, [^\n]+\n\Z")
            for name in names:
                self.assertIn(name, done.message)
            self.assertEqual({name: path.read_bytes() for name, path in self.files.items()}, before)
            self.assertEqual(sorted(os.listdir(self.at)), listed)

    def open(self, name, mode):
        file = open(self.at / name, mode)
        self.addCleanup(file.close)
        return file

    def test_traces_of_every_command(self):
        for command in ("report", "planes", "functions", "kernels", "tree", "events", "pick"):
            self.refused(command, "t.pb", "-o", "t.pb", names=("--output", "TRACE", "t.pb"))
        self.refused("t.pb", "--json-schema", "-o", "t.pb")
        self.refused("u.pb", "t.pb", "-o", "./t.pb")
        self.refused("t.pb", "--compat", "xprof", "-o", "t.pb")

    def test_no_report_looks_like_a_trace(self):
        command = ("kernels", "t.pb", "-o", "logs/plugins/profile/1/new.xplane.pb")
        done = run(*command, "--format", "json", cwd=self.at)
        self.assertNotEqual(done.code, 0)
        self.assertIn("would be read as a trace", done.message)
        self.assertEqual(run(*command, cwd=self.at).code, 64)
        self.assertEqual(os.listdir(self.at / "logs/plugins/profile/1"), ["host.xplane.pb"])

    def test_links_and_folders(self):
        for out in ("link.pb", "link2.pb", "hard.pb", str(self.at / "t.pb")):
            self.refused("t.pb", "-o", out)
        self.refused("link.pb", "-o", "t.pb")
        inside = "logs/plugins/profile/1/host.xplane.pb"
        for folder in ("logs", "logs/plugins/profile/1"):
            self.refused(folder, "-o", inside)
            self.refused("compare", folder, "t.pb", "-o", inside)

    def test_both_sides_of_a_comparison_and_a_space(self):
        self.refused("compare", "t.pb", "u.pb", "-o", "u.pb", names=("SIDE",))
        self.refused("compare", "--base", "t.pb", "--head", "u.pb", "-o", "t.pb",
                     names=("--base",))
        self.refused("compare", "--base", "t.pb", "--head", "u.pb", "-o", "hard.pb")
        self.refused("pick", "t.pb", "--space", "s.json", "-o", "s.json", names=("--space",))

    def test_tune(self):
        harness = ("--", "true")
        self.refused("tune", "s.json", "-o", "s.json", *harness, names=("SPACE",))
        self.refused("tune", "s.json", "--store", "s.json", *harness)
        self.refused("tune", "s.json", "--harness-log", "s.json", *harness)
        self.refused("tune", "s.json", "--store", "new.db", "-o", "new.db", *harness)
        self.refused("tune", "s.json", "--store", "later.db", "-o", "new.db", *harness)
        self.refused("tune", "s.json", "--store", "x.db", "-o", "x.db-wal", *harness)
        self.refused("tune", "s.json", "--store", "x.db", "-o", "x.db-lock", *harness)
        self.refused("tune", "s.json", "--harness-log", "a.txt", "-o", "a.txt", *harness)
        for action in ("export", "show", "replay"):
            self.refused("tune", action, "--store", "x.db", "-o", "x.db", names=("--store",))

    def test_power(self):
        self.refused("power", "replay", "p.jsonl", "-o", "p.jsonl", names=("LOG",))
        self.refused("power", "replay", "p.jsonl", "--svg", "p.jsonl", names=("--svg",))
        self.refused("power", "replay", "p.jsonl", "--svg", "new", "-o", "new")
        record = ("power", "record", "--source", "replay:p.jsonl")
        self.refused(*record, "--log", "p.jsonl", "--", "true", names=("--log", "--source"))
        self.refused(*record, "-o", "p.jsonl", "--", "true")
        self.refused(*record, "--log", "new", "-o", "new", "--", "true")

    def test_standard_streams_that_are_files(self):
        before = self.files["t.pb"].read_bytes()
        for arguments, stdin, stdout in ((("events", "t.pb"), None, "ab"),
                                         (("-", "-o", "t.pb"), "t.pb", None),
                                         (("-",), "t.pb", "ab")):
            with self.subTest(arguments):
                done = subprocess.run(
                    [BINARY, *arguments], cwd=self.at, env=environment(),
                    stdin=self.open(stdin, "rb") if stdin else subprocess.DEVNULL,
                    stdout=self.open("t.pb", stdout) if stdout else subprocess.DEVNULL,
                    stderr=subprocess.PIPE, check=False)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertEqual(self.files["t.pb"].read_bytes(), before)

    def test_other_files_and_devices_are_fine(self):
        self.run_ok("t.pb", "-o", "out.txt")
        self.run_ok("t.pb", "-o", "out.txt")  # the output of the same command may be overwritten
        self.run_ok("t.pb", "u.pb", "-o", "/dev/null")
        (self.at / "dangling").symlink_to("made.txt")
        self.run_ok("t.pb", "-o", "dangling")
        self.assertTrue((self.at / "dangling").is_symlink() and (self.at / "made.txt").is_file())
        (self.at / "circle").symlink_to("circle")
        self.assertEqual(run("t.pb", "-o", "circle", cwd=self.at).code, 73)


class Replacing(EndToEndTest):
    """Tests which existing files may be replaced, and which must be kept."""

    def setUp(self):
        super().setUp()
        self.write("t.pb", TRACE)

    def database(self, name, *statements):
        database = sqlite3.connect(self.at / name)
        for statement in statements:
            database.execute(statement)
        database.commit()
        return database

    def refused(self, *arguments, words):
        before = {each: (self.at / each).read_bytes() for each in os.listdir(self.at)}
        done = run(*arguments, cwd=self.at)
        self.assertEqual((done.code, done.out), (73, b""), done.message)
        self.assertIn(words, done.message)
        self.assertEqual({each: (self.at / each).read_bytes() for each in os.listdir(self.at)},
                         before)

    def test_a_database_of_others_stays(self):
        self.database("o.sqlite", "CREATE TABLE mine(a)").close()
        self.database("w.sqlite", "PRAGMA journal_mode = WAL", "CREATE TABLE mine(a)").close()
        self.database("s.sqlite", f"PRAGMA application_id = {0x5850544d}",
                      "CREATE TABLE session(a)").close()
        for name in ("o.sqlite", "w.sqlite", "s.sqlite"):
            for more in ((), ("--format", "json")):
                self.refused("t.pb", "-o", name, *more, words=f"{name}: cannot write: it is an SQLite")
        (self.at / "link.sqlite").symlink_to("o.sqlite")
        self.refused("t.pb", "-o", "link.sqlite", words="o.sqlite: cannot write: it is an SQLite")

    def test_a_result_is_replaced(self):
        for _ in range(2):
            self.run_ok("t.pb", "-o", "r.sqlite")
        self.write("empty.sqlite", "")
        self.run_ok("t.pb", "-o", "empty.sqlite")
        self.write("text.sqlite", "no database")
        self.run_ok("t.pb", "-o", "text.sqlite")
        self.run_ok("t.pb", "-o", "r.sqlite", "--format", "json")
        self.assertIn("schema", json.loads((self.at / "r.sqlite").read_text()))

    def test_a_journal_beside_it_is_never_applied_to_it(self):
        self.run_ok("t.pb", "-o", "r.sqlite")
        database = self.database("r.sqlite", "PRAGMA journal_mode = WAL", "CREATE TABLE more(a)")
        self.addCleanup(database.close)
        self.assertGreater((self.at / "r.sqlite-wal").stat().st_size, 0)
        self.refused("t.pb", "-o", "r.sqlite", words="r.sqlite-wal is a journal")
        for end in ("-wal", "-journal"):  # left by a database that was removed
            self.write(f"new.sqlite{end}", "x")
            self.refused("t.pb", "-o", "new.sqlite", words=f"new.sqlite{end} is a journal")
            self.write(f"new.sqlite{end}", "")
            self.run_ok("t.pb", "-o", "new.sqlite")
            self.assertGreater(len(sqlite3.connect(self.at / "new.sqlite").execute(
                "SELECT name FROM sqlite_master").fetchall()), 0)

    def test_the_narrower_mode_stays(self):
        mask = os.umask(0o022)
        self.addCleanup(os.umask, mask)
        for before, after in ((0o600, 0o600), (0o640, 0o640), (0o644, 0o644), (0o666, 0o644),
                              (0o755, 0o644), (0o400, 0o400)):
            path = self.write("o.json", "old")
            path.chmod(before)
            self.run_ok("t.pb", "-o", "o.json")
            self.assertEqual(path.stat().st_mode & 0o7777, after, oct(before))
            path.unlink()
        self.run_ok("t.pb", "-o", "o.json")
        self.assertEqual((self.at / "o.json").stat().st_mode & 0o7777, 0o644)

    def temporary(self):
        return sorted(each for each in os.listdir(self.at) if ".xplane-" in each)

    def test_what_killed_writers_leave_is_removed_by_the_next(self):
        code = ("import os, sys, fcntl, time; "
                "f = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600); "
                "fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)")
        leftover = "o.csv.xplane-AbC123"
        living = subprocess.Popen([sys.executable, "-c", code, self.at / leftover],
                                  stdout=subprocess.PIPE)
        self.addCleanup(living.wait)
        self.addCleanup(living.stdout.close)
        self.addCleanup(living.kill)
        living.stdout.readline()
        for name in ("o.csv.xplane-AbC12", "o.csv.xplane-AbC1234", "p.csv.xplane-AbC123"):
            self.write(name, "of others")
        self.run_ok("events", "t.pb", "-o", "o.csv")
        self.assertIn(leftover, self.temporary(), "its writer lives")
        living.kill()
        living.wait()
        self.run_ok("events", "t.pb", "-o", "o.csv")
        self.assertEqual(self.temporary(), ["o.csv.xplane-AbC12", "o.csv.xplane-AbC1234",
                                            "p.csv.xplane-AbC123"])

    def test_a_writer_that_is_killed(self):
        """The next writer removes the temporary file of a killed writer."""
        self.write("many.pb", space(gpu(0, runs=20_000)))
        for _ in range(6):
            writer = subprocess.Popen([BINARY, "events", "many.pb", "-o", "k.csv"], cwd=self.at,
                                      env=environment())
            deadline = time.monotonic() + 10
            while writer.poll() is None and time.monotonic() < deadline:
                if any(each.startswith("k.csv.") for each in os.listdir(self.at)):
                    break
            writer.kill()
            writer.wait()
        self.run_ok("events", "t.pb", "-o", "k.csv")
        self.assertEqual([each for each in os.listdir(self.at) if each.startswith("k.csv.")], [])


if __name__ == "__main__":
    unittest.main()
