"""Tests of devices with other names than GPU and TPU, of traces without devices, and of files in
unsupported formats. The advice in the messages is followed."""
import gzip
import io
import lzma
import bz2
import json
import shlex
import shutil
import sqlite3
import subprocess
import tarfile
import unittest
import zipfile

from harness import TESTDATA, EndToEndTest, run
from xspace import Plane, data, gpu, space


def device(name, line="Stream #1", stats=True):
    plane = Plane(name)
    of = plane.line(line)
    for i in range(10):
        of.event("gemm", 1_000_000_000 + 110_000_000 * i, 100_000_000,
                 **({"hlo_module": "jit_f", "hlo_op": "fusion", "program_id": 5, "correlation_id": i + 1} if stats else {}))
    return plane


class OtherDevices(EndToEndTest):
    def devices(self, *words):
        return [(row["plane"], row["kind"], row["executions"], row["busy_ps"]) for row in self.run_json("a.xplane.pb", *words)["devices"]]

    def test_planes_of_devices_are_custom_or_of_their_kind(self):
        for name, kind in (("XPU:0", "custom"), ("NEURON:0", "custom"), ("METAL:0", "custom"), ("CUSTOM:Foo", "custom"),
                           ("XPU", "custom"), ("QNN:0 [7]", "custom"), ("XPU:0 (pid 7)", "custom"), ("GPU:0 (pid 7)", "gpu"),
                           ("GPU:0 [7]", "gpu"), ("GPU:0 (7)", "gpu"), ("gpu:0", "custom"), ("GPU:", "custom"), ("GPU:x", "custom")):
            with self.subTest(name):
                self.write("a.xplane.pb", space(device(f"/device:{name}"), Plane("/host:CPU")))
                want = [(f"/device:{name}", kind, 10, 1_000_000_000)]
                for words in ((), ("--device", "all"), ("--device", kind), ("--device", f"/device:{name}"),
                              ("--device", "re:device")):
                    self.assertEqual(self.devices(*words), want, words)

    def test_tpus_of_subprocesses(self):
        planes = [device(f"/device:TPU:{i} (pid {pid})", "XLA Ops", stats=False) for i in (0, 1) for pid in (7, 8)]
        self.write("a.xplane.pb", space(*planes))
        self.assertEqual([row[1:3] for row in self.devices()], [("tpu", 10)] * 4)
        self.assertEqual([row[0] for row in self.devices("--device", "tpu:1")], ["/device:TPU:1 (pid 7)", "/device:TPU:1 (pid 8)"])

    def test_names_as_tables_print_them(self):
        self.write("a.xplane.pb", space(device("/device:XPU:0"), device("/device:XPU:1"), device("/device:QNN:0")))
        for selector, names in (("XPU:0", ["XPU:0"]), ("XPU", ["XPU:0", "XPU:1"]), ("custom:0", ["XPU:0", "QNN:0"]), ("custom:1", ["XPU:1"])):
            self.assertEqual([row[0] for row in self.devices("--device", selector)], ["/device:" + name for name in names])

    def test_derived_lines_of_other_devices_are_no_executions(self):
        plane = device("/device:NEURON:0", "XLA Ops", stats=False)
        for name in ("Steps", "XLA Modules", "Framework Ops", "_counters_"):
            plane.line(name).event("x", 0, 10**12)
        self.write("a.xplane.pb", space(plane))
        self.assertEqual(self.devices(), [("/device:NEURON:0", "custom", 10, 1_000_000_000)])

    def test_host_planes_of_subprocesses(self):
        host = Plane("/host:CPU (pid 7)")
        host.line("tf_XLAEigen/1").event("dot", 0, 5_000, hlo_op="dot", hlo_module="jit_f", program_id=1, run_id=1)
        self.write("a.xplane.pb", space(host))
        self.assertEqual(self.devices(), [("/host:CPU (pid 7)", "cpu", 1, 5_000)])


class Advice(EndToEndTest):
    """The advice of messages works."""

    def refused(self, *words):
        done = run(*words, cwd=self.at)
        self.assertEqual((done.code, done.out), (65, b""), done)
        return done.message

    def test_a_device_that_is_not_there(self):
        self.write("a.xplane.pb", space(device("/device:XPU:0"), Plane("/host:metadata")))
        message = self.refused("a.xplane.pb", "--device", "gpu")
        self.assertIn("the trace has: /device:XPU:0 (10 events); choose one of these, or --device all", message)
        for advised in ("/device:XPU:0", "all"):
            self.assertEqual(len(self.run_json("a.xplane.pb", "--device", advised)["devices"]), 1)

    def test_no_device_at_all(self):
        self.write("a.xplane.pb", space(Plane("/host:metadata")))
        for words in ((), ("--device", "all"), ("--device", "gpu")):
            message = self.refused("a.xplane.pb", *words)
            self.assertIn("the trace has no device plane", message)
            self.assertNotIn("--device all", message)

    def test_another_device_executed_something(self):
        idle = Plane("/device:GPU:0")
        host = Plane("/host:CPU")
        host.line("t").event("dot", 0, 5_000, hlo_op="dot", hlo_module="jit_f", program_id=1, run_id=1)
        self.write("a.xplane.pb", space(idle, host))
        message = self.refused("a.xplane.pb")
        self.assertIn("choose with --device one of /host:CPU, or --device all", message)
        for advised in ("/host:CPU", "all"):
            self.assertEqual(self.run_json("a.xplane.pb", "--device", advised)["devices"][-1]["executions"], 1)

    def follow(self, message, trace):
        """Runs the command in the message on the trace."""
        command = shlex.split(message[message.index("xplane-time tree"):])
        command = command[1:command.index("shows")]
        return self.run_json(*(trace if word == "TRACE" else word for word in command))["tree"]

    def test_threads_of_a_host_that_ran_no_ops(self):
        host = Plane("/host:CPU")
        host.line("python").event("train", 0, 10_000)
        self.write("a.xplane.pb", space(host))
        for words in ((), ("--device", "cpu"), ("--device", "all")):
            rows = self.follow(self.refused("a.xplane.pb", *words), "a.xplane.pb")
            self.assertEqual([row["name"] for row in rows], ["train"])

    def test_tensorflow_beside_stats_of_launches(self):
        host = Plane("/host:CPU")
        host.line("tf_Compute/7").event("MatMul", 1_000, 500)
        host.line("python").event("train", 0, 10_000, correlation_id=0)
        self.write("a.xplane.pb", space(host))
        rows = self.follow(self.refused("a.xplane.pb"), "a.xplane.pb")
        self.assertEqual({row["line"] for row in rows}, {"tf_Compute/7"})


class OpsOnTheHost(EndToEndTest):
    """Ops of frameworks without XLA on host threads are the executions of traces without accelerators."""

    def ops(self, path, *options):
        report = self.run_json(path, *options)
        device, = report["devices"]
        self.assertEqual((device["plane"], device["kind"]), ("/host:CPU", "cpu"))
        self.assertEqual(report["functions"], [])
        return device, {row["kernel"]: (row["count"], row["total_ps"], row["self_ps"]) for row in report["kernels"]}

    def tensorflow(self, *more):
        host = Plane("/host:CPU")
        for thread in (7, 8):
            line = host.line(f"tf_Compute/{thread}")
            for i in range(3):
                line.event("ExecutorState::Process", 2_000 * i, 1_000)
                line.event("MatMul:MatMul", 2_000 * i + 100, 500, tf_op="MatMul")
        host.line("python").event("train", 0, 10_000)
        return self.write("a.xplane.pb", space(host, *more))

    def test_tensorflow(self):
        for options in ((), ("--device", "cpu"), ("--device", "all")):
            device, ops = self.ops(self.tensorflow(), *options)
            self.assertEqual((device["executions"], device["busy_ps"]), (12, 3_000))
            self.assertEqual(ops, {"MatMul:MatMul": (6, 3_000, 3_000), "ExecutorState::Process": (6, 6_000, 3_000)})

    def test_tensorflow_beside_a_gpu_that_ran(self):
        gpu = Plane("/device:GPU:0")
        gpu.line("Stream #1(Kernel)").event("gemm", 0, 10)
        report = self.run_json(self.tensorflow(gpu), "--device", "all")
        self.assertEqual([row["plane"] for row in report["devices"] if row["executions"]], ["/device:GPU:0"])
        self.assertEqual({row["kernel"] for row in report["kernels"]}, {"gemm"})

    def events(self, category):
        def event(name, start, duration, thread=2, cat=category):
            return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": duration}
        return [event("aten::linear", 10, 20), event("aten::addmm", 12, 15), event("aten::mm", 100, 7, thread=3),
                event("step", 0, 200, cat="user_annotation"), event("train.py(1): main", 0, 300, cat="python_function")]

    def test_pytorch(self):
        for category in ("cpu_op", "Operator"):
            path = self.write("a.json", json.dumps({"traceEvents": self.events(category)}))
            for options in ((), ("--device", "cpu"), ("--device", "all")):
                device, ops = self.ops(path, *options)
                self.assertEqual((device["executions"], device["busy_ps"]), (3, 27_000_000))
                self.assertEqual(ops, {"aten::linear": (1, 20_000_000, 5_000_000), "aten::addmm": (1, 15_000_000, 15_000_000),
                                       "aten::mm": (1, 7_000_000, 7_000_000)})

    def test_pytorch_by_thread(self):
        self.write("a.json", json.dumps({"traceEvents": self.events("cpu_op")}))
        rows = self.run_json("tree", "a.json", "--device", "all", "--line", "tid 3")["tree"]
        self.assertEqual([(row["name"], row["self_ps"]) for row in rows], [("aten::mm", 7_000_000)])

    def test_pytorch_whose_kernels_were_lost(self):
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 13, "dur": 2,
                  "args": {"correlation": 7}}
        self.write("a.json", json.dumps({"traceEvents": [*self.events("cpu_op"), launch]}))
        done = run("a.json", cwd=self.at)
        self.assertEqual(done.code, 65, done)
        self.assertIn("no executions on ", done.message)

    def test_other_commands(self):
        path = self.write("a.json", json.dumps({"traceEvents": self.events("cpu_op")}))
        for command in ("kernels", "where", "brief", "headroom", "fleet", "functions"):
            self.assertIn(run(command, path).code, (0, 65), command)
        device, = self.run_json("where", path)["devices"]
        self.assertEqual((device["span_ps"], device["compute_ps"], device["idle_ps"]), (97_000_000, 27_000_000, 70_000_000))


class OtherFormats(EndToEndTest):
    def refused(self, name, content):
        done = run(self.write(name, content).name, "--device", "all", cwd=self.at)
        self.assertEqual((done.code, done.out), (65, b""), done)
        piped = run("-", cwd=self.at, stdin=content)
        self.assertEqual((piped.code, piped.out), (65, b""), piped)
        self.assertEqual(piped.message.replace("standard input", name), done.message)
        return done.message

    def setUp(self):
        super().setUp()
        self.good = space(gpu(0, runs=3))
        self.want = self.run_json(self.write("good.xplane.pb", self.good))["devices"]

    def same(self, *words):
        self.assertEqual(self.run_json(*words)["devices"], self.want)

    def test_archives(self):
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            archive.add(self.at / "good.xplane.pb", "run/host.xplane.pb")
        self.assertIn("tar archive; unpack it (tar -xf)", self.refused("a.tar", tar.getvalue()))
        self.assertIn("tar archive; unpack it (tar -xf)", self.refused("a.tar.gz", gzip.compress(tar.getvalue())))
        subprocess.run(["tar", "-xf", "a.tar.gz"], cwd=self.at, check=True)
        self.same("run/host.xplane.pb")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("in.xplane.pb", self.good)
        self.assertIn("zip archive; unpack it", self.refused("a.zip", packed.getvalue()))
        zipfile.ZipFile(self.at / "a.zip").extractall(self.at)
        self.same("in.xplane.pb")

    def test_compressed(self):
        self.assertIn("decompress it (xz -d)", self.refused("a.xplane.pb.xz", lzma.compress(self.good)))
        self.assertIn("decompress it (bzip2 -d)", self.refused("a.xplane.pb.bz2", bz2.compress(self.good)))
        self.assertIn("decompress it (zstd -d)", self.refused("a.xplane.pb.zst", b"\x28\xb5\x2f\xfd" + bytes(40)))
        self.assertIn("decompress it (lz4 -d)", self.refused("a.xplane.pb.lz4", b"\x04\x22\x4d\x18" + bytes(40)))
        for program, suffix in (("xz", "xz"), ("bzip2", "bz2")):
            if shutil.which(program):
                subprocess.run([program, "-d", "-k", f"a.xplane.pb.{suffix}"], cwd=self.at, check=True)
                self.same("a.xplane.pb")
                (self.at / "a.xplane.pb").unlink()

    def test_databases(self):
        connection = sqlite3.connect(self.at / "nsys.sqlite")
        connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")
        connection.commit()
        connection.close()
        self.assertIn("SQLite database", self.refused("nsys.sqlite", (self.at / "nsys.sqlite").read_bytes()))

    def test_perfetto(self):
        self.run_ok("good.xplane.pb", "-o", "ours.pftrace")
        self.assertIn("Perfetto trace (.pftrace)", self.refused("ours.pftrace", (self.at / "ours.pftrace").read_bytes()))
        packets = b"".join(data(1, b"\x40" + bytes([i + 1]) + b"\x50\x01") for i in range(20))  # timestamp, sequence
        self.assertIn("Perfetto trace (.pftrace)", self.refused("theirs.pftrace", packets))

    def test_utf16(self):
        text = (TESTDATA / "kineto_training.json").read_text()
        for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
            self.assertIn("text in UTF-16; convert it to UTF-8", self.refused("a.json", text.encode(encoding)))
        self.write("b.json", text.encode("utf-16"))
        done = subprocess.run(["iconv", "-f", "UTF-16", "-t", "UTF-8", "b.json"], cwd=self.at, check=True, capture_output=True)
        self.write("c.json", done.stdout)
        self.assertEqual(self.run_json("c.json")["kernels"], self.run_json(TESTDATA / "kineto_training.json")["kernels"])


if __name__ == "__main__":
    unittest.main()
