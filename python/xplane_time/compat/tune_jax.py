"""tune_jax.profile_reader of 0.8.3, and the times that its tuner derives from it.

>>> from xplane_time.compat import tune_jax
>>> profile = tune_jax.parse_profile_from_bytes(content)              # doctest: +SKIP
>>> for plane in tune_jax.find_device_plane_ids(profile, "gpu"):      # doctest: +SKIP
...     tune_jax.get_events_from_plane(profile, plane, prefix_filter="jit_")
{'jit_dot(5)': 0.00015744}
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from xplane_time import _core
from xplane_time.compat import Profile

__all__ = ["find_device_plane_ids", "function_timings", "get_events_from_plane",
           "parse_profile_from_bytes", "time_with_profiler", "timing_loss"]


def parse_profile_from_bytes(profile_bytes: bytes) -> Profile:
    """Times are those of jax.profiler.ProfileData, which the original uses with today's jax."""
    return Profile(profile_bytes)


def find_device_plane_ids(p: Any, device_str: str) -> list[int]:
    """Planes whose lowercase name contains `device_str`."""
    planes = p.planes if hasattr(p, "planes") else Profile(p).planes
    return [i for i, plane in enumerate(planes) if device_str.lower() in plane.name.lower()]


def get_events_from_plane(
    p: Any, plane_idx: int, prefix_filter: str = "", event_filter_regex: str | None = None
) -> dict[str, float]:
    """Seconds by "NAME(PROGRAM)"; later runs are "NAME(PROGRAM)[1]" and so on.

    `p`: a Profile, bytes, a path, or an XSpace message (whose times are then not truncated to
    nanoseconds). Errors: IndexError, re.error, those of xplane_time.open().
    """
    profile = Profile(p)
    test = None
    if event_filter_regex is not None:
        pattern = re.compile(event_filter_regex)
        test = lambda key: pattern.search(key) is not None  # noqa: E731
    plane = range(len(profile.planes))[plane_idx]
    return dict(profile.trace.tune_jax_times(plane, prefix_filter, profile.raw_protos, test))


def function_timings(
    profiles: Iterable[Any], platform: str, event_filter_regex: str | None = None
) -> dict[int, tuple[float, float]]:
    """(mean, std) in seconds by the N of jit_tune_jax_fn_N, over all captures.

    Each capture gives the time of its slowest plane. Of more than two captures, the smallest and
    the largest time are dropped. Errors: NothingFoundError (a RuntimeError in the original) if an N
    occurs twice in a plane.
    """
    one = isinstance(profiles, (bytes, str, os.PathLike, Profile))
    captures = []
    for source in [profiles] if one else profiles:
        profile = Profile(source)
        captures.append([
            (profile.planes[i].name,
             list(get_events_from_plane(profile, i, "jit_", event_filter_regex).items()))
            for i in find_device_plane_ids(profile, platform)])
    return {int(key): (mean, std) for key, mean, std in _core.tune_jax_variants(captures)}


def time_with_profiler(
    timing_closure: Callable[[], None], platform: str, total_calls_number: int,
    event_filter_regex: str | None = None,
) -> dict[int, tuple[float, float]]:
    """The original's _time_with_profiler: captures, then function_timings(). Python's calls are
    traced as well, like in the original, because programs are faster without them."""
    from xplane_time.jax import capture

    captures = [capture(timing_closure, python_frames=True) for _ in range(total_calls_number)]
    return function_timings(captures, platform, event_filter_regex)


def timing_loss(mean_s: float, std_s: float) -> float:
    """The loss that the tuner minimizes."""
    return mean_s + 0.1 * std_s
