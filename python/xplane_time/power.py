"""Records the power of this process's devices and computes the energy of named time windows.

>>> from xplane_time import power
>>> with power.record() as p:                                        # doctest: +SKIP
...     with p.window("step"):
...         train_step()
>>> p.energy_j("step")      # None if it is unknown; p.doubts has the reason  # doctest: +SKIP
>>> p.energies.to_polars()  # a row for each window and sensor             # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Union, cast, final

from xplane_time import _core
from xplane_time.errors import ArgumentError
from xplane_time.power_run import Run, run
from xplane_time.table import Table

__all__ = ["Recording", "Run", "Summary", "Total", "Window", "read", "record", "run", "sources"]

_PathText = Union[str, "os.PathLike[str]"]


class Total(NamedTuple):
    """The energy of all devices together in a window. If the energy of a device is unknown, the
    total is unknown, and `reason` explains why. `limits` is the meaning of lo_j and hi_j: "bounds",
    "interval" (estimated) or "unbounded"."""

    window: str | None
    number: int
    energy_j: float | None
    mean_w: float | None
    coverage: float
    reason: str | None
    lo_j: float | None = None
    hi_j: float | None = None
    limits: str | None = None


class Summary:
    """The summary of a power log; unknown is None, never 0. Definitions: docs/power.md."""

    __slots__ = ("_summary",)

    def __init__(self, summary: _core.PowerSummary) -> None:
        self._summary = summary

    @property
    def energies(self) -> Table:
        """A row for each window and sensor: energy_j, its bounds, coverage, mean_w, peak_w.
        `limits`: bounds, interval (estimated), or unbounded."""
        return Table(cast(_core.Table, self._summary.energies()), self.doubts)

    @property
    def gauges(self) -> Table:
        """A row for each window and gauge: n, avg, max, median and min, in the unit of the
        gauge."""
        return Table(cast(_core.Table, self._summary.gauges()), self.doubts)

    @property
    def readers(self) -> Table:
        """A row for each source: how regularly it was read, and the processor time of reading
        it."""
        return Table(cast(_core.Table, self._summary.readers()), self.doubts)

    @property
    def repeats(self) -> Table:
        """A row for each sensor and each name that several windows have: mean_j, std_j, mean_s."""
        return Table(cast(_core.Table, self._summary.repeats()), self.doubts)

    @property
    def totals(self) -> list[Total]:
        """The total of each window; the whole recording (window None) comes first."""
        return [Total(name or None, number, energy_j, mean_w, coverage, reason, lo_j, hi_j, limits)
                for name, number, energy_j, mean_w, coverage, reason, lo_j, hi_j, limits
                in self._summary.totals()]

    @property
    def doubts(self) -> list[str]:
        """Missing and doubtful data, each with advice."""
        return self._summary.doubts()

    @property
    def complete(self) -> bool:
        """Whether the log is complete: it has its last line, so the recording was not cut off."""
        return self._summary.complete

    def energy_j(self, window: str | None = None) -> float | None:
        """The sum of the energies of all windows with this name; without a name, the energy of the
        whole recording. None if the energy of one window is unknown. KeyError if no window has this
        name."""
        found = [total.energy_j for total in self.totals if total.window == window]
        if not found:
            there = sorted({total.window for total in self.totals if total.window is not None})
            raise KeyError(f"no window {window!r}; windows: {', '.join(there) or 'none'}")
        known = [energy for energy in found if energy is not None]
        return sum(known) if len(known) == len(found) else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line (schema xplane-time.power.v1)."""
        result: dict[str, Any] = json.loads(self._summary.json())
        return result

    def svg(self) -> str:
        """Power over time, as a standalone SVG picture."""
        return self._summary.svg()

    def __repr__(self) -> str:
        return "\n".join([repr(self.energies), *self.doubts])


@final
class Window(contextlib.ContextDecorator):
    """The result of Recording.window(). It can be used in one `with`, or as a decorator, which
    makes a new window for each call."""

    def __init__(self, recording: Recording, name: str, synchronize: bool) -> None:
        self._recording = recording
        self._name = name
        self._synchronize = synchronize
        self._used = False

    def _recreate_cm(self) -> Window:  # of ContextDecorator: called for each call
        return Window(self._recording, self._name, self._synchronize)

    def __enter__(self) -> None:
        if self._used:
            raise ArgumentError(
                "FAILED_PRECONDITION", f"the window {self._name!r} was already entered; call "
                                       f"window({self._name!r}) again for each `with`")
        self._recording.begin(self._name, synchronize=self._synchronize)
        self._used = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._recording.end(self._name, synchronize=self._synchronize)


class Recording(Summary):
    """A recording that runs until stop(), or until the end of its `with`. Several threads may mark
    windows. The results are available after the end."""

    __slots__ = ("_estimator", "_idle_window", "_recorder", "_stopped")

    def __init__(self, recorder: _core.PowerRecorder, estimator: str, idle_window: str) -> None:
        self._recorder = recorder
        self._estimator = estimator
        self._idle_window = idle_window
        self._stopped = False

    def __getattr__(self, name: str) -> Any:
        if name == "_summary":
            raise ArgumentError(
                "FAILED_PRECONDITION", "the recording is still running; read its results after "
                                       "stop(), or after the end of its `with`")
        raise AttributeError(f"a Recording has no {name!r}")

    def __repr__(self) -> str:
        try:
            return super().__repr__()
        except ArgumentError:
            return "<running Recording: read its results after stop()>"

    def begin(self, window: str, *, synchronize: bool = True) -> None:
        """Begins a window. `synchronize`: first waits for all arrays of JAX and for PyTorch's GPU,
        if these are imported, so that earlier work is not counted."""
        if synchronize:
            _wait_for_devices()
        self._recorder.begin(window)

    def end(self, window: str, *, synchronize: bool = True) -> None:
        if synchronize:
            _wait_for_devices()
        self._recorder.end(window)

    def window(self, name: str, *, synchronize: bool = True) -> Window:
        """A window for one `with`, or a decorator that makes a window for each call."""
        return Window(self, name, synchronize)

    def gauge(self, quantity: str, value: int) -> None:
        """Records a custom gauge, a whole number; its name must end in its unit: kv_cache_bytes."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or abs(value) > 2 ** 53:
            raise ArgumentError(
                "INVALID_ARGUMENT", f"gauge {quantity!r}: must be a whole number up to 2**53, "
                                    f"not {value!r}; for fractions, use a smaller unit, such as "
                                    "loss_millionths")
        self._recorder.gauge(quantity, value)

    def await_readings(self, at_most_s: float = 1.0) -> None:
        """Waits until each sensor of power or energy has been read once more, for at most
        `at_most_s`."""
        self._recorder.await_readings(at_most_s)

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._recorder.stop()
        self._summary = _core.summarize_power(self._recorder.log_path, self._estimator,
                                              self._idle_window)
        self._recorder.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()


def record(*, sources: Sequence[str] | str = (), period_s: float = 0, log: _PathText = "",
           ordinals: Mapping[int, str] | None = None, estimator: str = "best",
           idle_window: str = "idle", sysfs_root: _PathText = "/sys",
           nvml_library: _PathText = "libnvidia-ml.so.1") -> Recording:
    """Starts recording, like `xplane-time power record`.

    `sources`: nvml, rapl, hwmon, process, constant:WATTS, replay:LOG [the first four]. `period_s`:
    time between readings, in seconds [0.05 for nvml and hwmon, 0.01 for rapl, 0.1 for process].
    `log`: file to write the readings to (docs/power-log.md). `ordinals`: maps device ordinals of
    this program to sensor ids; required if the order of the devices is unknown. `estimator`: best
    (counter if available, else held), counter, held, trapezoid or endpoint-mean (docs/power.md).
    `idle_window`: name of the windows that measure idle power. Errors: NothingFoundError (a named
    source has no sensors), ArgumentError."""
    named = sources.split(",") if isinstance(sources, str) else list(sources)
    recorder = _core.PowerRecorder(named, period_s, os.fspath(log), os.fspath(sysfs_root),
                                   os.fspath(nvml_library), dict(ordinals or {}),
                                   dict(os.environ))
    return Recording(recorder, estimator, idle_window)


def read(log: _PathText, *, estimator: str = "best", idle_window: str = "idle") -> Summary:
    """Summarizes a power log that record(log=...) or `xplane-time power record --log` wrote, or CSV
    of nvidia-smi. Errors: MissingInputError, DamagedTraceError."""
    return Summary(_core.summarize_power(os.fspath(log), estimator, idle_window))


def sources(*, names: Sequence[str] = (), sysfs_root: _PathText = "/sys",
            nvml_library: _PathText = "libnvidia-ml.so.1") -> dict[str, Any]:
    """The available sensors; under the key "absent", the missing sensors with reasons and
    advice."""
    found: dict[str, Any] = json.loads(_core.power_sources(
        list(names), os.fspath(sysfs_root), os.fspath(nvml_library), dict(os.environ)))
    return found


def _wait_for_devices() -> None:
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "live_arrays"):
        jax.effects_barrier()
        jax.block_until_ready([each for each in jax.live_arrays() if not each.is_deleted()])
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        torch.cuda.synchronize()
