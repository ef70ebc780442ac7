"""Code that xplane_time.jax and xplane_time.torch share: errors and results of captures."""

from __future__ import annotations

import dataclasses
from typing import Any

import xplane_time
from xplane_time.errors import ArgumentError, Error
from xplane_time.results import UNCERTAIN_STATUSES
from xplane_time.table import Table

__all__ = ["CaptureError", "Profile", "check_counts", "read_profile"]


class CaptureError(Error):
    """The profiler produced no trace, for example because another profiler is active."""

    def __init__(self, message: str, code: str = "UNAVAILABLE") -> None:
        super().__init__(code, message)

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (self.message, self.code)


@dataclasses.dataclass(frozen=True)
class Profile:
    """A capture and its times, in picoseconds."""

    trace: xplane_time.Trace
    samples: Table  # one row for each run
    # Functions whose runs cannot be separated in the trace, or whose number of runs varies between
    # calls: earlier work was still running, or the result was not waited for.
    uncertain: frozenset[str]

    @property
    def by_function(self) -> dict[str, list[int]]:
        """Active times in picoseconds of the runs of each function. Excludes suspect runs and
        `uncertain` functions."""
        return self._times("function")

    @property
    def by_variant(self) -> dict[str, list[int]]:
        """Active times of runs, like by_function, by variant id (id_pattern of
        xplane_time.Trace.report)."""
        return self._times("variant_id")

    def _times(self, key: str) -> dict[str, list[int]]:
        times: dict[str, list[int]] = {}
        for row in self.samples:
            known = row["active_ps"] is not None and row[key] is not None
            if known and not row["suspect"] and row["function"] not in self.uncertain:
                times.setdefault(row[key], []).append(row["active_ps"])
        return times


def read_profile(content: bytes, **options: Any) -> Profile:
    """`options` are those of Trace.report()."""
    trace = xplane_time.open(content)
    report = trace.report(samples=True, **options)
    uncertain = frozenset(row["function"] for row in report.functions
                          if row["status"] in UNCERTAIN_STATUSES)
    return Profile(trace, report.samples, uncertain)


def check_counts(**counts: int) -> None:
    for name, count in counts.items():
        least = 0 if name == "warmup" else 1
        if not isinstance(count, int) or count < least:
            raise ArgumentError("INVALID_ARGUMENT", f"{name}: must be at least {least}, not "
                                                    f"{count!r}")
