"""Compiles and times variants that are JAX programs, for xplane_time.harness.serve_jax."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax as _typed_jax

import xplane_time
from xplane_time import harness
from xplane_time.errors import NothingFoundError
from xplane_time.jax import CaptureError, capture, program_text

jax: Any = _typed_jax  # some of its functions lack types

_NAME = "autotune_fn_"

Program = tuple[Callable[..., Any], Sequence[Any]]


class Programs:
    """Compiles each variant of each workload under its own name, and traces it."""

    def __init__(
        self,
        build: Callable[..., Program],
        reference: Callable[..., Any] | None,
        check: Callable[[Any, Any], object] | None,
        fallback_wall: bool,
    ) -> None:
        self._build, self._reference, self._check = build, reference, check
        self._workloads: dict[str, harness.Params] = {"": {}}
        self._programs: dict[tuple[str, str], Program] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self.has_reference = reference is not None
        device = jax.devices()[0]
        self._wall = fallback_wall and not _traces_tell_runs_apart()
        self.described: harness.Message = {
            "device": f"{device.platform}:{device.id}",
            "device_class": harness.processor() if device.platform == "cpu" else device.device_kind,
            "driver": str(getattr(device.client, "platform_version", "")),
            "versions": {"jax": jax.__version__},
            "clock": "wall" if self._wall else
                     "device" if device.platform == "tpu" else "profile"}

    def set_workloads(self, workloads: dict[str, harness.Params]) -> None:
        self._workloads = workloads or {"": {}}

    def prepare(self, variant: str, params: harness.Params) -> harness.Message:
        digest = hashlib.sha256()
        mem_bytes, known = 0, True
        for name, workload in self._workloads.items():
            more = (workload,) if harness.takes_workload(self._build, 1) else ()
            function, arguments = self._build(dict(params), *more)
            number = self._numbers.setdefault((variant, name), len(self._numbers))
            compiled = _compile(function, arguments, f"{_NAME}{number}")
            text = program_text(compiled, f"{_NAME}{number}")
            known = known and bool(text)
            digest.update(text.encode())
            mem_bytes += _temporary_bytes(compiled)
            self._programs[variant, name] = (compiled, arguments)
        answer: harness.Message = {"mem_bytes": mem_bytes} if mem_bytes else {}
        return {**answer, "fingerprint": digest.hexdigest()} if known else answer

    def verify(self, variant: str) -> None:
        for name, workload in self._workloads.items():
            got = self._run(variant, name)
            if self._reference is not None:
                more = (workload,) if harness.takes_workload(self._reference, 0) else ()
                wanted = self._reference(*more)
                if self._check is None:
                    got, wanted = _leaves(got), _leaves(wanted)
                harness.check_result(got, wanted, self._check)

    def run_round(self, order: list[str], calls: int, workload: str,
                  begin: Callable[[int], None]) -> list[harness.Timed | BaseException]:
        failed: dict[str, BaseException] = {}  # it is unknown which of their runs are in the trace
        walls: list[harness.Timed] = []

        def run() -> None:
            for slot, variant in enumerate(order):
                begin(slot)
                try:
                    if slot == 0:
                        self._run(variant, workload)  # opens the round
                    t0_ns = time.monotonic_ns()
                    t_ps = sum(harness.wall_timer(lambda: self._run(variant, workload))
                               for _ in range(calls)) // calls
                    walls.append(harness.Timed(t_ps, t0_ns, time.monotonic_ns()))
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # raised by the variant, maybe SystemExit
                    failed[variant] = error
                    walls.append(harness.Timed(0, 0, 0))

        if self._wall:
            run()
            times_ps = [each.t_ps for each in walls]
        else:
            times_ps = self._times(capture(run), order, calls, workload, failed)
        return [failed.get(variant, wall._replace(t_ps=t_ps))
                for variant, wall, t_ps in zip(order, walls, times_ps)]

    def _run(self, variant: str, workload: str) -> Any:
        program, arguments = self._programs[variant, workload]
        return jax.block_until_ready(program(*arguments))

    def _times(self, content: bytes, order: list[str], calls: int, workload: str,
               failed: Mapping[str, BaseException]) -> list[int]:
        devices: dict[str, dict[tuple[str, int], list[int | None]]] = {}
        trace = xplane_time.open(content)
        rows = trace.samples(device=jax.default_backend(), function=f"^jit_{_NAME}[0-9]+$",
                             id_pattern=f"^jit_{_NAME}([0-9]+)$").to_dict()
        for variant, plane, ordinal, _, active_ps in sorted(
                zip(rows["variant_id"], rows["plane"], rows["ordinal"], rows["start_ps"],
                    rows["active_ps"]), key=lambda row: row[3]):
            devices.setdefault(variant, {}).setdefault((plane, ordinal), []).append(active_ps)
        runs = {variant: _runs_of(devices.get(str(self._numbers[variant, workload]), {}), variant)
                for variant in set(order).difference(failed)}
        times = []
        for slot, variant in enumerate(order):
            if variant in failed:
                times.append(0)
                continue
            left = runs[variant]
            if slot == 0:
                left[:1] = []  # the run that opened the round
            taken, left[:calls] = left[:calls], []
            known = [active_ps for active_ps in taken if active_ps is not None]
            if len(known) < calls:
                raise CaptureError(f"the trace has no time for slot {slot}")
            times.append(max(1, sum(known) // calls))
        if any(runs.values()):
            raise CaptureError("the trace has more runs than the round")
        return times


def _runs_of(devices: Mapping[tuple[str, int], list[int | None]],
             variant: str) -> list[int | None]:
    """Combines the k-th runs of all devices into one, with the time of the slowest device."""
    counts = {len(own) for own in devices.values()}
    if len(counts) > 1:
        raise CaptureError(f"variant {variant} has different numbers of runs on its devices")
    slowest: list[int | None] = []
    for run in zip(*devices.values()):
        known = [active_ps for active_ps in run if active_ps is not None]
        slowest.append(max(known) if len(known) == len(run) else None)
    return slowest


def _leaves(result: Any) -> dict[str, Any]:
    """The leaves of a pytree by their paths."""
    paths, _ = jax.tree_util.tree_flatten_with_path(result)
    return {jax.tree_util.keystr(path): leaf for path, leaf in paths}


def _compile(function: Callable[..., Any], arguments: Sequence[Any], name: str) -> Any:
    def named(*given: Any) -> Any:
        return function(*given)

    named.__name__ = named.__qualname__ = name
    return jax.jit(named).lower(*arguments).compile()


def _temporary_bytes(compiled: Any) -> int:
    """The bytes of temporary memory that the program needs; 0 if unknown."""
    with contextlib.suppress(Exception):
        return int(compiled.memory_analysis().temp_size_in_bytes)
    return 0


def _traces_tell_runs_apart() -> bool:
    probe = jax.jit(lambda x: x + 1)
    try:
        trace = xplane_time.open(capture(lambda: probe(1.0)))
        functions = trace.report(device=jax.default_backend()).functions
    except (CaptureError, NothingFoundError):
        return False
    return all(row["status"] != "runs_uncertain" for row in functions)
