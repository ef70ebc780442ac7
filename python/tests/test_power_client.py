"""Runs commands of xplane_time.power_client from a driver."""
import json
import os
import subprocess
import sys
import textwrap
import unittest

PROGRAM = """
    from xplane_time.power_client import Answer, serve

    def answer(problem{more}):
        print("this goes to standard output")
        if problem == "raise":
            raise ValueError("no such tool")
        if problem == "memory":
            raise MemoryError()
        if problem == "number":
            return 7
        if problem == "counted":
            return Answer("text", input_tokens=3, output_tokens=4, time_to_first_token_ms=0.5)
        return problem.upper(){also}

    serve(answer, {versions})
"""


class PowerClientTest(unittest.TestCase):
    def talk(self, *problems, more="", also="", versions=None):
        """The answers to each problem."""
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(
                PROGRAM.format(more=more, also=also, versions=versions))],
            env={**os.environ, "XPLANE_TIME_HARNESS_IN": str(to_read),
                 "XPLANE_TIME_HARNESS_OUT": str(from_write)},
            pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        with os.fdopen(to_write, "w") as requests, os.fdopen(from_read) as answers:
            messages = [{"type": "hello", "model": "m"}]
            messages += [{"type": "ask", "request": i, "model": "m", "problem": problem,
                          "subject": "s", "dataset_metadata": {"k": 1}}
                         for i, problem in enumerate(problems)]
            got = []
            for message in messages:
                requests.write(json.dumps({"v": 1, **message}) + "\n")
                requests.flush()
                got.append(json.loads(answers.readline()))
            requests.write('{"v":1,"type":"bye"}\n')
            requests.flush()
            self.assertEqual(process.wait(60), 0)
        self.assertEqual((got[0]["type"], got[0]["versions"]), ("hello", versions))
        return got[1:]

    def test_versions_are_said(self):
        self.assertEqual(len(self.talk("a", versions={"torch": "2.9.0"})), 1)

    def test_texts_counts_and_failures(self):
        text, counted, raised, memory, number = self.talk("a", "counted", "raise", "memory",
                                                          "number")
        self.assertEqual((text["request"], text["status"], text["answer"], text["output_tokens"]),
                         (0, "ok", "A", None))
        self.assertEqual((counted["input_tokens"], counted["output_tokens"],
                          counted["time_to_first_token_ms"]), (3, 4, 0.5))
        self.assertEqual((raised["status"], raised["message"]),
                         ("runtime_error", "ValueError: no such tool"))
        self.assertEqual(memory["status"], "oom")
        self.assertIn("answer() returned int", number["message"])

    def test_the_rest_of_the_record(self):
        answer, = self.talk("a", more=", question",
                            also=" + question.subject + str(question.dataset_metadata['k'])")
        self.assertEqual(answer["answer"], "As1")

    def test_without_a_driver(self):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM.format(more="", also="", versions=None))],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("no driver", done.stderr)


if __name__ == "__main__":
    unittest.main()
