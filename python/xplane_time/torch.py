"""Captures PyTorch models, and measures the time, power and energy of their layers.

>>> from xplane_time.torch import LayerPowerProfiler
>>> profiler = LayerPowerProfiler(model)                   # doctest: +SKIP
>>> profiler.profile(inputs)                               # doctest: +SKIP
>>> profiler.print_summary()                               # doctest: +SKIP

capture() and profile() correspond to the functions of xplane_time.jax with the same names.

LayerPowerProfiler has the interface of GPUPP's class. A layer is a module without children. Before
the profiler takes the start or end time of a layer, it waits for the GPU. Meanwhile,
xplane_time.power reads the power. An unknown power is None, never 0, and an empty cell in files. If
a layer is shorter than the sensor's averaging window, its power includes the power of its
neighbours. print_summary() shows how many executions of layers are too short, and
estimator="attribution" separates such layers by a regression over many readings. docs/torch.md has
instructions and the differences to GPUPP.

Not thread-safe. Imports neither torch nor, unless a data frame is requested, pandas.
"""

from __future__ import annotations

import bisect
import contextlib
import csv
import functools
import math
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

from xplane_time import EnergyReport, _core, energy_of_layers, power
from xplane_time.captures import CaptureError, Profile
from xplane_time.captures_torch import call_with, capture, profile, synchronizer
from xplane_time.errors import ArgumentError, NothingFoundError, XplaneTimeWarning

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]

__all__ = ["CaptureError", "LayerMetrics", "LayerPowerProfiler", "Profile", "capture", "profile"]

PathText = Union[str, "os.PathLike[str]"]

_COLUMNS = ("layer_name", "exec_id", "start_time", "end_time", "duration_ms", "start_power_w",
            "end_power_w", "avg_power_w", "energy_j")
_ATTRIBUTED_J = ("attributed_energy_j", "attributed_energy_j_ci95_lo",
                 "attributed_energy_j_ci95_hi")
_ATTRIBUTED = ("attributed_power_w", *_ATTRIBUTED_J, "attributed_reason")
# All other work counts as extra layers, so that all time except pauses is explained.
_WARM_UP, _AFTER = "(warm-up)", "(after the last layer)"
_PAUSE_S = 0.1  # maximum; similar to the windows of sensors
_SHORT_MS = 1.0
_HELD_PERIODS = 3  # a reading holds this many periods if no other follows, as in docs/power.md
_SHOWN_LAYERS = 10
_WIDTH = 80


@dataclass(frozen=True)
class LayerMetrics:
    """One execution of a layer. Powers and energy are None if the sensor gave no value."""

    layer_name: str
    exec_id: int  # 0, 1, 2, ... over all runs
    start_time: float  # UNIX time in seconds
    end_time: float
    duration_ms: float
    start_power_w: float | None
    end_power_w: float | None
    avg_power_w: float | None
    energy_j: float | None
    start_ns: int  # CLOCK_MONOTONIC, the clock of power logs
    end_ns: int
    # Only with estimator="attribution"; these include the work since the end of the previous layer.
    # They are the mean power over all executions, that power times the time of this execution, and
    # its 95 % interval (None if the power was stated); or the reason why they are None.
    attributed_power_w: float | None = None
    attributed_energy_j: float | None = None
    attributed_energy_j_ci95_lo: float | None = None
    attributed_energy_j_ci95_hi: float | None = None
    attributed_reason: str | None = None


@dataclass(frozen=True)
class _Mark:
    layer_name: str
    start_ns: int
    end_ns: int
    counted_ns: int  # includes the work since the end of the previous layer


class _Timeline:
    """The executions of layers. All time except pauses is also divided into runs, each of which
    belongs to a layer. The model's work between two layers belongs to the second layer, because
    this work and the layer always run together, so no measurement can separate them."""

    def __init__(self, pauses: bool) -> None:
        self.marks: list[_Mark] = []
        self.runs: list[tuple[str, int, int]] = []
        self._since_ns = time.monotonic_ns()
        self._chance = random.Random(0) if pauses else None

    def count(self, name: str) -> int:
        """Adds a run of `name` from the end of the previous run to now; returns its end."""
        now_ns = time.monotonic_ns()
        if now_ns > self._since_ns:
            self.runs.append((name, self._since_ns, now_ns))
        self._since_ns = now_ns
        return now_ns

    def mark(self, name: str, start_ns: int) -> None:
        since_ns = self._since_ns
        end_ns = self.count(name)
        self.marks.append(_Mark(name, start_ns, end_ns, end_ns - since_ns))

    def pause(self, share: float) -> None:
        """Pauses at random after a layer, so that each reading contains another mixture of layers.
        """
        if self._chance is not None and self._chance.random() < share:
            time.sleep(self._chance.uniform(0, _PAUSE_S))
            self._since_ns = time.monotonic_ns()


@dataclass(frozen=True)
class _Attributed:
    """The power of a layer and half of its 95 % interval, or the reason why it is unknown."""

    watts: float | None = None
    half_w: float | None = None  # None: the power was stated
    reason: str | None = None

    def fields(self, duration_s: float) -> tuple[Any, ...]:
        """The fields of one execution, in the order of _ATTRIBUTED."""
        if self.watts is None:
            return (*[None] * 4, self.reason)
        bounds = [None] * 2 if self.half_w is None else [
            (self.watts + side) * duration_s for side in (-self.half_w, self.half_w)]
        return (self.watts, self.watts * duration_s, *bounds, None)


@dataclass(frozen=True)
class _Sensor:
    """The power readings of one GPU; None with a reason if a reading failed."""

    device: str  # id in the log
    device_name: str
    period_ns: int
    window_ns: int | None  # averaging time of a value
    memory_bytes: tuple[float, float] | None  # maximum used, and total
    times_ns: list[int]
    watts: list[float | None]
    reasons: set[str]

    def at(self, t_ns: int) -> float | None:
        """The last value before `t_ns`."""
        last = bisect.bisect_right(self.times_ns, t_ns) - 1
        if last < 0 or t_ns - self.times_ns[last] > _HELD_PERIODS * self.period_ns:
            return None
        return self.watts[last]


class LayerPowerProfiler:
    """Time, power and energy of each layer of a PyTorch model.

    `device_index`: the GPU, as in cuda:N; for a list of GPUs, the power is their sum. `estimator`:
    "endpoint-mean" computes an energy from the mean of the powers at the start and at the end of a
    layer, times the duration. "attribution" also fills the attributed_ fields by
    energy_of_layers(). It adds random pauses after layers, 50 ms for each run on average. `log`:
    path at which the power log of the last profile is kept. The other arguments are those of
    power.record().
    """

    def __init__(self, model: Any, device_index: int | Sequence[int] = 0, *,
                 estimator: Literal["endpoint-mean", "attribution"] = "endpoint-mean",
                 log: PathText = "", sources: Sequence[str] | str = (), period_s: float = 0,
                 ordinals: Mapping[int, str] | None = None, sysfs_root: PathText = "/sys",
                 nvml_library: PathText = "libnvidia-ml.so.1") -> None:
        if estimator not in ("endpoint-mean", "attribution"):
            raise ArgumentError("INVALID_ARGUMENT",
                                "estimator: must be endpoint-mean or attribution, not "
                                f"{estimator!r}")
        indices = [device_index] if isinstance(device_index, int) else list(device_index)
        if not indices or min(indices) < 0 or len(set(indices)) < len(indices):
            raise ArgumentError("INVALID_ARGUMENT", "device_index: must be the number of a GPU "
                                                    "from 0, or several different ones, not "
                                                    f"{device_index!r}")
        self.model = model
        self.device_indices = indices
        self.results: list[LayerMetrics] = []  # of the last profile
        self._attributes = estimator == "attribution"
        self._columns = _COLUMNS + _ATTRIBUTED if self._attributes else _COLUMNS
        self._log = os.fspath(log)
        self._record = functools.partial(
            power.record, sources=sources, period_s=period_s, ordinals=ordinals,
            sysfs_root=sysfs_root, nvml_library=nvml_library)
        self._sensors: list[_Sensor] = []
        self._notes: list[str] = []  # about the attribution
        self._run_ns = 0
        self._unix_ns = 0  # UNIX time minus CLOCK_MONOTONIC
        self._told: set[str] = set()
        self._to_tell: list[str] = []

    def profile(self, inputs: Any, num_runs: int = 1, warmup: bool = True) -> list[LayerMetrics]:
        """Profiles `num_runs` forward passes. `inputs`: a dict contains keyword arguments, a tuple
        or list positional arguments. Gradients are off, and the model is in evaluation mode; both
        settings are restored afterwards."""
        if num_runs < 1:
            raise ArgumentError("INVALID_ARGUMENT", "num_runs: must be at least 1, not "
                                                    f"{num_runs}")
        run = functools.partial(call_with, self.model, inputs)
        return self._profile(run, num_runs, run if warmup else None)

    def profile_generation(self, inputs: Any, max_new_tokens: int = 50, warmup: bool = True,
                           **generate_kwargs: Any) -> list[LayerMetrics]:
        """Profiles one call of model.generate(). The warm-up generates two tokens."""
        generate = getattr(self.model, "generate", None)
        if generate is None:
            raise ArgumentError("INVALID_ARGUMENT", f"{type(self.model).__name__} has no "
                                                    "generate(); use profile() for models that "
                                                    "are called")
        run = functools.partial(call_with, generate, inputs, **generate_kwargs)
        first = functools.partial(run, max_new_tokens=min(2, max_new_tokens))
        return self._profile(functools.partial(run, max_new_tokens=max_new_tokens), 1,
                             first if warmup else None)

    def save_results(self, filename: PathText = "layer_power_profile.csv") -> None:
        """Writes a CSV row for each execution, like LayerMetrics without start_ns and end_ns;
        start_time and end_time are UNIX seconds. Errors: ArgumentError (no profile yet), OSError.
        """
        _write_csv(filename, self._columns, (self._values(row) for row in self._profiled()))

    def save_intervals(self, filename: PathText) -> None:
        """Writes a CSV row (layer_name,exec_id,start_time,end_time) for each execution, for
        energy_of_layers(). Times are UNIX seconds with nine decimals: CLOCK_MONOTONIC plus its
        offset to UNIX time at the start of the profile. Errors: as save_results()."""
        _write_csv(filename, _COLUMNS[:4],
                   ((row.layer_name, row.exec_id, _seconds(row.start_ns + self._unix_ns),
                     _seconds(row.end_ns + self._unix_ns)) for row in self._profiled()))

    def get_results_dataframe(self) -> pandas.DataFrame:
        """The columns of save_results(). An unknown value is NaN, which pandas ignores in sums."""
        frame = _pandas().DataFrame([self._values(row) for row in self.results],
                                    columns=self._columns)
        return frame.astype({name: float for name in self._columns[2:]
                             if name != "attributed_reason"})

    def get_summary_stats(self) -> pandas.DataFrame:
        """A row for each layer, in order of execution: duration_ms and avg_power_w with mean, std,
        min and max; energy_j with sum, mean and std; the sum of attributed columns, the mean of the
        attributed power, and the reason. A sum is NaN if a part of it is unknown."""
        layers = self.get_results_dataframe().groupby("layer_name", sort=False)
        spread = ["mean", "std", "min", "max"]
        wanted = {"duration_ms": spread, "avg_power_w": spread, "energy_j": ["sum", "mean", "std"]}
        if self._attributes:
            wanted |= {"attributed_power_w": ["mean"], "attributed_reason": ["first"],
                       **{name: ["sum"] for name in _ATTRIBUTED_J}}
        stats = layers.agg(wanted)
        for name, what in stats.columns:
            if what == "sum":
                stats[(name, what)] = layers[name].agg(lambda each: each.sum(skipna=False))
        return stats

    def print_summary(self) -> None:
        rows = self._profiled()
        rule = "=" * _WIDTH
        print(f"{rule}\nPROFILING SUMMARY\n{rule}\n")
        for sensor in self._sensors:
            print(f"GPU: {sensor.device_name}")
            if sensor.memory_bytes is not None:
                used, total = (each / 2**30 for each in sensor.memory_bytes)
                print(f"Memory Used: {used:.2f} GiB / {total:.2f} GiB")
        if not self._sensors:
            print("GPU: no power sensor; times only")
        total_ms = sum(row.duration_ms for row in rows)
        known = [row.avg_power_w for row in rows if row.avg_power_w is not None]
        energy_j = _sum(row.energy_j for row in rows)
        mean_w = statistics.fmean(known) if known else None
        print(f"\nTotal Execution Time: {total_ms:.2f} ms, {total_ms * 1e6 / self._run_ns:.0%} of "
              f"the {self._run_ns / 1e6:.2f} ms that the model ran\n"
              f"Total Energy Consumed: {_text(energy_j, ' J')}\n"
              f"Average Power Draw: {_text(mean_w, ' W')}")
        if len(known) < len(rows):
            print(f"Unknown: the power of {len(rows) - len(known)} of {len(rows)} executions")
        self._print_top("Power", "avg_power_w", "duration_ms", "energy_j")
        self._print_top("Time", "duration_ms", "avg_power_w", "energy_j")
        if self._attributes:
            self._print_attributed()
        self._print_short()

    def _print_attributed(self) -> None:
        self._print_top("Attributed Energy", *_ATTRIBUTED_J, "attributed_power_w")
        layers_of: defaultdict[str, set[str]] = defaultdict(set)
        for row in self.results:
            if row.attributed_reason is not None:
                layers_of[row.attributed_reason].add(row.layer_name)
        for reason, names in layers_of.items():
            print(f"Unknown for {len(names)} layers: {reason}")
        for note in self._notes:
            print(note)

    def _print_top(self, what: str, *columns: str) -> None:
        """Prints the first layers, each with all of its executions together."""
        of_layer = defaultdict(list)
        for row in self.results:
            of_layer[row.layer_name].append(row)
        layers: list[dict[str, Any]] = []
        for name, rows in of_layer.items():
            duration_ms = sum(row.duration_ms for row in rows)
            known = [row.avg_power_w for row in rows if row.avg_power_w is not None]
            layers.append({"layer_name": name, "duration_ms": duration_ms,
                           "avg_power_w": statistics.fmean(known) if known else None,
                           "attributed_power_w": rows[0].attributed_power_w,
                           **{each: _sum(getattr(row, each) for row in rows)
                              for each in ("energy_j", *_ATTRIBUTED_J)}})
        ranked = sorted((each for each in layers if each[columns[0]] is not None),
                        key=lambda each: -each[columns[0]])[:_SHOWN_LAYERS]
        print(f"\nTop {_SHOWN_LAYERS} {what} Consumers:")
        if not ranked:
            print("unknown")
            return
        widest = max(len(each["layer_name"]) for each in ranked)
        header = ("layer_name", *columns)
        for cells in (header, *([each[name] for name in header] for each in ranked)):
            texts = [cells[0].rjust(max(widest, len(header[0])))]
            texts += [(cell if isinstance(cell, str) else _text(cell)).rjust(len(name) + 1)
                      for cell, name in zip(cells[1:], columns)]
            print(" ".join(texts))

    def _print_short(self) -> None:
        """Prints how many layers are too short for the sensors, and what to do."""
        limits = [(_SHORT_MS, "1 ms")]
        if self._sensors:
            slowest = max(self._sensors, key=lambda each: each.window_ns or each.period_ns)
            limit_ms = (slowest.window_ns or slowest.period_ns) / 1e6
            what = "the sensor's window" if slowest.window_ns else "the time between two readings"
            limits.append((limit_ms, f"{what} ({limit_ms:g} ms)"))
        counts = [sum(row.duration_ms < limit_ms for row in self.results) for limit_ms, _ in limits]
        print()
        for count, (_, text) in zip(counts, limits):
            print(f"Shorter than {text}: {count} of {len(self.results)} executions "
                  f"({count / len(self.results):.0%})")
        if self._sensors and any(counts):
            print("Their avg_power_w and energy_j are unreliable: they include the power of "
                  "earlier work.")
            if not self._attributes:
                print("Measure blocks of at least 1 s of one layer, or use "
                      'estimator="attribution".')

    def _profiled(self) -> list[LayerMetrics]:
        if not self.results:
            raise ArgumentError("FAILED_PRECONDITION", "no layer was profiled: call "
                                "profile(inputs) first")
        return self.results

    def _profile(self, run: Callable[[], object], runs: int,
                 warm_up: Callable[[], object] | None) -> list[LayerMetrics]:
        self.results, self._sensors, self._notes = [], [], []
        self._unix_ns = time.time_ns() - time.monotonic_ns()
        with tempfile.TemporaryDirectory() as folder:
            log = self._log or os.path.join(folder, "power.jsonl")
            with _inference(self.model), self._recording(log) as recording:
                timeline = _Timeline(pauses=self._attributes)
                if warm_up is not None:
                    warm_up()
                synchronize = synchronizer(self.model)
                with _hooks(self.model, synchronize, timeline):
                    synchronize()
                    timeline.count(_WARM_UP)
                    for _ in range(runs):
                        run()
                    synchronize()
                    timeline.count(_AFTER)
            self._run_ns = sum(end_ns - start_ns for name, start_ns, end_ns in timeline.runs
                               if name != _WARM_UP)
            if recording is not None:
                self._sensors = self._sensors_of(recording, _core.power_readings(log))
            attributed = self._attributed(log, timeline) if self._attributes else {}
        self.results = [
            self._metrics(number, mark, attributed.get(mark.layer_name, _Attributed()))
            for number, mark in enumerate(timeline.marks)]
        self._tell_of_unknown()
        for message in self._to_tell:
            # Attributed to the call of the profile.
            warnings.warn(message, XplaneTimeWarning, stacklevel=3)
        self._to_tell.clear()
        return self.results

    @contextlib.contextmanager
    def _recording(self, log: str) -> Iterator[power.Recording | None]:
        try:
            recording = self._record(log=log)
        except NothingFoundError as error:
            self._tell("sensor", f"powers are unknown: {error}")
            yield None
            return
        with recording:
            recording.await_readings()
            yield recording

    def _sensors_of(self, recording: power.Recording,
                    readings: list[list[tuple[int, int | None, str]]]) -> list[_Sensor]:
        """The sensors of the requested GPUs; empty if one of them has no sensor."""
        found = recording.to_dict()
        sensors = []
        for index in self.device_indices:
            channel = _channel_of(found, index)
            if channel is None:
                why = [each for each in recording.doubts
                       if each.startswith(("missing: nvml", "missing: hwmon"))]
                why += [f"{each['source']} has {each['name']}" for each in found["devices"]
                        if each["source"] != "process"]
                self._tell("sensor", f"powers are unknown: no power sensor of GPU {index}; "
                           + "; ".join(why))
                return []
            sensors.append(_sensor(recording, found, channel, readings[channel]))
        return sensors

    def _attributed(self, log: str, timeline: _Timeline) -> dict[str, _Attributed]:
        """By layer; the sum over several GPUs."""
        names = {mark.layer_name for mark in timeline.marks}
        if not self._sensors:
            return dict.fromkeys(names, _Attributed(reason="no power sensor"))
        found: defaultdict[str, list[_Attributed]] = defaultdict(list)
        for index, sensor in zip(self.device_indices, self._sensors):
            try:
                report = energy_of_layers(timeline.runs, log, device=f"gpu:{index}",
                                          map={index: sensor.device})
            except NothingFoundError as error:
                reason = (f"{str(error).removeprefix(f'{log}: ')}; the model ran "
                          f"{self._run_ns / 1e9:.3g} s, but about a minute is needed")
                self._tell("attribution", reason)
                return dict.fromkeys(names, _Attributed(reason=reason))
            self._notes += _notes_on(report)
            for row in report.layers:
                found[row["layer"]].append(_power_of(row))
        return {name: _together(found[name]) for name in names}

    def _metrics(self, number: int, mark: _Mark, attributed: _Attributed) -> LayerMetrics:
        duration_ns = mark.end_ns - mark.start_ns
        start_w = _sum(each.at(mark.start_ns) for each in self._sensors)
        end_w = _sum(each.at(mark.end_ns) for each in self._sensors)
        mean_w = None if start_w is None or end_w is None else (start_w + end_w) / 2
        return LayerMetrics(
            mark.layer_name, number, (mark.start_ns + self._unix_ns) / 1e9,
            (mark.end_ns + self._unix_ns) / 1e9, duration_ns / 1e6, start_w, end_w, mean_w,
            None if mean_w is None else mean_w * duration_ns / 1e9, mark.start_ns, mark.end_ns,
            *attributed.fields(mark.counted_ns / 1e9))

    def _tell_of_unknown(self) -> None:
        if not self.results:
            self._tell("layers", "no layer ran: only calls of modules without children are "
                                 "recorded, not compiled or scripted modules")
        unknown = sum(row.avg_power_w is None for row in self.results)
        if self._sensors and unknown:
            reasons = set().union(*(sensor.reasons for sensor in self._sensors))
            self._tell("readings", f"the power of {unknown} of {len(self.results)} executions is "
                                   "unknown: "
                                   f"{', '.join(sorted(reasons)) or 'the sensor was read too late'}")

    def _values(self, row: LayerMetrics) -> list[Any]:
        return [getattr(row, name) for name in self._columns]

    def _tell(self, of: str, message: str) -> None:
        """Adds a warning for the end of the profile, once for each kind."""
        if of not in self._told:
            self._told.add(of)
            self._to_tell.append(message)


@contextlib.contextmanager
def _inference(model: Any) -> Iterator[None]:
    modes = [(module, module.training) for _, module in model.named_modules()]
    torch = sys.modules.get("torch")
    try:
        model.eval()
        with torch.no_grad() if torch is not None else contextlib.nullcontext():
            yield
    finally:
        for module, training in modes:
            module.training = training


@contextlib.contextmanager
def _hooks(model: Any, synchronize: Callable[[], None], timeline: _Timeline) -> Iterator[None]:
    """Within this context, the timeline records each execution of a module without children."""
    leaves = [(path or type(module).__name__, module) for path, module in model.named_modules()
              if next(iter(module.children()), None) is None]
    begun: defaultdict[tuple[int, str], list[int]] = defaultdict(list)  # by thread and layer

    def before(name: str, *_: object) -> None:
        synchronize()
        begun[threading.get_ident(), name].append(time.monotonic_ns())

    def after(name: str, *_: object) -> None:
        synchronize()
        timeline.mark(name, begun[threading.get_ident(), name].pop())
        timeline.pause(1 / len(leaves))

    with contextlib.ExitStack() as handles:
        for name, module in leaves:
            for register, hook in ((module.register_forward_pre_hook, before),
                                   (module.register_forward_hook, after)):
                handles.callback(register(functools.partial(hook, name)).remove)
        yield


def _channel_of(found: Mapping[str, Any], index: int) -> int | None:
    """The index of the channel with the power of GPU `index`; None if there is none."""
    by_ordinal = {each["source"] for each in found["devices"] if each["ordinal"] is not None}
    by_ordinal.add("nvml")  # its own order may mean another GPU
    numbers = {(each["source"], each["id"]):
               each["ordinal" if each["source"] in by_ordinal else "index"]
               for each in found["devices"]}
    fitting = [(channel["source"], channel["kind"] != "instant", place)
               for place, channel in enumerate(found["channels"])
               if channel["quantity"] == "power_mw" and channel["in_total"]
               and (numbers[channel["source"], channel["device"]] == index
                    or channel["source"] == "constant")]
    of_first = [each for each in fitting if each[0] == fitting[0][0]]
    return min(of_first)[2] if of_first else None


def _sensor(recording: power.Recording, found: Mapping[str, Any], place: int,
            readings: list[tuple[int, int | None, str]]) -> _Sensor:
    channel = found["channels"][place]
    device, source = channel["device"], channel["source"]
    memory = {row["quantity"]: row["max"] for row in recording.gauges
              if row["window"] is None and row["device"] == device}
    used, total = memory.get("memory_used_bytes"), memory.get("memory_total_bytes")
    name = next(each["name"] for each in found["devices"]
                if (each["source"], each["id"]) == (source, device))
    return _Sensor(
        device, f"{name} ({channel['note']})" if channel["note"] else name,
        next(row["period_ns"] for row in recording.readers if row["source"] == source),
        channel["prior_window_ns"], None if used is None or total is None else (used, total),
        [t_ns for t_ns, _, _ in readings],
        [None if value is None or value < 0 else value / 1e3 for _, value, _ in readings],
        {reason or "negative" for _, value, reason in readings if value is None or value < 0})


def _power_of(row: Mapping[str, Any]) -> _Attributed:
    if row["energy_j"] is None:
        return _Attributed(reason=row["reason"])
    if row["energy_j_ci95_hi"] is None:
        return _Attributed(row["mean_w"])
    half_w = (row["energy_j_ci95_hi"] - row["energy_j"]) / (row["busy_ps"] / 1e12)
    return _Attributed(row["mean_w"], half_w)


def _together(of: Sequence[_Attributed]) -> _Attributed:
    """The sum over several GPUs, whose errors are independent."""
    halves = [each.half_w for each in of if each.half_w is not None]
    return _Attributed(_sum(each.watts for each in of), math.hypot(*halves) if halves else None,
                       next((each.reason for each in of if each.reason is not None), None))


def _notes_on(report: EnergyReport) -> list[str]:
    """Returns sentences: groups of layers for which only the sum is known, and warnings."""
    notes = []
    for group in report.to_dict()["groups"]:
        names = ", ".join(group["kernels"])
        if group["energy_j"] is not None:
            lo, hi = (_text(each) for each in group["energy_j_ci95"])
            notes.append("Only the sum of these layers is known, "
                         f"{_text(group['energy_j'], ' J')} ({lo} .. {hi}): {names}")
    return notes + [row["message"] for row in report.findings if row["severity"] != "info"]


def _sum(values: Iterable[float | None]) -> float | None:
    """None if a value is None, or if there are no values."""
    total = None
    for value in values:
        if value is None:
            return None
        total = value + (total or 0.0)
    return total


def _text(value: float | None, unit: str = "") -> str:
    if value is None:
        return "unknown"
    return f"{value:.2f}{unit}" if value >= 1 else f"{value:.3g}{unit}"


def _seconds(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9:09d}"


def _write_csv(path: PathText, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames require pandas: pip install pandas; save_results() and "
                          "print_summary() work without it") from error
    return pandas
