"""A small language model behind the OpenAI API, to ask with power run:

    python server.py --log server.jsonl &
    xplane-time power run problems300.jsonl --client openai --model tiny
        --base-url http://127.0.0.1:8000/v1

The model is a recurrent network in JAX on the CPU. Its weights are random, and so are its words;
its times are real. The log has a line an answer: when the question was there, and when the first
and the last token went out, in nanoseconds of the monotonic clock, which the records of power run
have, too.
"""
import argparse
import functools
import http.server
import json
import os
import sys
import threading
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    sys.exit("server.py: the model needs JAX: pip install jax")

MODEL = "tiny"
LETTERS = " abcdefghijklmnopqrstuvwxyz"
WIDTH = 256


@jax.jit
def step(weights, state, token):
    """The state after a token, and the most likely next one."""
    state = jnp.tanh(weights["in"][token] + state @ weights["state"])
    return state, jnp.argmax(state @ weights["out"])


@functools.cache
def weights():
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"in": (len(LETTERS), WIDTH), "state": (WIDTH, WIDTH), "out": (WIDTH, len(LETTERS))}
    return {name: jax.random.normal(key, shape) * (1.5 / WIDTH ** 0.5 if name == "state" else 1)
            for key, (name, shape) in zip(keys, shapes.items())}


def tokens_of(text):
    return [LETTERS.find(letter) % len(LETTERS) for letter in text.lower()]


def generate(prompt, count):
    """The letters of an answer, one by one."""
    state, token = jnp.zeros(WIDTH), 0
    for each in tokens_of(prompt):
        state, token = step(weights(), state, each)
    for _ in range(count):
        yield LETTERS[int(token)]
        state, token = step(weights(), state, token)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path != "/v1/models":
            return self.send_error(404)
        self.reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self):
        received_ns = time.monotonic_ns()
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            return self.reply(404, {"error": {"message": "no such path"}})
        if request.get("model") != MODEL or not request.get("stream"):
            return self.reply(400, {"error": {"message": f"only streams of the model {MODEL}"}})
        prompt = request["messages"][-1]["content"]
        count = request.get("max_tokens", self.server.options.tokens)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            sent_ns = self.answer(prompt, count)
        except ConnectionError:  # who asked is gone
            self.close_connection = True
            return
        self.write_log({"problem": prompt, "received_ns": received_ns, "first_token_ns": sent_ns[0],
                        "last_token_ns": sent_ns[-1], "ended_ns": time.monotonic_ns(),
                        "tokens": len(sent_ns)})

    def answer(self, prompt, count):
        """When each token went out."""
        sent_ns = []
        begin, rate = time.monotonic(), self.server.options.rate
        for i, letter in enumerate(generate(prompt, count)):
            if rate:
                time.sleep(max(0.0, begin + (i + 1) / rate - time.monotonic()))
            sent_ns.append(time.monotonic_ns())
            self.send({"choices": [{"index": 0, "delta": {"content": letter}}]})
        self.send({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        self.send({"choices": [], "usage": {"prompt_tokens": len(prompt),
                                            "completion_tokens": count}})
        self.chunk(b"data: [DONE]\n\n", last=True)
        return sent_ns

    def send(self, event):
        self.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def chunk(self, data, last=False):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) + (b"0\r\n\r\n" if last else b""))

    def reply(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def write_log(self, line):
        if self.server.options.log is None:
            return
        with self.server.lock, open(self.server.options.log, "a") as file:
            file.write(json.dumps(line) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--tokens", type=int, default=20,
                        help="of an answer, where max_tokens is not given")
    parser.add_argument("--rate", type=float, default=0,
                        help="tokens a second; 0: as fast as it goes")
    parser.add_argument("--log", help="a JSON line an answer is appended there")
    options = parser.parse_args()
    for _ in generate("warm up", 2):  # compiles
        pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads, server.options, server.lock = True, options, threading.Lock()
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
