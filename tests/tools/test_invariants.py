"""Checks invariants of all rows, for every trace and all options."""
import importlib.util
import itertools
import json
import math
from collections import defaultdict
import unittest

from harness import (EndToEndTest, SHARED_TRACES, csv_rows, in_parallel, run, testdata_traces)
from xspace import Plane, data, gpu, number, space, tpu

COMMANDS = {
    "report": [()], "planes": [(), ("--stats",)], "kernels": [()], "tree": [(), ("--line", ".")],
    "functions": [(), ("--samples",), ("--by-id",)],
    "events": [("--max-events", "300"), ("--max-events", "300", "--stat", "hlo_module", "--stat",
                                         "program_id")],
}
EXECUTE = [(command, *options) for command, all_options in COMMANDS.items()
           for options in all_options]
SUMMARIES = ("active_ps", "span_ps", "gap_ps", "sum_ps")
DEVICE = ("input", "plane", "ordinal", "host")
EPSILON = 1e-9


def odd_trace():
    """A trace with aggregated events, events without a name or duration, overlaps, and two host planes."""
    device = gpu(0, runs=4, kernels=("a", "b", "a"))
    other = device.line("Stream #2(MemcpyH2D)")
    other.event("MemcpyH2D", 500, 0, hlo_module="jit_step", program_id=7)
    other.event("sampled", None, 7_000, occurrences=3)
    other.event("loose", 3_000, 1_000).event("loose", 3_500, 2_000)
    other.events.append(data(4, number(1, 99) + number(2, 9_000) + number(3, 5)))  # without metadata for this id
    host = Plane("/host:CPU", id=9)
    host.line("python").event("outer", 0, 9_000).event("inner", 1_000, 2_000)
    return space(device, host, hostnames=["one"], warnings=["dropped 3"], errors=["lost 1"])


class Traces(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.paths = testdata_traces()
        cls.paths += sorted(path for path in SHARED_TRACES.glob("*.xplane.pb")
                            if not path.name.startswith("corrupt"))

    def traces(self):
        made = {"gpu": space(gpu(0), gpu(1, runs=5, function="jit_autotune_fn_12")),
                "tpu": space(tpu(0), tpu(1, ops=()), hostnames=["a"]), "odd": odd_trace()}
        return self.paths + [self.write(f"{name}.xplane.pb", made[name]) for name in made]

    def documents(self, *options, commands=EXECUTE):
        """(text of the command, command, JSON) of each command on each trace with results."""
        work = [(command[0], path, *command[1:], "--device", "all", "--format", "json", *options)
                for path in self.traces() for command in commands]
        done = in_parallel(lambda arguments: run(*arguments), work)
        for arguments, one in zip(work, done):
            what = " ".join(str(getattr(word, "name", word)) for word in arguments)
            if one.code == 65 and ("empty tree" in one.message
                                   or "no event has the stat" in one.message):
                continue
            self.assertEqual(one.code, 0, f"{what}: {one.message}")
            yield what, arguments, one.json

    def reports(self, *options):
        for what, _, document in self.documents(*options, commands=[("report",)]):
            yield what, document


class JsonSchema(Traces):
    @unittest.skipUnless(importlib.util.find_spec("jsonschema"), "jsonschema is not installed")
    def test_documents_follow_the_schema_that_the_command_prints(self):
        from jsonschema import Draft202012Validator
        schemas = {name: json.loads(run(name, "--json-schema").out) for name in COMMANDS}
        for schema in schemas.values():
            Draft202012Validator.check_schema(schema)
        for what, arguments, document in self.documents():
            validator = Draft202012Validator(schemas[arguments[0]])
            errors = [f"{error.json_path}: {error.message}"
                      for error in validator.iter_errors(document)]
            self.assertEqual(errors[:3], [], what)
            self.assertFalse(validator.is_valid({**document, "schema": "xplane-time.other.v1"}))
            for name in document:
                self.assertIn(name, schemas[arguments[0]]["properties"], what)


class Csv(Traces):
    def same_cell(self, what, cell, value):
        if value is None:
            self.assertEqual(cell, "", what)
        elif isinstance(value, bool):
            self.assertEqual(cell, str(value).lower(), what)
        elif isinstance(value, int):
            self.assertEqual(cell, str(value), what)
        elif isinstance(value, float):
            self.assertEqual(float(cell), value, what)
        elif isinstance(value, list):
            self.assertEqual(cell, "; ".join(value), what)
        else:
            self.assertEqual(cell, value, what)

    def flat(self, row):
        """A row with the names of CSV. Null objects become nulls of their members."""
        out = {}
        for name, value in row.items():
            if name in SUMMARIES and (value is None or isinstance(value, dict)):
                members = value or dict.fromkeys(self.summary_names)
                for part, member in members.items():
                    if part == "median_ci95":
                        low, high = member or (None, None)
                        out |= {f"{name}_{part}_lo": low, f"{name}_{part}_hi": high}
                    else:
                        out[f"{name}_{part}"] = member
            elif name == "stats" and isinstance(value, dict):
                out |= value
            else:
                out[name] = value
        return out

    summary_names = ("n", "mean", "std", "std_sample", "min", "max", "median", "mad", "p50",
                     "p95", "p99", "median_ci95")

    def json_rows(self, arguments, document):
        """The JSON rows that correspond to the CSV of the command."""
        section = {"report": "functions"}.get(arguments[0], arguments[0])
        if "--samples" in arguments:
            section = "samples"
        if "--by-id" in arguments:
            section = "variants"
        rows = document[section]
        if section == "planes":
            return list(self.plane_rows(rows, "stats" if "--stats" in arguments else "lines"))
        nested = section == "samples"  # in samples, active_ps is a number
        return [row if nested else self.flat(row) for row in rows]

    def plane_rows(self, planes, part):
        own = ("input", "plane", "host", "kind")
        for plane in planes:
            parts = plane[part] or ([{}] if part == "lines" else [])
            for row in parts:
                yield {**row, **{name: plane[name] for name in own}}

    def test_csv_has_the_cells_of_the_json(self):
        for what, arguments, document in self.documents():
            text = run(*(word if word != "json" else "csv" for word in arguments)).text
            cells, rows = csv_rows(text), self.json_rows(arguments, document)
            self.assertEqual(len(cells), len(rows), what)
            for at, (got, want) in enumerate(zip(cells, rows)):
                self.assertNotIn(None, got, f"{what}: row {at} is wider than the header")
                for name, value in want.items():
                    self.same_cell(f"{what}: row {at}, {name}", got[name], value)
                if want.keys() > {"input", "plane", "host", "kind"}:
                    self.assertEqual(set(got), set(want), what)


class HumanFormats(Traces):
    def expected_rows(self, arguments, document):
        if arguments[0] == "planes":
            planes = sum(1 + len(plane["lines"]) for plane in document["planes"])
            return planes + sum(len(plane.get("stats", [])) for plane in document["planes"])
        section = "samples" if "--samples" in arguments else arguments[0]
        return len(document["variants" if "--by-id" in arguments else section])

    @staticmethod
    def markdown_rows(text):
        lines = [line for line in text.splitlines() if line.startswith("|")]
        return len(lines) - 2 * sum(line.startswith("| ---") for line in lines)

    @staticmethod
    def table_rows(command, text):
        """The rows of tables. Empty lines separate blocks of a title, a header, rows and a note."""
        if command == "events":
            return len(text.splitlines()) - 1
        blocks = [block.splitlines() for block in text.rstrip("\n").split("\n\n")]
        if command == "planes":
            blocks = blocks[1:]
        notes = ("not shown, too wide: ", "note: ", "#1, #2: ")  # notes end a block
        rows = [itertools.takewhile(lambda row: not row.startswith(notes), block[2:])
                for block in blocks if not block[0].endswith(" this trace")]  # skips the diagnostics
        return len(list(itertools.chain(*rows)))

    def test_table_and_markdown_show_every_row(self):
        commands = [command for command in EXECUTE if command[0] != "report"]
        for what, arguments, document in self.documents(commands=commands):
            want = self.expected_rows(arguments, document)
            texts = {name: run(*(word if word != "json" else name for word in arguments)).text
                     for name in ("table", "markdown")}
            self.assertEqual(self.markdown_rows(texts["markdown"]), want, what)
            self.assertEqual(self.table_rows(arguments[0], texts["table"]), want, what)
            self.assertNotRegex(texts["table"] + texts["markdown"], r"\b(nan|inf)\b")


class Functions(Traces):
    OPTIONS = [(), ("--trim", "drop-extremes"), ("--skip-runs", "1"),
               ("--trim", "percent:20", "--metric", "span"), ("--clock", "profile")]

    def check_summary(self, what, summary):
        self.assertLessEqual(summary["min"], summary["median"], what)
        self.assertLessEqual(summary["median"], summary["max"], what)
        self.assertLessEqual(summary["min"] - EPSILON, summary["mean"], what)
        self.assertLessEqual(summary["mean"] - EPSILON, summary["max"], what)
        self.assertLessEqual(summary["p50"], summary["p95"], what)
        self.assertLessEqual(summary["p95"], summary["p99"], what)
        self.assertLessEqual(summary["p99"], summary["max"], what)
        self.assertEqual(summary["p50"], summary["median"], what)
        self.assertEqual(summary["std_sample"] is None, summary["n"] == 1, what)
        if summary["median_ci95"]:
            low, high = summary["median_ci95"]
            self.assertLessEqual(summary["min"], low, what)
            self.assertLessEqual(low, high, what)
            self.assertLessEqual(high, summary["max"], what)

    def check_function(self, what, row):
        for name in SUMMARIES:
            if row[name] is None:
                continue
            self.check_summary(f"{what} {name}", row[name])
            counted = row[name]["n"] + row["suspect_runs"] + row["dropped_samples"]
            self.assertEqual(row["runs"], counted, f"{what} {name}")
        if row["active_ps"]:
            parts = row["active_ps"]["mean"] + row["gap_ps"]["mean"]
            self.assertTrue(math.isclose(parts, row["span_ps"]["mean"], rel_tol=1e-9), what)
            self.assertLessEqual(row["active_ps"]["max"], row["sum_ps"]["max"], what)

    def test_runs_are_all_accounted_for(self):
        for options in self.OPTIONS:
            for what, report in self.reports(*options):
                for row in report["functions"] + report["combined"]:
                    self.check_function(f"{what} {row['function']}", row)

    def test_samples_regroup_to_the_functions(self):
        for what, _, document in self.documents(commands=[("functions", "--samples")]):
            groups = defaultdict(list)
            key = (*DEVICE, "function", "program_id", "variant_id")
            for sample in document["samples"]:
                groups[tuple(sample[name] for name in key)].append(sample)
            rows = {tuple(row[name] for name in key): row for row in document["functions"]}
            self.assertEqual(groups.keys(), rows.keys(), what)
            for at, row in rows.items():
                self.check_samples(f"{what} {row['function']}", row, groups[at])

    def check_samples(self, what, row, samples):
        self.assertEqual([sample["run"] for sample in samples], list(range(row["runs"])), what)
        starts = [sample["start_ps"] for sample in samples]
        self.assertEqual(starts, sorted(starts), what)
        self.assertEqual(sum(sample["suspect"] for sample in samples), row["suspect_runs"], what)
        self.assertEqual(sum(sample["kernels"] for sample in samples), row["kernels_total"], what)
        for name in ("active_ps", "span_ps", "sum_ps"):
            values = [sample[name] for sample in samples if not sample["suspect"]]
            if row[name] is None:
                self.assertEqual(set(values), {None}, what)
                continue
            self.assertEqual((row[name]["min"], row[name]["max"]), (min(values), max(values)), what)
            self.assertTrue(math.isclose(row[name]["mean"], sum(values) / len(values)), what)


class DevicesAndKernels(Traces):
    def test_devices_and_kernels_agree(self):
        for what, report in self.reports():
            kernels = defaultdict(list)
            for row in report["kernels"]:
                kernels[tuple(row[name] for name in DEVICE)].append(row)
                self.check_kernel(f"{what} {row['kernel']}", row)
            for device in report["devices"]:
                self.check_device(f"{what} {device['plane']}", device,
                                  kernels.pop(tuple(device[name] for name in DEVICE), []))
            self.assertEqual(dict(kernels), {}, "kernels of no device")

    def check_device(self, what, device, kernels):
        self.assertEqual(sum(row["count"] for row in kernels), device["executions"], what)
        self.assertLessEqual(device["busy_ps"], device["sum_ps"], what)
        if device["first_ps"] is not None:
            self.assertLessEqual(device["busy_ps"], device["last_ps"] - device["first_ps"], what)
        shares = [row["share"] for row in kernels if row["share"] is not None]
        if shares:
            self.assertAlmostEqual(sum(shares), 1, places=6, msg=what)

    def check_kernel(self, what, row):
        self.assertTrue(math.isclose(row["mean_ps"] * row["count"], row["total_ps"],
                                     rel_tol=1e-9, abs_tol=1e-6), what)
        if row["self_ps"] is not None:
            self.assertTrue(0 <= row["self_ps"] <= row["total_ps"], what)
        if row["median_ps"] is not None:
            self.assertTrue(row["min_ps"] <= row["median_ps"] <= row["max_ps"], what)
            self.assertTrue(row["min_ps"] <= row["mean_ps"] + EPSILON, what)

    def test_trees_by_scope_and_source_have_the_self_time_of_all_kernels(self):
        for by in ("scope", "source"):
            for _, (_, path, *_), document in self.documents(commands=[("tree", "--by", by)]):
                own = {}
                for row in document["tree"]:
                    if row["depth"] == 0:
                        own.setdefault((row["input"], row["plane"], row["ordinal"]), [0, 0])
                        own[row["input"], row["plane"], row["ordinal"]][0] += row["total_ps"]
                        own[row["input"], row["plane"], row["ordinal"]][1] += row["count"]
                kernels = self.run_json("kernels", path, "--device", "all")["kernels"]
                for device, (total_ps, count) in own.items():
                    of_device = [row for row in kernels
                                 if (row["input"], row["plane"], row["ordinal"]) == device]
                    self.assertEqual(count, sum(row["count"] for row in of_device), path)
                    if all(row["self_ps"] is not None for row in of_device):
                        self.assertEqual(total_ps, sum(row["self_ps"] for row in of_device), path)

    def test_kernels_reach_what_headroom_says_of_their_ops(self):
        compared = 0
        for what, (_, path, *_), document in self.documents(commands=[("headroom",)]):
            ops = {}
            for op in document["ops"]:
                key = tuple(op[name] for name in ("input", "plane", "ordinal", "function",
                                                  "program_id", "kernel"))
                ops.setdefault(key, []).append(op)
            for row in self.run_json("kernels", path, "--device", "all")["kernels"]:
                of_kernel = ops.get(tuple(row[name] for name in (
                    "input", "plane", "ordinal", "function", "program_id", "kernel")), [])
                if len(of_kernel) != 1 or of_kernel[0]["kernels"] != row["count"]:
                    continue
                op = of_kernel[0]
                for name in ("flops_per_s", "bytes_per_s"):
                    if op["reason"] == "host":
                        self.assertIsNone(row[name], what)
                        compared += 1
                    elif op[name] is not None and op["total_ps"] == row["total_ps"]:
                        self.assertTrue(math.isclose(row[name], op[name], rel_tol=1e-9), what)
                        compared += 1
                if op["reason"] in ("no_peak", "flops_unknown"):
                    self.assertIsNone(row["roof_share"], what)
                elif op["roof_ps"] is not None:
                    roof_ps = row["roof_share"] * row["total_ps"]
                    self.assertTrue(math.isclose(roof_ps, op["roof_ps"], rel_tol=1e-9), what)
        self.assertGreater(compared, 20)

    def test_trees_add_up(self):
        commands = [("tree",), ("tree", "--line", "."), ("tree", "--depth", "2"),
                    ("tree", "--by", "scope"), ("tree", "--by", "source")]
        for what, _, document in self.documents(commands=commands):
            rows = document["tree"]
            for at, row in enumerate(rows):
                self.check_tree_row(f"{what} row {at} {row['name']}", at, row, rows)

    def check_tree_row(self, what, at, row, rows):
        if row["self_ps"] is None:
            self.assertNotEqual(row["status"], "ok", what)
        else:
            self.assertEqual(row["self_ps"] + row["child_ps"], row["total_ps"], what)
            self.assertGreaterEqual(row["self_ps"], 0, what)
        self.assertEqual(row["parent"] is None, row["depth"] == 0, what)
        if row["parent"] is not None:
            self.assertLess(row["parent"], at, what)
            self.assertEqual(rows[row["parent"]]["depth"], row["depth"] - 1, what)

    def test_events_are_all_there(self):
        for what, arguments, document in self.documents(commands=[("events",), ("planes",)]):
            path = arguments[1]
            capture = self.run_json("planes", path, "--device", "all")["capture"]
            counted = (len(document["events"]) if arguments[0] == "events"
                       else sum(plane["events"] for plane in document["planes"]))
            self.assertEqual(counted, capture["events"], what)


if __name__ == "__main__":
    unittest.main()
