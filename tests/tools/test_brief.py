"""Tests of brief: its commands run, its times add up, and its size is bounded."""
import shlex
import subprocess
import unittest

from harness import BINARY, REPOSITORY, TESTDATA, EndToEndTest, environment, run
from xspace import Plane, Ref, gpu, space, tpu

SPMD = TESTDATA / "jax_cpu_spmd4.xplane.pb"


class Brief(EndToEndTest):
    def brief(self, *words):
        return self.run_ok("brief", *words).text

    def run_ok(self, *words):
        done = run(*words, cwd=self.at)
        self.assertEqual((done.code, done.message), (0, ""))
        return done

    def document(self, *words):
        return self.run_ok("brief", *words, "--format", "json").json

    def test_times_add_up(self):
        for trace in sorted(TESTDATA.glob("*.xplane.pb")):
            with self.subTest(trace=trace.name):
                document = self.document(trace, "--limit", "100")
                devices, findings = document["devices"], document["findings"]
                known = [each["recoverable_ps"] for each in findings
                         if each["recoverable_ps"] is not None]
                measured = [each["recoverable_ps"] for each in findings
                            if each["code"] in ("exposed_collective", "exposed_copy", "host_bound", "launch_gap", "idle")]
                self.assertEqual(measured, sorted(measured, reverse=True))
                self.assertTrue(all(each["recoverable_ps"] is None for each in findings[len(known):]))
                self.assertEqual(sum(known), document["recoverable_ps"])
                self.assertEqual(sum(each["recoverable_ps"] for each in devices),
                                 document["recoverable_ps"])
                self.assertEqual(sum(each["span_ps"] for each in devices), document["span_ps"])
                for each in devices:
                    self.assertLessEqual(each["recoverable_ps"], each["span_ps"])
                for each in findings:
                    self.assertEqual(sum(part["recoverable_ps"] for part in each["parts"]),
                                     each["recoverable_ps"] or 0)
                    self.assertEqual(each["certainty"] == "cannot_tell",
                                     each["recoverable_ps"] is None)

    def test_planes_with_the_same_name_are_different_devices(self):
        def plane(duration):
            device = Plane("/device:GPU:0")
            stream = device.line("Stream #1(Kernel)")
            for i in range(6):
                stream.event("sort", i * duration, duration, hlo_module=Ref("jit_f"), hlo_op=Ref("op"), program_id=1)
            return device
        for durations in ((50_000_000, 100_000_000), (100_000_000, 50_000_000, 70_000_000)):
            path = self.at / "twins.xplane.pb"
            path.write_bytes(space(*map(plane, durations)))
            document = self.document(path)
            self.assertEqual([each["span_ps"] for each in document["devices"]], [6 * each for each in durations])
            largest, = (each for each in document["findings"] if each["code"] == "largest_op")
            self.assertLessEqual(len(largest["parts"]), len(durations))
            for each in document["devices"]:
                self.assertLessEqual(each["recoverable_ps"], each["span_ps"])
            if len(durations) == 2:
                self.assertEqual([part["recoverable_ps"] for part in largest["parts"]], [6 * each for each in durations])
            for command in ("report", "where", "functions", "headroom", "fleet"):
                text = self.run_ok(command, path, "--wide").text
                self.assertIn("GPU:0 (plane 2)", text, command)
            kernels = self.run_ok("kernels", path, "--format", "json").json["kernels"]
            self.assertEqual(sorted(each["total_ps"] for each in kernels), sorted(6 * each for each in durations))
            self.assertEqual([each["share"] for each in kernels], [1] * len(durations))
            energies = {each["busy_ps"] for each in self.run_ok("report", path, "--format", "json").json["devices"]}
            self.assertEqual(energies, {6 * each for each in durations})

    def test_one_execution_is_no_average(self):
        for runs in (1, 2):
            device = Plane("/device:GPU:0")
            stream = device.line("Stream #1(Kernel)")
            for i in range(runs):
                stream.event("sort", i * 1_000_000, 1_000_000, hlo_module=Ref("jit_f"), hlo_op=Ref("op"), program_id=1)
            path = self.at / "one.xplane.pb"
            path.write_bytes(space(device))
            largest, = (each for each in self.document(path)["findings"] if each["code"] == "largest_op")
            times = "1 execution, 1.00 us" if runs == 1 else "2 executions, 1.00 us each on average"
            self.assertIn(times + ", without the time", largest["evidence"])

    def test_the_headline_is_cut_last(self):
        path = TESTDATA / "gpu" / "h200_train.xplane.pb.gz"
        headline = self.document(path)["headline"]
        for size in (64, 80, 100, len(headline), len(headline) + 1, 150, 200, 300, 600, 1200):
            for form in ("table", "markdown"):
                text = self.run_ok("brief", path, "--bytes", size, "--format", form).text
                self.assertLessEqual(len(text.encode()), size)
                first = text.splitlines()[0].replace("\\", "")
                if size >= len(headline) + 10:
                    self.assertEqual(first, headline, (size, form))
                else:
                    self.assertTrue(headline.startswith(first.partition("...")[0].strip()), (size, first))
                    self.assertGreater(len(first), size // 2)

    def test_every_command_runs_as_it_is(self):
        name = "it's a $trace é.xplane.pb"
        for trace in sorted(TESTDATA.glob("*.xplane.pb")):
            (self.at / name).write_bytes(trace.read_bytes())
            for device in ((), ("--device", "cpu")):
                for each in self.document(name, *device, "--limit", "100")["findings"]:
                    with self.subTest(command=each["command"]):
                        env = environment(PATH=f"{BINARY.parent}:/usr/bin:/bin")
                        done = subprocess.run(["bash", "-c", each["command"]], cwd=self.at, env=env,
                                              capture_output=True, timeout=60)
                        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_a_path_that_begins_with_a_dash(self):
        (self.at / "-dash.xplane.pb").write_bytes(SPMD.read_bytes())
        for path in (("--", "-dash.xplane.pb"), ("./-dash.xplane.pb",)):
            for each in run("brief", "--format", "json", *path, cwd=self.at).json["findings"]:
                env = environment(PATH=f"{BINARY.parent}:/usr/bin:/bin")
                done = subprocess.run(["bash", "-c", each["command"]], cwd=self.at, env=env,
                                      capture_output=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, b""), each["command"])

    def test_text_is_at_most_so_many_bytes(self):
        whole = self.brief(SPMD)
        self.assertEqual(whole.count("see: "), 2)
        for size in range(64, len(whole.encode()) + 2, 37):
            text = self.brief(SPMD, "--bytes", str(size))
            self.assertLessEqual(len(text.encode()), size)
            self.assertEqual(text.count("see: "), text.count("\n1. ") + text.count("\n2. "))
        document = self.run_ok("brief", SPMD, "--format", "json").out
        one = self.run_ok("brief", SPMD, "--format", "json", "--bytes", str(len(document) - 1))
        self.assertLess(len(one.out), len(document))
        self.assertEqual((len(one.json["findings"]), one.json["left_out"], one.json["ops"]), (2, 0, []))
        less = self.run_ok("brief", SPMD, "--format", "json", "--bytes", str(len(one.out) - 1))
        self.assertEqual((len(less.json["findings"]), less.json["left_out"], less.json["ops"]), (1, 1, []))

    def test_json_that_cannot_be_so_short_says_what_it_needs(self):
        done = run("brief", SPMD, "--format", "json", "--bytes", "100")
        self.assertEqual((done.code, done.out), (64, b""))
        self.assertRegex(done.message, "^xplane-time: --bytes 100: .* use a larger number\n$")
        needed = done.message.split(" bytes;")[0].split()[-1]
        self.assertEqual(self.document(SPMD, "--bytes", needed)["left_out"], 2)

    def test_limit(self):
        self.assertEqual(len(self.document(SPMD, "--limit", "1")["findings"]), 1)
        self.assertIn("1 more finding", self.brief(SPMD, "--limit", "1"))
        none = self.document(SPMD, "--limit", "0")
        self.assertEqual((none["findings"], none["left_out"]), ([], 2))

    def test_nothing_to_find_is_one_sentence(self):
        device = Plane("/device:GPU:0")
        line = device.line("Stream #1(Kernel)")
        for at in range(20):
            line.event("gemm", at * 1000, 1000)
        (self.at / "busy.xplane.pb").write_bytes(space(device))
        text = self.brief("busy.xplane.pb", "--device", "gpu")
        self.assertEqual(text.splitlines()[:2],
                         ["device-bound: the device is busy 100 % of the time; largest op: gemm, 20.0 ns of 20.0 ns "
                          "(100 %)",
                          "GPU:0: 20.0 ns from first start to last end; no finding could save 1 % of it"])

    def test_runs_without_kernels_have_no_cause(self):
        # A TPU with module runs, but without ops. The program crashed.
        path = REPOSITORY / "tests" / "fuzz" / "corpus" / "trace" / "brief_without_devices"
        done = run("brief", path)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.text.splitlines(), ["unclear: no device executed a kernel",
                                                  "0 devices: there are no kernels to rank"])
        done = run("brief", path, "--format", "json").json
        self.assertEqual((done["devices"], done["findings"], done["span_ps"]), ([], [], 0))

    def test_two_runs_of_a_directory_are_told_apart(self):
        for host in ("one", "two"):
            path = self.at / "run" / f"{host}.xplane.pb"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(space(gpu(0), tpu(0), hostnames=[host]))
        document = self.document("run")
        self.assertEqual(len(document["devices"]), 4)
        self.assertEqual({each["host"] for each in document["devices"]}, {"one", "two"})


if __name__ == "__main__":
    unittest.main()
