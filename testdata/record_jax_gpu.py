#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the traces of a GPU in this folder, with JAX for CUDA.

    python testdata/record_jax_gpu.py [--out DIR] [NAME ...]

Without names, all of them are recorded; DIR is this folder by default. Outputs, in gzip,
`DIR/gpu/GPU_<name>.xplane.pb.gz`, where GPU is h100 or whatever there is:

  train         4 steps of a transformer of two layers, with marked steps; most of it is
                one CUDA graph (XLA: command buffer)
  train_plain   the same without graphs: the profiler names the op of each kernel
  kernels       6 runs of a program with Pallas kernels, library calls and fusions
  kernels_plain the same without graphs
  mixture       products, sums and sines in groups of random length, with pauses, for
                10 s; with GPU_mixture.power.jsonl, what NVML said meanwhile, and
                GPU_mixture.truth.json: joules of each, run alone for some seconds, by the
                same counter. Wants xplane-time on the PATH, and nvidia-ml-py. What the
                host did, nine tenths of the trace, is left out.

Each trace is recorded by a process of its own, and scrubbed as those of
record_jax_cpu.py are. All is warmed up outside of the trace.
"""

import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from record_jax_cpu import command_line, scrub_file

NO_GRAPHS = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}
SETTINGS: dict[str, dict[str, str]] = {
    "train": {}, "train_plain": NO_GRAPHS, "kernels": {}, "kernels_plain": NO_GRAPHS, "mixture": {}}
MAX_HLO_PROTO_BYTES = 1 << 20
PERIOD_MS = "23"  # not in step with the sensor

Workload = Callable[[], None]


def train() -> Workload:
    """Steps of a small language model: a batch from the host, a loss back to it."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    width, layers, batch, length, words = 512, 2, 4, 256, 2048
    keys = iter(jax.random.split(jax.random.key(0), 5))

    def weights(*shape):
        return (jax.random.normal(next(keys), shape) * 0.02).astype(jnp.bfloat16)

    model = {"words": weights(words, width), "qkv": weights(layers, width, 3 * width),
             "out": weights(layers, width, width), "up": weights(layers, width, 4 * width),
             "down": weights(layers, 4 * width, width)}

    def loss(model, tokens):
        x = model["words"][tokens]
        for layer in range(layers):
            with jax.named_scope(f"layer_{layer}"):
                with jax.named_scope("attention"):
                    parts = jnp.split(x @ model["qkv"][layer], 3, axis=-1)
                    q, k, v = (part.reshape(batch, length, 8, 64) for part in parts)
                    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
                    x = x + mixed.reshape(batch, length, width) @ model["out"][layer]
                with jax.named_scope("mlp"):
                    x = x + jax.nn.gelu(x @ model["up"][layer]) @ model["down"][layer]
        scores = jax.nn.log_softmax((x @ model["words"].T).astype(jnp.float32))
        return -jnp.take_along_axis(scores, tokens[..., None], axis=-1).mean()

    def train_step(model, tokens):
        value, slopes = jax.value_and_grad(loss)(model, tokens)
        return jax.tree.map(lambda a, b: a - 0.01 * b, model, slopes), value

    step = jax.jit(train_step)
    draw = np.random.default_rng(0)

    def run() -> None:
        now = model
        for number in range(4):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                tokens = draw.integers(0, words, (batch, length)).astype(np.int32)
                now, value = step(now, jax.device_put(tokens))
                float(value)

    return run


def kernels() -> Workload:
    """Kernels of Pallas, two of them called twice, between library calls and fusions."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plt

    size = 1024

    def product(name: str, block: int):
        def kernel(a, b, out):
            def add(k, total):
                part = pl.ds(k * 32, 32)
                return total + jnp.dot(a[:, part], b[part, :], preferred_element_type=jnp.float32)

            zero = jnp.zeros((block, block), jnp.float32)
            out[...] = jax.lax.fori_loop(0, size // 32, add, zero).astype(out.dtype)

        return pl.pallas_call(
            kernel, grid=(size // block, size // block), name=name,
            in_specs=[pl.BlockSpec((block, size), lambda i, j: (i, 0)),
                      pl.BlockSpec((size, block), lambda i, j: (0, j))],
            out_specs=pl.BlockSpec((block, block), lambda i, j: (i, j)),
            out_shape=jax.ShapeDtypeStruct((size, size), jnp.bfloat16),
            compiler_params=plt.CompilerParams(num_warps=4, num_stages=3))

    coarse, fine = product("product_128", 128), product("product_64", 64)

    def mixed(x, w):
        with jax.named_scope("first"):
            y = jnp.tanh(coarse(x, w))
            y = jax.nn.softmax((y @ w).astype(jnp.float32)).astype(x.dtype)
        with jax.named_scope("second"):
            y = jnp.sin(fine(y, w)) + fine(y, x)
            y = jnp.tanh(coarse(y, w))
        with jax.named_scope("third"):
            wide = jax.lax.dot(y.astype(jnp.float32), w.astype(jnp.float32), precision="highest")
            return jnp.linalg.norm(wide, axis=-1) + jnp.cumsum(wide.sum(axis=0))

    function = jax.jit(mixed)
    x, w = ((jax.random.normal(jax.random.key(i), (size, size)) * 0.03).astype(jnp.bfloat16)
            for i in range(2))

    def run() -> None:
        for _ in range(6):
            function(x, w).block_until_ready()

    return run


def mixture_functions() -> dict[str, Workload]:
    """Of some milliseconds each: what is bound by products, by memory, and by arithmetic."""
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)
    square = (jax.random.normal(key, (8192, 8192)) * 0.01).astype(jnp.bfloat16)
    much, some = jnp.ones((256, 1024, 1024)), jnp.ones((16, 1024, 1024))

    def product(x):
        return x @ (x @ x)

    def stream(x):
        for _ in range(4):
            x = jax.lax.optimization_barrier(x + 1)
        return x

    def sines(x):
        return jax.lax.fori_loop(0, 60, lambda _, y: jnp.sin(y) + 1, x, unroll=True)

    def bind(function, x) -> Workload:
        compiled = jax.jit(function)
        return lambda: compiled(x).block_until_ready()

    return {f.__name__: bind(f, x) for f, x in ((product, square), (stream, much), (sines, some))}


def mixture() -> Workload:
    """Groups that a sensor of power sees mixed differently."""
    functions = list(mixture_functions().values())
    draw = random.Random(7)

    def run() -> None:
        for function in functions:
            function()
        end = time.monotonic() + (10 if run.is_warm else 1)
        while time.monotonic() < end:
            group_end = time.monotonic() + draw.uniform(0.1, 0.6)
            function = draw.choice(functions)
            while time.monotonic() < group_end:
                function()
            time.sleep(draw.uniform(0, 0.2))
        run.is_warm = True

    run.is_warm = False
    return run


def alone(seconds: float) -> dict[str, dict[str, float]]:
    """The joules of each function of the mixture, while nothing else runs."""
    import pynvml

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)

    def take(function: Workload, least_s: float) -> tuple[int, float, float]:
        begin, runs = time.monotonic(), 0
        before = pynvml.nvmlDeviceGetTotalEnergyConsumption(device)
        while time.monotonic() < begin + least_s:
            function()
            runs += 1
        after = pynvml.nvmlDeviceGetTotalEnergyConsumption(device)
        return runs, time.monotonic() - begin, (after - before) / 1000

    truth = {}
    for name, function in (mixture_functions() | {"idle": lambda: time.sleep(0.01)}).items():
        take(function, 1)
        runs, length_s, joules = take(function, seconds)
        truth[name] = {"runs": runs, "s": length_s, "joules": joules}
    return truth


WORKLOADS = {"train": train, "train_plain": train, "kernels": kernels, "kernels_plain": kernels,
             "mixture": mixture}


def record(name: str, log_dir: str) -> None:
    """Warms one workload up and traces it into log_dir; runs in its own process."""
    import jax

    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    run = WORKLOADS[name]()
    run()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(log_dir, profiler_options=options):
        run()
    pathlib.Path(log_dir, "device").write_text(jax.devices()[0].device_kind)
    if name == "mixture":
        pathlib.Path(log_dir, "truth.json").write_text(json.dumps(alone(5), indent=1) + "\n")


def drop_host(trace: pathlib.Path) -> None:
    """Leaves the events of devices, and the programs."""
    from tune_jax.profile_reader import xplane_pb2

    space = xplane_pb2.XSpace.FromString(gzip.decompress(trace.read_bytes()))
    for plane in space.planes:
        if plane.name == "/host:CPU":
            del plane.lines[:]
            plane.event_metadata.clear()
            plane.stat_metadata.clear()
    trace.write_bytes(gzip.compress(space.SerializeToString(deterministic=True), mtime=0))


def scrub_log(log: pathlib.Path, target: pathlib.Path, until_ns: int) -> None:
    """Without what names this machine, and without readings after a UNIX time."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    head = lines[0]
    until_ns -= head["clocks"]["realtime_ns"] - head["clocks"]["monotonic_ns"]
    lines = [line for line in lines if line["t"] < until_ns] + lines[-1:]  # the last ends the log
    head["machine"] = {"host": "testhost", "kernel": "", "cpu": ""}
    head["command"] = ""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    for number, device in enumerate(head["devices"]):
        text = text.replace(device["id"], f"GPU-{number}").replace(
            device["pci_bus_id"] or "\0", f"00000000:{number:02x}:00.0")
    target.write_text(text)


def record_in_subprocess(name: str, out: pathlib.Path) -> None:
    """Records one workload in a fresh process and scrubs the result into out."""
    with tempfile.TemporaryDirectory() as folder:
        log_dir = pathlib.Path(folder)
        command = [sys.executable, __file__, "--worker", folder, name]
        if name == "mixture":
            log = log_dir / "power.jsonl"
            command = ["xplane-time", "power", "record", "--source", "nvml", "--period", PERIOD_MS,
                       "--log", str(log), "-o", os.devnull, "--", *command]
        subprocess.run(command, env=os.environ | SETTINGS[name], check=True)
        (source,) = log_dir.rglob("*.xplane.pb")
        gpu = re.search(r"[A-Z]+\d+", (log_dir / "device").read_text())[0].lower()
        out.mkdir(exist_ok=True)
        scrub_file(source, out / f"{gpu}_{name}.xplane.pb.gz", MAX_HLO_PROTO_BYTES)
        if name == "mixture":
            drop_host(out / f"{gpu}_{name}.xplane.pb.gz")
            # Until the trace was written.
            scrub_log(log, out / f"{gpu}_{name}.power.jsonl", source.stat().st_mtime_ns)
            (out / f"{gpu}_{name}.truth.json").write_bytes((log_dir / "truth.json").read_bytes())


if __name__ == "__main__":
    command_line("Records the traces of a GPU.", SETTINGS, pathlib.Path(__file__).parent / "gpu",
                 record, record_in_subprocess)
