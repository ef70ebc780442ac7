"""Tests of planes --stats, which lists the stats of a trace in bounded memory."""
import json
import resource
import subprocess
import unittest

from harness import BINARY, EndToEndTest
from xspace import Plane, space


class Stats(EndToEndTest):
    def many(self, names):
        """A trace in which each name is a stat of one event, as a number or a text."""
        plane = Plane("/device:GPU:0")
        stream = plane.line("Stream #1(Kernel)")
        for i in range(names):
            stream.event("k", 1000 * i, 500, **{f"s{i}": i if i % 2 else "text"})
        return self.write("t.xplane.pb", space(plane))

    def stats(self, path, limit=None):
        def bound():
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        done = subprocess.run([str(BINARY), "planes", str(path), "--stats", "--format", "json"],
                              capture_output=True, timeout=60, preexec_fn=bound)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        plane, = json.loads(done.stdout)["planes"]
        return {(row["name"], row["type"]): row["count"] for row in plane["stats"]}, plane["events"]

    def test_every_name_is_counted_once(self):
        for names in (1, 2047, 2048, 2049, 5000):
            stats, events = self.stats(self.many(names))
            expected = {(f"s{i}", "int64" if i % 2 else "str"): 1 for i in range(names)}
            self.assertEqual((stats, events), (expected, names))

    def test_memory_does_not_grow_with_the_number_of_names(self):
        stats, _ = self.stats(self.many(50_000), limit=800 << 20)
        self.assertEqual(len(stats), 50_000)


if __name__ == "__main__":
    unittest.main()
