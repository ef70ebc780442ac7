"""Looks up tuned parameters in the file that `tune export --format tuned` writes.

>>> table = xplane_time.tuned("tuned.json")                               # doctest: +SKIP
>>> match = table.lookup("matmul[64]", "NVIDIA H100 80GB HBM3")           # doctest: +SKIP
>>> match.params, match.level                                             # doctest: +SKIP
({'block_m': 64}, 'any_code')
>>> table.lookup("conv", "NVIDIA H100 80GB HBM3") is None                 # doctest: +SKIP
True
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from xplane_time.errors import ArgumentError, from_status

__all__ = ["LEVELS", "TunedMatch", "TunedTable", "tuned"]

SCHEMA = "xplane-time.tuned.v1"
_MOST_BYTES = 64 << 20

# Parts of the key that may differ, level by level; the first level with a match answers. Workload,
# device class and objective must always be equal.
_MAY_DIFFER = ("protocol_hash", "driver", "framework", "flags", "code_hash")
_NAMES = ("any_protocol", "any_driver", "any_version", "any_flags", "any_code")
LEVELS: Mapping[str, frozenset[str]] = {
    "exact": frozenset(),
    **{name: frozenset(_MAY_DIFFER[:count]) for count, name in enumerate(_NAMES, 1)}}
KEY = ("workload", "device_class", "objective", *_MAY_DIFFER)
_NEEDED = ("workload", "device_class", "params")


@dataclasses.dataclass(frozen=True)
class TunedMatch:
    """A matching entry: `level` is "exact", or names the parts that may differ ("any_driver")."""

    params: dict[str, Any]
    level: str
    entry: Mapping[str, Any]  # entry of the file, with claim, evidence and time


class TunedTable:
    """A table of tuned parameters, as tuned() returns it."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = sorted(entries, key=lambda entry: entry.get("recorded_unix_s", 0))
        # The latest entry wins. An entry for some devices counts for each of them.
        self._levels = {
            level: {(_key(entry, differs), device): entry for entry in self.entries
                    for device in entry.get("devices") or [""]}
            for level, differs in LEVELS.items()}

    @property
    def digest(self) -> str:
        """A hash of the content. If two ranks have the same hash, they have the same table."""
        return hashlib.sha256(json.dumps(self.entries, sort_keys=True).encode()).hexdigest()

    def lookup(
        self,
        workload: str,
        device_class: str,
        *,
        driver: str = "",
        framework: str = "",
        flags: str = "",
        code_hash: str = "",
        protocol_hash: str = "",
        objective: str = "time",
        device: str = "",
    ) -> TunedMatch | None:
        """The best configuration for this key; None if it was not tuned (then use the default).

        Parts of the key that are not given count as different, which `level` shows. `device`: the
        name of a device, which selects its entry if devices need separate answers.
        """
        asked = {"workload": workload, "device_class": device_class, "driver": driver,
                 "framework": framework, "flags": flags, "code_hash": code_hash,
                 "protocol_hash": protocol_hash, "objective": objective}
        for level, differs in LEVELS.items():
            for name in (device, ""):
                entry = self._levels[level].get((_key(asked, differs), name))
                if entry is not None:
                    return TunedMatch(dict(entry["params"]), level, entry)
        return None

    def require(self, workload: str, device_class: str, *, code_hash: str, device: str = "",
                driver: str = "", framework: str = "", flags: str = "",
                objective: str = "time") -> dict[str, Any]:
        """The parameters that were tuned for this device and program, for all ranks.

        `code_hash`: the hash of the tuned program (code_hash_of()). `driver`, `framework` and
        `flags` must be equal if they are given. `device`: the name of this device, if devices need
        separate answers. Errors: NothingFoundError if the parameters were tuned for another device
        or program, with the differences; then no rank may use them.
        """
        asked = {"code_hash": code_hash, "driver": driver, "framework": framework, "flags": flags}
        match = self.lookup(workload, device_class, objective=objective, device=device, **asked)
        if match is None:
            raise from_status("FAILED_PRECONDITION", self._why_nothing(workload, device_class, objective,
                                                                       device))
        differs = [f"{name} {match.entry.get(name, '')!r}, not {wanted!r}"
                   for name, wanted in asked.items()
                   if (wanted or name == "code_hash") and match.entry.get(name, "") != wanted]
        if differs:
            raise from_status("FAILED_PRECONDITION", f"{workload} was tuned for another program: "
                              f"{'; '.join(differs)}; tune it again")
        return match.params

    def _why_nothing(self, workload: str, device_class: str, objective: str, device: str) -> str:
        own = [entry for entry in self.entries if entry["workload"] == workload
               and entry.get("objective", "time") == objective]
        if not own:
            return (f"no tuned entry for {workload} by {objective}; workloads: "
                    f"{', '.join(sorted({entry['workload'] for entry in self.entries})) or 'none'}")
        of_class = [entry for entry in own if entry["device_class"] == device_class]
        if not of_class:
            classes = sorted({entry["device_class"] for entry in own})
            return (f"{workload} was tuned for {', '.join(classes)}, not for {device_class}; tune it "
                    "on that device class")
        devices = sorted({name for entry in of_class for name in entry.get("devices", [])})
        return (f"{workload} has a separate answer for each class of devices, but none for "
                f"{device or 'no device'}; devices: {', '.join(devices)}")

    def __repr__(self) -> str:
        return f"TunedTable of {len(self.entries)} entries"


def tuned(path: str | os.PathLike[str]) -> TunedTable:
    """Reads a tuned table (docs/store.md).

    Errors: MissingInputError, InputError, ArgumentError (not a tuned table).
    """
    try:
        with pathlib.Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise from_status("NOT_FOUND", f"{path}: no such file; create it with xplane-time tune "
                                       "export --format tuned") from None
    except OSError as error:
        raise from_status("UNAVAILABLE", f"{path}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise _bad(path, "larger than 64 MiB")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _bad(path, f'not a tuned table; expected "schema": "{SCHEMA}"')
    entries = document.get("entries")
    if not isinstance(entries, list):
        raise _bad(path, "$.entries: is not a list")
    for place, entry in enumerate(entries):
        if problem := _problem(entry):
            raise _bad(path, f"$.entries[{place}]{problem}")
    return TunedTable(entries)


def _key(entry: Mapping[str, Any], may_differ: frozenset[str]) -> tuple[str, ...]:
    return tuple(str(entry.get(name, "time" if name == "objective" else ""))
                 for name in KEY if name not in may_differ)


def _problem(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ": is not an object"
    for name in _NEEDED:
        if name not in entry:
            return f': has no "{name}"'
    for name in KEY:
        if not isinstance(entry.get(name, ""), str):
            return f".{name}: {entry[name]!r} is not a string"[:200]
    if not isinstance(entry["params"], dict):
        return ".params: is not an object"
    devices = entry.get("devices", [])
    if not isinstance(devices, list) or not all(isinstance(each, str) for each in devices):
        return f".devices: {devices!r} is not a list of strings"[:200]
    recorded = entry.get("recorded_unix_s", 0)
    if not isinstance(recorded, int) or isinstance(recorded, bool):
        return f".recorded_unix_s: {recorded!r} is not a whole number"[:200]
    return ""


def _bad(path: str | os.PathLike[str], what: str) -> ArgumentError:
    return ArgumentError("INVALID_ARGUMENT", f"{path}: {what}")
