"""Harnesses for `xplane-time tune`: write a function that builds a variant, and pass it to serve.

  # harness.py
  from xplane_time.harness import serve

  def build(params):                     # from the space: {"block": 32}
      kernel = compile_my_kernel(**params)
      return lambda: kernel(a, b)        # runs once, waits for the end, returns the result

  serve(build, reference=lambda: a @ b)

  $ xplane-time tune space.json -- python harness.py

`serve` measures times with the clock of this process, or with `timer`, which may use device events.
`serve_jax` compiles functions and takes the device's times from traces of jax's profiler. It
detects variants that compile to the same program. docs/harness.md describes the protocol, for
harnesses in other languages.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import inspect
import json
import math
import os
import pathlib
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from xplane_time.errors import ArgumentError

__all__ = ["WrongResultError", "code_hash_of", "serve", "serve_jax", "wall_timer"]

CODE_HASH = "XPLANE_TIME_CODE_HASH"

Params = dict[str, Any]
Message = dict[str, Any]


class WrongResultError(Exception):
    """A check raises this error if a variant computes a wrong result."""


def wall_timer(run: Callable[[], object]) -> int:
    """The time of one call in picoseconds, by the clock of this process."""
    begin_ns = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - begin_ns) * 1000


def serve(
    build: Callable[..., Callable[[], Any]],
    *,
    reference: Callable[..., Any] | None = None,
    check: Callable[[Any, Any], object] | None = None,
    timer: Callable[[Callable[[], object]], float] = wall_timer,
    clock: str = "wall",
    device: str = "cpu",
    device_class: str = "",
    driver: str = "",
    versions: Mapping[str, str] | None = None,
    code_hash: str = "",
    parallel_prepare: int = 1,
    metrics: Callable[[Params], Mapping[str, Any]] | None = None,
    energy: Callable[[Params], float | None] | None = None,
) -> None:
    """Answers the driver (the program that started this one) until the driver sends bye.

    `build(params)`, or `build(params, workload)` for a space with workloads, returns a callable
    that runs the variant once and waits for it. An exception counts as the variant's failure.
    `reference()`, or `reference(workload)`, returns the right result. `check(result, wanted)`
    raises an exception or returns a false value if a result is wrong; a returned array is true if
    all of its elements are. Without `check`, floating-point arrays may differ by 32-bit rounding
    errors. All other values must be equal, also within dicts, tuples and lists. `timer(run)`
    returns the picoseconds of one call; `clock` names its clock ("device", "profile", "wall").
    `metrics(params)` is called after the timed calls of a variant and returns numbers by name for
    `xplane-time grid`: `accuracy`, `peak_rss_bytes`, or others. `energy(params)` is also called
    after the timed calls and returns the microjoules of one of them, or None if unknown. For
    example, `timer` can read an energy meter before and after `run`, and `energy` can return the
    difference.

    The other arguments describe what the times depend on. `device_class` defaults to the model of
    the processor, and `code_hash` to the hash of this program's file (see code_hash_of()).

    Errors: ArgumentError if there is no driver.
    """
    described = {
        "device": device, "device_class": device_class or processor(), "driver": driver,
        "clock": clock, "versions": {"python": platform.python_version(), **(versions or {})}}
    if code_hash:
        described["code_hash"] = code_hash
    variants = _Callables(build, reference, check, timer, metrics, energy)
    _Server(variants, described, parallel_prepare).run()


def serve_jax(
    build: Callable[..., tuple[Callable[..., Any], Sequence[Any]]],
    *,
    reference: Callable[..., Any] | None = None,
    check: Callable[[Any, Any], object] | None = None,
    parallel_prepare: int = 1,
    fallback_wall: bool = False,
) -> None:
    """Like serve(), for JAX: `build` returns a function that jax can compile, and its arguments.

    Each round is traced, and times come from the device in the trace. `fallback_wall`: if the
    traces of this jax do not separate runs, uses the clock of this process. The store does not mix
    such times with times of the device.
    """
    from xplane_time import harness_jax

    programs = harness_jax.Programs(build, reference, check, fallback_wall)
    _Server(programs, programs.described, parallel_prepare).run()


class Timed(NamedTuple):
    """The timed calls of one variant in a round: the time of one call, the begin and end of all
    calls by time.monotonic_ns(), the metrics and the energy."""

    t_ps: int
    t0_ns: int
    t1_ns: int
    metrics: Mapping[str, float | None] = {}
    energy_uj: int | None = None

    def sample(self) -> Message:
        return {name: value for name, value in self._asdict().items() if value not in ({}, None)}


class Variants(Protocol):
    """The variants of a server, by the driver's ids."""

    has_reference: bool

    def prepare(self, variant: str, params: Params) -> Message: ...
    def verify(self, variant: str) -> None: ...
    def run_round(self, order: list[str], calls: int, workload: str,
                  begin: Callable[[int], None]) -> list[Timed | BaseException]: ...
    def set_workloads(self, workloads: dict[str, Params]) -> None: ...


def takes_workload(function: Callable[..., Any], before: int) -> bool:
    """Whether the function has a further positional parameter after its first `before`
    parameters."""
    positional = [each for each in inspect.signature(function).parameters.values()
                  if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
                  and each.default is each.empty or each.kind is each.VAR_POSITIONAL]
    return len(positional) > before or any(
        each.kind is each.VAR_POSITIONAL for each in positional)


def check_result(got: Any, wanted: Any, check: Callable[[Any, Any], object] | None) -> None:
    """Raises WrongResultError if `got` is wrong."""
    if check is None:
        _compare(got, wanted, "")
        return
    verdict = check(got, wanted)
    if verdict is not None and not _is_yes(verdict):
        raise WrongResultError("the check failed")


def _is_yes(verdict: Any) -> bool:
    """Whether a value is true. Of an array (of NumPy or another library), all elements must be
    true."""
    return bool(verdict.all() if hasattr(verdict, "all") else verdict)


def _compare(got: Any, wanted: Any, at: str) -> None:
    """`at` is the position in the result: "['x'][0]: ", or empty."""
    if isinstance(wanted, Mapping):
        if not isinstance(got, Mapping) or got.keys() != wanted.keys():
            what = (f"the keys are {sorted(map(str, got))}" if isinstance(got, Mapping)
                    else f"the result is a {type(got).__name__}")
            keys = f"the expected keys are {sorted(map(str, wanted))}"
            raise WrongResultError(f"{at}{what}; {keys}"[:500])
        for key in wanted:
            _compare(got[key], wanted[key], f"{at.removesuffix(': ')}[{key!r}]: ")
    elif isinstance(wanted, (tuple, list)):
        if not isinstance(got, (tuple, list)):
            raise WrongResultError(f"{at}the result is a {type(got).__name__}, not a list or "
                                   f"tuple of {len(wanted)} results")
        if len(got) != len(wanted):
            raise WrongResultError(f"{at}{len(got)} results, not {len(wanted)}")
        for index, (one, other) in enumerate(zip(got, wanted)):
            _compare(one, other, f"{at.removesuffix(': ')}[{index}]: ")
    elif hasattr(wanted, "__array__") or hasattr(got, "__array__"):
        _compare_arrays(got, wanted, at)
    elif got != wanted:
        raise WrongResultError(f"{at}{got!r} is not {wanted!r}"[:500])


def _compare_arrays(got: Any, wanted: Any, at: str) -> None:
    import numpy

    got, wanted = numpy.asarray(got), numpy.asarray(wanted)
    if got.shape != wanted.shape:
        raise WrongResultError(f"{at}the shape is {got.shape}, not {wanted.shape}")
    if _is_rounded(wanted.dtype):
        same = numpy.isclose(got, wanted, rtol=1e-3, atol=1e-5, equal_nan=True)
    else:
        same = numpy.asarray(got == wanted)
    if not same.all():
        raise WrongResultError(f"{at}{same.size - same.sum()} of {same.size} values are wrong")


def _is_rounded(dtype: Any) -> bool:
    """Whether values of this type are rounded, including types that NumPy does not know, like
    bfloat16."""
    import numpy

    if dtype.kind in "fc":
        return True
    return dtype.kind == "V" and dtype.names is None and bool(
        numpy.asarray(0.5).astype(dtype).astype(float) == 0.5)


def _whole(value: Any, giver: str, unit: str) -> int:
    """Converts a value of any numeric type to an int, for example the time that a timer returns."""
    try:
        whole = round(float(value)) if not isinstance(value, int) else value
    except (TypeError, ValueError, OverflowError):  # None, a text; NaN, infinite
        whole = -1
    if whole < 0:
        raise ValueError(f"the {giver} returned {value!r}, not {unit}"[:500])
    return whole


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Converts numbers, including those of NumPy's types, for JSON. Unknown and non-finite values
    become None."""
    numbers: dict[str, float | None] = {}
    for name, value in metrics.items():
        number = None if value is None else int(value) if isinstance(value, int) else float(value)
        numbers[str(name)] = number if number is not None and math.isfinite(number) else None
    return numbers


class _Callables:
    """Variants that are Python callables."""

    def __init__(
        self,
        build: Callable[..., Callable[[], Any]],
        reference: Callable[..., Any] | None,
        check: Callable[[Any, Any], object] | None,
        timer: Callable[[Callable[[], object]], float],
        metrics: Callable[[Params], Mapping[str, Any]] | None,
        energy: Callable[[Params], float | None] | None,
    ) -> None:
        self._build, self._reference, self._check, self._timer = build, reference, check, timer
        self._metrics, self._energy = metrics, energy
        self._params: dict[str, Params] = {}
        self._workloads: dict[str, Params] = {"": {}}
        self._calls: dict[tuple[str, str], Callable[[], Any]] = {}
        self.has_reference = reference is not None

    def set_workloads(self, workloads: dict[str, Params]) -> None:
        self._workloads = workloads or {"": {}}

    def prepare(self, variant: str, params: Params) -> Message:
        self._params[variant] = params
        for name, workload in self._workloads.items():
            more = (workload,) if takes_workload(self._build, 1) else ()
            call = self._build(dict(params), *more)
            if not callable(call):
                raise TypeError(f"build() returned {type(call).__name__}, not a callable")
            self._calls[variant, name] = call
        return {}

    def verify(self, variant: str) -> None:
        for name, workload in self._workloads.items():
            got = self._calls[variant, name]()
            if self._reference is not None:
                more = (workload,) if takes_workload(self._reference, 0) else ()
                check_result(got, self._reference(*more), self._check)

    def run_round(self, order: list[str], calls: int, workload: str,
                  begin: Callable[[int], None]) -> list[Timed | BaseException]:
        times: list[Timed | BaseException] = []
        for slot, variant in enumerate(order):
            begin(slot)
            run = self._calls[variant, workload]
            try:
                if slot == 0:
                    run()
                t0_ns = time.monotonic_ns()
                t_ps = sum(_whole(self._timer(run), "timer", "picoseconds")
                           for _ in range(calls)) // calls
                t1_ns = time.monotonic_ns()
                params = self._params[variant]
                metrics = _numbers(self._metrics(params)) if self._metrics else {}
                energy = self._energy(params) if self._energy else None
                times.append(Timed(max(1, t_ps), t0_ns, t1_ns, metrics, None if energy is None else
                                   _whole(energy, "energy", "microjoules")))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # raised by the variant, maybe SystemExit
                times.append(error)
        return times


class _Server:
    """Reads requests and writes answers until the driver sends bye."""

    def __init__(self, variants: Variants, described: Message, parallel_prepare: int) -> None:
        try:
            self._requests = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_IN"]), "rb")
            self._answers = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_OUT"]), "wb")
        except (KeyError, ValueError, OSError):
            raise ArgumentError(
                "INVALID_ARGUMENT", "no driver; start the harness with xplane-time tune SPACE "
                                    f"-- {pathlib.Path(sys.executable).name} {' '.join(sys.argv)}") from None
        self._variants = variants
        self._described = described
        self._pool = concurrent.futures.ThreadPoolExecutor(max(1, parallel_prepare))
        self._parallel = max(1, parallel_prepare)
        self._lock = threading.Lock()

    def run(self) -> None:
        try:
            for line in self._requests:
                request = json.loads(line)
                if request.get("type") == "bye":
                    break
                self._handle(request)
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _handle(self, request: Message) -> None:
        kind = request.get("type")
        if kind == "hello":
            self._hello(request)
        elif kind == "prepare":
            self._pool.submit(self._prepare, request)
        elif kind == "verify":
            self._verify(request)
        elif kind == "run_round":
            self._run_round(request)

    def _answer(self, message: Message) -> None:
        with self._lock:
            self._answers.write(json.dumps({"v": 1, **message}).encode() + b"\n")
            self._answers.flush()

    def _hello(self, request: Message) -> None:
        self._variants.set_workloads(
            {each["id"]: each["params"] for each in request.get("workloads", [])})
        self._answer({
            "type": "hello", "name": pathlib.Path(sys.argv[0]).name, "code_hash": _code_hash(),
            "parallel_prepare": self._parallel, "verifies": self._variants.has_reference,
            "flags": os.environ.get("XLA_FLAGS", ""), **self._described})

    def _prepare(self, request: Message) -> None:
        answer: Message = {"type": "prepared", "request": request["request"], "status": "ok"}
        try:
            answer.update(self._variants.prepare(request["variant"], request["params"]))
            if not self._variants.has_reference:
                self._variants.verify(request["variant"])  # its first run, which is not timed
        except BaseException as error:  # in a thread of the pool, which gets no interrupts
            answer.update(_failure(error, "compile_error"))
        self._answer(answer)

    def _verify(self, request: Message) -> None:
        answer: Message = {"type": "verified", "request": request["request"], "status": "ok"}
        try:
            self._variants.verify(request["variant"])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            answer.update(_failure(error, "runtime_error"))
        self._answer(answer)

    def _run_round(self, request: Message) -> None:
        number = request["request"]

        def begin(slot: int) -> None:
            self._answer({"type": "slot", "request": number, "slot": slot})

        try:
            times = self._variants.run_round(
                request["order"], request["calls"], request["workload"], begin)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # not caused by a variant, for example a missing trace
            self._answer({"type": "result", "request": number, **_failure(error, "infra")})
            return
        samples = [{"slot": slot, "status": "ok", **each.sample()} if isinstance(each, Timed) else
                   {"slot": slot, **_failure(each, "runtime_error")}
                   for slot, each in enumerate(times)]
        self._answer({"type": "result", "request": number, "status": "ok", "samples": samples})


def _failure(error: BaseException, otherwise: str) -> Message:
    text = f"{type(error).__name__}: {error}"
    status = otherwise
    if isinstance(error, WrongResultError):
        status = "wrong_result"
    elif isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        status = "oom"
    return {"status": status, "message": text[:2000]}


def processor() -> str:
    """The model of the CPU."""
    for line in pathlib.Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def code_hash_of(*paths: str | os.PathLike[str]) -> str:
    """A hash of the content of these files, by which a tuned table identifies a program. Errors:
    OSError."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(pathlib.Path(path).read_bytes())
    return whole.hexdigest()[:16]


def _code_hash() -> str:
    """The hash that the parent process passed in the environment, otherwise that of this program's
    file; empty if there is no file."""
    try:
        return os.environ.get(CODE_HASH) or code_hash_of(sys.argv[0])
    except OSError:
        return ""
