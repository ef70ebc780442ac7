"""Constraints against Python itself, and exports against their schemas."""
import ast
import csv
import importlib.util
import io
import json
import math
import operator
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent / "src" / "output" / "schemas" / "tune-export.v1.json"
PROBE = os.environ.get("TUNE_PROBE", str(HERE.parent.parent / "build" / "tests" / "tune_probe"))


def ask(mode, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([PROBE, mode], input=lines.encode(), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Refused(Exception):
    """Where we are stricter than Python, or Python has no value either."""


def number(value):
    if not isinstance(value, (bool, int, float)):
        raise Refused("type")
    return value


def checked(value):
    if isinstance(value, int) and not -2**63 <= value < 2**63:
        raise Refused("beyond 64 bits")
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise Refused("not finite")
    return value


ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
              ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
              ast.Pow: operator.pow}
ORDER = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
         ast.Eq: operator.eq, ast.NotEq: operator.ne}


def binary(op, a, b):
    a, b = number(a), number(b)
    integers = not isinstance(a, float) and not isinstance(b, float)
    if op is ast.Div and integers and max(abs(a), abs(b)) > 2**53:
        raise Refused("inexact")
    if op is ast.Pow and integers and b > 64 and abs(a) > 1:
        raise Refused("beyond 64 bits")
    try:
        return checked(ARITHMETIC[op](a, b))
    except (ZeroDivisionError, OverflowError) as error:
        raise Refused(str(error)) from error


def compare(op, a, b):
    if op in (ast.In, ast.NotIn):
        return (a in b) == (op is ast.In)
    numbers = (bool, int, float)
    if op in (ast.Eq, ast.NotEq) and (a is None or b is None):
        return ORDER[op](a, b)
    if not (isinstance(a, numbers) and isinstance(b, numbers)
            or isinstance(a, str) and isinstance(b, str)):
        raise Refused("type")
    return ORDER[op](a, b)


def extreme(function, values):
    if not values:
        raise Refused("empty")
    best = values[0]
    for value in values[1:]:
        if compare(ast.Lt if function == "min" else ast.Gt, value, best):
            best = value
    return best


def reference(node, values):
    """The slow and obvious evaluator; eval() judges it."""
    again = lambda child: reference(child, values)
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [again(item) for item in items]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not again(operand)
        case ast.UnaryOp(op=op, operand=operand):
            value = number(again(operand))
            return checked(-value if isinstance(op, ast.USub) else +value)
        case ast.BoolOp(op=op, values=operands):
            for operand in operands:
                value = again(operand)
                if bool(value) == isinstance(op, ast.Or):
                    break
            return value
        case ast.BinOp(left=left, op=op, right=right):
            return binary(type(op), again(left), again(right))
        case ast.Compare(left=left, ops=ops, comparators=rights):
            a = again(left)
            for op, right in zip(ops, rights):
                b = again(right)
                if not compare(type(op), a, b):
                    return False
                a = b
            return True
        case ast.Call(func=ast.Name(id="abs"), args=[argument]):
            return checked(abs(number(again(argument))))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            found = [again(argument) for argument in arguments]
            return extreme(name, found[0] if isinstance(found[0], list) else found)
    raise AssertionError(ast.dump(node))


class Generator:
    VALUES = {"a": 6, "b": 0, "c": -3, "big": 2**62, "f": 2.5, "g": -0.1, "s": "bf16", "t": True,
              "n": None}

    def __init__(self, seed):
        self.random = random.Random(seed)

    def atom(self):
        r = self.random
        kind = r.randrange(10)
        if kind < 4:
            return r.choice(list(self.VALUES))
        if kind < 7:
            return str(r.choice([0, 1, 2, 3, 5, 7, 32, 1024, 2**31, 2**53 + 1, 2**63 - 1]))
        if kind == 7:
            return r.choice(["0.5", "1e3", "2.", "0.1", "1e308", "9007199254740992.0"])
        if kind == 8:
            return r.choice(["True", "False", "None"])
        return r.choice(["'bf16'", "\"f32\"", "''"])

    def list(self, depth):
        return ", ".join(self.expression(depth - 1) for _ in range(self.random.randrange(1, 4)))

    def expression(self, depth):
        r = self.random
        if depth <= 0:
            return self.atom()
        one = lambda: self.expression(depth - 1 - r.randrange(2))
        kind = r.randrange(12)
        if kind < 5:
            op = r.choice(["+", "-", "*", "/", "//", "%", "**", "*", "-"])
            return f"{self.operand(one())} {op} {self.operand(one())}"
        if kind < 7:
            chain = self.operand(one())
            for _ in range(r.randrange(1, 4)):
                chain += f" {r.choice(['<', '<=', '>', '>=', '==', '!='])} {self.operand(one())}"
            return chain
        if kind == 7:
            return f"{self.operand(one())} {r.choice(['in', 'not in'])} [{self.list(depth)}]"
        if kind == 8:
            return f"{self.operand(one())} {r.choice(['and', 'or'])} {self.operand(one())}"
        if kind == 9:
            return r.choice(["not ", "-", "+", "- -"]) + self.operand(one())
        if kind == 10:
            return r.choice(["abs({})", "min({}, 2)", "max(1, {})", "min([{}])"]).format(one())
        return f"({one()})"

    def operand(self, text):
        # Without parentheses now and then: precedence. "not" must not follow an operator.
        if self.random.randrange(3) == 0 and "not" not in text and text.count(" in ") == 0:
            return text
        return f"({text})"


class Expressions(unittest.TestCase):
    def test_thousands_of_random_expressions(self):
        generator = Generator(20240229)
        texts = [generator.expression(1 + i % 4) for i in range(20_000)]
        answers = ask("expressions", [{"text": t, "values": Generator.VALUES} for t in texts])
        self.assertEqual(len(answers), len(texts))
        values = errors = 0
        for text, answer in zip(texts, answers):
            tree = ast.parse(text, mode="eval").body
            try:
                expected = reference(tree, Generator.VALUES)
            except Refused:
                self.assertIn("error", answer, text)
                self.assertNotIn("parse", answer["error"], text)
                errors += 1
                continue
            self.assertIn("value", answer, text)
            found = answer["value"]
            self.assertEqual((type(found), found), (type(expected), expected), text)
            self.assertEqual(repr(found), repr(expected), text)
            python = eval(text, {}, dict(Generator.VALUES))
            self.assertEqual(repr(python), repr(expected), text)
            values += 1
        self.assertGreater(values, 6_000)
        self.assertGreater(errors, 2_000)

    def test_what_is_not_in_the_grammar_is_refused(self):
        for text in ["a if t else b", "a & 1", "a << 1", "~a", "lambda: 1", "a.b", "a[0]", "f'x'",
                     "__import__('os')", "abs", "[a]", "a is None", "a := 1", "a; b", "a # b",
                     "0x10", "1_000", "1j", "'a' 'b'", "min(a, key=b)", "a\\\n"]:
            answer = ask("expressions", [{"text": text, "values": Generator.VALUES}])[0]
            self.assertIn("parse: at", answer.get("error", ""), text)


class T1Values(unittest.TestCase):
    def test_lists_as_python_has_them(self):
        texts = ["[1, 2, 3]", "range(4)", "list(range(2, 20, 5))", "[2**i for i in range(6)]",
                 "[i*i+1 for i in [3, 4] if i > 3]", "list(range(10, 0, -3))", "['a', 'b,c']",
                 "[0.5, 2]", "(1, 2)", "1, 2", "[-1, +2]", "[]", "[128+64*i for i in range(15)]",
                 "[i for i in (1, 2, 3) if i % 2 == 1 or i == 2]", "list((1, 2))", "[not 1, 2 > 1]"]
        for text, answer in zip(texts, ask("values", texts)):
            self.assertEqual(answer.get("value"), list(eval(text)), (text, answer))


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        subprocess.run([PROBE, "export", cls.directory.name], check=True)

    def text(self, name):
        return pathlib.Path(self.directory.name, name).read_text()

    @unittest.skipUnless(importlib.util.find_spec("jsonschema"), "jsonschema is not installed")
    def test_json_follows_its_schema(self):
        from jsonschema import Draft202012Validator
        schema = json.loads(SCHEMA.read_text())
        Draft202012Validator.check_schema(schema)
        document = json.loads(self.text("json"))
        errors = list(Draft202012Validator(schema).iter_errors(document))
        self.assertEqual(errors, [])
        self.assertEqual(set(document), set(schema["properties"]))
        del document["session"]["seed"]
        self.assertFalse(Draft202012Validator(schema).is_valid(document))

    def test_csv_has_the_samples_of_the_json(self):
        rows = list(csv.DictReader(io.StringIO(self.text("csv"))))
        samples = [(r, s) for r in json.loads(self.text("json"))["rounds"] for s in r["samples"]]
        self.assertEqual(len(rows), len(samples))
        for row, (one_round, sample) in zip(rows, samples):
            self.assertEqual(row["variant"], sample["id"])
            self.assertEqual(row["t_ps"], "" if sample["t_ps"] is None else str(sample["t_ps"]))
            self.assertEqual(row["discarded"], str(one_round["discarded"]).lower())
        self.assertEqual(rows[0]["param_s"], 'x, "y"')

    def test_t4_has_what_its_schema_requires(self):
        document = json.loads(self.text("t4"))
        self.assertRegex(document["schema_version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(len(document["results"]), 2)
        for result in document["results"]:
            self.assertIsInstance(result["configuration"], dict)
            self.assertIsInstance(result["correctness"], (int, float))
            self.assertIn(result["invalidity"], ["timeout", "compile", "runtime", "correctness",
                                                 "constraints", "correct"])
            self.assertTrue(all(isinstance(t, float) for t in result["times"]["runtimes"]))
            for measurement in result["measurements"]:
                self.assertEqual(set(measurement), {"name", "value", "unit"})
        self.assertEqual(document["results"][0]["times"]["runtimes"], [0.0015, 0.001500002])
        self.assertEqual(document["results"][1]["invalidity"], "compile")


if __name__ == "__main__":
    unittest.main()
