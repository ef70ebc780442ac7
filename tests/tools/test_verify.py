"""Tests of verify with changed bundles. In some of them, the hashes were changed too."""
import hashlib
import io
import json
import os
import random
import sys
import unittest
import zipfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

from harness import HERE, EndToEndTest, environment, in_parallel, run
from test_tune import THREE, space


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def files_of(bundle):
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def chain(samples):
    """Makes a new witness with valid hashes, like a forger."""
    lines = []
    for sample in samples:
        previous = sha256(lines[-1].encode()) if lines else None
        lines.append(canonical({"previous": previous, "sample": sample,
                                "sha256": sha256(canonical(sample).encode())}))
    return "".join(line + "\n" for line in lines).encode()


def samples_of(witness):
    return [json.loads(line)["sample"] for line in witness.splitlines()]


def header(name, content, directory_at=None):
    """A local header, or with `directory_at` an entry of the directory."""
    import struct
    import zlib
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, zlib.crc32(content), len(content),
                         len(content), len(name), 0)
    if directory_at is None:
        return b"PK\3\4" + fields + name
    return (b"PK\1\2" + struct.pack("<H", 3 << 8 | 20) + fields +
            struct.pack("<HHHII", 0, 0, 0, 0o100644 << 16, directory_at) + name)


def packed(files):
    """A bundle of these files with matching manifest, checksums and comment."""
    import struct
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = [{"name": name, "bytes": len(content), "sha256": sha256(content)}
                         for name, content in files.items() if name != "manifest.json"]
    manifest["fingerprint"] = sha256(canonical(manifest["configuration"]).encode())
    files = {**files, "manifest.json": json.dumps(manifest).encode()}
    body = directory = b""
    for name, content in files.items():
        directory += header(name.encode(), content, len(body))
        body += header(name.encode(), content) + content
    comment = b"xplane-time bundle; SHA-256 of manifest.json: " + sha256(
        files["manifest.json"]).encode()
    end = struct.pack("<HHHHIIH", 0, 0, len(files), len(files), len(directory), len(body),
                      len(comment))
    return body + directory + b"PK\5\6" + end + comment


class BundleTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.environment = environment(XDG_RUNTIME_DIR=str(self.at))

    def run_here(self, *arguments):
        return run(*arguments, cwd=self.at, env=self.environment)

    def verify(self, bundle, name="changed.zip"):
        self.write(name, bundle)
        done = self.run_here("verify", name, "--format", "json")
        self.assertIn(done.code, (0, 65), done.message)
        self.assertEqual(done.json["sound"], done.code == 0)
        self.assertEqual(done.json["sha256"], sha256(bundle))
        if jsonschema is not None:
            schema = json.loads(run("verify", "--json-schema").text)
            jsonschema.Draft202012Validator(schema).validate(done.json)
        return done.json

    def assert_problem(self, bundle, file, what, line=None):
        found = self.verify(bundle)
        self.assertFalse(found["sound"])
        self.assertEqual(found["problems"][0]["file"], file, found["problems"])
        self.assertIn(what, found["problems"][0]["what"])
        if line is not None:
            self.assertEqual(found["problems"][0]["line"], line)


class TuneBundle(BundleTest):
    def setUp(self):
        super().setUp()
        self.write("space.json", space(*THREE))
        self.run_here("tune", "space.json", "--quiet", "--baseline", '{"cost": 160}', "--",
                      sys.executable, HERE / "fake_harness.py", self.at / "log")
        done = self.run_here("tune", "export", "--bundle", "b.zip")
        self.assertEqual(done.code, 0, done.message)
        self.bundle = (self.at / "b.zip").read_bytes()
        self.assertEqual(done.text, f"{sha256(self.bundle)}  b.zip\n")

    def test_it_is_sound_and_its_decision_is_made_again(self):
        found = self.verify(self.bundle)
        self.assertEqual(found["kind"], "tune")
        self.assertEqual(found["checked"], ["hashes", "witness chains", "decision"])
        self.assertEqual(found["decision"]["pick"], found["decision"]["replayed_pick"])
        self.assertEqual(found["decision"]["claim"], found["decision"]["replayed_claim"])
        self.assertEqual(found["decision"]["differences"], [])
        text = self.run_here("verify", "b.zip").text
        self.assertIn("sound: b.zip", text)
        self.assertIn(found["sha256"], text)

    def test_a_thousand_random_changes_of_a_byte_are_found(self):
        chance = random.Random(19)

        def is_found(number):
            changed = bytearray(self.bundle)
            at = chance.randrange(len(changed))
            changed[at] ^= chance.randrange(1, 256)
            name = f"changed{number}.zip"
            (self.at / name).write_bytes(changed)
            done = self.run_here("verify", name)
            return done.code == 65 or (at, done.code, done.message)

        self.assertEqual(set(in_parallel(is_found, range(1000))), {True})

    def test_a_change_names_file_and_line(self):
        at = self.bundle.index(b'"t_ps":', self.bundle.index(b"witness/rounds.jsonl")) + 8
        changed = bytearray(self.bundle)
        changed[at] = ord("1") if changed[at] != ord("1") else ord("2")
        start = self.bundle.index(files_of(self.bundle)["witness/rounds.jsonl"])
        line = self.bundle[start:at].count(b"\n") + 1
        self.assert_problem(bytes(changed), "witness/rounds.jsonl", " and now is ", line)
        self.assertIn("witness/rounds.jsonl", self.run_here("verify", "changed.zip").text)

    def test_what_is_forged_with_all_its_hashes_is_not_what_the_rounds_give(self):
        files = files_of(self.bundle)
        self.assertTrue(self.verify(packed(files))["sound"], "packing alone changes nothing")
        session = json.loads(files["session.json"])
        other = next(each["id"] for each in session["variants"]
                     if each["id"] != session["verdict"]["pick"])

        def with_verdict(**changes):
            forged = {**session, "verdict": {**session["verdict"], **changes}}
            manifest = json.loads(files["manifest.json"])
            manifest["result"] = {name: forged["verdict"][name] for name in ("pick", "claim")}
            return packed({**files, "session.json": json.dumps(forged).encode(),
                           "manifest.json": json.dumps(manifest).encode()})

        what = "its verdict differs from the result of its rounds: "
        self.assert_problem(with_verdict(pick=other), "session.json", what + "pick")
        self.assert_problem(with_verdict(claim="tie"), "session.json", what + "claim")
        self.assert_problem(with_verdict(claim="separated"), "session.json", "claim: unknown claim")
        variants = json.loads(json.dumps(session["verdict"]["variants"]))
        variants[1]["ratio_ci"] = [5, 6]
        self.assert_problem(with_verdict(variants=variants), "session.json", what + "variants")
        self.assert_problem(with_verdict(mde=0.5), "session.json", what + "mde")
        verdict = session["verdict"]
        for name, value in (("device", "x"), ("device_class", "H100"), ("driver", "x"),
                            ("framework", "x"), ("flags", "x"), ("code_hash", "x")):
            self.assert_problem(with_verdict(harness={**verdict["harness"], name: value}),
                                "session.json", f"{what}harness.{name}")
        for changes in ({"objective": "energy"}, {"energy_kind": "measured"}, {"session": 9},
                        {"search": {"strategy": "halving:2", "searched": 3, "raced": 2, "stages": 1,
                                    "rounds": 4, "runs": 9, "proposed": 0, "refused": 0,
                                    "repeated": 0}},
                        {"canary": {"rounds": 5, "ratio": 1.0, "ci": None, "biased": False}}):
            name = next(iter(changes))
            found = self.verify(with_verdict(**changes))
            self.assertIn(name, found["decision"]["differences"], changes)
            self.assertFalse(found["sound"])
        for name, value in (("spike_rate", 0.25), ("p95_ratio", 3.0), ("mem_bytes", 5)):
            variants = json.loads(json.dumps(verdict["variants"]))
            self.assertNotEqual(variants[0].get(name), value)
            variants[0][name] = value
            self.assert_problem(with_verdict(variants=variants), "session.json", what + "variants")
        found = self.verify(self.bundle)
        for name in found["not_compared"]:
            self.assertRegex(name, r"^(created_unix_s|machine|source|versions|verdict\.[a-z._]+)$")
        self.assertIn("verdict.stop_reason", found["not_compared"])
        manifest = json.loads(files["manifest.json"])
        manifest["configuration"]["device_class"] = "H100"
        self.assert_problem(packed({**files, "manifest.json": json.dumps(manifest).encode()}),
                            "manifest.json", "configuration: differs from the session of session.json")
        manifest = json.loads(files["manifest.json"])
        manifest["result"]["pick"] = other
        self.assert_problem(packed({**files, "manifest.json": json.dumps(manifest).encode()}),
                            "manifest.json", "result: differs from the pick and the claim")
        confirmation = {**session["verdict"]["confirmation"], "speedup": 3}
        self.assert_problem(with_verdict(confirmation=confirmation), "session.json",
                            what + "confirmation")
        rounds = samples_of(files["witness/rounds.jsonl"])
        for each in rounds[2:]:
            for sample in each["samples"]:
                sample["t_ps"] //= 2 if sample["id"] == other else 1
        self.assert_problem(packed({**files, "witness/rounds.jsonl": chain(rounds)}),
                            "session.json", what)

    def test_a_broken_chain_names_its_line_though_the_manifest_agrees(self):
        files = files_of(self.bundle)
        lines = files["witness/rounds.jsonl"].splitlines(keepends=True)
        without = b"".join(lines[:3] + lines[4:])
        self.assert_problem(packed({**files, "witness/rounds.jsonl": without}),
                            "witness/rounds.jsonl", "SHA-256 of the previous line", 4)

    def test_rows_that_are_no_rounds_are_refused(self):
        files = files_of(self.bundle)
        rounds = samples_of(files["witness/rounds.jsonl"])
        rounds[2]["samples"][0]["slot"] = "first"
        self.assert_problem(packed({**files, "witness/rounds.jsonl": chain(rounds)}),
                            "witness/rounds.jsonl", "samples[0].slot: must be a whole number", 3)
        self.assert_problem(packed({**files, "session.json": b"{}"}), "session.json", "session")
        self.assert_problem(packed({**files, "session.json": b"[" * 100000}), "session.json",
                            "nested more than 64 levels")

    def test_archives_of_others_are_refused(self):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            other = io.BytesIO()
            with zipfile.ZipFile(other, "w", compression) as archive:
                for name, content in files_of(self.bundle).items():
                    archive.writestr(name, content)
            self.assert_problem(other.getvalue(), "changed.zip", "packed again by another program")
            self.assertEqual(len(self.verify(other.getvalue())["problems"]), 1)
            with zipfile.ZipFile(other, "a", compression) as archive:
                archive.writestr("more.txt", b"x")
            self.assertEqual(self.verify(other.getvalue())["problems"][1]["file"], "more.txt")
        for content in (b"PK\3\4", b"PK\5\6" + bytes(18)):
            self.assertFalse(self.verify(content)["sound"])
        for content in (b"", b"setting,n\na,1\n"):
            self.write("results.csv", content)
            done = self.run_here("verify", "results.csv")
            self.assertEqual(done.code, 65)
            self.assertIn("results.csv: not a bundle; give the witness.zip", done.message)

    def test_names_that_leave_the_folder_are_refused(self):
        for name in ("../x", "/etc/passwd", "a/../../x", "a\\b"):
            other = io.BytesIO()
            with zipfile.ZipFile(other, "w") as archive:
                archive.writestr(name, "x")
            self.assert_problem(other.getvalue(), "changed.zip", "an invalid name")

    def test_what_is_not_there_has_its_exit(self):
        self.assertEqual(self.run_here("verify", "none.zip").code, 66)
        self.assertEqual(self.run_here("verify").code, 64)
        done = self.run_here("verify", self.at)
        self.assertEqual(done.code, 64)
        self.assertIn(f"give its {self.at}/witness.zip", done.message)

    def test_what_is_no_file_of_a_fitting_size_is_refused_unread(self):
        os.mkfifo(self.at / "pipe")
        for path in ("pipe", "/dev/zero", "/dev/null"):
            done = self.run_here("verify", path)
            self.assertEqual(done.code, 64, done.message)
            self.assertIn(f"{path}: not a regular file", done.message)
        for name, begin in (("large.zip", b"PK"), ("large", b"x")):
            with open(self.at / name, "wb") as file:
                file.write(begin)
                file.truncate(3 << 30)
            done = run("verify", name, cwd=self.at, env=self.environment, limit_bytes=1 << 28)
            self.assertEqual(done.code, 65, done.message)
            self.assertIn("the maximum size of a bundle", done.message)
        with open(self.at / "other", "wb") as file:
            file.truncate(1 << 30)
        done = run("verify", "other", cwd=self.at, env=self.environment, limit_bytes=1 << 28)
        self.assertEqual(done.code, 65, done.message)
        self.assertIn("not a bundle", done.message)
        done = run("verify", "/dev/stdin", cwd=self.at, env=self.environment,
                   stdin=open(self.at / "b.zip", "rb"))
        self.assertEqual(done.code, 0, done.message)

    def test_a_session_without_a_verdict_has_no_bundle(self):
        done = self.run_here("tune", "export", 7, "--bundle", "c.zip")
        self.assertEqual(done.code, 66, done.message)
        self.assertFalse((self.at / "c.zip").exists())


if __name__ == "__main__":
    unittest.main()
