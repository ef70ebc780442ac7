"""Traces of PyTorch's profiler (Kineto), through the program."""
import gzip
import json
import math
import unittest

from harness import SHARED_TRACES, EndToEndTest, run

KINETO = SHARED_TRACES / "kineto"


def event(cat, pid, tid, ts, dur, name="k", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


EVENTS = [event("cuda_runtime", 42, 43, 1, 2, "cudaLaunchKernel", correlation=1),
          event("kernel", 0, 7, 10, 5, "gemm", correlation=1, grid=[2, 1, 1]),
          event("kernel", 0, 20, 12.5, 4.25, "gemm", correlation=1),
          event("gpu_memcpy", 1, 7, 30, 1, "Memcpy HtoD", correlation=0),
          event("gpu_user_annotation", 0, 7, 9, 9, "step")]


def trace(events=EVENTS, **more):
    return json.dumps({"schemaVersion": 1, "traceEvents": events, **more}).encode()


class Kineto(EndToEndTest):
    def test_devices_and_kernels(self):
        report = self.run_json(self.write("a.json", trace()))
        devices = {row["plane"]: (row["executions"], row["busy_ps"], row["sum_ps"]) for row in report["devices"]}
        self.assertEqual(devices, {"/device:GPU:0": (2, 6_750_000, 9_250_000), "/device:GPU:1": (1, 1_000_000, 1_000_000)})
        kernels = {row["kernel"]: (row["count"], row["total_ps"], row["category"]) for row in report["kernels"]}
        self.assertEqual(kernels, {"gemm": (2, 9_250_000, "compute"), "Memcpy HtoD": (1, 1_000_000, "copy")})
        self.assertEqual(report["capture"]["events"], len(EVENTS))
        self.assertEqual([row["bytes"] for row in report["inputs"]], [len(trace())])

    def test_every_way_of_giving_it(self):
        want = self.run_json(self.write("a.json", trace()))
        for name, content in {"a.json.gz": gzip.compress(trace()), "no_extension": trace(),
                              "array.json": json.dumps(EVENTS).encode()}.items():
            for command in ("report", "kernels", "planes", "events"):
                with self.subTest(f"{command} {name}"):
                    got = self.run_json(command, self.write(name, content))
                    plain = self.run_json(command, "a.json")
                    for rows in ("devices", "kernels", "planes", "events"):
                        self.assertEqual(got.get(rows), plain.get(rows))
        for content in (trace(), gzip.compress(trace())):
            self.assertEqual(self.run_json("-", stdin=content)["kernels"], want["kernels"])

    def test_a_directory_gives_its_ranks(self):
        self.write("run/rank0.pt.trace.json", trace())
        self.write("run/rank1.pt.trace.json.gz", gzip.compress(trace(baseTimeNanoseconds=5_000)))
        self.write("run/settings.json", b'{"learning_rate": 0.1}')
        report = self.run_json("run")
        self.assertEqual([row["path"] for row in report["inputs"]],
                         ["run/rank0.pt.trace.json", "run/rank1.pt.trace.json.gz"])
        self.assertEqual(sum(row["executions"] for row in report["devices"]), 6)

    def test_what_is_wrong_is_said(self):
        odd = [*EVENTS, event("kernel", 0, 7, 1, -1), event("kernel", 0, 7, 1, None)]
        report = self.run_json(self.write("a.json", trace(odd).replace(b"gemm", b"g\xff")))
        told = {row["code"]: row["count"] for row in report["diagnostics"]}
        for code, count in {"irregular_json": 2, "negative_duration": 1, "incomplete_event": 1}.items():
            self.assertEqual(told.get(code), count, code)
        self.assertEqual({row["kernel"] for row in report["kernels"]}, {"g\ufffd", "Memcpy HtoD"})

    def test_refused(self):
        host_only = trace(EVENTS[:1])
        for content, why in ((trace()[:-1], f"it ends in the middle (byte {len(trace()) - 1})"),
                             (trace() + b"x", f"more than one document (byte {len(trace())})"),
                             (b'{"events": []}', 'without "traceEvents"'),
                             (host_only, "executed nothing")):
            self.write("a.json", content)
            done = run("a.json", cwd=self.at)
            self.assertEqual(done.code, 65, done)
            self.assertIn(why, done.message)


@unittest.skipUnless(KINETO.is_dir(), "no shared traces here")
class KnownAnswers(EndToEndTest):
    """Devices, kernels and events as somebody else computed them."""

    def same(self, got, want):
        self.assertTrue(math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-6), f"{got} is not {want}")

    def check(self, path, want):
        report = self.run_json(path, "--device", "all")
        self.assertEqual(report["capture"]["events"], want["events"])
        devices = {row["plane"]: row for row in report["devices"]}
        for row in want["devices"]:
            for name in ("executions", "busy_ps", "sum_ps"):
                self.same(devices[row["plane"]][name], row[name])
            for name in ("first_ps", "last_ps"):
                self.assertEqual(devices[row["plane"]][name] + 1000 * report["capture"]["base_ns"],
                                 row[name] + 1000 * want["base_ns"])
        kernels = {(row["plane"], row["kernel"]): row for row in report["kernels"]}
        for row in want["kernels"]:
            if any(character < " " for character in row["kernel"]):
                continue  # shown escaped
            for name in ("count", "total_ps", "min_ps", "max_ps"):
                self.same(kernels[row["plane"], row["kernel"]][name], row[name])

    def test_answers(self):
        checked = 0
        for folder in (KINETO, KINETO / "quirks"):
            for path in sorted((folder / "answers").glob("*.json")):
                want = json.loads(path.read_text())
                if not want["devices"]:
                    continue
                with self.subTest(path.name):
                    self.check(folder / want["trace"], want)
                    checked += 1
        self.assertGreater(checked, 10)

    def test_damaged(self):
        for path in sorted((KINETO / "quirks" / "damaged").iterdir()):
            done = run(path, cwd=self.at)
            self.assertEqual(done.code, 65, path)
            self.assertTrue(done.message)


if __name__ == "__main__":
    unittest.main()
