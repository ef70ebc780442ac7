"""Proposers for `xplane-time tune --strategy ask:N`: write an optimizer, and pass it to serve.

  # mine.py
  from xplane_time.propose import Result, Space, serve

  class Mine:
      def __init__(self, space: Space): ...
      def ask(self, count): return [{"block": 32}, ...]   # fewer, or an empty list: no more
      def tell(self, result: Result): ...

  def start(space):
      mine = Mine(space)
      return mine.ask, mine.tell

  serve(start)

  $ xplane-time tune space.json --strategy ask:100 --proposer 'python mine.py' -- HARNESS

`python -m xplane_time.propose_optuna` is a complete proposer that uses Optuna. docs/space.md
describes the protocol between a proposer and its driver.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from xplane_time.errors import ArgumentError

__all__ = ["Parameter", "Result", "Space", "serve"]

Params = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of the space with all of its values, in the space's order."""

    name: str
    type: str  # "int", "float", "string" or "bool"
    values: list[Any]


@dataclasses.dataclass(frozen=True)
class Space:
    """The search space: a proposal has a value for each parameter.

    `constraints` are expressions that the driver checks; a proposal that violates one is refused.
    `told` is the number of results of an earlier run that are reported before the first ask. A
    random proposer should use another random seed for each value of `told`, so that a resumed run
    does not repeat its proposals.
    """

    parameters: list[Parameter]
    constraints: list[str]
    seed: int
    told: int


@dataclasses.dataclass(frozen=True)
class Result:
    """The measured result of a configuration.

    `status` is "ok", with the `value` of the objective to minimize (for time, in picoseconds);
    "refused" if it is outside the space or violates a constraint; or the kind of failure.
    `proposal` is the index among all proposals of this process, or None for a configuration that
    was listed in the space or proposed by an earlier run. `repeated`: the configuration was
    measured before.
    """

    params: Params
    status: str
    value: float | None
    id: str | None
    proposal: int | None
    repeated: bool
    message: str


Ask = Callable[[int], Sequence[Params]]
Tell = Callable[[Result], object]


def serve(start: Callable[[Space], tuple[Ask, Tell]]) -> None:
    """Answers the driver (`xplane-time tune`) until the driver sends bye.

    `start(space)` returns two functions. `ask(count)` returns at most `count` configurations, and
    an empty list to end the search. `tell(result)` is called for each returned configuration, and
    for other known results.

    Errors: ArgumentError if there is no driver, or if a proposal is not a dict.
    """
    try:
        requests = os.fdopen(int(os.environ["XPLANE_TIME_PROPOSER_IN"]), "rb")
        answers = os.fdopen(int(os.environ["XPLANE_TIME_PROPOSER_OUT"]), "wb")
    except (KeyError, ValueError, OSError):
        raise ArgumentError(
            "INVALID_ARGUMENT", "no driver; start the proposer with xplane-time tune SPACE "
                                "--strategy ask:N --proposer "
                                f"'{pathlib.Path(sys.executable).name} {' '.join(sys.argv)}'"
        ) from None

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps({"v": 1, **message}).encode() + b"\n")
        answers.flush()

    first_of: dict[int, int] = {}  # by request: number of earlier proposals
    proposed = 0
    for line in requests:
        request = json.loads(line)
        kind = request.get("type")
        if kind == "bye":
            break
        if kind == "hello":
            ask, tell = start(_space(request))
            answer({"type": "hello", "name": pathlib.Path(sys.argv[0]).name})
        elif kind == "tell":
            tell(_result(request, first_of))
        elif kind == "ask":
            params = list(ask(request["count"]))
            if not all(isinstance(each, dict) for each in params):
                raise ArgumentError("INVALID_ARGUMENT", "ask() returned an item that is not a "
                                                        "dict")
            first_of[request["request"]] = proposed
            proposed += len(params)
            answer({"type": "configurations", "request": request["request"], "params": params})


def _space(hello: dict[str, Any]) -> Space:
    parameters = [Parameter(each["name"], each["type"], each["values"])
                  for each in hello["parameters"]]
    return Space(parameters, hello.get("constraints", []), hello.get("seed", 0),
                 hello.get("told", 0))


def _result(told: dict[str, Any], first_of: dict[int, int]) -> Result:
    request = told.get("request")
    proposal = None if request is None else first_of[request] + told["index"]
    return Result(told["params"], told["status"], told["value"], told.get("id"), proposal,
                  told.get("repeated", False), told.get("message", ""))
