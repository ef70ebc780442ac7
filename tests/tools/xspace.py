"""Writes XSpace protobufs (schema: proto/xplane.proto) with the standard library only.

    device = Plane("/device:GPU:0")
    device.line("Stream #1(Kernel)").event("add.kd", 1000, 500, hlo_module="jit_f", program_id=7)
    path.write_bytes(space(device, hostnames=["one"]))

Stat types follow the Python value: int -> int64, float -> double, str and bytes -> str,
Ref("x") -> ref_value, Unsigned(3) -> uint64. Times are in picoseconds.
"""
import struct
from dataclasses import dataclass, field


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number, wire_type):
    return varint(number << 3 | wire_type)


def number(field_number, value):
    return tag(field_number, 0) + varint(value)


def data(field_number, content):
    if isinstance(content, str):
        content = content.encode()
    return tag(field_number, 2) + varint(len(content)) + content


def double(field_number, value):
    return tag(field_number, 1) + struct.pack("<d", value)


@dataclass(frozen=True)
class Ref:
    """A string stat written as a reference to a stat metadata name."""

    text: str


@dataclass(frozen=True)
class Unsigned:
    value: int


class Ids:
    """Maps names to ids from 1, in order of first use."""

    def __init__(self):
        self.of = {}

    def __getitem__(self, key):
        return self.of.setdefault(key, len(self.of) + 1)


@dataclass
class Line:
    plane: "Plane"
    name: str
    id: int
    timestamp_ns: int = 0
    events: list = field(default_factory=list)

    def event(self, name, start_ps, duration_ps, occurrences=None, **stats):
        """Adds an event. `start_ps` is relative to the timestamp of the line; None with `occurrences`."""
        out = number(1, self.plane.names[name])
        if start_ps is not None:
            out += number(2, start_ps)
        out += number(3, duration_ps)
        for key, value in stats.items():
            out += data(4, self.plane.stat(key, value))
        if occurrences is not None:
            out += number(5, occurrences)
        self.events.append(data(4, out))
        return self

    def encode(self):
        head = number(1, self.id) + data(2, self.name) + number(3, self.timestamp_ns)
        return head + b"".join(self.events)


class Plane:
    def __init__(self, name, id=1):
        self.name, self.id = name, id
        self.lines, self.own_stats = [], []
        self.names, self.stat_names = Ids(), Ids()

    def line(self, name, timestamp_ns=0):
        self.lines.append(Line(self, name, len(self.lines) + 1, timestamp_ns))
        return self.lines[-1]

    def stat(self, key, value):
        out = number(1, self.stat_names[key])
        if isinstance(value, Ref):
            return out + number(7, self.stat_names[value.text])
        if isinstance(value, Unsigned):
            return out + number(3, value.value)
        if isinstance(value, float):
            return out + double(2, value)
        if isinstance(value, int):
            return out + number(4, value)
        return out + data(5, value)

    def plane_stat(self, key, value):
        self.own_stats.append(data(6, self.stat(key, value)))
        return self

    def encode(self):
        out = number(1, self.id) + data(2, self.name)
        out += b"".join(data(3, line.encode()) for line in self.lines)
        for map_field, ids in ((4, self.names), (5, self.stat_names)):
            for name, at in ids.of.items():
                out += data(map_field, number(1, at) + data(2, number(1, at) + data(2, name)))
        return out + b"".join(self.own_stats)


def space(*planes, hostnames=(), errors=(), warnings=()):
    out = b"".join(data(1, plane.encode()) for plane in planes)
    for field_number, texts in ((2, errors), (3, warnings), (4, hostnames)):
        out += b"".join(data(field_number, text) for text in texts)
    return out


def gpu(ordinal=0, runs=3, function="jit_step", program_id=7, kernels=("add.kd", "mul.kd"),
        duration_ps=10_000, every_ps=1_000_000, timestamp_ns=5):
    """A GPU plane with `runs` runs of `kernels`, in sequence on one stream."""
    plane = Plane(f"/device:GPU:{ordinal}", id=ordinal + 1)
    stream = plane.line("Stream #1(Kernel)", timestamp_ns)
    for run in range(runs):
        for at, kernel in enumerate(kernels):
            start = run * every_ps + at * 2 * duration_ps
            stream.event(kernel, start, duration_ps + run * 100, hlo_module=Ref(function),
                         hlo_op=Ref(f"op.{at}"), program_id=program_id)
    return plane


def tpu(ordinal=0, runs=3, function="jit_step", fingerprint=12190760917235803885,
        ops=("fusion.1", "copy.2"), duration_ps=10_000, every_ps=1_000_000):
    """A TPU plane with module events. They contain ops that have a separate device clock."""
    plane = Plane(f"/device:TPU:{ordinal}", id=ordinal + 1)
    modules, op_line = plane.line("XLA Modules"), plane.line("XLA Ops")
    for run in range(runs):
        start = run * every_ps
        modules.event(f"{function}({fingerprint})", start, len(ops) * 2 * duration_ps, run_id=run)
        for at, op in enumerate(ops):
            offset = start + at * 2 * duration_ps
            op_line.event(op, offset, duration_ps, device_offset_ps=offset + 77,
                          device_duration_ps=duration_ps - 1)
    return plane


def top_level_ends(content):
    """Byte offsets at which truncation leaves complete messages: 0 and the end of each field."""
    ends, at = [0], 0
    while at < len(content):
        at += 1  # tags of XSpace fields have one byte
        length = shift = 0
        while True:
            byte = content[at]
            length |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        at += length
        ends.append(at)
    return ends
