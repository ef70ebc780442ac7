"""Compares the output of every command byte by byte, on traces of testdata and on synthetic ones.

A golden file contains the exit code, standard error and standard output of each command line of a group.
If a change is intended, run `python3 test_golden.py --freeze`, and review the difference.
"""
import difflib
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from harness import GOLDEN, HERE, TESTDATA, EndToEndTest, environment, in_parallel, run
from test_compare import energy_result
from test_tune import THREE, space as tune_space
from xspace import Plane, gpu, space, tpu

FORMATS = ("table", "json", "csv", "markdown")
DECISION_FORMATS = (*FORMATS, "junit", "benchmark", "bmf")
TRACE_COMMANDS = ("report", "functions", "kernels", "tree", "where", "headroom", "planes", "brief")
TOOLS = ("ejkernel", "tune-jax", "xprof")
# Options for the commands on traces.
SELECTION = ("--device all", "--device cpu", "--device GPU:0", "--threads 2")
FILTERS = ("--function step|fn_1", "--exclude fn_1", "--kernel fusion", "--prefix jit_autotune",
           "--min-duration 1000", "--max-events 50", "--clock profile")
LAYOUT = ("--top 2", "--wide", "--color always")
OPTIONS = {
    "report": (*SELECTION, *FILTERS, *LAYOUT, "--samples", "--skip-runs 1", "--trim iqr",
               "--metric span", "--sort name", "--unit ns", "--columns function,median",
               r"--id-pattern fn_(\d+)"),
    "functions": (*SELECTION, *FILTERS, *LAYOUT, "--samples", "--by-id", "--plot", "--skip-runs 1",
                  "--trim iqr", "--metric sum", "--sort runs", "--unit us",
                  "--columns runs,mean", r"--by-id --id-pattern fn_(\d+)"),
    "kernels": (*SELECTION, *FILTERS, *LAYOUT, "--within step", "--sort max", "--unit ms",
                "--columns count,self", "--tolerance 100"),
    "tree": (*SELECTION, *FILTERS, *LAYOUT, "--line XLA", "--line XLA --name fusion",
             "--depth 1", "--unit s", "--columns total,child", "--by scope", "--by source",
             "--by source --depth 4 --wide", "--by scope --scope dot --kernel fusion"),
    "headroom": (*SELECTION, *FILTERS, *LAYOUT, "--unit us", "--columns roof,source",
                 "--peak-flops 1T --peak-bandwidth 20G"),
    "where": (*SELECTION, *LAYOUT, "--steps", "--gaps", "--gaps --top 2 --wide", "--unit us",
              "--columns span,idle"),
    "brief": (*SELECTION, "--top 1", "--bytes 400", "--bytes 2500", "--color always"),
    "planes": (*SELECTION, *LAYOUT, "--stats", "--columns events"),
    "events": (*SELECTION, "--max-events 5", "--stat hlo_op --max-events 5", "--line XLA",
               "--name fusion --max-events 5", "--min-duration 100000 --max-events 5"),
}


def evil():
    """A trace with hostile names, suspect runs, and warnings and errors of the producer."""
    device = Plane("/device:GPU:0")
    stream = device.line("Stream #1(Kernel) \x1b]0;title\x07", timestamp_ns=5)
    for at in range(4):
        stream.event("k\x1b[31m|`,\"<b>&*", at * 1000, 10, hlo_module="f|g", hlo_op="o",
                     program_id=1)
    stream.event(b"k\xff", 9000, 5, hlo_module=b"jit_\xff", hlo_op="o", program_id=2)
    return space(device, hostnames=["h\x1b[2J"], errors=["e\x1b[1m"], warnings=[b"w\xff"])


def made_traces():
    return {"gpu": space(gpu(0, runs=8), gpu(1, runs=8, duration_ps=11_000)),
            "slower": space(gpu(0, runs=8, duration_ps=14_000)),
            "tpu": space(tpu(0), tpu(1, ops=("dot.1", "all-reduce.2"))),
            "evil": evil(), "empty": space(Plane("/host:CPU")), "nothing": b"",
            "damaged": space(gpu(0))[:-3],
            "run/one": space(gpu(0), hostnames=["one"]),
            "run/two": space(gpu(0, function="jit_other"), hostnames=["two"])}


def rare_traces():
    """Three captures a side. A kernel is missing, and some functions ran in only one capture or side."""
    def rare(function, kernel):
        return gpu(1, function=function, program_id=9, kernels=(kernel,), runs=1)

    base = [[gpu(0, duration_ps=10_000 + 37 * take)] for take in range(3)]
    head = [[gpu(0, duration_ps=10_100 + 41 * take, kernels=("add.kd",))] for take in range(3)]
    base[1] += [rare("jit_rare", "sort.kd")]
    for take in head:
        take += [rare("jit_rare", "scan.kd"), gpu(2, function="jit_new", kernels=("new.kd",))]
    return {f"{name}{take}": space(*planes) for name, side in (("base", base), ("head", head))
            for take, planes in enumerate(side)}


def power_log(complete=True, noise=0):
    """A power log of 20 s with a counter, power, windows, a gauge, an absent sensor and a gap."""
    second = 1_000_000_000
    start = 1000 * second

    def channel(quantity, kind, domain="gpu", **more):
        return {"source": "nvml", "device": "GPU-1", "domain": domain, "quantity": quantity,
                "kind": kind, "in_total": domain == "gpu" and "energy" in quantity, **more}

    lines = [{"schema": "xplane-time.power-log.v1", "t": start,
              "clocks": {"monotonic_ns": start, "realtime_ns": 1_700_000_000 * second,
                         "boottime_ns": 2 * start},
              "machine": {"host": "node1"}, "command": "train", "periods_ns": {"nvml": 50_000_000},
              "devices": [{"id": "GPU-1", "name": "A card", "source": "nvml", "index": 0}],
              "channels": [channel("energy_uj", "counter"), channel("power_mw", "instant"),
                           channel("temperature_mc", "gauge"), channel("pstate", "gauge")],
              "absent": [{"source": "rapl", "what": "package-0", "reason": "permission_denied",
                          "message": "energy_uj", "fix": "chmod"}]}]
    marks = {2: ("begin", "step"), 6: ("end", "step"), 8: ("begin", "step"), 12: ("end", "step"),
             13: ("begin", "a|b"), 17: ("end", "a|b")}
    for tick in range(400):
        t = start + tick * 50_000_000
        if tick % 20 == 0 and tick // 20 in marks:
            which, name = marks[tick // 20]
            lines.append({"t": t, which: name})
        if 280 <= tick < 300:
            continue  # a gap
        watts = 100 + 50 * (40 <= tick % 160 < 120) + noise
        joules = sum(100 + 50 * (40 <= each % 160 < 120) + noise for each in range(tick)) / 20
        lines.append({"t": t, "s": 0, "r": [[0, 0, 800_000, int(joules * 1e6)],
                                            [1, 1000, 800_000, watts * 1000],
                                            [2, 2000, 800_000, 40_000 + tick],
                                            [3, 3000, 800_000, 2]]})
    if complete:
        lines.append({"t": start + 20 * second, "end": {"reason": "stopped", "dropped": 0,
                      "readers": [{"source": "nvml", "reads": 380, "missed": 2,
                                   "own_cpu_ns": 77, "hung": False}]}})
    return "".join(json.dumps(line) + "\n" for line in lines)


SENSORS = {"sys/class/powercap/intel-rapl:0/name": "package-0\n",
           "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850\n",
           "sys/class/powercap/intel-rapl:0/energy_uj": "5000000\n",
           "sys/class/powercap/intel-rapl:0/intel-rapl:0:0/name": "dram\n",
           "sys/class/powercap/intel-rapl:0/intel-rapl:0:0/max_energy_range_uj": "65712999613\n",
           "sys/class/powercap/intel-rapl:0/intel-rapl:0:0/energy_uj": "70000\n",
           "sys/class/hwmon/hwmon0/name": "amdgpu\n",
           "sys/class/hwmon/hwmon0/power1_average": "35000000\n"}
MANY = tuple({"cost": 100 + 5 * at, "tile": [8, 16][at % 2], "mode": "ok"} for at in range(6))
FAILING = ({"cost": 100}, {"cost": 100, "more": 1}, {"mode": "crash"}, {"mode": "no_events"})
STORES = {"three.db": (THREE, ()), "many.db": (MANY, ("--stop", "claim", "--budget-runs", "60")),
          "failing.db": (FAILING, ()),
          "halving.db": (MANY, ("--strategy", "halving:4", "--canary", "0"))}
FOUR_J = {f"jit_autotune_fn_{i}": 0.02 * (i + 1) for i in range(4)}
ENERGIES = {**{f"joules{i}": (FOUR_J, {}) for i in range(6)},
            **{f"more{i}": ({**FOUR_J, "jit_autotune_fn_1": 0.05, "jit_autotune_fn_3": 0.07}, {})
               for i in range(6)},
            "unsure": ({**FOUR_J, "jit_autotune_fn_0": None}, {"error": 0.02}),
            "doubtful": (FOUR_J, {"poor_fit": True})}


def make_inputs(at):
    for trace in (*TESTDATA.glob("*.xplane.pb"), *TESTDATA.glob("diff/*.xplane.pb.gz")):
        shutil.copy(trace, at)
    files = {f"{name}.xplane.pb": content for name, content in (made_traces() | rare_traces()).items()}
    files |= {name: text.encode() for name, text in SENSORS.items()}
    files |= {"power.jsonl": power_log().encode(), "cut.jsonl": power_log(False, 3).encode()[:-9],
              "spoilt.jsonl": power_log().replace('"t": 10', '"t": x10', 3).encode()}
    files |= {f"{name}.json": json.dumps(energy_result(run_j, name, **more)).encode()
              for name, (run_j, more) in ENERGIES.items()}
    for name, content in files.items():
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, (variants, options) in STORES.items():
        (at / "space.json").write_text(tune_space(*variants))
        run("tune", "space.json", "--store", name, "--quiet", *options, "--", sys.executable,
            HERE / "fake_harness.py", at / "harness.log", cwd=at, env=environment(
                XDG_RUNTIME_DIR=str(at)))
    for name in ("gpu", "slower"):
        done = run("functions", f"{name}.xplane.pb", "--samples", "--format", "json", cwd=at)
        (at / f"{name}.json").write_bytes(done.out)


def traces_group():
    traces = sorted(path.name for path in TESTDATA.glob("*.xplane.pb"))
    for command in TRACE_COMMANDS:
        for trace in (*traces, *(f"{name}.xplane.pb" for name in made_traces()), "run"):
            for form in FORMATS:
                yield f"{command} {trace} --format {form}"
    for trace in (*traces, "evil.xplane.pb", "tpu.xplane.pb"):
        for form in FORMATS:
            yield f"events {trace} --device all --max-events 7 --format {form}"


def options_group():
    for command, options in OPTIONS.items():
        for option in options:
            for trace, forms in (("jax_cpu_async_body.xplane.pb", ("table", "json")),
                                 ("gpu.xplane.pb", ("table", "csv", "markdown"))):
                for form in forms:
                    top = " --top 3" if command != "events" and "--top" not in option else ""
                    yield f"{command} {trace} {option}{top} --format {form}"
    for command in TRACE_COMMANDS:
        for columns in (40, 60, 200):
            yield f"COLUMNS={columns} {command} jax_cpu_variants.xplane.pb --top 5"
        yield f"{command} gpu.xplane.pb tpu.xplane.pb"


def decisions_group():
    sides = ("gpu.xplane.pb slower.xplane.pb", "gpu.xplane.pb gpu.xplane.pb", "gpu.json slower.json",
             "--base gpu.xplane.pb gpu.json --head slower.xplane.pb slower.json",
             "gpu.xplane.pb tpu.xplane.pb", "gpu.xplane.pb slower.xplane.pb --offset-std 0.1%",
             "gpu.xplane.pb slower.xplane.pb --offset-std 0.1% --min-effect 50% --max-mde 90%",
             "evil.xplane.pb evil.xplane.pb --offset-std 1%", "three.db many.db")
    for inputs in sides:
        for form in DECISION_FORMATS:
            yield f"compare {inputs} --format {form}"
    for inputs in ("jax_cpu_variants.xplane.pb", "gpu.xplane.pb",
                   "jax_cpu_variants.xplane.pb jax_cpu_variants.xplane.pb",
                   "jax_cpu_variants.xplane.pb --delta 5% --top 2",
                   r"jax_cpu_variants.xplane.pb --id-pattern fn_(\d+)"):
        for form in DECISION_FORMATS:
            yield f"pick {inputs} --format {form}"
    yield "pick jax_cpu_variants.xplane.pb --unit ns"
    several = [" ".join(f"{name}{i}.json" for i in range(6)) for name in ("joules", "more")]
    for command in (f"compare --base {several[0]} --head {several[1]}",
                    "compare joules0.json joules1.json", "compare joules0.json unsure.json",
                    f"compare --base {several[0]} --head doubtful.json", f"pick {several[0]}",
                    "pick joules0.json", "pick unsure.json", "pick doubtful.json joules0.json"):
        for form in DECISION_FORMATS:
            yield f"{command} --objective energy --format {form}"
    yield "compare joules0.json joules1.json"
    yield "compare gpu.json joules0.json --objective energy"
    for tool in TOOLS:
        for trace in ("jax_cpu_variants.xplane.pb", "gpu.xplane.pb", "tpu.xplane.pb"):
            for form in FORMATS:
                yield f"{trace} --compat {tool} --format {form}"


def diff_group():
    edited = [" ".join(f"jax_cpu_edit_{side}{take}.xplane.pb.gz" for take in range(1, 5))
              for side in ("base", "head")]
    one = "jax_cpu_edit_base1.xplane.pb.gz jax_cpu_edit_head1.xplane.pb.gz"
    for sides in (one, f"--base {edited[0]} --head {edited[1]}", "gpu.xplane.pb slower.xplane.pb",
                  "gpu.xplane.pb gpu.xplane.pb", "gpu.xplane.pb tpu.xplane.pb",
                  "evil.xplane.pb evil.xplane.pb", "run gpu.xplane.pb"):
        for form in FORMATS:
            yield f"diff {sides} --format {form}"
        yield f"compare {sides} --why"
    rare = [" ".join(f"{side}{take}.xplane.pb" for take in range(3)) for side in ("base", "head")]
    for option in ("", " --wide", " --paired", " --per capture", " --format json"):
        yield f"diff --base {rare[0]} --head {rare[1]}{option}"
    for option in ("--device cpu", "--top 2", "--wide", "--color always", "--unit ns", "--skip-runs 3",
                   "--columns source,change", "--columns x", "--per run", "--per capture",
                   "--per step", "--function step", "--function nothing", "--exclude train",
                   "--offset-std 1%", "--paired", "--min-effect 50% --offset-std 0.1%",
                   "--function step --per capture"):
        for form in ("table", "json"):
            yield f"diff {one} {option} --format {form}"
    for form in DECISION_FORMATS:
        yield f"compare {one} --why --format {form}"
    for columns in (40, 60, 200):
        yield f"COLUMNS={columns} diff {one}"
    for line in ("diff", f"diff {one} gpu.xplane.pb", "diff gpu.xplane.pb --base gpu.xplane.pb",
                 "diff gpu.json gpu.xplane.pb", "diff gpu.xplane.pb missing.xplane.pb",
                 "diff gpu.xplane.pb nothing.xplane.pb", "diff gpu.xplane.pb damaged.xplane.pb",
                 "diff gpu.xplane.pb empty.xplane.pb", "diff gpu.xplane.pb evil.xplane.pb",
                 "diff jax_cpu_spmd4.xplane.pb jax_cpu_variants.xplane.pb",
                 "compare gpu.json slower.json --why", "compare gpu.xplane.pb slower.xplane.pb --why --kernel k",
                 "compare joules0.json joules1.json --objective energy --why"):
        yield line


def fleet_group():
    hosts = " ".join(f"{side}{take}.xplane.pb" for side in ("base", "head") for take in range(3))
    for inputs in (hosts, "gpu.xplane.pb tpu.xplane.pb evil.xplane.pb", "run damaged.xplane.pb",
                   "nothing.xplane.pb damaged.xplane.pb", "jax_cpu_spmd4.xplane.pb"):
        yield f"fleet {inputs}"
    for form in FORMATS:
        yield f"fleet gpu.xplane.pb tpu.xplane.pb evil.xplane.pb --format {form}"
    for option in ("--by host", "--by device", "--by none", "--by rank", "--top 2", "--wide", "--unit ns",
                   "--alpha 5%", "--min-effect 10%", "--device gpu:0", "--table functions",
                   "--quiet"):
        yield f"fleet {hosts} {option}"
    for table in ("functions", "kernels", "steps", "collectives", "waits", "clocks", "outliers", "captures",
                  "failures"):
        yield f"fleet {hosts} nothing.xplane.pb --format csv --table {table}"
    for columns in (40, 60, 200):
        yield f"COLUMNS={columns} fleet {hosts}"


def power_group():
    for log in ("power.jsonl", "cut.jsonl", "spoilt.jsonl"):
        for form in (*FORMATS, "openmetrics"):
            yield f"power replay {log} --format {form}"
        yield f"power replay {log} --plot"
        yield f"power replay {log} --svg /dev/stdout -o /dev/null"
    for form in (*FORMATS, "openmetrics"):
        yield f"power replay power.jsonl --co2 350 --pue 1.3 --format {form}"
        yield f"power replay power.jsonl --estimator trapezoid --format {form}"
    for columns in (60, 132):
        yield f"COLUMNS={columns} power replay power.jsonl --plot"
    for form in ("table", "json"):
        yield f"power sources --sysfs-root sys --nvml-library ./none.so --source rapl --format {form}"
    for form in FORMATS:
        yield f"power clients --format {form}"
    for form in FORMATS:
        yield f"power datasets --format {form}"


def tune_group():
    for store in STORES:
        yield f"tune show 1 --store {store}"
        yield f"COLUMNS=60 tune show 1 --store {store}"
        yield f"tune show 1 --store {store} --format json"
        yield f"tune replay 1 --store {store}"
        yield f"tune replay 1 --store {store} --delta 5% --format json"
        for form in ("json", "csv", "t4", "tuned"):
            yield f"tune export 1 --store {store} --format {form}"
    yield "tune space.json --list"
    yield "tune space.json --list --format json"
    yield "tune space.json --list --strategy halving:4"


def help_group():
    for command in (*TRACE_COMMANDS, "events", "compare", "diff", "pick", "fleet", "summarize", "merge", "power", "power sources",
                    "power record", "power replay", "power run", "power calibrate",
                    "power plan", "power clients", "power datasets", "tune", "tune show",
                    "tune export", "tune replay", "tune decide", "grid", "verify"):
        yield f"{command} --help"
    yield "--help"
    for command in (*TRACE_COMMANDS, "events", "compare", "diff", "pick", "fleet", "tune", "power", "power run",
                    "power calibrate", "power plan", "power clients", "power datasets", "grid",
                    "verify"):
        yield f"{command} --json-schema"


GROUPS = {"traces": traces_group, "options": options_group, "decisions": decisions_group,
          "diff": diff_group, "fleet": fleet_group,
          "power": power_group, "tune": tune_group, "help": help_group}
# Values that differ between runs, and their replacements.
VARYING = ((re.compile(r'"(started_unix_s|recorded_unix_s)": ?\d+'), r'"\1":0'),
           (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "YYYY-MM-DD hh:mm"))


def processor():
    """The model name of this machine's processor."""
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else "PROCESSOR"


def printed(line, at):
    words, variables = line.split(), {"XDG_RUNTIME_DIR": str(at)}
    if words[0].startswith("COLUMNS="):
        variables["COLUMNS"] = words.pop(0).partition("=")[2]
    done = run(*words, cwd=at, env=environment(**variables))
    text = f"$ {line}\n" + (f"exit {done.code}\n" if done.code else "")
    text += "".join(f"! {each}\n" for each in done.message.splitlines())
    text += done.out.decode(errors="backslashreplace")
    return text if text.endswith("\n") else text + "\n"


def all_printed(group, at):
    text = "\n".join(in_parallel(lambda line: printed(line, at), list(GROUPS[group]())))
    text = text.replace(str(at), "AT").replace(processor(), "PROCESSOR")
    if group == "tune":
        for pattern, instead in VARYING:
            text = pattern.sub(instead, text)
    return text


def golden_path(group):
    return GOLDEN / f"{group}.txt"


class Golden(EndToEndTest):
    """One test for each group."""

    def check(self, group):
        make_inputs(self.at)
        found, kept = all_printed(group, self.at), golden_path(group).read_text()
        if found == kept:
            return
        lines = list(difflib.unified_diff(kept.splitlines(), found.splitlines(), "golden", "now",
                                          lineterm="", n=2))
        shown = "\n".join(line[:300] for line in lines[:80])
        self.fail(f"{group}: {len(lines)} lines of difference; meant? test_golden.py --freeze\n{shown}")

    def test_traces(self):
        self.check("traces")

    def test_options(self):
        self.check("options")

    def test_decisions(self):
        self.check("decisions")

    def test_diff(self):
        self.check("diff")

    def test_power(self):
        self.check("power")

    def test_tune(self):
        self.check("tune")

    def test_help(self):
        self.check("help")


def freeze():
    with tempfile.TemporaryDirectory(prefix="xplane-time-") as name:
        at = pathlib.Path(name)
        make_inputs(at)
        for group in GROUPS:
            golden_path(group).write_text(all_printed(group, at))


if __name__ == "__main__":
    freeze() if sys.argv[1:] == ["--freeze"] else unittest.main()
