"""Tests of power run with model servers that fail in all ways, and of power clients."""
import json
import signal
import socket
import subprocess
import time
import unittest

from fake_model_server import PAUSE_S, FakeModelServer
from harness import BINARY, EndToEndTest, csv_rows, run
from test_power_run import PROBE, TIMEOUT_S, PowerRunTest

KEY = "sk-0123456789abcdef"
QUICK = ("--client-param", "backoff_s=0.01")


class HttpTest(PowerRunTest):
    def setUp(self):
        super().setUp()
        self.server = FakeModelServer()
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)
        self.environment["NO_PROXY"] = "*"
        self.base_url = None  # the URL of the server

    def ask(self, *problems):
        self.write("set.jsonl", "".join(json.dumps({"problem": each}) + "\n" for each in problems))

    def command(self, *options, fake=(), client="openai"):
        address = self.base_url or (
            self.server.root if client == "ollama" else self.server.base_url)
        return [PROBE, "run", "set.jsonl", "--client", client, "--model", "m/1", "--base-url",
                address, *QUICK, *map(str, options)]

    def answered(self, problem, *options, **more):
        """Runs a single question, and returns its record."""
        self.ask(problem)
        self.run_probe("--overwrite", *options, **more)
        record, = self.kept()
        return record

    @staticmethod
    def metrics(record):
        return record["model_metrics"]["m/1"]


class Answers(HttpTest):
    def test_a_streamed_answer(self):
        record = self.answered("ok", "--client-param", "temperature=0")
        self.assertEqual((record["status"], record["message"], record["model_answers"]),
                         ("ok", "", {"m/1": "four"}))
        self.assertEqual((record["attempts"], record["finish_reason"]), (1, "stop"))
        metrics = self.metrics(record)
        self.assertEqual(metrics["token_metrics"], {"input": 3, "output": 2, "total": 5})
        latency = metrics["latency_metrics"]
        self.assertLess(0, latency["time_to_first_token_seconds"])
        self.assertLess(latency["time_to_first_token_seconds"], latency["total_query_seconds"])
        self.assertIsNone(latency["time_to_first_reasoning_token_seconds"])
        self.assertEqual(latency["all_attempts_seconds"], latency["total_query_seconds"])
        gaps = latency["inter_token_ms"]
        self.assertTrue(0 <= gaps["p50"] <= gaps["p95"] <= gaps["p99"])
        self.check(record, self.summary())
        body, = self.server.questions
        self.assertEqual(body["messages"], [{"role": "user", "content": "ok"}])
        self.assertEqual((body["stream"], body["stream_options"], body["temperature"]),
                         (True, {"include_usage": True}, 0))
        config = self.summary()["profiler_config"]
        self.assertEqual((config["client"], config["base_url"], config["concurrency"]),
                         ("openai", self.server.base_url, 1))
        self.assertEqual(config["client_parameters"]["temperature"], 0)

    def test_the_times_are_the_servers(self):
        latency = self.metrics(self.answered("paused"))["latency_metrics"]
        self.assertGreaterEqual(latency["inter_token_ms"]["p50"], PAUSE_S * 500)
        self.assertLess(latency["time_to_first_token_seconds"] + PAUSE_S / 2,
                        latency["total_query_seconds"])

    def test_an_answer_ends_where_the_server_says_so(self):
        record = self.answered("open-end", "--client-param", "stall_timeout_s=5")
        self.assertEqual((record["status"], record["message"]), ("ok", ""))
        self.assertLess(self.metrics(record)["latency_metrics"]["total_query_seconds"], 2)

    def test_what_comes_after_the_end_is_none_of_the_answer(self):
        self.assertEqual(self.answered("more-after-done")["model_answers"], {"m/1": "four"})

    def test_the_window_ends_with_the_answer_whatever_follows(self):
        for mode in ("done-and-on", "done-and-flood"):
            with self.subTest(mode):
                record = self.answered(mode)
                self.assertEqual((record["status"], record["model_answers"], record["message"]),
                                 ("ok", {"m/1": "four"}, ""))
                self.assertLess(self.metrics(record)["latency_metrics"]["total_query_seconds"], 1)

    def test_a_character_in_two_pieces(self):
        record = self.answered("emoji")
        self.assertEqual((record["status"], record["message"], record["model_answers"]),
                         ("ok", "", {"m/1": "a\U0001f600"}))

    def test_an_answer_without_a_piece_says_so(self):
        record = self.answered("done-alone")
        self.assertEqual((record["status"], record["model_answers"]), ("ok", {"m/1": ""}))
        self.assertIn("the answer is empty", record["message"])

    def test_reasoning_is_told_apart(self):
        record = self.answered("reasoning")
        self.assertEqual(record["model_answers"], {"m/1": "four"})
        latency = self.metrics(record)["latency_metrics"]
        self.assertLess(latency["time_to_first_reasoning_token_seconds"] + PAUSE_S / 2,
                        latency["time_to_first_token_seconds"])

    def test_answers_that_come_otherwise(self):
        for mode in ("crlf", "gzip", "no-done"):
            with self.subTest(mode):
                record = self.answered(mode)
                self.assertEqual((record["status"], record["model_answers"]["m/1"]), ("ok", "four"))
        record = self.answered("length")
        self.assertEqual((record["model_answers"]["m/1"], record["finish_reason"]),
                         ("fo", "length"))
        self.assertEqual(self.metrics(self.answered("one-token"))["latency_metrics"]
                         ["inter_token_ms"], {"p50": None, "p95": None, "p99": None})

    def test_tokens_are_the_servers_or_unknown(self):
        for mode, tokens, message in (
                ("no-usage", (None, None), ""),
                ("negative-usage", (3, None), "completion_tokens -7 is ignored"),
                ("fraction-usage", (None, 2), "prompt_tokens 1.5 is ignored"),
                ("huge-usage", (3, None), "completion_tokens 1e999 is ignored")):
            with self.subTest(mode):
                record = self.answered(mode)
                found = self.metrics(record)["token_metrics"]
                self.assertEqual((found["input"], found["output"]), tokens)
                self.assertIsNone(found["total"])
                self.assertIn(message, record["message"])
                self.assertEqual((record["status"], record["message"] == ""), ("ok", not message))

    def test_ollama(self):
        self.ask("ok")
        process = subprocess.run(self.command("--client-param", "max_tokens=5", client="ollama"),
                                 cwd=self.at, env=self.environment, capture_output=True, text=True,
                                 timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0, process.stderr)
        record, = self.kept()
        self.assertEqual((record["model_answers"]["m/1"], record["finish_reason"]),
                         ("four", "stop"))
        self.assertEqual(self.metrics(record)["token_metrics"],
                         {"input": 3, "output": 2, "total": 5})
        self.assertEqual(self.server.questions[0]["options"], {"num_predict": 5})
        self.check(record)


class Faults(HttpTest):
    # By question: status of the record, part of its message, number of attempts.
    EXPECTED = {
        "400": ("runtime_error", "HTTP 400: context length exceeded", 1),
        "500": ("infra", "HTTP 500: it broke", 1),
        "error-event": ("runtime_error", "the server failed: CUDA out of memory, after 2 bytes", 1),
        "invalid-utf8": ("bad_answer", r"\377\376", 1),
        "nonsense": ("bad_answer", "what", 1),
        "html": ("bad_answer", 'its Content-Type is "text/html"', 1),
        "huge": ("bad_answer", "an answer longer than 16777216 bytes", 1),
        "huge-line": ("bad_answer", "a line longer than 16777216 bytes", 1),
        "stall": ("timeout", "the stream stalled: no data for 2 s", 1),
        "silent": ("timeout", "no complete answer within 5 s (--timeout)", 1),
        "cut": ("infra", "the stream ended before the end of the answer, after 2 bytes of the answer", 3),
        "half-event": ("infra", "within a piece; asked 3 times, previous failure: the stream", 3),
        "lost": ("infra", "the connection was lost", 3),
        "429": ("infra", "HTTP 429: slow down; asked 3 times", 3),
        "503": ("infra", "HTTP 503: loading; asked 3 times", 3),
        "no-http": ("infra", "the connection was lost: Received HTTP/0.9", 3),
        "wait-long": ("infra", "HTTP 429: later; Retry-After 3600 s", 1),
        "retry-after-9223372036854775807":
            ("infra", "HTTP 429: later; Retry-After 9223372036854775807 s", 1),
        "retry-after-99999999999999999999999":
            ("infra", "HTTP 429: later; Retry-After 9223372036854775807 s", 1),
        "retry-after--5": ("infra", "HTTP 429: later; asked 3 times", 3),
        "gzip-twice": ("bad_answer", "its body is compressed 2 times", 1),
        "gzip-bomb-error": ("runtime_error", "HTTP 400: aaa", 1),
    }
    LIMITS = ("--timeout", 5, "--client-param", "stall_timeout_s=2", "--client-param",
              "retries=2")

    def test_each_is_the_records_own_and_the_next_is_answered(self):
        self.ask(*(each for mode in self.EXPECTED for each in (mode, f"ok after {mode}")))
        _, err = self.run_probe(*self.LIMITS)
        kept = self.kept()
        self.assertEqual([record["index"] for record in kept], list(range(len(kept))))
        for record in kept:
            mode = record["problem"]
            with self.subTest(mode):
                if mode.startswith("ok"):
                    self.assertEqual(record["status"], "ok", record["message"])
                    continue
                status, message, attempts = self.EXPECTED[mode]
                self.assertEqual((record["status"], record["attempts"]), (status, attempts),
                                 record["message"])
                self.assertIn(message, record["message"])
                self.assertEqual(record["model_answers"], {"m/1": None})
                self.assertEqual(self.server.asked[mode], attempts)
                self.assertIn(f"index {record['index']}: {status}: ", err)
        self.check(self.summary(), *kept)

    def test_what_unpacks_to_gigabytes_is_bounded(self):
        self.ask("gzip-bomb", "ok")
        self.run_probe("--timeout", 4)
        bomb, record = self.kept()
        self.assertIn((bomb["status"], bomb["message"].split(",")[0]),
                      (("timeout", "no complete answer within 4 s (--timeout)"),
                       ("bad_answer", "a body longer than 1073741824 bytes")))
        self.assertLess(self.metrics(bomb)["latency_metrics"]["total_query_seconds"], 8)
        self.assertEqual(record["status"], "ok")

    def test_what_passes_is_asked_again(self):
        for mode, why in (("429", "HTTP 429: slow down"), ("503", "HTTP 503: loading"),
                          ("lost", "the connection was lost"), ("cut", "the stream ended before"),
                          ("half-event", "within a piece")):
            with self.subTest(mode):
                record = self.answered(f"{mode}-once")
                self.assertEqual((record["status"], record["attempts"]), ("ok", 2))
                self.assertIn(f"asked 2 times, previous failure: ", record["message"])
                self.assertIn(why, record["message"])
                self.assertEqual(record["model_answers"], {"m/1": "four"})  # only the answer of the last attempt

    def test_the_window_is_of_the_last_attempt(self):
        record = self.answered("wait-once")  # Retry-After: 1
        latency = self.metrics(record)["latency_metrics"]
        interval = record["interval"]
        self.assertGreaterEqual(latency["all_attempts_seconds"],
                                1 + latency["total_query_seconds"])
        self.assertLess(latency["time_to_first_token_seconds"], latency["total_query_seconds"])
        self.assertAlmostEqual(latency["total_query_seconds"],
                               (interval["end_ns"] - interval["begin_ns"]) / 1e9)

    def test_a_server_that_is_lost_again_and_again_ends_the_run(self):
        self.ask("ok", *["lost"] * 5)
        _, err = self.run_probe("--most-failures", 2, "--client-param", "retries=0", code=69)
        self.assertIn("failed 2 times in a row: the connection was lost", err)
        self.assertIn("--resume", err)
        self.assertEqual([record["status"] for record in self.kept()], ["ok", "infra", "infra"])
        self.assertEqual(self.summary()["stop_reason"], "no_client")

    def test_what_no_question_gets_over_ends_the_run(self):
        for mode, message in (("401", "HTTP 401: bad key; the environment variable OPENAI_API_KEY "
                                      "is not set"),
                              ("404", "HTTP 404: model not found; check --base-url (for an "
                                      "OpenAI API, it ends with /v1) and --model"),
                              ("redirect", "HTTP 307: redirects to http://127.0.0.1:9/elsewhere; "
                                           "redirects are not followed")):
            with self.subTest(mode):
                self.ask("ok", mode, "ok")
                _, err = self.run_probe("--overwrite", code=69)
                self.assertIn(message, err)
                self.assertEqual(len(self.kept()), 1)


class BeforeTheFirstQuestion(HttpTest):
    def test_no_server(self):
        self.ask("ok")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self.base_url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
            _, err = self.run_probe(code=69)
        self.assertIn(f"{self.base_url}/models: cannot connect: ", err)
        self.assertIn("start the server, or correct --base-url", err)
        self.assertFalse((self.at / "runs").exists())

    def test_a_model_that_is_not_there(self):
        self.server.models = ("llama", "qwen")
        self.ask("ok")
        _, err = self.run_probe(code=69)
        self.assertIn('has no model "m/1" (--model); models: llama, qwen\n', err)
        self.assertEqual(self.server.questions, [])

    def test_a_server_that_is_not_ready_for_longer_than_an_answer_takes(self):
        self.server.models = "later"
        self.ask("ok")
        _, err = self.run_probe("--timeout", 5, code=69)
        self.assertIn("HTTP 503: loading; Retry-After 100000 s; the requested wait exceeds --timeout", err)

    def test_a_server_without_a_list_of_models_is_asked(self):
        self.server.models = None
        self.assertEqual(self.answered("ok")["status"], "ok")

    def test_a_redirect_gets_no_key(self):
        self.environment["OPENAI_API_KEY"] = KEY
        self.ask("ok")
        with FakeModelServer() as other:
            self.server.redirect_to = other.root
            _, err = self.run_probe(code=69)
            self.assertEqual(other.keys, [])
        self.assertIn(f"redirects to {other.root}/v1/models", err)

    def test_addresses_that_would_be_kept_with_a_secret(self):
        for url in ("http://user:secret@127.0.0.1/v1", "http://127.0.0.1/v1?key=secret",
                    "ftp://127.0.0.1/", "127.0.0.1:8000/v1", "file:///etc/passwd", "http://"):
            with self.subTest(url):
                self.ask("ok")
                self.base_url = url
                _, err = self.run_probe(code=64)
                self.assertIn("--base-url: ", err)
                self.assertNotIn("secret", err)


class Keys(HttpTest):
    def files(self):
        return "".join(path.read_text() for path in self.directory.iterdir())

    def test_a_key_is_sent_and_never_said(self):
        self.environment["MY_KEY"] = KEY
        self.ask("ok", "echo-key", "400")
        out, err = self.run_probe("--client-param", "api_key_env=MY_KEY")
        self.assertEqual(set(self.server.keys), {f"Bearer {KEY}"})
        self.assertEqual(self.kept()[1]["message"], "HTTP 400: bad key Bearer [API key]")
        self.assertNotIn(KEY, out + err + self.files())
        self.assertIn("MY_KEY", self.files())  # the name of the variable

    def test_an_escaped_key_is_not_said(self):
        key = "sk-0123/4567+89=abcdef"
        self.environment["OPENAI_API_KEY"] = key
        escapes = ("slash", "unicode", "percent", "twice", "html")
        self.ask("ok", *(f"echo-escaped-{each}" for each in escapes))
        out, err = self.run_probe()
        for record in self.kept()[1:]:
            self.assertRegex(record["message"], r'^HTTP 400: no key "*\\*"*\[API key\]')
        self.ask("redirect-key")
        _, err_of_redirect = self.run_probe("--overwrite", code=69)
        self.assertIn("redirects to http://127.0.0.1:9/?key=[API key];", err_of_redirect)
        self.assertNotIn("4567", out + err + err_of_redirect + self.files())

    def test_no_part_of_a_key_is_left_where_a_message_is_cut(self):
        self.environment["OPENAI_API_KEY"] = KEY
        self.ask("ok", *(f"echo-key-at-{at}" for at in range(300 - len(KEY), 301)),
                 *(f"event-key-at-{at}" for at in range(200 - len(KEY), 201)))
        out, err = self.run_probe()
        for text in (out, err, self.files()):
            self.assertNotIn(KEY[:4], text.replace("[API key]", ""))

    def test_a_part_of_a_key_is_not_said_either(self):
        self.environment["OPENAI_API_KEY"] = KEY
        self.ask("echo-key-cut", "finish-key")
        out, err = self.run_probe()
        cut, finished = self.kept()
        self.assertTrue(cut["message"].endswith("xx[API key]"), cut["message"])
        self.assertEqual(finished["finish_reason"], "f [API key]")
        self.assertNotIn(KEY[:12], out + err + self.files())

    def test_without_a_key_none_is_sent(self):
        self.answered("ok")
        self.assertEqual(set(self.server.keys), {None})

    def test_a_key_that_is_none(self):
        self.environment["OPENAI_API_KEY"] = KEY + "\nX-Evil: 1"
        self.ask("ok")
        _, err = self.run_probe(code=64)
        self.assertIn("the environment variable OPENAI_API_KEY: contains a space, a line end", err)
        self.assertNotIn(KEY, err)


class Usage(HttpTest):
    def test_usage(self):
        self.ask("ok")
        url = ("--base-url", self.server.base_url)
        for options, message in (
                (["--client", "opnai"], 'unknown client "opnai"; clients: command, openai, ollama'),
                (["--client", "openai", "--model", "m"], "--client openai requires --base-url"),
                (["--client", "openai", *url], "--client openai requires --model"),
                (["--client", "openai", *url, "--model", "m", "--", "x"], "no command is allowed after --"),
                (["--client", "openai", *url, "--model", "m", "--client-param", "api_key=secret"],
                 "api_key: would be stored in the results; use api_key_env=NAME"),
                (["--client", "openai", *url, "--model", "m", "--client-param", "stream=false"],
                 "stream: is always true"),
                (["--client", "openai", *url, "--model", "m", "--client-param", "seed=x"],
                 'seed: must be a whole number, not "x"'),
                (["--client", "openai", *url, "--model", "m", "--concurrency", "0"],
                 "--concurrency"),
                ([*url, "--", "x"], "--base-url requires an HTTP client, which command is not"),
                (["--concurrency", "2", "--", "x"], "--concurrency requires an HTTP client"),
                (["--client-param", "a=1", "--", "x"], 'command has no parameter "a"')):
            with self.subTest(message):
                done = subprocess.run([PROBE, "run", "set.jsonl", *options], capture_output=True,
                                      cwd=self.at, text=True, timeout=TIMEOUT_S,
                                      env=self.environment)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(message, done.stderr)
        self.assertEqual(self.server.questions, [])

    def test_other_parameters_are_passed_on(self):
        self.ask("ok")
        parameters = ("top_k=5", 'stop=["###"]', "reasoning_effort=high", 'extra_body={"min_p": 0.1}',
                      "temprature=0")
        _, err = self.run_probe(*(word for each in parameters for word in ("--client-param", each)))
        body, = self.server.questions
        self.assertEqual({name: body.get(name) for name in
                          ("top_k", "stop", "reasoning_effort", "min_p", "temprature")},
                         {"top_k": 5, "stop": ["###"], "reasoning_effort": "high", "min_p": 0.1,
                          "temprature": 0})
        self.assertIn("temprature is passed to the server unchanged; did you mean temperature?", err)
        config = self.summary()["profiler_config"]["client_parameters"]
        self.assertEqual((config["top_k"], config["stop"], config["extra_body"]),
                         (5, ["###"], {"min_p": 0.1}))
        _, err = self.run_probe("--resume", "--client-param", "top_k=6", code=65)
        self.assertIn("the run has another client_parameters", err)

    def test_other_parameters_are_options_of_ollama(self):
        self.ask("ok")
        done = subprocess.run(self.command("--client-param", "num_ctx=4096", "--client-param",
                                           "think=false", client="ollama"),
                              cwd=self.at, env=self.environment, capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        body, = self.server.questions
        self.assertEqual((body["options"], body["think"]), ({"num_ctx": 4096}, False))

    def test_without_libcurl_it_says_what_to_install(self):
        self.write("libcurl.so.4", "no library")
        self.environment["LD_LIBRARY_PATH"] = str(self.at)
        self.ask("ok")
        _, err = self.run_probe(code=69)
        self.assertIn("HTTP clients require libcurl: ", err)
        self.assertIn("apt install libcurl4", err)


class Ends(HttpTest):
    def forget_questions(self):
        while self.server.came.acquire(blocking=False):
            pass

    def await_questions(self, count):
        for _ in range(count):
            self.assertTrue(self.server.came.acquire(timeout=TIMEOUT_S))

    def test_killed_in_mid_run_and_resumed_each_is_there_once(self):
        for concurrency in (1, 4):
            with self.subTest(concurrency):
                options = ("--concurrency", concurrency)
                self.forget_questions()
                self.ask(*(f"slow {concurrency} {i}" for i in range(30)))
                process = self.start("--overwrite", *options)
                self.await_questions(10)
                process.kill()
                process.communicate(timeout=TIMEOUT_S)
                before = (self.directory / "records.jsonl").read_bytes().rpartition(b"\n")[0]
                kept = {json.loads(line)["problem"] for line in before.splitlines()}
                self.assertLess(len(kept), 30)
                time.sleep(0.1)  # wait until running requests have reached the server
                asked = dict(self.server.asked)
                self.run_probe("--resume", *options)
                records = self.kept()
                self.assertEqual(sorted(record["index"] for record in records), list(range(30)))
                self.assertEqual({record["status"] for record in records}, {"ok"})
                self.assertTrue((self.directory / "records.jsonl").read_bytes().startswith(before))
                for problem in kept:  # stored records are not asked again
                    self.assertEqual(self.server.asked[problem], asked[problem])
                self.check(self.summary(), *records)

    def test_another_client_does_not_go_on_with_a_run(self):
        self.answered("ok", "--client-param", "temperature=0")
        for options, what in ((("--client-param", "temperature=1"), "client_parameters"),
                              (("--client-param", "temperature=0", "--concurrency", 4),
                               "concurrency")):
            with self.subTest(what):
                _, err = self.run_probe("--resume", *options, code=65)
                self.assertIn(f"the run has another {what} (", err)
        self.run_probe("--resume", "--client-param", "temperature=0")
        with FakeModelServer() as other:
            self.base_url = other.base_url
            _, err = self.run_probe("--resume", "--client-param", "temperature=0", code=65)
            self.assertIn(f'the run has another base_url ("{self.server.base_url}", not ', err)
            self.assertEqual(other.questions, [])

    def test_a_run_without_an_answer_is_in_nobodys_way(self):
        self.ask("404", "ok")
        self.run_probe(code=69)
        self.assertEqual(self.kept(), [])
        self.ask("ok")
        self.run_probe()
        self.assertEqual(len(self.kept()), 1)

    def test_a_signal_ends_it_within_a_second(self):
        for number, mode, concurrency in ((signal.SIGINT, "silent", 1), (signal.SIGTERM, "stall", 1),
                                          (signal.SIGINT, "gzip-bomb", 1),
                                          (signal.SIGTERM, "wait", 1), (signal.SIGINT, "silent", 4)):
            with self.subTest(f"{mode} {concurrency}"):
                self.forget_questions()
                self.ask("ok", *(f"{mode} {i}" for i in range(8)))
                process = self.start("--overwrite", "--concurrency", concurrency, "--client-param",
                                     "backoff_s=100")
                self.await_questions(1 + concurrency)
                time.sleep(0.05)
                begin = time.monotonic()
                process.send_signal(number)
                _, err = process.communicate(timeout=TIMEOUT_S)
                self.assertLess(time.monotonic() - begin, 5)  # normally a second; more on a busy machine
                self.assertEqual(process.returncode, 75, err)
                self.assertIn("interrupted; continue with --resume", err)
                self.assertEqual([record["problem"] for record in self.kept()], ["ok"])
                self.assertEqual(self.summary()["stop_reason"], "interrupted")


class Concurrency(HttpTest):
    def test_energies_are_of_all_together(self):
        self.ask(*(f"slow {i}" for i in range(20)))
        done = subprocess.run([BINARY, "power", "run", "set.jsonl", "--client", "openai", "--model",
                               "m/1", "--base-url", self.server.base_url, "--concurrency", "4",
                               "--source", "constant:100"], cwd=self.at, env=self.environment,
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"20 queries saved, 0 failed\nconcurrent queries: 20 queries in "
                                      r"[0-9.]+ s, measured together\nGPU energy  unknown\nCPU energy  "
                                      r"unknown\nall energy  [0-9.]+ J")
        directory, = (self.at / "runs").iterdir()
        records = [json.loads(line)
                   for line in (directory / "records.jsonl").read_text().splitlines()]
        self.assertEqual(sorted(record["index"] for record in records), list(range(20)))
        intervals = sorted((each["interval"]["begin_ns"], each["interval"]["end_ns"])
                           for each in records)
        self.assertTrue(any(begin < end for (_, end), (begin, _) in zip(intervals, intervals[1:])))
        for record in records:
            energy = self.metrics(record)["energy_metrics"]
            self.assertEqual((energy["per_query_joules"], energy["reason"]),
                             (None, "shared_window"))
            self.assertEqual(record["energies"], [])
        summary = json.loads((directory / "summary.json").read_text())
        self.check(summary, *records)
        self.assertEqual(summary["energy_totals"]["all_joules"], None)
        shared = summary["shared_windows"]
        self.assertEqual((shared["records"], shared["output_tokens"]), (20, 40))
        joules = shared["energy_totals"]["all_joules"]
        self.assertAlmostEqual(joules, 100 * shared["seconds"], delta=0.02 * joules)
        self.assertAlmostEqual(shared["mean_watts"]["all"], joules / shared["seconds"])
        self.assertAlmostEqual(shared["joules_per_output_token"]["all"], joules / 40)
        self.assertIsNone(shared["mean_watts"]["gpu"])

    def test_spans_of_sessions_add_up(self):
        self.ask(*(f"slow {i}" for i in range(8)))
        options = ("--concurrency", 2)
        self.run_probe("--max-queries", 4, *options)
        first = self.summary()["shared_windows"]
        self.assertEqual((first["spans"], first["records"]), (1, 4))
        self.assertEqual(first["energy_totals"]["gpu_joules"], 2.5)
        self.run_probe("--resume", *options)
        both = self.summary()["shared_windows"]
        self.assertEqual((both["spans"], both["records"], both["output_tokens"]), (2, 8, 16))
        self.assertEqual(both["energy_totals"]["gpu_joules"], 5.0)
        self.assertGreater(both["seconds"], first["seconds"])

    def test_one_at_a_time_has_no_shared_windows(self):
        self.answered("ok")
        self.assertIsNone(self.summary()["shared_windows"])


class Memory(HttpTest):
    def test_it_is_of_the_machine(self):
        self.ask("paused")
        done = subprocess.run([BINARY, "power", "run", "set.jsonl", "--client", "openai", "--model",
                               "m/1", "--base-url", self.server.base_url, "--source",
                               "process,constant:1"], cwd=self.at, env=self.environment,
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        file, = self.at.glob("runs/*/records.jsonl")
        record = json.loads(file.read_text())
        memory = self.metrics(record)["memory_metrics"]
        self.assertEqual(memory["cpu_mb_of"], "machine")
        self.assertGreater(memory["cpu_mb"]["avg"], 10)
        self.check(record)


class Clients(EndToEndTest):
    def test_the_list_in_every_format(self):
        document = run("power", "clients", "--format", "json").json
        clients = {each["name"]: each for each in document["clients"]}
        self.assertEqual(list(clients), ["command", "openai", "ollama"])
        self.assertEqual(clients["command"]["parameters"], [])
        parameters = {each["name"]: each for each in clients["openai"]["parameters"]}
        self.assertEqual((parameters["retries"]["type"], parameters["retries"]["default"],
                          parameters["temperature"]["default"]), ("whole", "3", None))
        rows = csv_rows(run("power", "clients", "--format", "csv").text)
        self.assertEqual(len(rows), 1 + sum(len(each["parameters"]) for each in clients.values()))
        for form in ("table", "markdown"):
            text = run("power", "clients", "--format", form).text
            for name in (*clients, *parameters):
                self.assertIn(name, text)


if __name__ == "__main__":
    unittest.main()
