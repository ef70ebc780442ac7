"""Tunes a kernel on several devices (docs/fleet-tuning.md).

>>> from xplane_time import fleet
>>> found = fleet.tune("space.json", ["python", "harness.py"], devices=8)       # doctest: +SKIP
>>> found.params                                      # None if devices need several answers
>>> found.save("tuned.lock.json")                     # for all ranks: xplane_time.tuned(...).require()

The command `xplane-time tune --devices` measures and decides. This module provides the devices of
this machine or of a Ray cluster, and combines the answers.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, Union

from xplane_time.errors import ArgumentError, Error, InputError
from xplane_time.files import FileKind, PathText, command_path, new_file
from xplane_time.fleet_executors import connected_ray
from xplane_time.fleet_harness import (Harness, HarnessProcess, Program, ending_with_us, hello_of,
                                       module_command, program_of)
from xplane_time.fleet_relay import ACTORS, Actor
from xplane_time.tuned_table import KEY, SCHEMA

__all__ = ["Answer", "TuneReport", "tune"]

# Each claim is weaker than the one before.
_WEAKER = ("winner", "tie", "pick", "undecided", "all_failed")
_LOCK = FileKind("tuned table", b'"schema"', 3)
_STOPPED, _USAGE = 75, 64
# Properties that devices must share so that their times are comparable, as in the command.
_KIND = ("device_class", "clock", "driver", "versions", "flags", "code_hash")


@dataclasses.dataclass(frozen=True)
class Answer:
    """The best parameters for some devices. `result`: the output of `tune --format json` for the
    session that decided. `params` is None if there is no decision."""

    devices: tuple[str, ...]
    params: dict[str, Any] | None
    claim: str  # "winner", "tie", "pick", "undecided" or "all_failed"
    result: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, repr=False)
class TuneReport:
    """The result of fleet.tune.

    `answers`: one entry if all devices share an answer. `classes`: groups of devices that behave
    alike. There are several classes if the relative time of a variant is proved to differ between
    devices (`evidence`), or if the devices are of different kinds. Several classes may still share
    an answer. `slow`: devices that are proved slower than the others. `lost`: lost devices, with
    the reasons."""

    answers: list[Answer]
    classes: list[tuple[str, ...]]
    evidence: list[Mapping[str, Any]]
    slow: list[str]
    lost: dict[str, str]
    table: Mapping[str, Any]  # schema xplane-time.tuned.v1

    @property
    def params(self) -> dict[str, Any] | None:
        """Parameters of the answer; None if there are several answers, or no decision."""
        return self.answers[0].params if len(self.answers) == 1 else None

    def save(self, path: PathText) -> None:
        """Writes the tuned table that all ranks load: xplane_time.tuned(path).require(...). Errors:
        ArgumentError (no decision; the path has another kind of file), OSError."""
        if not self.table["entries"]:
            raise ArgumentError("INVALID_ARGUMENT", "there is no decision to save")
        with new_file(path, _LOCK) as file:
            file.write_text(json.dumps(self.table, indent=1) + "\n", "utf-8")

    def __repr__(self) -> str:
        return f"<TuneReport: {len(self.answers)} answer(s), {len(self.classes)} class(es) of devices>"

    def __str__(self) -> str:
        lines = []
        for answer in self.answers:
            told = json.dumps(answer.params) if answer.params is not None else \
                f"no pick ({answer.result['stop_reason']})"
            lines.append(f"{answer.claim}: {told} on {', '.join(answer.devices)}")
            lines += [f"{json.dumps(row['params'])}: {row['status']}: {row.get('message', '')}".splitlines()[0]
                      for row in answer.result["variants"] if row["status"] != "ok"]
        if len(self.classes) > 1:
            lines.append(f"{len(self.classes)} classes of devices: "
                         + "; ".join(", ".join(each) for each in self.classes))
        lines += [f"{json.dumps(each['params'])}: {_percent(each['ratio'])} on {', '.join(each['devices'])}, "
                  f"{_percent(each['others_ratio'])} on {', '.join(each['others'])}, in time against the "
                  "other variants" for each in self.evidence if "params" in each]
        lines += [f"slow: {each}" for each in self.slow]
        lines += [f"lost: {device}: {why.strip().partition(chr(10))[0]}" for device, why in self.lost.items()]
        return "\n".join(lines)


def tune(
    space: PathText | Mapping[str, Any],
    harness: Harness,
    *,
    strategy: Literal["merge", "split"] = "merge",
    executor: Literal["processes", "ray"] = "processes",
    devices: int | Sequence[str] | None = None,
    store: PathText = "tune.db",
    resume: bool = False,
    search: str = "all",
    stop: Literal["pick", "claim"] = "pick",
    objective: str = "time",
    delta: float = 0.005,
    alpha: float = 0.01,
    incumbent: str | Mapping[str, Any] = "",
    baseline: str | Mapping[str, Any] = "",
    workload: str = "",
    budget_runs: int | None = None,
    calls: int = 1,
    seed: int = 0,
    slot_timeout_s: float = 60,
    prepare_timeout_s: float = 600,
    actor_options: Mapping[str, Any] | None = None,
    on_message: Callable[[str], None] | None = None,
) -> TuneReport:
    """Finds the fastest variant on several devices: one for all, or one for each class of devices.

    `space`: a file or its content (docs/space.md). `harness`: a command, such as ["python",
    "harness.py"], or a function without parameters that calls serve() or serve_jax(). It is started
    once for each device, with XPLANE_TIME_DEVICE in its environment. `devices`: their number, or
    their names (with executor "processes", a numeric name is the number of a GPU) [all GPUs, else
    one]. `executor`: "processes" (this machine) or "ray" (a cluster; each device has its own actor;
    `actor_options` such as {"num_gpus": 1}).

    `strategy`: "merge" pools the rounds of all devices; each round runs on one device with all its
    variants. If the devices are of several classes, each class is tuned separately. "split" tunes
    each device separately from the start. Devices of different kinds are never pooled. `store`
    keeps all rounds, and `resume` continues the last session with the same space, harness, devices
    and options. If a device is lost, only its current round is lost. `search`: "all", "list",
    "random:N" or "halving:N". `incumbent`: variant to keep unless another one is proved faster: its
    id, or its parameters. `baseline`: variant to compare with the pick in fresh rounds at the end;
    given like `incumbent` [the incumbent]. `on_message`: receives the messages of the command, in
    another thread; an exception in it ends the tuning.

    Errors: ArgumentError, InputError (no device works), KeyboardInterrupt (Ctrl-C; the measurements
    are kept).
    """
    if strategy not in ("merge", "split") or executor not in ("processes", "ray"):
        raise ArgumentError("INVALID_ARGUMENT", 'strategy must be "merge" or "split", and '
                                                'executor "processes" or "ray", not '
                                                f"{strategy!r} with {executor!r}")
    if not _are_devices(devices):
        raise ArgumentError("INVALID_ARGUMENT", "devices: must be a number of at least 1, or a "
                                                "list of different names without commas, not "
                                                f"{devices!r}")
    if actor_options and executor != "ray":
        raise ArgumentError("INVALID_ARGUMENT", 'actor_options requires executor="ray"')
    given: dict[str, Any] = {
        "strategy": search, "stop": stop, "objective": objective, "delta": f"{delta * 100}%",
        "alpha": f"{alpha * 100}%", "incumbent": _id_text(incumbent), "baseline": _id_text(baseline),
        "workload": workload or None, "budget-runs": budget_runs,
        "calls": calls, "seed": seed, "slot-timeout": slot_timeout_s,
        "prepare-timeout": prepare_timeout_s, "store": os.fspath(store)}
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    if resume:
        options.append("--resume")
    with tempfile.TemporaryDirectory(prefix="xplane-time-") as folder:
        path = _space_file(space, folder)
        there: _Devices
        if executor == "ray":
            there = _OfRay(program_of(harness), devices, folder, prepare_timeout_s, actor_options or {})
        else:
            there = _OfThisMachine(program_of(harness), devices, folder)
        with contextlib.closing(there):
            tuning = _Tuning(path, options, there, on_message)
            groups = _by_kind(there)
            if strategy == "split":
                groups = [[each] for group in groups for each in group]
            return tuning.report(groups, at_once=strategy == "split")


def _are_devices(devices: Any) -> bool:
    if devices is None or isinstance(devices, int):
        return devices is None or not isinstance(devices, bool) and devices >= 1
    names = [] if isinstance(devices, str) else list(devices)
    return 0 < len(set(names)) == len(names) and all(
        isinstance(each, str) and each.strip() and "," not in each for each in names)


def _space_file(space: PathText | Mapping[str, Any], folder: str) -> str:
    if not isinstance(space, Mapping):
        return os.fspath(space)
    path = os.path.join(folder, "space.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(space), file)
    return path


def _id_text(variant: str | Mapping[str, Any]) -> str | None:
    return json.dumps(dict(variant)) if isinstance(variant, Mapping) else variant or None


# ---- Devices

class _Devices(Protocol):
    """The names of the devices, and the command that starts the harness on the device that
    XPLANE_TIME_DEVICE names."""

    names: list[str]
    command: list[str]
    environment: dict[str, str]
    lost: dict[str, str]

    def hello(self, device: str) -> dict[str, Any]: ...
    def close(self) -> None: ...


class _OfThisMachine:
    def __init__(self, program: Program, devices: int | Sequence[str] | None, folder: str) -> None:
        count = devices if isinstance(devices, int) else _gpus_here() or 1
        self.names = [str(each) for each in (range(count) if devices is None or isinstance(devices, int)
                                             else devices)]
        self.command = program.write(folder)
        self.environment = program.environment()
        self.lost: dict[str, str] = {}

    def hello(self, device: str) -> dict[str, Any]:
        visible = {"CUDA_VISIBLE_DEVICES": device, "ROCR_VISIBLE_DEVICES": device}
        return hello_of(HarnessProcess(self.command, {
            **self.environment, "XPLANE_TIME_DEVICE": device,
            **(visible if device.isdigit() else {})}), timeout_s=120)

    def close(self) -> None:
        pass


def _gpus_here() -> int:
    return len([each for each in pathlib.Path("/dev").glob("nvidia[0-9]*") if each.name[6:].isdigit()])


class _OfRay:
    """One actor for each device."""

    def __init__(self, program: Program, devices: int | Sequence[str] | None, folder: str,
                 timeout_s: float, options: Mapping[str, Any]) -> None:
        if devices is not None and not isinstance(devices, int):
            raise ArgumentError("INVALID_ARGUMENT", "devices: must be a number with "
                                                    'executor="ray", because Ray chooses the '
                                                    "devices")
        ray = connected_ray()
        self._ray, self._timeout_s = ray, timeout_s
        gpus = int(ray.cluster_resources().get("GPU", 0))
        count = devices or gpus or 1
        its = {**({"num_gpus": 1} if gpus else {"num_cpus": 1}), **options}
        for option, resource in (("num_gpus", "GPU"), ("num_cpus", "CPU")):
            there = ray.cluster_resources().get(resource, 0)
            if its.get(option, 0) * count > there:
                raise ArgumentError("INVALID_ARGUMENT", f"devices: {count} with "
                                                        f"{option}={its[option]} exceed this "
                                                        f"cluster, which has {there:g}")
        context = ray.get_runtime_context()
        prefix = f"xplane-time-{secrets.token_hex(6)}-"
        remote = ray.remote(Actor)
        self.lost: dict[str, str] = {}
        actors = [remote.options(name=f"{prefix}{i}", max_restarts=-1, max_concurrency=4,
                                 **its).remote(program) for i in range(count)]
        self._actors = dict(enumerate(actors))
        try:
            where = ray.get([each.where.remote() for each in actors], timeout=timeout_s)
        except ray.exceptions.GetTimeoutError:
            self.close()
            raise InputError("UNAVAILABLE", f"Ray did not provide {count} devices within "
                                            f"{timeout_s:g} s, because others use them") from None
        # The name of a device is its location, which is known now.
        self.names = _numbered(where)
        with open(os.path.join(folder, ACTORS), "w", encoding="utf-8") as file:
            json.dump({name: f"{prefix}{i}" for i, name in enumerate(self.names)}, file)
        self.command = module_command("xplane_time.fleet_relay", context.gcs_address,
                                      context.namespace, folder)
        self.environment: dict[str, str] = {}

    def hello(self, device: str) -> dict[str, Any]:
        try:
            said: dict[str, Any] = self._ray.get(
                self._actors[self.names.index(device)].hello.remote(device, self._timeout_s))
            return said
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, Error) else InputError(
                "UNAVAILABLE", f"{device}: {str(error).splitlines()[0]}") from None

    def close(self) -> None:
        for actor in self._actors.values():
            with contextlib.suppress(Exception):
                self._ray.kill(actor)


def _numbered(where: Sequence[str]) -> list[str]:
    """Numbers the devices of a node without GPUs: "10.0.0.7/0", "10.0.0.7/1"."""
    return [f"{place}{where[:i].count(place)}" if place.endswith("/") else place
            for i, place in enumerate(where)]


def _by_kind(devices: _Devices) -> list[list[str]]:
    """Groups devices of the same kind. A device that does not answer hello is lost."""
    groups: dict[str, list[str]] = {}
    first_error: Error | None = None
    with concurrent.futures.ThreadPoolExecutor(min(32, len(devices.names))) as pool:
        said = {name: pool.submit(devices.hello, name) for name in devices.names}
    for name, future in said.items():
        try:
            hello = future.result()
        except Error as error:
            devices.lost[name] = error.message
            first_error = first_error or error
            continue
        groups.setdefault(json.dumps([hello.get(each) for each in _KIND], sort_keys=True), []).append(name)
    if not groups and first_error is not None:
        raise first_error
    return list(groups.values())


# ---- Sessions

# The devices, and their result.
_Session = tuple[list[str], Mapping[str, Any]]


class _Tuning:
    def __init__(self, space: str, options: Sequence[str], devices: _Devices,
                 on_message: Callable[[str], None] | None) -> None:
        self._space, self._options, self._devices = space, options, devices
        self._on_message = on_message
        self._program = command_path()
        self._store = next(each for each in options if each.startswith("--store="))
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = threading.Event()
        self._raised: BaseException | None = None  # exception of on_message
        self._slow: list[str] = []
        self._lost: dict[str, str] = {}

    def report(self, groups: list[list[str]], at_once: bool) -> TuneReport:
        sessions: list[_Session] = []
        evidence: list[Mapping[str, Any]] = []
        errors: list[InputError] = []
        with concurrent.futures.ThreadPoolExecutor(len(groups) if at_once else 1) as pool:
            running = [pool.submit(self._classes_of, group) for group in groups]
            try:
                for group, each in zip(groups, running):
                    try:
                        found, splits = each.result()
                    except InputError as error:  # the other groups continue
                        errors.append(error)
                        self._lost.update({device: error.message for device in group})
                        continue
                    sessions += found
                    evidence += splits
            except BaseException:
                self._interrupt()
                raise
        if not sessions:
            raise errors[0]
        if len(groups) > 1 and not at_once:
            evidence += [{"device_class": result["harness"]["device_class"], "devices": names}
                         for names, result in sessions]
        answers = _answers_of(sessions)
        # With separate tunings, devices with the same answer form a class.
        classes = [each.devices for each in answers] if at_once else [tuple(own) for own, _ in sessions]
        return TuneReport(
            answers=answers, classes=classes, evidence=evidence, slow=sorted(set(self._slow)),
            lost={**self._devices.lost, **self._lost},
            table={"schema": SCHEMA, "entries": self._entries_of(answers, sessions)})

    # The sessions of each class, and the evidence that separates the classes.
    def _classes_of(self, devices: list[str]) -> tuple[list[_Session], list[Mapping[str, Any]]]:
        result = self._tuned(devices)
        check = result["devices"] or {"devices": [], "classes": [], "splits": [], "lost": []}
        self._slow += [self._label(row["name"]) for row in check["devices"] if row["verdict"] == "slow"]
        self._lost.update({self._label(each["device"]): each["message"] for each in check["lost"]})
        if len(check["classes"]) < 2:
            there = self._labels(check["classes"][0]) if check["classes"] else devices
            return [(there, result)], []
        splits: list[Mapping[str, Any]] = [
            {**each, "devices": self._labels(each["devices"]), "others": self._labels(each["others"]),
             "params": next(row["params"] for row in result["variants"] if row["id"] == each["variant"])}
            for each in check["splits"]]
        sessions: list[_Session] = []
        for names in check["classes"]:
            of_class, more = self._classes_of(self._labels(names))
            sessions += of_class
            splits += more
        return sessions, splits

    def _tuned(self, devices: list[str]) -> dict[str, Any]:
        """Runs a session on these devices; returns its result."""
        if self._stopped.is_set():
            raise KeyboardInterrupt
        command = [self._program, "tune", self._space, *self._options, f"--devices={','.join(devices)}",
                   "--format=json", "--progress=always", "--", *self._devices.command]
        process = subprocess.Popen(ending_with_us(command, "TERM"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   start_new_session=True,  # Ctrl-C is forwarded from here, once
                                   env={**os.environ, **self._devices.environment})
        self._running.add(process)
        if self._stopped.is_set():
            process.terminate()
        said: list[str] = []
        listener = threading.Thread(target=self._listen, args=(process, said))
        listener.start()
        with process:
            try:
                assert process.stdout is not None
                printed = process.stdout.read()
                code = process.wait()
            except BaseException:
                self._interrupt()
                raise
            finally:
                process.wait()
                listener.join()
                self._running.discard(process)
        if self._raised is not None:
            raise self._raised
        if code == _STOPPED:
            raise KeyboardInterrupt
        if code < 0:
            raise InputError("UNAVAILABLE", f"xplane-time tune was ended by signal {-code}; all "
                                            "measurements so far are stored; continue with "
                                            "resume=True")
        if printed:
            result: dict[str, Any] = json.loads(printed)
            return result
        message = next((each for each in reversed(said) if each.startswith("xplane-time: ")),
                       said[-1] if said else f"xplane-time tune ended with {code}")
        message = message.removeprefix("xplane-time: ")
        if code == _USAGE:
            raise ArgumentError("INVALID_ARGUMENT", message)
        raise InputError("UNAVAILABLE", message)

    def _listen(self, process: subprocess.Popen[str], said: list[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.rstrip("\n"))
            if self._on_message is None or self._raised is not None:
                continue
            try:
                self._on_message(said[-1])
            except BaseException as error:
                self._raised = error
                self._interrupt()

    def _interrupt(self) -> None:
        """Sends SIGTERM to the command, which then ends and keeps its measurements."""
        self._stopped.set()
        for process in list(self._running):
            process.send_signal(signal.SIGTERM)

    def _label(self, name: str) -> str:
        """Finds the label of a device in the name that the command reports: "3" in "cuda:0 (3)"."""
        fitting = [each for each in self._devices.names if name == each or name.endswith(f" ({each})")]
        return max(fitting, key=len, default=name)

    def _labels(self, names: Sequence[str]) -> list[str]:
        return [self._label(each) for each in names]

    def _entries_of(self, answers: Sequence[Answer], sessions: Sequence[_Session]) -> list[dict[str, Any]]:
        """One entry for each answer and kind of device. If a kind has several answers, each entry
        names its devices."""
        entries = []
        for answer in answers:
            if answer.params is None:
                continue
            own = [(names, result) for names, result in sessions if set(names) <= set(answer.devices)]
            by_key: dict[str, tuple[dict[str, Any], list[str]]] = {}
            for names, result in own:
                entry = self._entry_of(result["session"])
                key = json.dumps([entry.get(part, "") for part in KEY])
                known, there = by_key.setdefault(key, (entry, []))
                there += names
                if entry["params"] == answer.params:
                    known.update(entry)
            for entry, names in by_key.values():
                if entry["params"] != answer.params:  # tied with the pick of that session
                    entry.update(params=answer.params, id=answer.result["pick"], claim="tie")
                entries.append({**entry, "devices": names})
        keys = [[entry.get(part, "") for part in KEY] for entry in entries]
        for entry, own in zip(entries, keys):
            if keys.count(own) == 1:
                del entry["devices"]
        return entries

    def _entry_of(self, session: int) -> dict[str, Any]:
        done = subprocess.run(
            [self._program, "tune", "export", str(session), "--format=tuned", self._store],
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InputError("UNAVAILABLE", done.stderr.strip().removeprefix("xplane-time: "))
        entry: dict[str, Any] = json.loads(done.stdout)["entries"][0]
        return entry


def _answers_of(sessions: Sequence[_Session]) -> list[Answer]:
    """Returns a single answer if one variant is the pick, or tied with it, in all sessions.
    Otherwise returns one answer for each pick."""
    good = [{*result["tied"], result["pick"]} - {None} if result["claim"] in ("winner", "tie", "pick")
            else set() for _, result in sessions]
    of_all = [each for _, result in sessions if (each := result["pick"])
              and all(each in of_one for of_one in good)]
    by_pick: dict[str | None, list[_Session]] = {}
    for (names, result), fine in zip(sessions, good):
        pick = of_all[0] if of_all else result["pick"] if fine else None
        by_pick.setdefault(pick, []).append((names, result))
    answers = []
    for pick, own in by_pick.items():
        row = next((each for _, result in own for each in result["variants"] if each["id"] == pick), None)
        result = next((result for _, result in own if result["pick"] == pick), own[0][1])
        # The weakest claim holds for all.
        claim = max((each["claim"] for _, each in own), key=_WEAKER.index)
        answers.append(Answer(tuple(name for names, _ in own for name in names),
                              None if row is None else row["params"], claim, result))
    return answers


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.2f} %"
