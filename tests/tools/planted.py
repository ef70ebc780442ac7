"""Makes traces with one planted cause of lost time of known size.

    case = make("input_bound", "gpu", seed=7)
    case.content     # bytes of a trace
    case.code        # the code of the finding that `brief` must rank first
    case.words       # regular expressions that its first line must match
    case.size_us     # the time that the cause takes, over all devices

A simulated host launches kernels on simulated devices. FORMATS are an XSpace of GPUs ("gpu"), one of
TPUs ("tpu", without launches) and PyTorch's JSON ("kineto"). Times are in microseconds.
"""
import json
import random
import re
from dataclasses import dataclass, field

from xspace import Plane, space

LATENCY_US = 4.0  # time from a launch call to the start on an idle device
FORMATS = ("gpu", "tpu", "kineto")


@dataclass
class Kernel:
    device: int
    stream: int
    name: str
    start: float
    duration: float
    launch: float
    function: str
    program: int
    run: int
    category: str = "kernel"
    bytes: int = 0


@dataclass
class HostEvent:
    thread: int
    name: str
    start: float
    duration: float
    category: str = "cpu_op"
    step: int | None = None


@dataclass
class Case:
    code: str
    size_us: float
    words: tuple
    content: bytes = b""
    suffix: str = ".xplane.pb"


@dataclass
class World:
    format: str
    devices: int = 1
    function: str = "jit_train_step"
    program: int = 7
    marks: bool = True
    kernels: list = field(default_factory=list)
    events: list = field(default_factory=list)
    host: list = field(default_factory=list)
    free: list = field(default_factory=list)
    run: int = -1
    idle: float = 0.0  # idle time before the latest launch
    launch_cost: float = 3.0

    def __post_init__(self):
        self.host = [1000.0] * self.devices
        self.free = [1000.0] * self.devices

    def begin_step(self):
        self.run += 1
        self.begin = list(self.host)

    def end_step(self, sync=False):
        if sync:
            self.synchronize()
        if not self.marks:
            return
        end = max(self.host)
        name = f"ProfilerStep#{self.run}" if self.format == "kineto" else "train"
        self.events.append(HostEvent(0, name, min(self.begin), end - min(self.begin), "user_annotation", self.run))

    def launch(self, device, name, duration, category="kernel", bytes=0, stream=7, after=None):
        call = self.host[device]
        self.host[device] += self.launch_cost
        start = max(self.free[device] if after is None else after, call + LATENCY_US)
        self.idle = max(0.0, start - self.free[device])
        self.free[device] = max(self.free[device], start + duration)
        self.kernels.append(Kernel(device, stream, name, start, duration, call, self.function, self.program, self.run,
                                   category, bytes))
        return start

    def work(self, device, name, duration, category="cpu_op"):
        if name:
            self.events.append(HostEvent(device, name, self.host[device], duration, category))
        self.host[device] += duration

    def synchronize(self, devices=None):
        for device in devices or range(self.devices):
            self.host[device] = max(self.host[device], self.free[device] + 2.0)

    def ps(self, time):
        return round(time * 1e6)

    def content(self):
        return {"gpu": self.gpu_space, "tpu": self.tpu_space, "kineto": self.kineto}[self.format]()

    def host_plane(self, launches):
        host = Plane("/host:CPU", id=100)
        threads = {}
        for each in self.events:
            line = threads.setdefault(each.thread, None) or host.line(f"python{each.thread}")
            threads[each.thread] = line
            stats = {} if each.step is None else {"step_num": each.step}
            line.event(each.name, self.ps(each.start), self.ps(each.duration), **stats)
        if launches:
            lines = [host.line(f"driver{device}") for device in range(self.devices)]
            for i, each in enumerate(self.kernels):
                lines[each.device].event("cuLaunchKernel", self.ps(each.launch), self.ps(self.launch_cost * 0.9),
                                         correlation_id=i + 1)
        return host

    def gpu_space(self):
        planes = [Plane(f"/device:GPU:{device}", id=device + 1) for device in range(self.devices)]
        streams = {}
        for i, each in enumerate(self.kernels):
            key = each.device, each.stream
            if key not in streams:
                streams[key] = planes[each.device].line(f"Stream #{each.stream}")
            stats = {"correlation_id": i + 1}
            if each.category == "gpu_memcpy":
                stats["memcpy_details"] = f"kind:HtoD size:{each.bytes} dest:0 async:1"
            else:
                stats.update(hlo_module=each.function, hlo_op=each.name, program_id=each.program)
            streams[key].event(each.name, self.ps(each.start), self.ps(each.duration), **stats)
        return space(*planes, self.host_plane(launches=True), hostnames=["host0"])

    def tpu_space(self):
        planes = []
        for device in range(self.devices):
            plane = Plane(f"/device:TPU:{device}", id=device + 1)
            modules, ops = plane.line("XLA Modules"), plane.line("XLA Ops")
            runs = {}
            for each in self.kernels:
                if each.device == device:
                    runs.setdefault(each.run, []).append(each)
            for run, kernels in sorted(runs.items()):
                start = min(each.start for each in kernels)
                end = max(each.start + each.duration for each in kernels)
                modules.event(f"{kernels[0].function}({kernels[0].program})", self.ps(start), self.ps(end - start), run_id=run)
                for each in sorted(kernels, key=lambda k: k.start):
                    ops.event(each.name, self.ps(each.start), self.ps(each.duration),
                              device_offset_ps=self.ps(each.start), device_duration_ps=self.ps(each.duration))
            if self.marks:
                steps = plane.line("Steps")
                for run, kernels in sorted(runs.items()):
                    start = min(each.start for each in kernels)
                    end = max(each.start + each.duration for each in kernels)
                    steps.event(str(run), self.ps(start), self.ps(end - start))
            planes.append(plane)
        return space(*planes, self.host_plane(launches=False), hostnames=["host0"])

    def kineto(self):
        events = []
        for i, each in enumerate(self.kernels):
            args = {"correlation": i + 1, "device": each.device, "stream": each.stream}
            if each.bytes:
                args["bytes"] = each.bytes
            call = "cudaMemcpyAsync" if each.category == "gpu_memcpy" else "cudaLaunchKernel"
            events.append({"ph": "X", "cat": "cuda_runtime", "name": call, "pid": 42, "tid": 100 + each.device,
                           "ts": each.launch, "dur": self.launch_cost * 0.9, "args": {"correlation": i + 1}})
            events.append({"ph": "X", "cat": each.category, "name": each.name, "pid": each.device, "tid": each.stream,
                           "ts": each.start, "dur": each.duration, "args": args})
        for each in self.events:
            events.append({"ph": "X", "cat": each.category, "name": each.name, "pid": 42, "tid": 100 + each.thread,
                           "ts": each.start, "dur": each.duration, "args": {}})
        return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


KERNELS = {"gpu": ("loop_add_fusion", "gemm_fusion_dot.3", "input_reduce_fusion", "cublas_gemm_bf16", "wrapped_tanh"),
           "tpu": ("fusion.12", "convolution_add_fusion.3", "reduce.8", "multiply_fusion.4", "dot.7"),
           "kineto": ("ampere_bf16_s16816gemm_128x64", "vectorized_elementwise_kernel", "layer_norm_kernel",
                      "fmha_fwd_kernel", "softmax_warp_forward")}


def copy_name(format, direction="HtoD"):
    if format == "tpu":
        return "copy.31"
    return f"Memcpy {direction} (Pinned -> Device)" if format == "kineto" else f"Memcpy{direction[0]}2{direction[3]}"


class Maker:
    def __init__(self, kind, format, seed):
        self.random = random.Random(f"{kind} {format} {seed}")
        self.format, self.seed = format, seed
        self.steps = self.random.randint(14, 30)
        self.noise = self.random.choice((0.0, 0.01, 0.03))
        count = self.random.randint(4, 10)
        names = KERNELS[format]
        # Each kernel takes less than half of the time.
        self.step = [(names[i % len(names)] + ("" if i < len(names) else f".{i}" if format != "kineto" else "<1>"),
                      self.random.uniform(60, 160)) for i in range(count)]

    def uniform(self, a, b):
        return self.random.uniform(a, b)

    def noisy(self, duration):
        return duration * max(0.5, 1 + self.noise * self.random.gauss(0, 1))

    def world(self, **more):
        return World(self.format, **more)

    def step_us(self):
        return sum(duration for _, duration in self.step)

    def compute(self, world, device=0, factor=1.0):
        for name, duration in self.step:
            world.launch(device, name, self.noisy(duration) * factor)

    def largest(self):
        totals = {}
        for name, duration in self.step:
            totals[name] = totals.get(name, 0) + duration
        return max(totals, key=totals.get)

    # ---- kinds

    def healthy(self):
        world = self.world(marks=self.random.random() < 0.7)
        for _ in range(self.steps):
            world.begin_step()
            self.compute(world)
            world.end_step()
        return world, Case("", 0, ("busy", re.escape(self.largest())))

    def input_bound(self):
        shape = self.seed % 3  # 0: marks and a loader; 1: marks only; 2: a loader only
        wait = self.step_us() * self.uniform(0.5, 2.5)
        world = self.world(marks=shape != 2)
        loader = {"kineto": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"}.get(
            self.format, self.random.choice(("Iterator::GetNext", "next_batch", "DataLoader.__next__")))
        size = 0
        for step in range(self.steps):
            world.begin_step()
            overlap = self.random.random() < 0.3  # the loader and the device work at the same time
            if not overlap:
                world.synchronize()
            world.work(0, loader if shape != 1 else "", self.noisy(wait), "user_annotation")
            before = world.free[0]
            for i, (name, duration) in enumerate(self.step):
                start = world.launch(0, name, self.noisy(duration))
                if i == 0 and step > 0:
                    size += max(0.0, start - before)
            world.end_step()
        return world, Case("input_bound", size, ("input",))

    def host_bound(self):
        world = self.world(marks=self.seed % 2 == 0)
        size = 0
        names = [f"{name}" for name, _ in self.step] * self.random.randint(3, 6)
        for step in range(self.steps):
            world.begin_step()
            for i, name in enumerate(names):
                gap = self.uniform(40, 140)
                world.work(0, {"kineto": "aten::linear"}.get(self.format, "PjitFunction(f)"), gap)
                world.launch(0, name, self.noisy(self.uniform(15, 35)))
                if step + i > 0:
                    size += max(0.0, world.idle - LATENCY_US)
            world.end_step()
        return world, Case("host_bound", size, ("host",))

    def slow_op(self):
        share = self.uniform(0.4, 0.85)
        duration = self.step_us() * share / (1 - share)
        name = {"gpu": ("sort.5", "scatter.9", "my_scan_kernel"), "tpu": ("sort.5", "scatter.9", "custom-call.2"),
                "kineto": ("radixSortKVInPlace", "indexSelectLargeIndex", "my_scan_kernel")}[self.format][self.seed % 3]
        return self.with_op(name, duration, "largest_op", re.escape(name))

    def with_op(self, name, duration, code, pattern):
        """Adds an op with about this duration to the end of each step. It is the cause."""
        world = self.world(marks=self.random.random() < 0.5)
        size = 0
        for _ in range(self.steps):
            world.begin_step()
            self.compute(world)
            took = self.noisy(duration)
            world.launch(0, name, took)
            size += took
            world.end_step()
        return world, Case(code, size, (pattern,))

    def exposed_collective(self):
        devices = self.random.choice((1, 2, 4))
        took = self.step_us() * self.uniform(0.2, 1.2)
        name = {"gpu": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "tpu": self.random.choice(("all-reduce.3", "all-gather.1")),
                "kineto": "ncclDevKernel_ReduceScatter_Sum_bf16"}[self.format]
        world = self.world(devices=devices)
        self.noise = 0
        size = 0
        for _ in range(self.steps):
            world.begin_step()
            for device in range(devices):
                self.compute(world, device)
                duration = self.noisy(took)
                world.launch(device, name, duration, stream=7)
                size += duration
            world.end_step()
        return world, Case("exposed_collective", size, ("collective|all-reduce|all-gather|nccl",))

    def exposed_copy(self):
        took = self.step_us() * self.uniform(0.2, 1.2)
        world = self.world()
        size = 0
        for _ in range(self.steps):
            world.begin_step()
            duration = self.noisy(took)
            world.launch(0, copy_name(self.format, self.random.choice(("HtoD", "DtoH"))), duration,
                         "gpu_memcpy", 1 << 24, stream=14 if self.seed % 2 else 7)
            size += duration
            self.compute(world)
            world.end_step()
        return world, Case("exposed_copy", size, ("cop(y|ies)",))

    def recompilation(self):
        # 0: some steps compile; 1: each step has a separate program; 2: like 1, without compiler events
        shape = self.seed % (3 if self.format != "kineto" else 2)
        took = self.step_us() * self.uniform(1, 6)
        names = {"gpu": ("backend_compile", "PjRtStreamExecutorClient::Compile", "XlaCompile:#module=jit_train_step#"),
                 "tpu": ("backend_compile", "TpuCompiler::Compile"),
                 "kineto": ("compile_inner (dynamo_timed)", "backend_compile (dynamo_timed)")}[self.format]
        name = self.random.choice(names)
        world = self.world(marks=self.random.random() < 0.5)
        size = 0
        for step in range(self.steps):
            world.begin_step()
            if shape > 0 or step % 3 == 2:
                world.program += 1
                world.synchronize()
                before = world.free[0]
                world.work(0, name if shape < 2 else "", self.noisy(took))
                if step > 0:
                    size += world.host[0] - before
            self.compute(world)
            world.end_step()
        return world, Case("recompilation", size, ("compil",))

    def tiny_kernels(self):
        world = self.world(marks=self.seed % 2 == 0, launch_cost=self.uniform(4.5, 9))
        self.steps = 12
        size = 0
        for step in range(self.steps):
            world.begin_step()
            for i in range(self.random.randint(120, 200)):
                name = self.step[i % len(self.step)][0]
                world.launch(0, name, self.uniform(1, 3))
                if step + i > 0:
                    size += world.idle
            world.end_step()
        return world, Case("tiny_kernels", size, ("(tiny|small) kernels",))

    def slow_device(self):
        shape = self.seed % 3  # 0: no device waits; 1: collectives wait; 2: the host waits for all devices
        devices = self.random.choice((4, 8))
        slow = self.random.randrange(devices)
        factor = self.uniform(1.15, 1.6)
        self.noise = min(self.noise, 0.01)
        world = self.world(devices=devices)
        name = {"gpu": "ncclDevKernel_AllReduce", "tpu": "all-reduce.3", "kineto": "ncclDevKernel_AllReduce"}[self.format]
        size = waits = 0
        for step in range(self.steps):
            world.begin_step()
            for device in range(devices):
                self.compute(world, device, factor if device == slow else 1.0)
                if device == slow:
                    size += sum(k.duration for k in world.kernels[-len(self.step):]) * (1 - 1 / factor)
            last = max(world.free)
            if shape == 1:
                for device in range(devices):
                    waits += last - world.free[device]
                    world.launch(device, name, last - world.free[device] + 5)
            if shape == 2 and step + 1 < self.steps:
                waits += sum(last - free for free in world.free)
            world.end_step(sync=shape == 2)
            if shape == 2:
                world.host = [max(world.host)] * devices
        return world, Case("slow_device", size + waits, (f"{'GPU' if self.format != 'tpu' else 'TPU'}:{slow}\\b", "slow"))

    def throttling(self):
        shape = self.seed % 3  # 0: slow from one run to the end; 1: slow for a period; 2: increasingly slow
        self.steps = self.random.randint(30, 60)
        first = self.random.randint(10, 16)
        last = self.steps if shape != 1 else first + self.random.randint(8, 12)
        factor = self.uniform(1.2, 1.7)
        self.noise = min(self.noise, 0.01)
        world = self.world(marks=self.random.random() < 0.5)
        size = 0
        for step in range(self.steps):
            world.begin_step()
            slower = 1.0
            if first <= step < last:
                slower = factor if shape != 2 else 1 + (factor - 1) * min(1, (step - first + 1) / 8)
            self.compute(world, 0, slower)
            size += sum(k.duration for k in world.kernels[-len(self.step):]) * (1 - 1 / slower)
            world.end_step()
        return world, Case("slowing_down", size, ("slower", "throttl|clock"))

    def padding(self):
        took = self.step_us() * self.uniform(0.25, 0.7)
        name = {"gpu": ("pad.4", "loop_pad_fusion", "wrapped_pad"), "tpu": ("pad.4", "pad_maximum_fusion.1", "pad.9"),
                "kineto": ("void at::native::constant_pad_nd_kernel", "cudnn::ops::nhwcAddPaddingKernel<float>",
                           "void at::native::reflection_pad2d_out_kernel<float>")}[self.format][self.seed % 3]
        return self.with_op(name, took, "padding", "padding")


KINDS = ("input_bound", "host_bound", "slow_op", "exposed_collective", "exposed_copy", "recompilation", "tiny_kernels",
         "slow_device", "throttling", "padding")


def make(kind, format, seed):
    world, case = getattr(Maker(kind, format, seed), kind)()
    case.content = world.content()
    case.suffix = ".json" if format == "kineto" else ".xplane.pb"
    return case
