"""ejkernel.ops.execution.profiler of version 0.0.80.3, with its results on raw protos.

>>> from xplane_time.compat.ejkernel import Profiler
>>> profiler = Profiler(prefix_filter="jit_", min_duration_ns=1000)
>>> profiler.profile_time_by_function_id(closure, "gpu", 5)   # doctest: +SKIP
{0: (1.25e-05, 3.1e-08), 1: (1.19e-05, 2.7e-08)}

Unlike the original, it works with today's jaxlib (the original fails there at every event with
stats), and it only requires tensorflow if `require_tf` is set.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from typing import Any

from xplane_time import _core
from xplane_time.compat import Profile
from xplane_time.errors import Error

__all__ = ["Profiler", "ProfilingError"]


class ProfilingError(Exception):
    """Raised when profiling operations fail."""


class Profiler:
    """JAX captures and their times, by ejkernel's definition."""

    def __init__(
        self,
        *,
        prefix_filter: str = "jit_",
        event_filter_regex: str | None = None,
        min_duration_ns: float = 1000.0,
        max_events_per_profile: int | None = 10000,
        verbose: bool = False,
        require_tf: bool = False,
        silence_tf_cpp_logs: bool = True,
    ) -> None:
        self.prefix_filter = prefix_filter
        self.event_filter_regex = event_filter_regex
        self.min_duration_ns = min_duration_ns
        self.max_events_per_profile = max_events_per_profile
        self.verbose = verbose
        self._pattern = re.compile(event_filter_regex) if event_filter_regex is not None else None
        self.require_tf = require_tf
        if silence_tf_cpp_logs and "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

    @staticmethod
    def parse_profile_from_bytes(profile_bytes: bytes) -> Profile:
        """Errors: ProfilingError."""
        try:
            return Profile(profile_bytes, raw_protos=True)
        except Error as error:
            raise ProfilingError(f"Failed to parse profile data: {error}") from error

    @staticmethod
    def find_device_plane_ids(p: Any, device_str: str) -> list[int]:
        """Planes whose lowercase name contains `device_str`. Errors: ProfilingError (none)."""
        try:
            planes = p.planes if hasattr(p, "planes") else Profile(p).planes
            names = [plane.name for plane in planes]
            found = [i for i, name in enumerate(names) if device_str.lower() in name.lower()]
        except (AttributeError, Error) as error:
            raise ProfilingError(f"Invalid profile structure: {error}") from error
        if not found:
            raise ProfilingError(
                f"No planes found for device '{device_str}'. Available devices: {names}")
        return found

    def get_events_from_plane(self, p: Any, plane_idx: int) -> dict[str, float]:
        """Seconds by "NAME(PROGRAM-SCOPE)". Errors: ProfilingError."""
        pattern = self._pattern
        most = self.max_events_per_profile
        try:
            profile = Profile(p)
            if plane_idx >= len(profile.planes):
                raise ProfilingError(
                    f"Plane index {plane_idx} out of range (0-{len(profile.planes) - 1})")
            return dict(profile.trace.ejkernel_times(
                range(len(profile.planes))[plane_idx], self.prefix_filter or "",
                self.min_duration_ns, None if most is None else max(most, 0),
                None if pattern is None else lambda key: pattern.search(key) is not None))
        except Exception as error:  # all exceptions, like the original
            raise ProfilingError(
                f"Failed to extract events from plane {plane_idx}: {error}") from error

    def profile_time_by_function_id(
        self,
        timing_closure: Callable[[], None],
        platform: str,
        total_calls_number: int,
    ) -> dict[int, tuple[float, float]]:
        """Captures `total_calls_number` calls; returns (mean, std) in seconds by the N of
        jit_autotune_fn_N. Errors: ProfilingError, xplane_time.jax.CaptureError."""
        if self.require_tf:
            try:
                importlib.import_module("tensorflow.python.profiler.trace")
            except Exception as error:
                raise ProfilingError("TensorFlow Python profiler hooks are not available") from error
        from xplane_time.jax import capture

        captures = []
        for _ in range(total_calls_number):
            profile = self.parse_profile_from_bytes(capture(timing_closure, python_frames=True))
            plane = self.find_device_plane_ids(profile, platform)[0]
            captures.append(list(self.get_events_from_plane(profile, plane).items()))
        return {int(key): (mean, std) for key, mean, std in _core.ejkernel_variants(captures)}
