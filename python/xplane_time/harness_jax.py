"""Variants that are JAX programs: what xplane_time.harness.serve_jax serves."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jax as _typed_jax

import xplane_time
from xplane_time import harness
from xplane_time.errors import NothingFoundError
from xplane_time.jax import CaptureError, capture, program_text

jax: Any = _typed_jax  # some of its functions have no types

_NAME = "autotune_fn_"

Program = tuple[Callable[..., Any], Sequence[Any]]


class Programs:
    """Each variant of each workload is compiled under a name of its own, and traced."""

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
                harness.check_result(got, self._reference(*more), self._check)

    def run_round(self, order: list[str], calls: int, workload: str,
                  begin: Callable[[int], None]) -> list[int | Exception]:
        failed: dict[int, Exception] = {}
        wall_ps: list[int] = []

        def run() -> None:
            self._run(order[0], workload)
            for slot, variant in enumerate(order):
                begin(slot)
                try:
                    wall_ps.append(sum(harness.wall_timer(lambda: self._run(variant, workload))
                                       for _ in range(calls)) // calls)
                except Exception as error:  # the variant's own
                    failed[slot] = error
                    wall_ps.append(0)

        if self._wall:
            run()
            times = wall_ps
        else:
            times = self._times(capture(run), order, calls, workload, failed)
        return [failed.get(slot, time_ps) for slot, time_ps in enumerate(times)]

    def _run(self, variant: str, workload: str) -> Any:
        program, arguments = self._programs[variant, workload]
        return jax.block_until_ready(program(*arguments))

    def _times(self, content: bytes, order: list[str], calls: int, workload: str,
               failed: dict[int, Exception]) -> list[int]:
        runs: dict[str, list[int]] = {}
        trace = xplane_time.open(content)
        rows = trace.samples(device=jax.default_backend(), function=f"^jit_{_NAME}[0-9]+$",
                             id_pattern=f"^jit_{_NAME}([0-9]+)$").to_dict()
        for variant, start_ps, active_ps in sorted(
                zip(rows["variant_id"], rows["start_ps"], rows["active_ps"]),
                key=lambda row: row[1]):
            runs.setdefault(variant, []).append(active_ps)
        times = []
        for slot, variant in enumerate(order):
            left = runs.get(str(self._numbers[variant, workload]), [])
            if slot == 0:
                left[:1] = []  # the one that opened the round
            taken, left[:calls] = left[:calls], []
            if slot in failed:
                taken = [0]
            elif len(taken) < calls or None in taken:
                raise CaptureError(f"the trace has no time for slot {slot}")
            times.append(max(1, sum(taken) // len(taken)))
        return times


def _compile(function: Callable[..., Any], arguments: Sequence[Any], name: str) -> Any:
    def named(*given: Any) -> Any:
        return function(*given)

    named.__name__ = named.__qualname__ = name
    return jax.jit(named).lower(*arguments).compile()


def _temporary_bytes(compiled: Any) -> int:
    """0: not known."""
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
