"""Validates every JSON document of the commands with its schema.

The documents are in the golden files, which test_golden.py compares with the commands. Commands with varying
output are run here. The field `schema` of a document names its schema. Each new command must be added to
COMMANDS or WITHOUT.
"""
import json
import os
import re
import subprocess
import sys
import unittest

from harness import GOLDEN, HERE, REPOSITORY, TESTDATA, EndToEndTest, environment, in_parallel, run
from test_golden import GROUPS, make_inputs
from test_power_planning import square_wave_log

try:
    import jsonschema
except ImportError:
    jsonschema = None

SCHEMAS = REPOSITORY / "src" / "output" / "schemas"
# The command that prints a schema, if it differs from the name of the schema.
PRINTED_BY = {"tune-result": "tune", "power-run-summary": "power run", "power": "power",
              "power-sources": "power sources", "power-calibration": "power calibrate",
              "power-plan": "power plan", "power-clients": "power clients",
              "power-datasets": "power datasets"}
# The schemas of the documents of each command.
COMMANDS = {"report": {"report", "compat"}, "planes": {"planes"}, "functions": {"functions"},
            "kernels": {"kernels"}, "tree": {"tree"}, "brief": {"brief"}, "where": {"where"}, "headroom": {"headroom"},
            "events": {"events"},
            "energy": {"energy"}, "compare": {"compare"}, "diff": {"diff"}, "fleet": {"fleet"}, "pick": {"pick"}, "tune": {"tune-plan", "tune-result"},
            "tune replay": {"tune-result"}, "tune show": {"tune-result", "tune-sessions"},
            "tune export": {"tune", "tuned"}, "grid": {"grid"}, "verify": {"verify"}, "power sources": {"power-sources"},
            "power record": {"power"}, "power replay": {"power"},
            "power run": {"power-run-summary"}, "power calibrate": {"power-calibration"},
            "power plan": {"power-plan"}, "power clients": {"power-clients"},
            "power datasets": {"power-datasets"}}
WITHOUT = {"power": "its subcommands print", "summarize": "a file of its own kind",
           "merge": "the same", "tune decide": "messages of a protocol"}


def schemas():
    """{name: schema}, assembled in the same way as by the build."""
    parts = {path.stem: path.read_text().strip() for path in (SCHEMAS / "defs").glob("*.json")}
    found = {}
    for path in SCHEMAS.glob("*.v1.json"):
        text = re.sub("@([a-z_]+)@", lambda match: parts[match[1]], path.read_text())
        schema = json.loads(text)
        for name in re.findall(r'"const": "xplane-time\.([a-z-]+)\.v1"', text):
            found[name] = schema
    return found


def command_of(line):
    """The command of a line: "tune show" for "tune show 1", and "report" if the line has only traces."""
    words = [word for word in line.split() if "=" not in word]
    both = " ".join(words[:2])
    return both if both in COMMANDS else words[0] if words[0] in COMMANDS else "report"


def documents_in(text):
    """The JSON documents with a field `schema` in the output of a command."""
    decoder = json.JSONDecoder()
    for start in re.finditer(r'^\{(?="schema"|\n)', text, re.MULTILINE):
        try:
            document, _ = decoder.raw_decode(text, start.start())
        except ValueError:  # not JSON, but a drawing or another format
            continue
        if str(document.get("schema", "")).startswith("xplane-time."):
            yield document


def name_of(document):
    return document["schema"].removeprefix("xplane-time.").removesuffix(".v1")


@unittest.skipIf(jsonschema is None, "jsonschema is not installed")
class Schemas(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.schemas = schemas()
        cls.validators = {name: jsonschema.Draft202012Validator(schema)
                          for name, schema in cls.schemas.items()}

    def check(self, line, document):
        """Validates the document, and records the name of its schema for the command."""
        name = name_of(document)
        self.assertIn(name, COMMANDS[command_of(line)], f"{line}: another schema: COMMANDS")
        self.assertIn(name, self.validators, f"{line}: no schema for {document['schema']}")
        errors = [f"{error.json_path}: {error.message}"
                  for error in self.validators[name].iter_errors(document)]
        self.assertEqual(errors[:3], [], line)
        self.assertFalse(self.validators[name].is_valid({**document, "schema": "another"}), line)
        self.seen.setdefault(command_of(line), set()).add(name)

    def of_goldens(self):
        for group in GROUPS:
            for printed in re.split(r"^\$ ", (GOLDEN / f"{group}.txt").read_text(),
                                    flags=re.MULTILINE)[1:]:
                line, _, text = printed.partition("\n")
                if "--json-schema" not in line:
                    yield from ((line, document) for document in documents_in(text))

    def of_runs(self):
        """Documents of commands with varying output."""
        make_inputs(self.at)
        for name in ("one", "two"):
            self.write(f"{name}.jsonl",
                       '{"problem": "p", "answer": "a", "subject": "s", "dataset_metadata": {}}\n')
        harness = f"-- {sys.executable} {HERE / 'fake_harness.py'} {self.at / 'log'}"
        lines = [f"tune space.json --store {store}.db --format json {harness}"
                 for store in ("new", "other")]
        lines += [f"tune show --store {store} --format json" for store in ("new.db", "many.db")]
        lines += [f"power record --source {source} --quiet --log {source[:4]}.jsonl --format json"
                  " -- true" for source in ("constant:5", "replay:power.jsonl")]
        lines += [f"power run {name}.jsonl --model m --source constant:5 --format json --"
                  f" {sys.executable} {HERE / 'fake_command.py'} {self.at / name}"
                  for name in ("one", "two")]
        if write_world := os.environ.get("WRITE_POWER_WORLD"):
            subprocess.run([write_world, "pair", "1", "world"], cwd=self.at, check=True)
            lines.append("energy world.xplane.pb --power world.power.jsonl --format json")
        self.write("load.jsonl", square_wave_log())
        self.write("nothing.jsonl", square_wave_log(responds=False))
        lines += [f"power calibrate {log}.jsonl --format json" for log in ("load", "nothing")]
        lines += [f"power plan --kernel a={time} --kernel b=1ms --sensor load.jsonl --format json"
                  for time in ("20us", "3ms")]
        lines += ["power datasets --format json"] * 2
        lines += [f"grid space.json --samples 2 -o {folder} --format json {harness}"
                  for folder in ("grid1", "grid2")]
        lines += [f"verify {bundle} --format json" for bundle in ("grid1/witness.zip", "changed.zip")]
        for line in lines:
            if line.startswith("verify changed.zip"):
                bundle = bytearray((self.at / "grid1" / "witness.zip").read_bytes())
                bundle[len(bundle) // 2] ^= 1
                (self.at / "changed.zip").write_bytes(bundle)
            done = run(*line.split(), cwd=self.at, env=environment(XDG_RUNTIME_DIR=str(self.at)))
            found = list(documents_in(done.text))
            self.assertTrue(found, f"{line}: {done.code} {done.message}")
            yield from ((line, document) for document in found)

    def test_every_document_follows_its_schema(self):
        self.seen = {}
        for line, document in (*self.of_goldens(), *self.of_runs()):
            self.check(line, document)
        self.assertEqual(self.seen, COMMANDS)

    def test_documents_of_every_file_of_testdata(self):
        """The goldens have the JSON of only some commands for each file."""
        self.seen = {}
        traces = [*TESTDATA.rglob("*.xplane.pb"), *TESTDATA.rglob("*.xplane.pb.gz"), *TESTDATA.glob("*.json")]
        self.assertGreater(len(traces), 16)
        commands = ["report", "report --samples", "planes", "functions", "kernels", "tree", "brief", "where", "where --steps",
                    "where --gaps", "headroom", "events", "fleet", "pick"]
        lines = [f"{command} {trace}" for command in commands for trace in traces]
        lines += [f"{command} {trace} {trace}" for command in ("compare", "diff") for trace in traces]
        done = in_parallel(lambda line: run(*line.split(), "--format", "json"), lines)
        for line, result in zip(lines, done):
            if not result.out:  # an error, such as a trace without variants
                self.assertNotEqual(result.message, "", line)
                continue
            self.check(line, result.json)
        self.assertEqual(set(self.seen), {line.split()[0] for line in lines})

    def test_every_command_is_known_here(self):
        def subcommands(*of):
            text = run(*of, "--help").text.partition("Subcommands:\n")[2].partition("\n\n")[0]
            return re.findall(r"^  (\w+) ", text, re.MULTILINE)

        every = {" ".join((command, *more)) for command in subcommands()
                 for more in ((), *((sub,) for sub in subcommands(command)))}
        self.assertEqual(every, {*COMMANDS, *WITHOUT})

    def test_schemas_are_schemas_and_those_that_are_printed(self):
        for name, schema in self.schemas.items():
            jsonschema.Draft202012Validator.check_schema(schema)
            if name in ("tune", "tune-plan", "tune-sessions", "tuned", "compat"):
                continue
            command = PRINTED_BY.get(name, name)
            printed = json.loads(run(*command.split(), "--json-schema").text)
            self.assertEqual(printed, schema, name)


if __name__ == "__main__":
    unittest.main()
