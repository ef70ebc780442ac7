"""Runs a harness on another machine: a Ray actor there, and a program here that forwards lines.

`xplane-time tune` starts `python -P -m xplane_time.fleet_relay ADDRESS NAMESPACE FOLDER` for each
device. The actor of the device, which FOLDER names, starts the harness and owns the device. If the
actor is lost during a round, this program answers the round with "infra" (a transient failure) and
ends. The driver then starts this program again, and Ray starts the actor again. If the same variant
was already running at an earlier loss (FOLDER has a record of it), this program ends without an
answer, so the driver counts a crash of that variant.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import json
import os
import signal
import socket
import sys
import threading
from typing import Any

from xplane_time.fleet_harness import HarnessProcess, Program, hello_of, write_all

__all__ = ["Actor"]

ACTORS = "actors.json"  # by device
_POLL_S = 2.0
_ANSWERS = {"run_round": "result", "prepare": "prepared", "verify": "verified"}


class Actor:
    """The actor of one device. Two of its methods may run at once: one sends, and one receives."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._process: HarnessProcess | None = None

    def where(self) -> str:
        """Returns "10.0.0.7/gpu3", or "10.0.0.7/" without a GPU."""
        ray: Any = importlib.import_module("ray")
        gpus = ray.get_gpu_ids()
        node = ray.util.get_node_ip_address() or socket.gethostname()
        return f"{node}/gpu{'+'.join(map(str, gpus))}" if gpus else f"{node}/"

    def hello(self, device: str, timeout_s: float) -> dict[str, Any]:
        return hello_of(self._program.start(device), timeout_s)

    def start(self, device: str) -> None:
        self.stop()
        self._process = self._program.start(device)

    def send(self, data: bytes) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):  # the process has ended: receive() reports it
                self._process.send(data)

    def receive(self) -> bytes | tuple[int, str]:
        """Returns complete lines; or the exit code and the last output, if the harness has
        ended."""
        process = self._process
        if process is None:
            return (-signal.SIGKILL, "the device was restarted")
        got = process.receive(_POLL_S)
        if got is None:
            if self._process is process:
                self._process = None
            return process.end(_POLL_S)
        return b"".join(map(_with_its_trace, got.splitlines(keepends=True)))

    def stop(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


def _with_its_trace(line: bytes) -> bytes:
    """Replaces the path of a trace file on this machine by the content."""
    if b'"trace"' not in line:
        return line
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OSError):
        answer = json.loads(line)
        with open(answer["trace"]["path"], "rb") as file:
            answer["trace"] = {"base64": base64.b64encode(file.read()).decode()}
        return json.dumps(answer).encode() + b"\n"
    return line


class _Relay:
    def __init__(self, actor: Any, device: str, folder: str) -> None:
        self._ray: Any = importlib.import_module("ray")
        self._actor, self._device, self._folder = actor, device, folder
        self._requests = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_IN"]), "rb")
        self._answers = int(os.environ["XPLANE_TIME_HARNESS_OUT"])
        self._asked: dict[int, dict[str, Any]] = {}  # requests that wait for their answers
        self._running = ""  # the running variant

    def run(self) -> None:
        """Ends this process in the same way as the harness ended."""
        try:
            self._ray.get(self._actor.start.remote(self._device))
            threading.Thread(target=self._pass_on, daemon=True).start()
            while True:
                got = self._ray.get(self._actor.receive.remote())
                if not isinstance(got, bytes):
                    break
                self._answer(got)
        except self._ray.exceptions.RayError as error:
            self._tell_lost(str(error).splitlines()[0])
            os._exit(1)
        code, printed = got
        print(printed, flush=True)
        if code < 0:  # ended by a signal: send it to this process, too
            with contextlib.suppress(OSError):  # SIGKILL cannot have a handler
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code or 1)

    def _pass_on(self) -> None:
        for line in self._requests:
            request = json.loads(line)
            if request.get("type") in _ANSWERS:
                self._asked[request["request"]] = request
            self._actor.send.remote(line)
            if request.get("type") == "bye":
                with contextlib.suppress(Exception):
                    self._ray.get(self._actor.receive.remote(), timeout=_POLL_S)
                    self._ray.get(self._actor.stop.remote(), timeout=_POLL_S)
                os._exit(0)
        os._exit(0)

    def _answer(self, lines: bytes) -> None:
        out = b""
        for line in lines.splitlines(keepends=True):
            try:
                answer = dict(json.loads(line))
            except (ValueError, TypeError):  # an invalid answer: the driver handles it
                out += line
                continue
            # The name on this machine, not the one on the harness's machine.
            if answer.get("type") == "hello":
                answer["device"] = self._device
                line = json.dumps(answer).encode() + b"\n"
            elif answer.get("type") == "slot":
                order = self._asked.get(answer.get("request", 0), {}).get("order", [])
                self._running = order[answer["slot"]] if answer.get("slot", 1 << 30) < len(order) else ""
            else:
                self._asked.pop(answer.get("request", 0), None)
                self._running = ""
            out += line
        write_all(self._answers, out)

    def _tell_lost(self, why: str) -> None:
        print(f"the device was lost: {why}", flush=True)
        if self._running:
            known = os.path.join(self._folder, hashlib.sha256(self._running.encode()).hexdigest())
            if os.path.exists(known):
                return
            with open(known, "w", encoding="utf-8") as file:
                file.write(self._running)
        for number, request in list(self._asked.items()):
            write_all(self._answers, json.dumps({
                "v": 1, "type": _ANSWERS[request["type"]], "request": number, "status": "infra",
                "samples": [], "message": f"the device was lost: {why}"}).encode() + b"\n")


def _main(address: str, namespace: str, folder: str) -> None:
    ray: Any = importlib.import_module("ray")
    ray.init(address=address, namespace=namespace, log_to_driver=False)
    device = os.environ["XPLANE_TIME_DEVICE"]
    with open(os.path.join(folder, ACTORS), encoding="utf-8") as file:
        name = json.load(file)[device]
    _Relay(ray.get_actor(name), device, folder).run()


if __name__ == "__main__":
    _main(*sys.argv[1:])
