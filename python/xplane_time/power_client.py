"""Client commands for `xplane-time power run`: write a function that answers, and pass it to serve.

  # answer.py
  from xplane_time.power_client import serve

  def answer(problem):
      return model.generate(problem)         # the text

  serve(answer)

  $ xplane-time power run problems.jsonl -- python answer.py

Each answer is stored with the energy, power and memory that were measured while the function ran.
If the function returns an `Answer`, this also contains counts of tokens and the time to the first
token; an unknown value is None, never 0. If `answer` raises an exception, that record fails.
docs/power-run.md describes the protocol, for commands in other languages.
"""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from xplane_time.errors import ArgumentError

__all__ = ["Answer", "Question", "serve"]


@dataclass(frozen=True)
class Answer:
    """The text of an answer, with its numbers of tokens and its times."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    time_to_first_token_ms: float | None = None


@dataclass(frozen=True)
class Question:
    """A record of the data set, without its right answer."""

    problem: str
    model: str
    subject: str
    dataset_metadata: dict[str, Any]


def serve(answer: Callable[..., str | Answer],
          versions: Mapping[str, str] | None = None) -> None:
    """Answers the driver (`xplane-time power run`) until the driver sends bye.

    `answer(problem)` returns a text or an Answer. `answer(problem, question)` also receives the
    other fields of the record. `versions`, such as {"torch": torch.__version__}, are stored in the
    run's summary.

    Errors: ArgumentError if there is no driver.
    """
    try:
        requests = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_IN"]), "rb")
        answers = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_OUT"]), "wb")
    except (KeyError, ValueError, OSError):
        raise ArgumentError(
            "INVALID_ARGUMENT", "no driver; start the client with xplane-time power run RECORDS "
                                "-- COMMAND"
        ) from None
    with requests, answers:
        _serve(answer, versions, requests, answers)


def _serve(answer: Callable[..., str | Answer], versions: Mapping[str, str] | None,
           requests: IO[bytes], answers: IO[bytes]) -> None:
    def send(**message: Any) -> None:
        answers.write(json.dumps({"v": 1, **message}).encode() + b"\n")
        answers.flush()

    takes_question = _takes_two(answer)
    for line in requests:
        request = json.loads(line)
        kind = request.get("type")
        if kind == "bye":
            return
        if kind == "hello":
            send(type="hello", name=pathlib.Path(sys.argv[0]).name,
                 versions=dict(versions) if versions else None)
        elif kind == "ask":
            question = Question(request["problem"], request.get("model", ""),
                                request.get("subject", ""), request.get("dataset_metadata") or {})
            more = (question,) if takes_question else ()
            send(type="answer", request=request["request"], **_answered(answer, question, more))


def _answered(answer: Callable[..., str | Answer], question: Question,
              more: tuple[Question, ...]) -> dict[str, Any]:
    try:
        given = answer(question.problem, *more)
        if isinstance(given, str):
            given = Answer(given)
        if not isinstance(given, Answer):
            raise TypeError(f"answer() returned {type(given).__name__}, not a str or an Answer")
    except Exception as error:  # a failure of this record
        text = f"{type(error).__name__}: {error}"
        memory = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text
        return {"status": "oom" if memory else "runtime_error", "message": text[:2000]}
    return {"status": "ok", "answer": given.text, "input_tokens": given.input_tokens,
            "output_tokens": given.output_tokens,
            "time_to_first_token_ms": given.time_to_first_token_ms}


def _takes_two(answer: Callable[..., Any]) -> bool:
    positional = [each for each in inspect.signature(answer).parameters.values()
                  if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
                  and each.default is each.empty]
    return len(positional) > 1
