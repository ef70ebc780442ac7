"""xprof 2.24.2's get_device_time_attribution and the get_kernel_stats behind it.

>>> from xplane_time.compat import xprof
>>> xprof.device_time_attribution("trace.xplane.pb")["total_device_duration_us"]  # doctest: +SKIP
41500.0
"""

from __future__ import annotations

import json
import re
from typing import Any

from xplane_time.compat import Profile
from xplane_time.errors import NothingFoundError

__all__ = ["device_time_attribution", "get_device_time_attribution"]


def _matches(pattern: str, text: str) -> bool:
    try:
        if re.search(pattern, text):
            return True
    except re.error:
        pass
    return pattern in text


def device_time_attribution(
    source: Any,
    *,
    kernel_name: str | None = None,
    limit: int = 10,
    trace_matchers: tuple[str, ...] | None = None,
    include_intra_kernel_regions: bool = False,
) -> dict[str, Any]:
    """The time that kernels and lines cover, over all devices together.

    `source`: bytes, a path, or a Profile. The other arguments are those of the original's
    get_kernel_stats with include_summary=True. Errors: NothingFoundError (no kernel), those of
    xplane_time.open().
    """
    test = None
    if trace_matchers:
        patterns = tuple(trace_matchers)
        test = lambda name: any(_matches(each, name) for each in patterns)  # noqa: E731
    return dict(Profile(source).trace.xprof_device_times(
        max(limit, 0), include_intra_kernel_regions, kernel_name or None, test))


def get_device_time_attribution(session_id: Any, host: str = "") -> str:
    """Returns the same as the JSON text of the original. `session_id`: a path or bytes."""
    del host
    try:
        return json.dumps(device_time_attribution(session_id), indent=2)
    except NothingFoundError:
        named = f"{len(session_id)} bytes" if isinstance(session_id, bytes) else session_id
        return json.dumps({"info": f"No kernel stats found for session {named}"}, indent=2)
