#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the JAX CPU traces of this folder.

    python3 -m venv venv
    venv/bin/pip install -r testdata/requirements.txt
    venv/bin/python testdata/record_jax_cpu.py [--out DIR] [NAME ...]

Without names, all of them are recorded; DIR is this folder by default. Outputs
`DIR/jax_cpu_<name>.xplane.pb`:

  variants      jitted autotune_fn_0 .. autotune_fn_7, i + 1 chained matmul + tanh,
                6 runs each, interleaved
  control_flow  a while loop with 1 to 6 iterations, one with 3 iterations but 1
                in its fourth run, a cond whose branches alternate, nested fori
                loops, a named scope; 6 runs each
  spmd4         4 CPU devices: a sharded function with collectives (5 runs), and
                a function on device 2 alone (4 runs)
  async_body    a while loop whose matmuls are large enough for the thunk executor
                to run the body asynchronously, and the like without a loop;
                4 runs each
  edit_baseN, edit_headN
                the same step with tanh and with gelu, 10 runs each, N from 1 to 4: for
                diff; into DIR/diff, in gzip
  mixture       three matmuls in groups of random length, with pauses, for 6 s: for the
                energy of kernels; into DIR/energy

Everything is warmed up outside of the trace. Each trace is recorded by a process of
its own, with the environment in COMMON and SETTINGS. Then it is scrubbed: the host name
becomes "testhost", absolute paths keep their base name, HLO protos are dropped if
they are large or name a directory of this machine. Process ids and times stay.

A second recording has other times: run answers_jax_cpu.py after it.
"""

import argparse
import functools
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

# One arena that never shrinks: else glibc returns the buffers to the system between
# two runs, and page faults (some 120 us for 36 KB) drown the cost of a variant.
COMMON = {
    "JAX_PLATFORMS": "cpu",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
    "XLA_FLAGS": "",
}
# NPROC is the size of XLA's thread pool; a while body runs asynchronously only if a
# dot can be split between threads.
SETTINGS = {
    "variants": {"NPROC": "1"},
    "control_flow": {"NPROC": "1"},
    "spmd4": {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "NPROC": "2"},
    "async_body": {"NPROC": "2"},
    "mixture": {"NPROC": "1"},
    **{f"edit_{side}{take}": {"NPROC": "1"} for side in ("base", "head") for take in range(1, 5)},
}
FOLDERS = {"mixture": "energy"} | {name: "diff" for name in SETTINGS if name.startswith("edit_")}
HOST_NAME = "testhost"
MAX_HLO_PROTO_BYTES = 16 * 1024
# An absolute path (at the start, or after a delimiter) up to its last slash.
DIRECTORY = re.compile(r"(?:^|(?<=[\s='\"(,:]))/(?:[^/\s:]+/)+")

Workload = Callable[[], None]


def variants() -> Workload:
    """Eight functions of clearly different cost, called in turn."""
    import jax
    import jax.numpy as jnp

    def make(index: int) -> Callable:
        def function(x):
            for _ in range(index + 1):
                x = jnp.tanh(x @ x)
            return x

        function.__name__ = f"autotune_fn_{index}"
        return jax.jit(function)

    functions = [make(index) for index in range(8)]
    x = jax.random.normal(jax.random.key(0), (96, 96)) * 0.15

    def run() -> None:
        for _ in range(6):
            for function in functions:
                function(x).block_until_ready()

    return run


def while_loops() -> tuple[Callable, Callable]:
    """Two programs with the same loop, called with different trip counts."""
    import jax
    import jax.numpy as jnp

    def loop(x, trips):
        body = lambda c: (c[0] + 1, jnp.sin(c[1] @ c[1]))
        return jax.lax.while_loop(lambda c: c[0] < trips, body, (0, x))[1]

    def while_trips(x, trips):
        return loop(x, trips)

    def while_rare_exit(x, trips):
        return loop(x, trips)

    return jax.jit(while_trips), jax.jit(while_rare_exit)


def control_flow() -> Workload:
    """Loops and branches: the number of thunks differs from run to run."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def cond_branch(x, flag):
        return jax.lax.cond(flag, lambda y: jnp.sin(y) @ y, lambda y: y + 1, x)

    @jax.jit
    def fori_nested(x):
        inner = lambda _, y: jnp.tanh(y @ x)
        outer = lambda _, y: jax.lax.fori_loop(0, 3, inner, y) + 1
        return jax.lax.fori_loop(0, 2, outer, x)

    @jax.jit
    def scoped(x):
        with jax.named_scope("outer_scope"):
            y = jnp.tanh(x @ x)
            with jax.named_scope("inner_scope"):
                return jnp.cos(y @ x)

    while_trips, while_rare_exit = while_loops()
    x = jnp.full((48, 48), 0.01)

    def run() -> None:
        for step in range(6):
            while_trips(x, step + 1).block_until_ready()
            while_rare_exit(x, 1 if step == 3 else 3).block_until_ready()
            cond_branch(x, step % 2 == 0).block_until_ready()
            fori_nested(x).block_until_ready()
            scoped(x).block_until_ready()

    return run


def spmd4() -> Workload:
    """One program over four devices, and one on a single device."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices(), ("d",))
    rows = NamedSharding(mesh, PartitionSpec("d"))

    @jax.jit
    def sharded_step(x):
        y = jnp.sin(x) @ x.T
        return y / jnp.sum(y)

    @jax.jit
    def single_device(x):
        return jnp.tanh(x @ x)

    x = jax.device_put(jnp.full((64, 64), 0.01), rows)
    y = jax.device_put(jnp.full((64, 64), 0.01), jax.devices()[2])

    def run() -> None:
        for step in range(5):
            sharded_step(x).block_until_ready()
            if step < 4:
                single_device(y).block_until_ready()

    return run


def async_body() -> Workload:
    """Dots that spread over the thread pool, inside and outside of a while loop."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def async_while(x):
        def body(carry):
            step, y = carry
            a, b, c = jnp.tanh(y @ y), jnp.sin(y @ y.T), jnp.cos(y.T @ y)
            return step + 1, (a @ b) * 0.01 + c

        return jax.lax.while_loop(lambda c: c[0] < 3, body, (0, x))[1]

    @jax.jit
    def async_dots(x):
        return jnp.tanh(x @ x) @ x

    x = jnp.full((192, 192), 0.01)

    def run() -> None:
        for _ in range(4):
            async_while(x).block_until_ready()
            async_dots(x).block_until_ready()

    return run


def mixture() -> Workload:
    """Three sizes of one product, in groups that a sensor of power sees mixed differently."""
    import random
    import time

    import jax
    import jax.numpy as jnp

    def make(size: int) -> Callable:
        def function(x):
            with jax.named_scope(f"layer_{size}"):
                return x @ x

        function.__name__ = f"matmul_{size}"
        function = jax.jit(function)
        x = jnp.full((size, size), 0.01)
        return lambda: function(x).block_until_ready()

    functions = [make(size) for size in (768, 1024, 1408)]
    for function in functions:
        function()
    draw = random.Random(7)

    def run() -> None:
        end = time.monotonic() + 6
        while time.monotonic() < end:
            group_end = time.monotonic() + draw.uniform(0.02, 0.2)
            function = draw.choice(functions)
            while time.monotonic() < group_end:
                function()
            time.sleep(draw.uniform(0, 0.06))

    return run


def edit(side: str) -> Workload:
    """A step, and the same with one edit: another activation."""
    import jax
    import jax.numpy as jnp

    activation = {"base": jnp.tanh, "head": jax.nn.gelu}[side]

    @jax.jit
    def train_step(x, w1, w2):
        hidden = x @ w1
        hidden = activation(hidden)
        scores = jax.nn.softmax(hidden @ w2, axis=-1)
        return jnp.sort(scores, axis=-1)

    x, w1, w2 = (jnp.full((64, 64), 0.01 * i) for i in range(1, 4))

    def run() -> None:
        for _ in range(10):
            train_step(x, w1, w2).block_until_ready()

    return run


WORKLOADS = {f.__name__: f for f in (variants, control_flow, spmd4, async_body, mixture)}
WORKLOADS |= {name: functools.partial(edit, name[5:9]) for name in SETTINGS if name.startswith("edit_")}


def record(name: str, log_dir: str) -> None:
    """Warms one workload up and traces it into log_dir; runs in its own process."""
    import jax

    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    run = WORKLOADS[name]()
    run()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 2
    with jax.profiler.trace(log_dir, profiler_options=options):
        run()


def all_stats(space) -> Iterator:
    """Yields (holder, stat) for every stat of every plane, event and metadata."""
    for plane in space.planes:
        holders = [plane, *plane.event_metadata.values()]
        holders += [event for line in plane.lines for event in line.events]
        for holder in holders:
            for stat in holder.stats:
                yield holder, stat


def names_a_directory(data: bytes) -> bool:
    """Whether an HLO proto mentions a directory of this machine."""
    here = pathlib.Path(__file__).resolve().parent
    private = {str(here), sys.prefix, str(pathlib.Path.home()), tempfile.gettempdir()}
    return any(p.encode() in data for p in private if len(p) > 1)


def scrub(space, max_hlo_proto_bytes: int) -> None:
    """Removes the host name and directories of this machine, in place."""
    space.hostnames[:] = [HOST_NAME] * len(space.hostnames)
    doomed = []
    for holder, stat in all_stats(space):
        kind = stat.WhichOneof("value")
        if kind == "str_value":
            stat.str_value = DIRECTORY.sub("", stat.str_value)
        elif kind == "bytes_value" and (
            len(stat.bytes_value) > max_hlo_proto_bytes
            or names_a_directory(stat.bytes_value)
        ):
            doomed.append((holder, stat))
    for holder, stat in doomed:
        holder.stats.remove(stat)
    for plane in space.planes:  # ref stats point to these names
        for metadata in plane.stat_metadata.values():
            metadata.name = DIRECTORY.sub("", metadata.name)


def shape(space) -> list[tuple[str, str, int, int]]:
    """The number of events and event stats of each line, to compare two spaces."""
    return [
        (p.name, l.name, len(l.events), sum(len(e.stats) for e in l.events))
        for p in space.planes
        for l in p.lines
    ]


def scrub_file(source: pathlib.Path, target: pathlib.Path,
               max_hlo_proto_bytes: int = MAX_HLO_PROTO_BYTES) -> None:
    """Writes a scrubbed copy of a trace and checks that no event got lost."""
    from tune_jax.profile_reader import xplane_pb2

    before = xplane_pb2.XSpace.FromString(source.read_bytes())
    after = xplane_pb2.XSpace.FromString(source.read_bytes())
    scrub(after, max_hlo_proto_bytes)
    data = after.SerializeToString(deterministic=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)
    after = xplane_pb2.XSpace.FromString(data)
    if shape(before) != shape(after):
        raise SystemExit(f"{target.name}: events lost while scrubbing")
    events = sum(row[2] for row in shape(after))
    print(f"{target.name}: {events} events, {target.stat().st_size} bytes")


def record_in_subprocess(name: str, out: pathlib.Path) -> None:
    """Records one workload in a fresh process and scrubs the result into out."""
    env = os.environ | COMMON | SETTINGS[name]
    with tempfile.TemporaryDirectory() as log_dir:
        command = [sys.executable, __file__, "--worker", log_dir, name]
        subprocess.run(command, env=env, check=True)
        (source,) = pathlib.Path(log_dir).rglob("*.xplane.pb")
        folder = FOLDERS.get(name, "")
        suffix = ".gz" if folder == "diff" else ""
        scrub_file(source, out / folder / f"jax_cpu_{name}.xplane.pb{suffix}")


def command_line(description: str, settings: dict[str, dict[str, str]], out: pathlib.Path,
                 record_here: Callable[[str, str], None],
                 record_apart: Callable[[str, pathlib.Path], None]) -> None:
    """Parses the command line and records the named traces, or, as --worker, one of them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(settings))
    parser.add_argument("--out", type=pathlib.Path, default=out)
    parser.add_argument("--worker", metavar="LOG_DIR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.names) - set(settings):
        parser.error(f"unknown trace {', '.join(sorted(unknown))}")
    for name in args.names or settings:
        if args.worker:
            record_here(name, args.worker)
        else:
            record_apart(name, args.out)


if __name__ == "__main__":
    command_line("Records the JAX CPU traces.", SETTINGS, pathlib.Path(__file__).parent, record,
                 record_in_subprocess)
