"""The numbers of earlier tools, from their own definitions, bit for bit.

`ejkernel`, `tune_jax` and `xprof` have the names, arguments and return values of the
originals (ejkernel 0.0.80.3, tune-jax 0.8.3, xprof 2.24.2), read traces at our speed, and
need none of these packages. So does `hta` (HolisticTraceAnalysis 0.5.0), for traces of PyTorch, in
rows for frames, and without rounding. docs/migrating.md says where they differ from our own times.
"""

from __future__ import annotations

import os
from typing import Any

from xplane_time import _core
from xplane_time.errors import ArgumentError

__all__ = ["Plane", "Profile"]


class Plane:
    """A plane of a Profile: its name, as the originals' planes have it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Plane({self.name!r})"


class Profile:
    """An opened trace where the originals have jax.profiler.ProfileData or a proto.

    `source`: bytes, a path, an XSpace message (what has SerializeToString), or a Profile.
    `raw_protos` says that times are those of protos, in picoseconds; ProfileData cuts what
    is below a nanosecond. Errors: ArgumentError (what has no bytes, as a ProfileData),
    DamagedTraceError, InputError.
    """

    __slots__ = ("planes", "raw_protos", "trace")
    planes: list[Plane]
    raw_protos: bool
    trace: _core.Trace

    def __init__(self, source: Any, *, raw_protos: bool = False) -> None:
        if isinstance(source, Profile):
            self.trace, self.raw_protos, self.planes = (
                source.trace, source.raw_protos, source.planes)
            return
        if hasattr(source, "SerializeToString"):
            source, raw_protos = source.SerializeToString(), True
        threads = len(os.sched_getaffinity(0))
        if isinstance(source, (bytes, bytearray, memoryview)):
            self.trace = _core.open_buffer(source, "bytes", threads, True)
        elif isinstance(source, (str, os.PathLike)):
            self.trace = _core.open_paths([os.fsencode(source)], "", threads, True)
        else:
            raise ArgumentError(
                "INVALID_ARGUMENT", f"a {type(source).__name__} does not give its bytes; pass "
                "the bytes of the trace, its path, or what parse_profile_from_bytes() returns")
        self.raw_protos = raw_protos
        self.planes = [Plane(name) for name in self.trace.plane_names()]
