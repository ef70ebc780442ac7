"""Builds traces from timelines that are drawn as text, such as those in the pages of test_definitions.py.

    us          0    5    10   15
    stream 16   [k0#1-----)  [k1)
    stream 17      [copy--)
    active      [=========)  [==)   = 13

A column is a microsecond; the 0 of the scale is the start. `[` is a start and `)` an end (half-open
intervals). `[a--[b--)` are two events that touch. Several rows with the same label are one line, so
events can be drawn inside others. Labels:

    GPU:1 stream 16, GPU:1 line Steps   a stream, a derived line; the default device is GPU:0
    python, launches                    host: executions of modules; launches of kernels (#id)
    TPU:1 XLA Modules, XLA Ops          and `device clock`: the same ops on that clock
    CPU:1 thread 2                      thunks; # is the run_id
    active, span, gap, sum, combined    the expected results, one number per run, after `=`
    self KERNEL                         the same for a kernel

A name is `kernel`, or `function.kernel` if the function is not jit_f. `#` precedes a number.
"""
import re
from dataclasses import dataclass, field

from xspace import Plane, Ref, space

US = 1_000_000  # in picoseconds
EVENT = re.compile(r"\[([^-=\[)]*)[-=]*(?=[\[)])")
DEVICE = re.compile(r"(?:(GPU|TPU|CPU):(\d+) )?(.*)")
MEASURE = re.compile(r"active|span|gap|sum|combined|self .*")


@dataclass
class Event:
    name: str
    start: int
    end: int
    function: str = "jit_f"
    number: int | None = None


@dataclass
class Measure:
    drawn: list
    values: list


@dataclass
class Drawing:
    lanes: dict = field(default_factory=dict)  # by label; the events in order of their starts
    measures: dict = field(default_factory=dict)


def event(match, zero):
    text, _, number = match[1].partition("#")
    function, _, name = text.rpartition(".")
    return Event(name, match.start() - zero, match.end() - zero,
                 f"jit_{function}" if function else "jit_f", int(number) if number else None)


def parse(text):
    """Parses a drawing. Errors: ValueError, with the row."""
    rows = [row.rstrip() for row in text.splitlines() if row.strip()]
    if not rows[0].startswith("us "):
        raise ValueError(f"no scale: {rows[0]}")
    zero = rows[0].index("0")
    for mark in re.finditer(r"\d+", rows[0]):
        if int(mark[0]) != mark.start() - zero:
            raise ValueError(f"{mark[0]} is not at its column: {rows[0]}")
    drawing = Drawing()
    for row in rows[1:]:
        label, events = row[:zero].strip(), [event(match, zero) for match in EVENT.finditer(row)]
        if any(one.start < 0 for one in events):
            raise ValueError(f"before 0: {row}")
        if MEASURE.fullmatch(label):
            values = [int(value) for value in row.rpartition("=")[2].split(",")]
            drawing.measures[label] = Measure(events, values)
        else:
            drawing.lanes.setdefault(label, []).extend(events)
    for events in drawing.lanes.values():
        events.sort(key=lambda one: (one.start, -one.end))
    return drawing


class Builder:
    def __init__(self):
        self.planes, self.lines, self.programs = {}, {}, {}

    def line(self, plane, name):
        own = self.planes.setdefault(plane, Plane(plane, id=len(self.planes) + 1))
        if (plane, name) not in self.lines:
            self.lines[plane, name] = own.line(name)
        return self.lines[plane, name]

    def program(self, function):
        return self.programs.setdefault(function, len(self.programs) + 1)

    def stream(self, line, one):
        stats = {} if one.number is None else {"correlation_id": one.number}
        line.event(one.name, one.start * US, (one.end - one.start) * US, hlo_op=Ref(one.name),
                   hlo_module=Ref(one.function), program_id=self.program(one.function), **stats)

    def thunk(self, line, one, ordinal):
        line.event(one.name, one.start * US, (one.end - one.start) * US, hlo_op=Ref(one.name),
                   hlo_module=Ref(one.function), program_id=self.program(one.function),
                   run_id=one.number or 1, device_ordinal=ordinal)

    def op(self, line, one, by_device):
        stats = {}
        if by_device:
            stats = {"device_offset_ps": by_device.start * US,
                     "device_duration_ps": (by_device.end - by_device.start) * US}
        line.event(one.name, one.start * US, (one.end - one.start) * US, **stats)

    def module(self, line, one):
        line.event(f"{one.name}({self.program(one.name)})", one.start * US,
                   (one.end - one.start) * US)

    def host(self, name, one):
        line = self.line("/host:CPU", name)
        if name == "python":
            line.event(f"{one.name}:XLA GPU module", one.start * US, (one.end - one.start) * US)
        else:
            line.event("launch", one.start * US, (one.end - one.start) * US,
                       correlation_id=one.number)

    def lane(self, label, events, lanes):
        kind, ordinal, rest = DEVICE.fullmatch(label).groups()
        if rest in ("python", "launches"):
            for one in events:
                self.host(rest, one)
        elif rest.startswith("stream "):
            line = self.line(f"/device:GPU:{ordinal or 0}", f"Stream #{rest[7:]}(Kernel)")
            for one in events:
                self.stream(line, one)
        elif rest.startswith("line "):
            line = self.line(f"/device:GPU:{ordinal or 0}", rest[5:])
            for one in events:
                line.event(one.name, one.start * US, (one.end - one.start) * US)
        elif rest.startswith("thread "):
            for one in events:
                self.thunk(self.line("/host:CPU", rest), one, int(ordinal or 0))
        elif rest in ("XLA Modules", "XLA Ops"):
            line = self.line(f"/device:TPU:{ordinal or 0}", rest)
            clock = [None] * len(events)
            if rest == "XLA Ops":
                clock = lanes.get(label.replace(rest, "device clock"), clock)
            for one, by_device in zip(events, clock, strict=True):
                if rest == "XLA Modules":
                    self.module(line, one)
                else:
                    self.op(line, one, by_device)
        elif rest != "device clock":
            raise ValueError(f"a row of no known kind: {label!r} ({kind})")


def trace(drawing):
    """The bytes of a trace with the events of the drawing."""
    builder = Builder()
    for label, events in drawing.lanes.items():
        builder.lane(label, events, drawing.lanes)
    return space(*builder.planes.values())
