"""Tests the recorded source of a measurement, which git provides. Programs that the repository or the
environment names must not run."""
import json
import os
import shutil
import subprocess
import unittest

from harness import environment, run
from test_grid import GridTest
from test_verify import files_of

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.com")


@unittest.skipIf(shutil.which("git") is None, "there is no git here")
class Provenance(GridTest):
    samples = 2

    def setUp(self):
        super().setUp()
        self.repository = self.at / "repository"
        self.repository.mkdir()
        self.git("init", "-q")
        (self.repository / "tracked.txt").write_text("one\n")
        self.commit()
        self.marker = self.at / "ran"
        self.program = self.at / "program.sh"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.marker}\ncat\n')
        self.program.chmod(0o755)

    def git(self, *arguments, where=None):
        return subprocess.run(["git", "-C", where or self.repository, *IDENTITY, *arguments],
                              check=True, capture_output=True, text=True,
                              env=environment(HOME=str(self.at))).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def source(self, **variables):
        """The source that grid records when it runs in the repository."""
        shutil.rmtree(self.at / "out", ignore_errors=True)
        here = {"space.json": self.at / "space.json", "out": self.at / "out"}
        done = run(*(here.get(each, each) for each in self.command()), cwd=self.repository,
                   env=environment(HOME=str(self.at), XDG_RUNTIME_DIR=str(self.at), **variables))
        self.assertEqual(done.code, 0, done.message)
        bundle = (self.at / "out" / "witness.zip").read_bytes()
        return json.loads(files_of(bundle)["manifest.json"])["source"]

    def head(self):
        return self.git("rev-parse", "HEAD")

    def test_revision_and_changes(self):
        self.assertEqual(self.source(), {"revision": self.head(), "changed": False, "reason": None})
        (self.repository / "tracked.txt").write_text("two\n")
        self.assertEqual(self.source(), {"revision": self.head(), "changed": True, "reason": None})

    def test_nothing_of_the_configuration_is_run(self):
        program = str(self.program)
        hooks = self.repository / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit"):
            os.symlink(program, hooks / name)
        configured = {"core.fsmonitor": program, "core.pager": program, "pager.status": program,
                      "core.sshCommand": program, "core.editor": program, "diff.external": program,
                      "core.askPass": program, "credential.helper": program,
                      "protocol.ext.allow": "always", "remote.origin.promisor": "true",
                      "remote.origin.url": f"ext::{program}",
                      "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1"}
        for name, value in configured.items():
            self.git("config", name, value)
        for change in (False, True):
            os.utime(self.repository / "tracked.txt", (1, 1 + change))
            if change:
                (self.repository / "tracked.txt").write_text("two\n")
            found = self.source()
            self.assertFalse(self.marker.exists(), "a program of the repository ran")
            self.assertEqual(found["changed"], change)

    def test_a_missing_object_is_not_fetched(self):
        head = self.head()
        tree = self.git("rev-parse", "HEAD^{tree}")
        (self.repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
        for name, value in {"protocol.ext.allow": "always", "remote.origin.promisor": "true",
                            "remote.origin.url": f"ext::{self.program}",
                            "remote.origin.partialclonefilter": "blob:none",
                            "extensions.partialClone": "origin",
                            "core.repositoryFormatVersion": "1"}.items():
            self.git("config", name, value)
        found = self.source()
        self.assertFalse(self.marker.exists(), "a transport of the repository ran")
        self.assertEqual(found["revision"], head)
        self.assertIsNone(found["changed"])
        self.assertIsNotNone(found["reason"])

    def test_filters_are_not_run(self):
        (self.repository / ".gitattributes").write_text("*.bin filter=mine\n")
        (self.repository / "a.bin").write_text("one\n")
        self.commit()
        for kind in ("clean", "process", "smudge"):
            self.git("config", f"filter.mine.{kind}", f"{self.program} {kind}")
        self.git("config", "filter.mine.required", "true")
        os.utime(self.repository / "a.bin", (1, 1))
        self.assertEqual(self.source()["changed"], False)
        (self.repository / "a.bin").write_text("two\n")
        found = self.source()
        self.assertIsNone(found["changed"], "only the filter could tell")
        self.assertIn("filters", found["reason"])
        (self.repository / "tracked.txt").write_text("two\n")
        self.assertEqual(self.source()["changed"], True, "this file has no filter")
        self.assertFalse(self.marker.exists(), "a filter of the repository ran")

    def test_a_filter_whose_name_hides_it_is_not_run(self):
        (self.repository / ".gitattributes").write_text("*.bin filter=a=b\n")
        (self.repository / "a.bin").write_text("one\n")
        self.commit()
        with open(self.repository / ".git" / "config", "a", encoding="utf-8") as file:
            file.write(f'[filter "a=b"]\n\tclean = {self.program}\n')
        os.utime(self.repository / "a.bin", (1, 1))
        self.assertIsNone(self.source()["changed"])
        self.assertFalse(self.marker.exists(), "a filter of the repository ran")

    def test_submodules_are_not_entered(self):
        inner = self.at / "inner"
        inner.mkdir()
        self.git("init", "-q", where=inner)
        (inner / "file").write_text("one\n")
        self.git("add", "-A", where=inner)
        self.git("commit", "-q", "-m", "x", where=inner)
        self.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
        self.commit()
        self.git("config", "core.fsmonitor", str(self.program), where=self.repository / "sub")
        self.assertEqual(self.source()["changed"], False)
        self.assertFalse(self.marker.exists(), "a program of the submodule ran")

    def test_variables_of_git_do_not_lead_elsewhere(self):
        other = self.at / "other"
        other.mkdir()
        self.git("init", "-q", where=other)
        self.git("commit", "-q", "--allow-empty", "-m", "other", where=other)
        found = self.source(GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other),
                            GIT_INDEX_FILE=str(self.at / "index"), GIT_PAGER=str(self.program),
                            GIT_EXTERNAL_DIFF=str(self.program), GIT_CONFIG_COUNT="1",
                            GIT_CONFIG_KEY_0="core.fsmonitor",
                            GIT_CONFIG_VALUE_0=str(self.program),
                            GIT_CONFIG_PARAMETERS=f"'core.fsmonitor'='{self.program}'")
        self.assertEqual(found, {"revision": self.head(), "changed": False, "reason": None})
        self.assertFalse(self.marker.exists(), "a program of the environment ran")

    def test_no_repository(self):
        shutil.rmtree(self.repository / ".git")
        found = self.source()
        self.assertEqual((found["revision"], found["changed"]), (None, None))
        self.assertIn("not in a git repository", found["reason"])


if __name__ == "__main__":
    unittest.main()
