"""The numbers of earlier tools, from their own definitions, bit for bit.

`ejkernel`, `tune_jax` and `xprof` have the names, arguments and return values of the originals
(ejkernel 0.0.80.3, tune-jax 0.8.3, xprof 2.24.2), but use this package's fast reader and do not
need the original packages. `hta` (HolisticTraceAnalysis 0.5.0) does the same for traces of PyTorch;
it returns rows instead of frames and does not round. docs/migrating.md lists the differences to
this package's own times.
"""

from __future__ import annotations

import os
from typing import Any

from xplane_time import _core
from xplane_time.errors import ArgumentError

__all__ = ["Plane", "Profile"]


class Plane:
    """A plane of a Profile, with the same `name` as in the originals."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Plane({self.name!r})"


class Profile:
    """An opened trace; takes the place of the originals' jax.profiler.ProfileData or proto.

    `source`: bytes, a path, an XSpace message (an object with SerializeToString), or a Profile.
    `raw_protos`: times are those of protos, in picoseconds; ProfileData truncates to nanoseconds.
    Errors: ArgumentError (an object without bytes, like a ProfileData), DamagedTraceError,
    InputError.
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
