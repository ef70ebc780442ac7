"""Records memory, power and latency of a benchmark loop, and its configuration.

  memory, power = MemoryTracker("run"), PowerTracker("gpu")
  latencies = []
  for i in range(1000):
      memory.snapshot(kv_cache_bytes=cache.nbytes)
      power.sample(source)                  # read_watts(), or anything to call
      latencies.append(LatencyRecord(i, wall_time_us=run()))
  power.energy().total_joules               # None with fewer than two samples
  compute_latency_stats(latencies).p95_us
  write_latency_csv("latency.csv", latencies)

Unknown values are None, never 0, and become empty cells in CSV files. The names come from an
earlier tool; docs/power-seeds.md lists the differences. Not thread-safe.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, Union

from xplane_time import _core

__all__ = [
    "BenchConfig",
    "ConstantPowerSource",
    "EnergyResult",
    "LatencyRecord",
    "LatencyStats",
    "MemoryReport",
    "MemorySnapshot",
    "MemoryTracker",
    "PowerSample",
    "PowerSource",
    "PowerTracker",
    "ResultRow",
    "canonical_config_json",
    "compute_latency_stats",
    "config_hash",
    "write_latency_csv",
    "write_memory_csv",
    "write_results_csv",
]

PathText = Union[str, "os.PathLike[str]"]


class PowerSource(Protocol):
    """A source of the current power. None or an exception means that it is unknown."""

    def read_watts(self) -> float | None: ...


@dataclass(frozen=True)
class ConstantPowerSource:
    watts: float

    def read_watts(self) -> float | None:
        return self.watts


@dataclass(frozen=True)
class PowerSample:
    t_ns: int  # time.monotonic_ns(), in the middle of the read
    watts: float | None


@dataclass(frozen=True)
class EnergyResult:
    """The energy of the time with known power, which is `covered_s` of the whole `duration_s`."""

    total_joules: float | None
    mean_watts: float | None
    peak_watts: float | None
    duration_s: float | None
    covered_s: float
    samples: int
    unknown: int


class PowerTracker:
    def __init__(self, label: str) -> None:
        self.label = label
        self.samples: list[PowerSample] = []
        self.last_error: str | None = None  # of a source

    def sample(self, source: PowerSource | Callable[[], float | None]) -> None:
        """Reads the power once. A sample that fails, is negative or is not finite is unknown."""
        read = source.read_watts if hasattr(source, "read_watts") else source
        before_ns = time.monotonic_ns()
        watts: float | None = None
        try:
            given = read()
            if given is not None:
                watts = float(given)
                if not math.isfinite(watts) or watts < 0:
                    raise ValueError(f"an invalid power of {watts} W")
        except Exception as error:  # a sensor that fails does not end the loop
            watts, self.last_error = None, f"{type(error).__name__}: {error}"
        self.samples.append(PowerSample((before_ns + time.monotonic_ns()) // 2, watts))

    def energy(
        self, estimator: Literal["trapezoid", "held", "endpoint_mean"] = "trapezoid"
    ) -> EnergyResult:
        """Computes the energy. trapezoid: the power is linear between samples; held: the power of a
        sample holds until the next one; endpoint_mean: (first + last) / 2 times the duration.
        Errors: ArgumentError."""
        rows = [(each.t_ns, each.watts) for each in self.samples]
        return EnergyResult(*_core.tracked_energy(rows, estimator))


@dataclass(frozen=True)
class MemorySnapshot:
    timestamp_us: int  # UNIX time
    peak_rss_bytes: int | None  # resident memory at the time of the snapshot
    kv_cache_bytes: int | None = None
    activation_bytes: int | None = None
    temp_buffer_bytes: int | None = None


@dataclass(frozen=True)
class MemoryReport:
    """Statistics over the snapshots with known values; totals are sums over snapshots."""

    peak_rss: int | None
    mean_rss: float | None
    kv_cache_total: int | None
    activation_total: int | None


class MemoryTracker:
    def __init__(self, label: str) -> None:
        self.label = label
        self.snapshots: list[MemorySnapshot] = []

    def snapshot(self, *, kv_cache_bytes: int | None = None, activation_bytes: int | None = None,
                 temp_buffer_bytes: int | None = None) -> None:
        """Records this process's resident memory and the given values, which only the caller knows.
        """
        timestamp_us, rss_bytes = _core.resident_now()
        self.snapshots.append(MemorySnapshot(timestamp_us, rss_bytes, kv_cache_bytes,
                                             activation_bytes, temp_buffer_bytes))

    def report(self) -> MemoryReport:
        return MemoryReport(
            *_core.memory_report([dataclasses.astuple(each) for each in self.snapshots]))


@dataclass(frozen=True)
class LatencyRecord:
    sample_id: int
    wall_time_us: int
    kernel_time_us: int | None = None
    seq_len: int | None = None


@dataclass(frozen=True)
class LatencyStats:
    """Statistics of wall times. Percentiles interpolate between order statistics; std has ddof
    0."""

    p50_us: float | None
    p95_us: float | None
    p99_us: float | None
    mean_us: float | None
    std_us: float | None
    n: int


def compute_latency_stats(records: Iterable[LatencyRecord]) -> LatencyStats:
    """Computes statistics of records in any order. Without records, all fields except `n` are
    None."""
    return LatencyStats(*_core.latency_stats([dataclasses.astuple(each) for each in records]))


@dataclass(frozen=True)
class BenchConfig:
    model_commit: str = ""
    weights_hash: str = ""
    lambda_: float = 0.0  # "lambda" in the JSON
    tau: int = 0
    eps: float = 0.0
    compiler_flags: str = ""


def canonical_config_json(config: BenchConfig) -> str:
    """Canonical JSON by RFC 8785. Errors: ArgumentError (NaN, infinity, |tau| over 2^53)."""
    return _core.config_json(dataclasses.astuple(config))


def config_hash(config: BenchConfig) -> str:
    """SHA-256 of canonical_config_json() as 64 hex digits. Errors: as canonical_config_json()."""
    return _core.config_hash(dataclasses.astuple(config))


@dataclass(frozen=True)
class ResultRow:
    """One setting of a sweep. Reductions are relative: 0.25 is a quarter less."""

    setting: str
    coherence_delta: float | None = None
    kv_cache_reduction: float | None = None
    peak_mem_reduction: float | None = None
    energy_reduction: float | None = None
    p95_latency_us: float | None = None
    accuracy: float | None = None


def write_latency_csv(path: PathText, records: Iterable[LatencyRecord]) -> None:
    """Writes a CSV file completely or not at all. Errors: Error (cannot write)."""
    _core.write_latency_csv(os.fspath(path), [dataclasses.astuple(each) for each in records])


def write_memory_csv(path: PathText, snapshots: Iterable[MemorySnapshot]) -> None:
    _core.write_memory_csv(os.fspath(path), [dataclasses.astuple(each) for each in snapshots])


def write_results_csv(path: PathText, rows: Iterable[ResultRow]) -> None:
    _core.write_results_csv(os.fspath(path), [dataclasses.astuple(each) for each in rows])
