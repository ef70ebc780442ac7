"""Tests of xplane_time.torch with fake modules, and with PyTorch if it is installed.

PyTorch is the package of Debian (python3-torch, CPU), which python/tests/run.sh finds. The sensors are
fake sysfs files, stated powers, and the scripted NVML of tests/power.
"""
import bisect
import contextlib
import csv
import functools
import importlib.util
import io
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import time
import types
import unittest
import warnings
from typing import NamedTuple
from unittest import mock

import test_docs
import xplane_time
from xplane_time import power
from xplane_time.torch import CaptureError, LayerPowerProfiler, capture, profile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FAKE_NVML = REPOSITORY / "build" / "tests" / "libfake_nvml.so"
HAS_PANDAS = importlib.util.find_spec("pandas") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None
ATTRIBUTED = ["attributed_power_w", "attributed_energy_j", "attributed_energy_j_ci95_lo",
              "attributed_energy_j_ci95_hi", "attributed_reason"]
COLUMNS = ["layer_name", "exec_id", "start_time", "end_time", "duration_ms", "start_power_w",
           "end_power_w", "avg_power_w", "energy_j"]


class Module:
    """The part of torch.nn.Module that the profiler uses."""

    def __init__(self, forward=None, **children):
        self.forward, self.parts, self.training = forward, children, True
        self.before, self.after = [], []

    def __call__(self, *args, **kwargs):
        for hook in list(self.before):
            hook(self, args)
        result = self.run(*args, **kwargs)
        for hook in list(self.after):
            hook(self, args, result)
        return result

    def run(self, *args, **kwargs):
        if self.forward is not None:
            return self.forward(*args, **kwargs)
        for part in self.parts.values():
            part()
        return None

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, part in self.parts.items():
            yield from part.named_modules(f"{prefix}.{name}".lstrip("."))

    def children(self):
        return iter(self.parts.values())

    def parameters(self):
        return iter(())

    def eval(self):
        for _, module in self.named_modules():
            module.training = False

    def register_forward_pre_hook(self, hook):
        return self.register(self.before, hook)

    def register_forward_hook(self, hook):
        return self.register(self.after, hook)

    @staticmethod
    def register(hooks, hook):
        hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: hooks.remove(hook))

    def hooks_left(self):
        return sum(len(each.before) + len(each.after) for _, each in self.named_modules())


class Device(NamedTuple):
    type: str


def nothing(*_, **__):
    pass


def summary_of(profiler):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        profiler.print_summary()
    return out.getvalue()


class World(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def gpu(self, number, watts):
        """Adds a GPU to the fake sysfs."""
        hwmon = self.at / "class/hwmon" / f"hwmon{number}"
        device = self.at / "devices/pci0000:00" / f"0000:0{number}:00.0"
        for folder in (hwmon, device):
            folder.mkdir(parents=True)
        (device / "device").write_text("0x74a1")
        (device / "product_name").write_text(f"Instinct {number}")
        (hwmon / "device").symlink_to(device)
        (hwmon / "name").write_text("amdgpu")
        self.draw(number, watts)

    def draw(self, number, watts):
        file = self.at / "class/hwmon" / f"hwmon{number}" / "power1_input"
        whole = file.with_suffix(".new")  # readers never see an incomplete file
        whole.write_text(str(int(watts * 1e6)))
        whole.replace(file)

    def profiler(self, model, *args, **options):
        """A profiler that finds only the fake GPUs."""
        return LayerPowerProfiler(model, *args, **{"sysfs_root": self.at,
                                                   "nvml_library": self.at / "none.so", **options})

    def rows(self, path):
        with path.open(newline="") as file:
            return list(csv.reader(file))


class Layers(World):
    def test_rows_of_leaves_in_the_order_of_execution(self):
        model = Module(block=Module(a=Module(lambda: time.sleep(0.002)), b=Module(nothing)),
                       head=Module(nothing))
        profiler = LayerPowerProfiler(model, sources="constant:100")
        results = profiler.profile((), num_runs=2)
        self.assertEqual([(row.layer_name, row.exec_id) for row in results],
                         list(zip(["block.a", "block.b", "head"] * 2, range(6))))
        for row in results:
            self.assertEqual((row.start_power_w, row.end_power_w, row.avg_power_w), (100,) * 3)
            self.assertEqual(row.duration_ms, (row.end_ns - row.start_ns) / 1e6)
            self.assertAlmostEqual(row.energy_j, row.duration_ms / 10)
            self.assertAlmostEqual(row.end_time - row.start_time, row.duration_ms / 1e3, places=5)
        self.assertGreaterEqual(results[0].duration_ms, 2)
        self.assertLess(abs(results[0].start_time - time.time()), 60)
        self.assertEqual(len(profiler.profile(())), 3)  # without the results of the first call

    def test_a_model_that_is_a_layer_itself_has_the_name_of_its_class(self):
        row, = LayerPowerProfiler(Module(nothing), sources="constant:1").profile(())
        self.assertEqual(row.layer_name, "Module")

    def test_the_mean_of_the_power_before_and_after(self):
        self.gpu(1, 100)

        def busy():
            self.draw(1, 200)
            time.sleep(0.3)

        def idle():
            time.sleep(0.3)

        model = Module(first=Module(idle), second=Module(busy), third=Module(idle))
        results = self.profiler(model).profile((), warmup=False)
        self.assertEqual([(row.start_power_w, row.end_power_w, row.avg_power_w) for row in results],
                         [(100, 100, 100), (100, 200, 150), (200, 200, 200)])
        for row in results:
            self.assertAlmostEqual(row.energy_j, row.avg_power_w * row.duration_ms / 1e3)

    def test_one_of_several_gpus_or_their_sum(self):
        self.gpu(1, 100)
        self.gpu(2, 50)
        model = Module(layer=Module(nothing))
        for index, watts in ((0, 100), (1, 50), ([0, 1], 150), ([1], 50)):
            row, = self.profiler(model, index).profile(())
            self.assertEqual(row.avg_power_w, watts, index)
        with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "GPU 2; .*Instinct 1"):
            row, = self.profiler(model, [0, 2]).profile(())
        self.assertIsNone(row.avg_power_w)
        for wrong in (-1, [], [0, 0]):
            with self.assertRaisesRegex(xplane_time.ArgumentError, "device_index"):
                self.profiler(model, wrong)

    def test_without_a_sensor_times_are_kept_and_the_reason_is_told_once(self):
        model = Module(layer=Module(nothing))
        for options in ({}, {"sources": "nvml"}):
            profiler = self.profiler(model, **options)
            with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "none.so") as told:
                row, = profiler.profile(())
            self.assertEqual(told.filename, __file__)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                profiler.profile(())
            self.assertEqual([row.start_power_w, row.end_power_w, row.avg_power_w, row.energy_j],
                             [None] * 4)
            self.assertGreater(row.duration_ms, 0)
            profiler.save_results(self.at / "r.csv")
            self.assertEqual(self.rows(self.at / "r.csv")[1][5:], [""] * 4)
            text = summary_of(profiler)
            self.assertIn("Total Energy Consumed: unknown\n", text)
            self.assertIn("Top 10 Power Consumers:\nunknown\n", text)
            self.assertNotIn("0.00 J", text)

    def test_what_a_sensor_does_not_tell_is_unknown(self):
        self.gpu(1, 100)
        model = Module(good=Module(nothing), bad=Module(lambda: (self.draw(1, -3), time.sleep(0.3))))
        profiler = self.profiler(model)
        with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "1 of 2 executions.*unsupported"):
            good, bad = profiler.profile((), warmup=False)
        self.assertEqual((good.avg_power_w, bad.start_power_w, bad.end_power_w, bad.energy_j),
                         (100, 100, None, None))
        text = summary_of(profiler)
        self.assertIn("Total Energy Consumed: unknown\nAverage Power Draw: 100.00 W\n"
                      "Unknown: the power of 1 of 2 executions", text)

    def test_nothing_is_left_behind(self):
        def fails():
            raise RuntimeError("out of memory")

        model = Module(fine=Module(nothing), bad=Module(fails))
        model.parts["bad"].training = False
        profiler = LayerPowerProfiler(model, sources="constant:1", log=self.at / "p.jsonl")
        for warmup in (True, False):
            with self.assertRaisesRegex(RuntimeError, "out of memory"):
                profiler.profile((), warmup=warmup)
            self.assertEqual(model.hooks_left(), 0)
            self.assertEqual([each.training for _, each in model.named_modules()],
                             [True, True, False])
            self.assertEqual(profiler.results, [])
            self.assertTrue(power.read(self.at / "p.jsonl").complete)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "profile.inputs. first"):
            profiler.print_summary()
        with self.assertRaisesRegex(xplane_time.ArgumentError, "first"):
            profiler.save_results(self.at / "r.csv")
        model.parts["bad"].forward = nothing
        self.assertEqual(len(profiler.profile(())), 2)
        self.assertEqual(model.hooks_left(), 0)

    def test_inputs_runs_and_estimators(self):
        seen = []
        model = Module(lambda *args, **kwargs: seen.append((args, kwargs)))
        profiler = LayerPowerProfiler(model, sources="constant:1")
        for inputs, call in ((7, ((7,), {})), ({"x": 1}, ((), {"x": 1})), ((1, 2), ((1, 2), {}))):
            profiler.profile(inputs)
            self.assertEqual(seen, [call] * 2)  # the warm-up, and one run
            seen.clear()
        profiler.profile(7, num_runs=3, warmup=False)
        self.assertEqual(len(seen), 3)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "num_runs"):
            profiler.profile(7, num_runs=0)
        with self.assertRaisesRegex(xplane_time.ArgumentError, "endpoint-mean or attribution"):
            LayerPowerProfiler(model, estimator="other")

    def test_generation(self):
        calls = []
        model = Module(token=Module(nothing))

        def generate(inputs, max_new_tokens, temperature):
            calls.append((inputs, max_new_tokens, temperature))
            for _ in range(max_new_tokens):
                model()

        with self.assertRaisesRegex(xplane_time.ArgumentError, "no generate"):
            LayerPowerProfiler(model).profile_generation(7)
        model.generate = generate
        profiler = LayerPowerProfiler(model, sources="constant:1")
        results = profiler.profile_generation(7, max_new_tokens=5, temperature=0.7)
        self.assertEqual(calls, [(7, 2, 0.7), (7, 5, 0.7)])
        self.assertEqual(len(results), 5)

    def test_a_model_of_which_nothing_is_seen(self):
        model = Module(nothing, unused=Module(nothing))
        with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "no layer ran"):
            self.assertEqual(LayerPowerProfiler(model, sources="constant:1").profile(()), [])

    def test_gpus_are_waited_for_before_each_mark(self):
        waits = []
        cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True,
                                     synchronize=waits.append, current_device=lambda: "cuda:7")
        torch = types.SimpleNamespace(cuda=cuda, no_grad=contextlib.nullcontext)
        model = Module(layer=Module(lambda: self.assertEqual(waits[-1:], expected)))
        with mock.patch.dict(sys.modules, torch=torch), \
                mock.patch.object(power, "_wait_for_devices", nothing):
            profiler = LayerPowerProfiler(model, sources="constant:1")
            expected = ["cuda:7"]
            profiler.profile((), num_runs=2, warmup=False)
            self.assertEqual(waits, ["cuda:7"] * 6)  # around each layer, and around all runs
            waits.clear()
            gpu = Device("cuda")
            expected = [gpu]
            parameters = [types.SimpleNamespace(device=gpu),
                          types.SimpleNamespace(device=Device("cpu"))]
            model.parameters = lambda: parameters
            profiler.profile((), warmup=False)
            self.assertEqual(waits, [gpu] * 4)


class Gpus:
    """Simulated GPUs with known power. Their time advances only while a layer works.

    An object replaces the module `time` and the recording. Each 100 ms, the sensors publish the mean
    power since the last update. They are read each 20 ms."""

    def __init__(self, *ids):
        self.ids, self.now_ns, self.parts = ids, 10**12, []  # (end of the part, watts of each GPU)

    def monotonic_ns(self):
        return self.now_ns

    def time_ns(self):
        return self.now_ns + 10**18

    def sleep(self, seconds):
        self.work(seconds, *[50] * len(self.ids))

    def work(self, seconds, *watts):
        self.now_ns += round(seconds * 1e9)
        self.parts.append((self.now_ns, watts))

    def readings_mw(self, gpu):
        """Returns {time: mean power of the last 100 ms} at each update of the sensor."""
        energies, at_ns, total = [(10**12, 0.0)], 10**12, 0.0
        for until_ns, watts in self.parts:
            total += watts[gpu] * (until_ns - at_ns)
            at_ns = until_ns
            energies.append((at_ns, total))
        times = [each[0] for each in energies]

        def at(t_ns):
            last = min(bisect.bisect_left(times, t_ns), len(times) - 1)
            (t0, e0), (t1, e1) = energies[last - 1], energies[last]
            return e0 + (e1 - e0) * (t_ns - t0) / (t1 - t0)

        noise = random.Random(gpu)
        return {tick: round((at(tick) - at(tick - 10**8)) / 1e8 * 1e3 * noise.gauss(1, 0.003))
                for tick in range(10**12 + 10**8, at_ns, 10**8)}

    def recording(self, log):
        return GpuRecording(self, log)


class GpuRecording(power.Summary):
    __slots__ = ("gpus", "log")

    def __init__(self, gpus, log):
        self.gpus, self.log = gpus, log

    def __enter__(self):
        return self

    def await_readings(self):
        self.gpus.sleep(0.3)

    def __exit__(self, *_):
        readings = [self.gpus.readings_mw(gpu) for gpu in range(len(self.gpus.ids))]
        clocks = {"monotonic_ns": 10**12, "realtime_ns": 10**18 + 10**12, "boottime_ns": 10**12}
        lines = [{"schema": "xplane-time.power-log.v1", "t": 10**12, "clocks": clocks,
                  "machine": {"host": "", "kernel": "", "cpu": ""}, "command": "",
                  "periods_ns": {"nvml": 20_000_000}, "absent": [],
                  "devices": [{"id": each, "name": "Made Up", "source": "nvml", "index": number,
                               "ordinal": number, "pci_bus_id": "", "driver": "", "mig": False,
                               "shared": False, "note": ""} for number, each in enumerate(self.gpus.ids)],
                  "channels": [{"source": "nvml", "device": each, "domain": "gpu",
                                "quantity": "power_mw", "kind": "instant", "slow": False,
                                "in_total": True, "wrap_range": None, "max_plausible_mw": None,
                                "prior_period_ns": 10**8, "prior_window_ns": 10**8, "note": ""}
                               for each in self.gpus.ids]}]
        lines += [{"t": t_ns, "s": 0, "r": [[gpu, 0, 1000, of[t_ns // 10**8 * 10**8]]
                                            for gpu, of in enumerate(readings)]}
                  for t_ns in range(10**12 + 10**8 + 7_000_000, max(readings[0], default=0), 20_000_000)]
        lines.append({"t": self.gpus.now_ns, "end": {"reason": "stopped", "dropped": 0, "readers": [
            {"source": "nvml", "reads": len(lines), "missed": 0, "own_cpu_ns": 1, "hung": False}]}})
        pathlib.Path(self.log).write_text("".join(json.dumps(each) + "\n" for each in lines))
        super().__init__(xplane_time._core.summarize_power(str(self.log), "best", "idle"))


class Attribution(World):
    """The model always runs the same layers, so only the pauses between them separate their powers."""

    def profile(self, runs, gpus, layers, beside=(0.0002, 50), warmup=True):
        """`layers`: seconds, then watts on each GPU. `beside`: the same for the work of the model itself
        before each layer."""
        def run():
            for part in model.parts.values():
                gpus.work(beside[0], *[beside[1]] * len(gpus.ids))
                part()

        model = Module(**{name: Module(functools.partial(gpus.work, *of))
                          for name, of in layers.items()})
        model.run = run
        profiler = LayerPowerProfiler(model, list(range(len(gpus.ids))), estimator="attribution")
        with mock.patch("xplane_time.torch.time", gpus), \
                mock.patch.object(profiler, "_record", gpus.recording):
            profiler.profile((), num_runs=runs, warmup=warmup)
        return profiler

    def check(self, profiler, name, true_j):
        """Checks the energy of an execution with the work before it: the narrow interval contains it."""
        for row in [row for row in profiler.results if row.layer_name == name][::500]:
            self.assertLess(row.attributed_energy_j_ci95_lo, true_j)
            self.assertGreater(row.attributed_energy_j_ci95_hi, true_j)
            self.assertLess(row.attributed_energy_j_ci95_hi, 1.01 * row.attributed_energy_j)
            self.assertIsNone(row.attributed_reason)

    LAYERS = {"hungry": (0.004, 300, 120), "frugal": (0.006, 100, 200)}

    def test_joules_of_layers_where_the_endpoint_mean_is_wrong(self):
        profiler = self.profile(3000, Gpus("GPU-a"), self.one_gpu())
        self.check(profiler, "hungry", 0.004 * 300 + 0.0002 * 50)
        self.check(profiler, "frugal", 0.006 * 100 + 0.0002 * 50)
        self.assertAlmostEqual(profiler.results[0].attributed_energy_j,
                               profiler.results[0].attributed_power_w * 0.0042)
        of_hungry = [row.avg_power_w for row in profiler.results if row.layer_name == "hungry"]
        self.assertLess(sum(of_hungry) / len(of_hungry), 200)
        text = summary_of(profiler)
        self.assertRegex(text, r"\nTop 10 Attributed Energy Consumers:\nlayer_name  attributed_energy_j  "
                         r"attributed_energy_j_ci95_lo .*\n *hungry .*\n *frugal ")
        self.assertRegex(text, r"9\d% of the 3\d{4}\.\d\d ms that the model ran")  # the sum excludes pauses
        profiler.save_results(self.at / "r.csv")
        header, first, *_ = self.rows(self.at / "r.csv")
        self.assertEqual(header, COLUMNS + ATTRIBUTED)
        self.assertEqual(float(first[len(COLUMNS)]), profiler.results[0].attributed_power_w)
        self.assertEqual(first[-1], "")
        if HAS_PANDAS:
            stats = profiler.get_summary_stats()
            for name in ATTRIBUTED[1:4]:
                self.assertAlmostEqual(stats[(name, "sum")]["hungry"], sum(
                    getattr(row, name) for row in profiler.results if row.layer_name == "hungry"))
            self.assertEqual(stats[("attributed_power_w", "mean")]["hungry"],
                             profiler.results[0].attributed_power_w)

    def one_gpu(self):
        return {name: of[:2] for name, of in self.LAYERS.items()}

    def test_what_the_model_does_before_a_layer_counts_to_it(self):
        profiler = self.profile(3000, Gpus("GPU-a"), self.one_gpu(), beside=(0.002, 400))
        self.check(profiler, "hungry", 0.004 * 300 + 0.002 * 400)
        self.check(profiler, "frugal", 0.006 * 100 + 0.002 * 400)

    def test_several_gpus_are_their_sum(self):
        profiler = self.profile(3000, Gpus("GPU-a", "GPU-b"), self.LAYERS)
        self.check(profiler, "hungry", 0.004 * 420 + 0.0002 * 100)
        self.check(profiler, "frugal", 0.006 * 300 + 0.0002 * 100)

    def test_too_few_readings_say_how_long_to_run(self):
        with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "too few updates.* a minute"):
            profiler = self.profile(5, Gpus("GPU-a"), self.one_gpu())
        row = profiler.results[0]
        self.assertEqual([getattr(row, name) for name in ATTRIBUTED[:4]], [None] * 4)
        self.assertNotIn("power.jsonl", row.attributed_reason)
        self.assertIsNotNone(row.avg_power_w)
        text = summary_of(profiler)
        self.assertIn("\nTop 10 Attributed Energy Consumers:\nunknown\n"
                      f"Unknown for 2 layers: {row.attributed_reason}", text)
        if HAS_PANDAS:
            stats = profiler.get_summary_stats()
            self.assertTrue(math.isnan(stats[("attributed_energy_j", "sum")]["hungry"]))
            self.assertEqual(stats[("attributed_reason", "first")]["hungry"], row.attributed_reason)

    def test_layers_that_cannot_be_told_apart_have_only_a_sum(self):
        with mock.patch("xplane_time.torch._PAUSE_S", 0):
            profiler = self.profile(20_000, Gpus("GPU-a"), {"a": (0.0013, 300), "b": (0.0009, 100)},
                                    beside=(0, 50))
        self.assertEqual({(row.attributed_energy_j, row.attributed_reason)
                          for row in profiler.results}, {(None, "not_separable")})
        self.assertRegex(summary_of(profiler), r"Unknown for 2 layers: not_separable\n"
                         r"Only the sum of these layers is known, \d.* J \(.* \.\. .*\): .*a, b")

    def test_a_power_that_is_stated_has_no_interval(self):
        profiler = LayerPowerProfiler(Module(layer=Module(nothing)), sources="constant:100",
                                      estimator="attribution")
        row, = profiler.profile(())
        self.assertAlmostEqual(row.attributed_power_w, 100)
        self.assertEqual([getattr(row, name) for name in ATTRIBUTED[2:]], [None] * 3)
        self.assertIn("stated, not measured", summary_of(profiler))

    def test_without_a_sensor_there_is_a_reason(self):
        with self.assertWarns(xplane_time.XplaneTimeWarning):
            row, = self.profiler(Module(nothing), estimator="attribution").profile(())
        self.assertEqual((row.attributed_energy_j, row.attributed_reason), (None, "no power sensor"))

    def test_the_original_has_no_pauses_and_no_such_numbers(self):
        profiler = LayerPowerProfiler(Module(nothing), sources="constant:1")
        with mock.patch("time.sleep", side_effect=AssertionError):
            row, = profiler.profile(())
        self.assertEqual([getattr(row, name) for name in ATTRIBUTED], [None] * 5)


class Files(World):
    def test_files_and_the_log_that_tells_more_later(self):
        log = self.at / "p.jsonl"
        model = Module(layers=Module(a=Module(lambda: time.sleep(0.03)), b=Module(nothing)))
        profiler = LayerPowerProfiler(model, sources="constant:100", log=log)
        results = profiler.profile((), num_runs=2)
        profiler.save_results(self.at / "r.csv")
        header, *rows = self.rows(self.at / "r.csv")
        self.assertEqual(header, COLUMNS)
        self.assertEqual([row[:2] for row in rows], [["layers.a", "0"], ["layers.b", "1"],
                                                     ["layers.a", "2"], ["layers.b", "3"]])
        self.assertEqual([float(each) for each in rows[0][2:]],
                         [getattr(results[0], name) for name in COLUMNS[2:]])
        profiler.save_intervals(self.at / "i.csv")
        header, *intervals = self.rows(self.at / "i.csv")
        self.assertEqual(header, COLUMNS[:4])
        for row, metrics in zip(intervals, results):
            start_ns, end_ns = (int(text.replace(".", "")) for text in row[2:])
            self.assertEqual(end_ns - start_ns, metrics.end_ns - metrics.start_ns)
            self.assertAlmostEqual(start_ns / 1e9, metrics.start_time, places=6)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertLess(lines[0]["t"], results[0].start_ns)
        self.assertGreater(lines[-1]["t"], results[-1].end_ns)
        clocks = lines[0]["clocks"]  # they relate the times of the layers to those of the log
        unix_ns = int(intervals[0][2].replace(".", ""))
        self.assertLess(abs(unix_ns - clocks["realtime_ns"]
                            - (results[0].start_ns - clocks["monotonic_ns"])), 1e6)

    def test_summary(self):
        layers = {f"layer{i}": Module(functools.partial(time.sleep, i / 1e4)) for i in range(12)}
        profiler = LayerPowerProfiler(Module(**layers), sources="constant:100")
        profiler.profile((), num_runs=2)
        text = summary_of(profiler)
        head, by_power, by_time = text.split("\n\nTop 10 ")
        self.assertRegex(head, r"^={80}\nPROFILING SUMMARY\n={80}\n\nGPU: constant \(stated, not "
                         r"measured\)\n\nTotal Execution Time: [\d.]+ ms, \d+% of the [\d.]+ ms that "
                         r"the model ran\nTotal Energy Consumed: [\d.]+ J\n"
                         r"Average Power Draw: 100.00 W$")
        self.assertEqual(by_power.split("\n")[1].split(),
                         ["layer_name", "avg_power_w", "duration_ms", "energy_j"])
        title, header, *lines = by_time.split("\n\n")[0].split("\n")
        self.assertEqual((title, header.split()),
                         ("Time Consumers:", ["layer_name", "duration_ms", "avg_power_w", "energy_j"]))
        self.assertEqual(len(lines), 10)
        times = [float(line.split()[1]) for line in lines]
        self.assertEqual(times, sorted(times, reverse=True))
        total_ms = sum(row.duration_ms for row in profiler.results if row.layer_name == "layer11")
        self.assertIn(f"{total_ms:.2f}", by_time)
        short = sum(row.duration_ms < 1 for row in profiler.results)
        self.assertIn(f"\nShorter than 1 ms: {short} of 24 executions ({short / 24:.0%})\n", text)
        self.assertIn("\nShorter than the time between two readings (10 ms): ", text)
        self.assertIn("unreliable", text)

    def profile_beside(self, other):
        """Profiles on cuda:0. It is the second device of NVML if `other` is the same model."""
        script = self.at / "nvml.json"
        script.write_text(json.dumps({"devices": [
            {"name": other, "uuid": "GPU-a", "bus": 1},
            {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-b", "bus": 2,
             "calls": {"nvmlDeviceGetMemoryInfo": {"value": [3 * 2**30, 80 * 2**30]},
                       "nvmlDeviceGetFieldValues:186:0": {"value": 250000}}}]}))
        with mock.patch.dict(os.environ, FAKE_NVML_SCRIPT=str(script), CUDA_VISIBLE_DEVICES="1"):
            os.environ.pop("CUDA_DEVICE_ORDER", None)
            profiler = self.profiler(Module(layer=Module(nothing)), nvml_library=FAKE_NVML)
            profiler.profile(())
        return profiler

    @unittest.skipUnless(FAKE_NVML.exists(), "no fake NVML: ./test.sh builds it")
    def test_a_gpu_that_may_be_another_one_has_no_power(self):
        with self.assertWarnsRegex(xplane_time.XplaneTimeWarning, "CUDA_DEVICE_ORDER"):
            profiler = self.profile_beside("NVIDIA A100")
        self.assertIsNone(profiler.results[0].avg_power_w)

    @unittest.skipUnless(FAKE_NVML.exists(), "no fake NVML: ./test.sh builds it")
    def test_summary_of_an_nvidia_gpu(self):
        profiler = self.profile_beside("NVIDIA H100 80GB HBM3")
        self.assertEqual(profiler.results[0].avg_power_w, 250)
        text = summary_of(profiler)
        self.assertIn("\nGPU: NVIDIA H100 80GB HBM3\nMemory Used: 3.00 GiB / 80.00 GiB\n", text)
        self.assertIn("\nShorter than the sensor's window (25 ms): 1 of 1 executions (100%)\n", text)

    @unittest.skipUnless(HAS_PANDAS, "no pandas")
    def test_data_frames(self):
        self.gpu(1, 100)
        model = Module(b=Module(nothing),
                       a=Module(lambda: (self.draw(1, -3), time.sleep(0.3))))
        profiler = self.profiler(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = profiler.profile((), num_runs=2, warmup=False)
        frame = profiler.get_results_dataframe()
        self.assertEqual(list(frame.columns), COLUMNS)
        self.assertEqual(list(frame["duration_ms"]), [row.duration_ms for row in results])
        self.assertTrue(math.isnan(frame["energy_j"][1]))
        stats = profiler.get_summary_stats()
        self.assertEqual(list(stats.index), ["b", "a"])
        self.assertEqual(list(stats.columns), [
            *((name, what) for name in ("duration_ms", "avg_power_w")
              for what in ("mean", "std", "min", "max")),
            *(("energy_j", what) for what in ("sum", "mean", "std"))])
        self.assertEqual(stats[("duration_ms", "max")]["b"],
                         max(results[0].duration_ms, results[2].duration_ms))
        self.assertTrue(math.isnan(stats[("energy_j", "sum")]["b"]))  # only the energy of the first run is known
        self.assertEqual(stats[("energy_j", "mean")]["b"], results[0].energy_j)

    def test_without_pandas_only_data_frames_are_missing(self):
        profiler = LayerPowerProfiler(Module(nothing), sources="constant:1")
        profiler.profile(())
        with mock.patch.dict(sys.modules, pandas=None):
            summary_of(profiler)
            for wants in (profiler.get_results_dataframe, profiler.get_summary_stats):
                with self.assertRaisesRegex(ImportError, "pip install pandas"):
                    wants()


# The examples of the page of GPUPP, unchanged except for `.cuda()`.
MINIMAL = """
from layer_power_profiler import LayerPowerProfiler

profiler = LayerPowerProfiler(model)
profiler.profile(inputs)
profiler.print_summary()
"""
SIMPLE = """
from layer_power_profiler import LayerPowerProfiler
import torch

model = torch.nn.Sequential(
    torch.nn.Linear(512, 1024),
    torch.nn.ReLU(),
    torch.nn.Linear(1024, 10)
)

inputs = torch.randn(32, 512)

profiler = LayerPowerProfiler(model)
profiler.profile(inputs, num_runs=3)
profiler.print_summary()
"""
GENERATION = """
from transformers import AutoTokenizer, AutoModelForCausalLM
from layer_power_profiler import LayerPowerProfiler

model = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-2-7b-hf",
    torch_dtype=torch.float16,
    device_map="auto"
)

tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-2-7b-hf")
inputs = tokenizer("Write a poem about", return_tensors="pt").to(model.device)

profiler = LayerPowerProfiler(model)
profiler.profile_generation(inputs, max_new_tokens=100, temperature=0.7)
profiler.save_results("generation_profile.csv")
"""
BY_TYPE = """
from layer_power_profiler import LayerPowerProfiler
import pandas as pd

# ... load model and profile ...

df = profiler.get_results_dataframe()

# Categorize layers
def get_layer_type(name):
    if 'attention' in name.lower():
        return 'Attention'
    elif 'mlp' in name.lower():
        return 'MLP'
    elif 'norm' in name.lower():
        return 'Normalization'
    return 'Other'

df['layer_type'] = df['layer_name'].apply(get_layer_type)

# Analyze by type
type_summary = df.groupby('layer_type').agg({
    'duration_ms': 'sum',
    'avg_power_w': 'mean',
    'energy_j': 'sum'
})

print(type_summary)
"""
BATCHES = """
batch_sizes = [1, 2, 4, 8]
results = {}

for batch_size in batch_sizes:
    inputs = tokenizer([prompt] * batch_size, return_tensors="pt", 
                      padding=True).to(model.device)
    
    profiler.profile(inputs, num_runs=1)
    
    df = profiler.get_results_dataframe()
    results[batch_size] = {
        'total_time_ms': df['duration_ms'].sum(),
        'total_energy_j': df['energy_j'].sum(),
        'avg_power_w': df['avg_power_w'].mean()
    }

print(pd.DataFrame(results).T)
"""
TIMELINE = """
profiler.profile_generation(inputs, max_new_tokens=50)

df = profiler.get_results_dataframe()
df = df.sort_values('start_time')

# Normalize time
df['time_from_start_ms'] = (df['start_time'] - df['start_time'].min()) * 1000

# Plot or save timeline
import matplotlib.pyplot as plt

plt.figure(figsize=(12, 6))
plt.plot(df['time_from_start_ms'], df['avg_power_w'])
plt.xlabel('Time (ms)')
plt.ylabel('Power (W)')
plt.title('GPU Power Consumption Timeline')
plt.savefig('power_timeline.png')
"""


def tiny_language_model():
    """A model with generate(), and its tokenizer. They replace a model from a hub."""
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.input_norm = torch.nn.LayerNorm(16)
            self.attention = torch.nn.ModuleDict({name: torch.nn.Linear(16, 16)
                                                  for name in ("q", "k", "v")})
            self.mlp = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(),
                                           torch.nn.Linear(32, 16))

        def forward(self, x):
            y = self.input_norm(x)
            q, k, v = (part(y) for part in self.attention.values())
            return x + self.mlp(torch.softmax(q @ k.transpose(1, 2), -1) @ v)

    class Model(torch.nn.Module):
        device = torch.device("cpu")

        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(50, 16)
            self.layers = torch.nn.ModuleList([Block(), Block()])
            self.lm_head = torch.nn.Linear(16, 50)

        def forward(self, input_ids):
            x = self.embed(input_ids)
            for layer in self.layers:
                x = layer(x)
            return self.lm_head(x)

        def generate(self, input_ids, max_new_tokens, temperature=1.0):
            assert not torch.is_grad_enabled() and not self.training
            for _ in range(max_new_tokens):
                shares = torch.softmax(self(input_ids)[:, -1] / temperature, -1)
                input_ids = torch.cat([input_ids, torch.multinomial(shares, 1)], 1)
            return input_ids

    class Batch(dict):
        def to(self, _device):
            return self

    def tokenizer(texts, return_tensors, padding=False):
        count = 1 if isinstance(texts, str) else len(texts)
        return Batch(input_ids=torch.arange(4).repeat(count, 1))

    return Model(), tokenizer


class FakeTorch:
    """A fake torch with a GPU that runs one kernel of 10 us per call, and a profiler that writes JSON."""

    __version__ = "9.9"

    def __init__(self, on_gpu=True):
        self.on_gpu, self.events, self.now_us, self.active, self.with_stack = on_gpu, [], 100, None, None
        self.cuda = types.SimpleNamespace(is_available=lambda: on_gpu, is_initialized=lambda: True,
                                          current_device=lambda: 0, synchronize=self.synchronize)
        self.profiler = types.SimpleNamespace(profile=self.profile, record_function=self.record_function)
        self.synchronized_us = []

    def synchronize(self, device):
        self.synchronized_us.append(self.now_us)

    def profile(self, with_stack):
        self.with_stack = with_stack
        return types.SimpleNamespace(start=self.start, stop=self.stop, export_chrome_trace=self.export)

    def start(self):
        if self.active:
            raise RuntimeError("Profiler is already enabled")
        self.active, self.events = True, []

    def stop(self):
        self.active = False

    def export(self, path):
        pathlib.Path(path).write_text(json.dumps({"traceEvents": self.events}))

    def add(self, cat, pid, name, ts, dur, **args):
        self.events.append({"ph": "X", "cat": cat, "pid": pid, "tid": 7, "name": name, "ts": ts,
                            "dur": dur, "args": args})

    @contextlib.contextmanager
    def record_function(self, name):
        begin_us = self.now_us
        yield
        self.add("user_annotation", 1, name, begin_us, self.now_us - begin_us)

    def model(self, x, scale=1):
        self.now_us += 50
        self.add("cuda_runtime", 1, "cudaLaunchKernel", self.now_us - 49, 2, correlation=self.now_us)
        if self.on_gpu:
            self.add("kernel", 0, f"gemm_{x * scale}", self.now_us - 30, 10, correlation=self.now_us, stream=7)
        if x == "fails":
            raise ZeroDivisionError


class Captures(unittest.TestCase):
    def setUp(self):
        self.torch = FakeTorch()
        self.enterContext(mock.patch.dict(sys.modules, torch=self.torch))

    def test_kernels_of_each_call(self):
        for inputs, kernel in ((2, "gemm_2"), ((2, 3), "gemm_6"), ({"x": 2, "scale": 4}, "gemm_8")):
            found = profile(self.torch.model, inputs, repeats=3, warmup=2)
            rows = [(row["kernel"], row["count"], row["total_ps"]) for row in found.trace.kernels()]
            self.assertEqual(rows, [(kernel, 3, 30_000_000)])
            self.assertEqual(found.by_function, {"ProfilerStep": [10_000_000] * 3})
            self.assertEqual(found.trace.events(["name"], device="all", name="ProfilerStep")["name"],
                             ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"])

    def test_the_gpu_is_waited_for_before_and_after(self):
        profile(self.torch.model, 1, repeats=3, warmup=2)
        self.assertEqual(self.torch.synchronized_us, [200, 350])

    def test_python_frames(self):
        for asked in (False, True):
            profile(self.torch.model, 1, python_frames=asked)
            self.assertEqual(self.torch.with_stack, asked)

    def test_nothing_ran_on_a_gpu(self):
        self.torch.on_gpu = False
        with self.assertRaisesRegex(xplane_time.NothingFoundError, r"torch 9\.9; .* use capture\(\)"):
            profile(self.torch.model, 1)

    def test_what_fails(self):
        with self.assertRaises(ZeroDivisionError):
            profile(self.torch.model, "fails", warmup=0)
        self.assertFalse(self.torch.active)
        self.torch.active = True
        with self.assertRaisesRegex(CaptureError, "already enabled; only one trace at a time"):
            capture(lambda: None)
        for counts in ({"repeats": 0}, {"warmup": -1}, {"repeats": 1.5}):
            with self.assertRaises(xplane_time.ArgumentError):
                profile(self.torch.model, 1, **counts)


@unittest.skipUnless(HAS_TORCH, "no torch: apt-get install python3-torch")
class Torch(World):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.at)
        model, tokenizer = tiny_language_model()
        profiler = functools.partial(LayerPowerProfiler, sources="constant:100")
        plots = mock.MagicMock()
        self.enterContext(mock.patch.dict(sys.modules, {
            "layer_power_profiler": types.SimpleNamespace(LayerPowerProfiler=profiler),
            "transformers": types.SimpleNamespace(
                AutoTokenizer=mock.Mock(from_pretrained=lambda _: tokenizer),
                AutoModelForCausalLM=mock.Mock(from_pretrained=lambda *_, **__: model)),
            "matplotlib": types.SimpleNamespace(pyplot=plots), "matplotlib.pyplot": plots}))
        self.plots = plots
        self.names = {"model": model, "tokenizer": tokenizer, "prompt": "Hello",
                      "torch": __import__("torch"), "inputs": tokenizer("Hello", "pt"),
                      "profiler": profiler(model)}

    def run_example(self, text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(text, self.names)
        return out.getvalue()

    def test_example_minimal(self):
        text = self.run_example(MINIMAL)
        self.assertIn("PROFILING SUMMARY", text)
        self.assertRegex(text, r"layers\.0\.attention\.v +100\.00")

    def test_example_1_simple_model(self):
        text = self.run_example(SIMPLE)
        self.assertIn("Average Power Draw: 100.00 W", text)
        self.assertEqual([row.layer_name for row in self.names["profiler"].results],
                         ["0", "1", "2"] * 3)

    def test_example_2_generation(self):
        self.run_example(GENERATION)
        header, *rows = self.rows(self.at / "generation_profile.csv")
        self.assertEqual(header, COLUMNS)
        self.assertEqual(len(rows), 100 * 16)
        self.assertEqual(rows[0][0], "embed")

    @unittest.skipUnless(HAS_PANDAS, "no pandas: apt-get install python3-pandas")
    def test_example_3_by_type(self):
        self.names["profiler"].profile(self.names["inputs"])
        text = self.run_example(BY_TYPE)
        summary = self.names["type_summary"]
        self.assertEqual(list(summary.index), ["Attention", "MLP", "Normalization", "Other"])
        self.assertTrue((summary["avg_power_w"] == 100).all(), text)

    @unittest.skipUnless(HAS_PANDAS, "no pandas: apt-get install python3-pandas")
    def test_example_4_batch_sizes(self):
        import pandas
        text = self.run_example(BATCHES.replace("pd", "__import__('pandas')"))
        results = pandas.DataFrame(self.names["results"]).T
        self.assertEqual(list(results.index), [1, 2, 4, 8], text)
        for _, row in results.iterrows():
            self.assertAlmostEqual(row["total_energy_j"], row["total_time_ms"] / 10)

    @unittest.skipUnless(HAS_PANDAS, "no pandas: apt-get install python3-pandas")
    def test_example_5_timeline(self):
        self.run_example(TIMELINE)
        (times, watts), _ = self.plots.plot.call_args
        self.assertEqual((len(times), times.iloc[0], set(watts)), (50 * 16, 0, {100.0}))
        self.assertTrue(times.is_monotonic_increasing)

    def test_the_page_in_docs(self):
        page = REPOSITORY / "docs" / "torch.md"
        self.assertGreaterEqual(test_docs.Pages().run_page(page), 2)

    def test_hooks_modes_and_gradients_are_as_before(self):
        torch = self.names["torch"]
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4),
                                    torch.nn.Dropout())
        model[2].eval()
        mean = model[1].running_mean.clone()
        profiler = LayerPowerProfiler(model, sources="constant:1")
        profiler.profile(torch.randn(8, 4))
        with self.assertRaises(RuntimeError):
            profiler.profile(torch.randn(8, 5))
        for module in model.modules():
            self.assertFalse(module._forward_hooks or module._forward_pre_hooks)
        self.assertEqual([each.training for each in model.modules()], [True, True, True, False])
        self.assertTrue(torch.equal(model[1].running_mean, mean))
        self.assertTrue(torch.is_grad_enabled())

    def test_a_layer_that_is_used_twice(self):
        torch = self.names["torch"]
        layer = torch.nn.Linear(4, 4)
        model = torch.nn.Sequential(layer, torch.nn.ReLU(), layer)
        results = LayerPowerProfiler(model, sources="constant:1").profile(torch.randn(2, 4))
        self.assertEqual([row.layer_name for row in results], ["0", "1", "0"])

    def test_a_capture_of_the_cpu(self):
        torch = self.names["torch"]
        model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
        content = capture(lambda: [model(x) for _ in range(3)])
        trace = xplane_time.open(content)
        self.assertEqual(set(trace.planes["plane"]), {"/host:CPU"})
        events = trace.events(["name", "duration_ps"], device="all")
        durations_ps = [row["duration_ps"] for row in events if row["name"] == "aten::addmm"]
        self.assertEqual(len(durations_ps), 3)
        self.assertGreater(max(durations_ps), 0)
        with self.assertRaisesRegex(xplane_time.NothingFoundError, r"use capture\(\)"):
            profile(model, x)


if __name__ == "__main__":
    unittest.main()
