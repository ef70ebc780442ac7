"""Times JAX programs in the process that runs them: captures functions and compares variants.

>>> from xplane_time.jax import profile, time_variants
>>> timing = time_variants({"a": f, "b": g}, x, repeats=20)   # doctest: +SKIP
>>> timing.medians_ps, timing.clock, timing.fastest           # doctest: +SKIP

Works with jax 0.6 and later, on every device of jax. If jax can profile in memory, no files are
written; otherwise a temporary directory is used and removed.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import html
import importlib
import itertools
import os
import pathlib
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax as _typed_jax

from xplane_time import _core
from xplane_time.captures import CaptureError, Profile, check_counts, read_profile
from xplane_time.errors import ArgumentError, NothingFoundError
from xplane_time.results import PickReport
from xplane_time.table import Table, time_text

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

__all__ = ["CaptureError", "Profile", "Timing", "VariantRun", "capture", "profile",
           "time_variants"]

jax: Any = _typed_jax  # some of its functions lack types

# Names of variants are autotune_fn_INDEX_CALL, so that other functions are not mistaken for them.
_NAME = "autotune_fn_"
_calls = itertools.count(1)


def _session_class() -> Any:
    """jax's in-memory profiler session, which different versions have in different places; None if
    there is none."""
    with contextlib.suppress(ImportError, AttributeError):  # jaxlib 0.8 and later
        return importlib.import_module("jax._src.lib")._profiler.ProfilerSession
    with contextlib.suppress(ImportError, AttributeError):
        return importlib.import_module("jax._src.lib").xla_client.profiler.ProfilerSession
    return None


def _options(python_frames: bool) -> Any:
    """Excludes Python's own frames unless requested: they cost time and contain no kernels."""
    options_class = getattr(jax.profiler, "ProfileOptions", None)
    if options_class is None or python_frames:  # these are jax's defaults
        return None
    options = options_class()
    with contextlib.suppress(AttributeError):
        options.python_tracer_level = 0
    return options


def _drain() -> None:
    """Waits for dispatched work, as far as jax allows: otherwise it would run or end in the wrong
    capture.

    On the CPU, it is impossible to wait for results that nothing references."""
    with contextlib.suppress(Exception):  # a failure of another computation does not matter here
        jax.block_until_ready(jax.live_arrays())
    with contextlib.suppress(Exception):
        jax.effects_barrier()
    for device in jax.local_devices():
        with contextlib.suppress(Exception):
            device.synchronize_all_activity()


@contextlib.contextmanager
def _tracing(folder: str, python_frames: bool) -> Iterator[None]:
    options = _options(python_frames)
    try:
        if options is None:
            jax.profiler.start_trace(folder)
        else:
            jax.profiler.start_trace(folder, profiler_options=options)
    except Exception as error:
        raise _cannot_profile(error) from error
    try:
        yield
    finally:
        jax.profiler.stop_trace()


def _cannot_profile(error: Exception) -> CaptureError:
    return CaptureError(f"jax cannot profile now: {error}; only one trace at a time is possible, "
                        "so end the other one first")


def _captured_on_disk(closure: Callable[[], object], python_frames: bool) -> bytes:
    with tempfile.TemporaryDirectory(prefix="xplane_time_") as folder:
        with _tracing(folder, python_frames):
            jax.block_until_ready(closure())
            _drain()
        files = sorted(pathlib.Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise CaptureError("jax.profiler wrote no .xplane.pb; another trace may be running, "
                               "or this jaxlib has no profiler")
        return files[0].read_bytes()


def capture(closure: Callable[[], object], *, python_frames: bool = False) -> bytes:
    """Profiles one call; returns the bytes of its trace, for xplane_time.open().

    Waits for earlier work, and for the work that the closure starts. `python_frames`: also records
    the calls of Python functions, like jax.profiler.trace(); this slows the traced code down.
    Errors: CaptureError, and everything that the closure raises.
    """
    _drain()
    session_class = _session_class()
    if session_class is None or not hasattr(session_class, "stop"):
        return _captured_on_disk(closure, python_frames)
    try:
        options = _options(python_frames)
        session = session_class() if options is None else session_class(options)
    except Exception as error:
        raise _cannot_profile(error) from error
    try:
        jax.block_until_ready(closure())
        _drain()
    except BaseException:
        with contextlib.suppress(Exception):
            session.stop()
        raise
    try:
        content = session.stop()
    except Exception as error:  # another session may only be reported now
        raise _cannot_profile(error) from error
    if not isinstance(content, bytes) or not content:
        raise CaptureError("jax's profiler session gave no trace")
    return content


def _read(content: bytes, device: str | None, **options: Any) -> Profile:
    try:
        return read_profile(content, device=jax.default_backend() if device is None else device,
                            **options)
    except NothingFoundError as error:
        raise NothingFoundError(error.code, f"{error.message} (jax {jax.__version__}; on the CPU "
                                "jax before 0.7.2 may record no executions)") from None


def profile(
    closure: Callable[[], object],
    *,
    repeats: int = 5,
    warmup: int = 1,
    device: str | None = None,
) -> Profile:
    """Calls `closure` `warmup` times, then `repeats` times in one capture.

    `device`: as in xplane_time.Trace.report [jax's default backend]. Errors: CaptureError,
    NothingFoundError (no execution on that device), ArgumentError.
    """
    check_counts(repeats=repeats, warmup=warmup)
    for _ in range(warmup):
        jax.block_until_ready(closure())
    try:
        found = _read(capture(lambda: [closure() for _ in range(repeats)]), device)
    except NothingFoundError as error:
        error.add_note("the closure must return its results; otherwise the call does not wait "
                       "for them")
        raise
    counts = collections.Counter((row["plane"], row["ordinal"], row["function"])
                                 for row in found.samples)
    odd = {function for (_, _, function), count in counts.items() if count % repeats}
    return dataclasses.replace(found, uncertain=found.uncertain | odd)


class VariantRun(NamedTuple):
    """One run of a variant on one device."""

    variant: Hashable
    device: str  # "" with the wall clock
    start_ps: int  # since the beginning of the capture
    time_ps: int | None  # None: the run does not count, because the trace may have a part of it


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of variants, by their ids, in picoseconds.

    `clock`: "device" or "profile" (from a trace), or "wall": this process's clock, including
    dispatch and waiting. Never compare times of different clocks.

    Data frame libraries accept a Timing directly; it has one row for each run, as `runs`.
    """

    samples_ps: dict[Hashable, list[int]]
    clock: str
    # Variants that compile to the program of another variant. They are not measured; their samples
    # are those of the other variant.
    aliases: dict[Hashable, Hashable]
    measured: tuple[VariantRun, ...]  # in order of their starts

    @property
    def medians_ps(self) -> dict[Hashable, float]:
        """Median times by id, in picoseconds, fastest first."""
        medians = {key: statistics.median(times) for key, times in self.samples_ps.items()}
        return dict(sorted(medians.items(), key=lambda item: item[1]))

    @property
    def fastest(self) -> Hashable | None:
        """The id of the variant that pick() chooses with its default options; None: undecided. If
        other variants compile to the same program (aliases), this is the id of the measured one."""
        choice = self.pick()
        keys = {name: key for key, name in self._names().items()}
        return keys[choice.pick] if choice.is_decided and choice.pick is not None else None

    def pick(self, *, delta: float = 0.005, alpha: float = 0.01) -> PickReport:
        """Decides which variant is the fastest, like xplane_time.pick() on the capture.

        Compares runs of the same round, so drift cancels; with several devices, the time of a run
        is that of its slowest device. The report contains ids as texts. A decision requires at
        least four rounds. `delta`: tie margin: variants within this share of the best count as
        equal. `alpha`: maximum probability of a wrong claim. Errors: ArgumentError.

        >>> choice = timing.pick(delta=0.01)                          # doctest: +SKIP
        >>> choice.claim, choice.pick, choice.regret                  # doctest: +SKIP
        ('winner', 'short', 0.0)
        """
        names = self._names()
        runs = [(names[run.variant], *run[1:]) for run in self.measured]
        metric = "call" if self.clock == "wall" else "active"
        return PickReport(_core.pick_runs(runs, metric, self.clock,
                                          {"delta": delta, "alpha": alpha}))

    @property
    def runs(self) -> Table:
        """One row for each measured run: variant (as text), device, run (number within variant and
        device, from 0), start_ps and time_ps. Aliases have no rows."""
        names = self._names()
        numbers: collections.Counter[tuple[Hashable, str]] = collections.Counter()
        rows = []
        for run in self.measured:
            number = numbers[run.variant, run.device]
            numbers[run.variant, run.device] += 1
            rows.append((names[run.variant], run.device, number, run.start_ps, run.time_ps))
        return Table(_core.variant_runs(rows))

    def to_arrow(self) -> pyarrow.Table:
        """The runs as a pyarrow.Table (pip install pyarrow)."""
        return self.runs.to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """The runs as a pandas.DataFrame (pip install pandas pyarrow)."""
        return self.runs.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The runs as a polars.DataFrame (pip install polars)."""
        return self.runs.to_polars()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow PyCapsule protocol for `runs`."""
        return self.runs.__arrow_c_stream__(requested_schema)

    def _names(self) -> dict[Hashable, str]:
        """A distinct text for each id: its str, with its repr or a number if several are equal."""
        names: dict[Hashable, str] = {}
        texts = collections.Counter(map(str, self.samples_ps))
        taken: set[str] = set()
        for key in self.samples_ps:
            text = str(key) if texts[str(key)] == 1 else repr(key)
            name = next(name for name in itertools.chain([text], (
                f"{text} #{number}" for number in itertools.count(2))) if name not in taken)
            taken.add(name)
            names[key] = name
        return names

    def _verdict_lines(self, choice: PickReport) -> list[str]:
        alpha = choice.to_dict()["options"]["alpha"]
        sure = [f"The probability of a wrong claim is at most {alpha:.2g}."]
        return [choice.explanation, *choice.reasons, *(sure if choice.is_decided else [])]

    def __repr__(self) -> str:
        lines = [f"Timing by the {self.clock} clock:"]
        for key, median in self.medians_ps.items():
            same = f", the same program as {self.aliases[key]!r}" if key in self.aliases else ""
            count = len(self.samples_ps[key])
            lines.append(f"  {key!r}: {median / 1e6:.3f} us, median of {count}{same}")
        return "\n".join(lines + self._verdict_lines(self.pick()))

    def _repr_html_(self) -> str:
        choice, names = self.pick(), self._names()
        rows = {row["variant_id"]: row for row in choice.variants}
        body = []
        for key, median in self.medians_ps.items():
            row = rows[names[self.aliases.get(key, key)]]
            status = (f"the same program as {self.aliases[key]!r}" if key in self.aliases
                      else row["status"])
            body.append([repr(key), time_text(median), str(len(self.samples_ps[key])),
                         _percent(row["ratio"]),
                         f"{_percent(row['ratio_ci_lo'])} to {_percent(row['ratio_ci_hi'])}", status])
        header = ["variant", "median", "runs", "slower", "interval", "status"]
        lines = [f"<tr>{''.join(f'<th>{cell}</th>' for cell in header)}</tr>"]
        lines += [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
                  for row in body]
        verdict = "<br>".join(map(html.escape, self._verdict_lines(choice)))
        return (f"<table>{''.join(lines)}</table><p>{verdict}<br>"
                f"Times by the {html.escape(self.clock)} clock.</p>")


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{(ratio - 1) * 100:+.2f} %"


def time_variants(
    variants: Mapping[Hashable, Callable[..., Any]],
    *args: Any,
    repeats: int = 10,
    warmup: int = 2,
    device: str | None = None,
    fallback: Literal["wall"] | None = None,
    seed: int = 1,
) -> Timing:
    """Times callables that do the same work in different ways, and decides which is the fastest.

    Each callable is compiled under its own name and called with `args`. Timing.fastest and
    Timing.pick() return the decision. Variants that compile to the same program are measured once
    and listed in `aliases`. In each of `repeats` rounds, all variants run once, in an order that
    changes from round to round, all in one capture. `fallback="wall"`: if there is no trace, uses
    the clock of this process, and the result's `clock` is "wall".

    Errors: ArgumentError (no variants), CaptureError, NothingFoundError (a variant is missing from
    the trace), and everything that compiling or running a variant raises.
    """
    check_counts(repeats=repeats, warmup=warmup)
    if not isinstance(variants, Mapping) or not variants:
        raise ArgumentError("INVALID_ARGUMENT", "variants: must be a dict of ids and callables, "
                                                "such as {'a': f, 'b': g}, not "
                                                f"{type(variants).__name__} of {len(variants)}")
    if fallback not in (None, "wall"):
        raise ArgumentError("INVALID_ARGUMENT", "fallback: must be 'wall' or None, not "
                                                f"{fallback!r}")
    mark = f"_{os.getpid()}_{next(_calls)}"
    programs, aliases = _compiled(variants, args, mark)
    for _ in range(warmup):
        for program in programs.values():
            jax.block_until_ready(program(*args))
    order = list(programs)
    rounds = []
    shuffled = random.Random(seed)
    for _ in range(repeats):
        shuffled.shuffle(order)
        rounds.append(list(order))

    def run() -> None:
        for keys in rounds:
            for key in keys:
                jax.block_until_ready(programs[key](*args))

    try:
        samples, clock, measured = _from_trace(run, list(variants), list(programs), device, mark)
    except (CaptureError, NothingFoundError):
        if fallback != "wall":
            raise
        measured = _by_the_clock(rounds, programs, args)
        samples, clock = _times_by_variant(measured), "wall"
    for key, original in aliases.items():
        samples[key] = list(samples[original])
    return Timing({key: samples[key] for key in variants}, clock, aliases, measured)


def _times_by_variant(runs: tuple[VariantRun, ...]) -> dict[Hashable, list[int]]:
    times: dict[Hashable, list[int]] = {}
    for run in runs:
        if run.time_ps is not None:
            times.setdefault(run.variant, []).append(run.time_ps)
    return times


def _compiled(
    variants: Mapping[Hashable, Callable[..., Any]], args: tuple[Any, ...], mark: str
) -> tuple[dict[Hashable, Callable[..., Any]], dict[Hashable, Hashable]]:
    """Programs by id, and the ids of variants with the same program as another."""
    programs: dict[Hashable, Callable[..., Any]] = {}
    aliases: dict[Hashable, Hashable] = {}
    first_of: dict[str, Hashable] = {}
    for index, (key, function) in enumerate(variants.items()):
        try:
            compiled = jax.jit(_named(function, f"{_NAME}{index}{mark}")).lower(*args).compile()
        except Exception as error:
            error.add_note(f"in variant {key!r} of time_variants")
            raise
        text = program_text(compiled, f"{_NAME}{index}{mark}")
        original = first_of.setdefault(text, key) if text else key
        if original is key:
            programs[key] = compiled
        else:
            aliases[key] = original
    return programs, aliases


def program_text(compiled: Any, name: str) -> str:
    """The program of a jax.stages.Compiled, without its name and source locations: equal for
    functions that compile to the same program. Empty if unknown."""
    text = re.sub(rf"{name}\b", "", compiled.as_text() or "")
    return re.sub(r", metadata=\{[^}]*\}|^(FileNames|FunctionNames|FileLocations|"
                  r"StackFrames)\n(.+\n)*", "", text, flags=re.MULTILINE)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def named(*args: Any) -> Any:
        return function(*args)

    named.__name__ = named.__qualname__ = name
    return named


def _from_trace(
    run: Callable[[], None],
    keys: list[Hashable],
    measured: list[Hashable],
    device: str | None,
    mark: str,
) -> tuple[dict[Hashable, list[int]], str, tuple[VariantRun, ...]]:
    read = _read(capture(run), device, function=f"^jit_{_NAME}[0-9]+{mark}$",
                 id_pattern=f"^jit_{_NAME}([0-9]+){mark}$")
    runs = tuple(sorted((VariantRun(
        keys[int(row["variant_id"])], f"{row['plane']}:{row['ordinal']}", row["start_ps"],
        None if row["suspect"] or not row["active_ps"] else row["active_ps"])
        for row in read.samples if row["function"] not in read.uncertain),
        key=lambda run: run.start_ps))
    found = _times_by_variant(runs)
    missing = [key for key in measured if key not in found]
    if missing:
        why = "this version of jax does not separate runs" if read.uncertain else "none of them ran"
        raise NothingFoundError("FAILED_PRECONDITION", f"the trace has no times for {missing!r}: "
                                                       f"{why} on this device; use "
                                                       "fallback='wall' for wall-clock times")
    clocks = set(read.samples["clock"])
    return found, clocks.pop() if len(clocks) == 1 else "profile", runs


def _by_the_clock(
    rounds: list[list[Hashable]], programs: Mapping[Hashable, Callable[..., Any]],
    args: tuple[Any, ...]
) -> tuple[VariantRun, ...]:
    runs = []
    first_ns = time.perf_counter_ns()
    for keys in rounds:
        for key in keys:
            begin_ns = time.perf_counter_ns()
            jax.block_until_ready(programs[key](*args))
            end_ns = time.perf_counter_ns()
            runs.append(VariantRun(key, "", (begin_ns - first_ns) * 1000,
                                   (end_ns - begin_ns) * 1000))
    return tuple(runs)
