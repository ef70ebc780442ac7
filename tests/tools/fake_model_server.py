"""A fake model server over HTTP in this process. It supports the OpenAI API and the Ollama API. The first
word of a question selects a misbehaviour.

    with FakeModelServer() as server:
        ... server.base_url ...
        server.questions      # the body of each request
        server.keys           # the header Authorization of each request
"""
import gzip
import http.server
import json
import sys
import threading
import urllib.parse
import zlib

STALL_S = 30  # a client that waits this long has no time limit
PAUSE_S = 0.3  # long enough that at least half of it is visible on a busy machine


def event(**chunk):
    return f"data: {json.dumps(chunk)}\n\n".encode()


def delta(finish_reason=None, **what):
    return event(choices=[{"index": 0, "delta": what, "finish_reason": finish_reason}])


def usage(prompt_tokens=3, completion_tokens=2):
    return event(choices=[], usage={"prompt_tokens": prompt_tokens,
                                    "completion_tokens": completion_tokens})


DONE = b"data: [DONE]\n\n"
ANSWER = [delta(role="assistant", content=""), delta(content="fo"), b": ping\n\n",
          delta(content="ur"), delta("stop")]
# Pieces of streams with status 200, by mode.
STREAMS = {
    "ok": [*ANSWER, usage(), DONE],
    "paused": [*ANSWER[:2], PAUSE_S, *ANSWER[2:], usage(), DONE],
    "slow": [*ANSWER[:2], 0.02, *ANSWER[2:], usage(), DONE],
    "reasoning": [delta(reasoning_content="hm"), delta(reasoning="hm"), PAUSE_S, *ANSWER, usage(),
                  DONE],
    "crlf": [b"".join([*ANSWER, usage(), DONE]).replace(b"\n", b"\r\n")],
    "no-usage": [*ANSWER, DONE],
    "negative-usage": [*ANSWER, usage(completion_tokens=-7), DONE],
    "fraction-usage": [*ANSWER, usage(prompt_tokens=1.5), DONE],
    "no-done": [*ANSWER],
    "more-after-done": [b"".join([*ANSWER, usage(), DONE, delta(content="MORE")])],
    "done-alone": [DONE],
    "one-token": [delta("stop", content="4"), usage(), DONE],
    "length": [delta(content="fo"), delta("length"), usage(), DONE],
    "half-event": [*ANSWER[:2], b'data: {"choices":[{"delta":{"cont'],
    "cut": ANSWER[:2],
    "invalid-utf8": [b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n', DONE],
    "nonsense": [b"data: what\n\n", DONE],
    "error-event": [*ANSWER[:2], event(error={"message": "CUDA out of memory"})],
    "stall": [*ANSWER[:2], STALL_S],
    "huge": [delta(content="a" * (1 << 20))] * 100,
    "huge-line": [b"data: " + b"a" * (1 << 20), *[b"a" * (1 << 20)] * 100],
}
STREAMS["emoji"] = [delta(content="a"), b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
                    b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n', delta("stop"), usage(),
                    DONE]
STREAMS["huge-usage"] = [*ANSWER, b'data: {"choices":[],"usage":{"prompt_tokens":3,'
                         b'"completion_tokens":1e999}}\n\n', DONE]
# The streams continue for some seconds. A client that has the answer does not wait for their end.
STREAMS["done-and-on"] = [*ANSWER, usage(), DONE, *[0.01, b": ping\n\n"] * 400]
STREAMS["done-and-flood"] = [*ANSWER, usage(), DONE, *[0.002, b": ping\n\n" * 100] * 1500]


def packed(piece, times):
    """`times` copies of `piece` in one gzip stream without an end."""
    packer = zlib.compressobj(wbits=31)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    return [head, *[block] * times]


OLLAMA = [{"message": {"content": "fo"}, "done": False}, {"message": {"content": "ur"}},
          {"message": {"content": ""}, "done": True, "done_reason": "stop",
           "prompt_eval_count": 3, "eval_count": 2}]
ERRORS = {"400": (400, {"error": {"message": "context length exceeded"}}),
          "500": (500, {"error": "it broke"}), "429": (429, {"error": {"message": "slow down"}}),
          "503": (503, {"message": "loading"}), "401": (401, {"detail": "bad key"}),
          "404": (404, {"error": "model not found"})}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, body, **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body),
                            **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        fake = self.server.fake
        fake.keys.append(self.headers.get("Authorization"))
        if fake.redirect_to:
            return self.reply(307, {}, Location=fake.redirect_to + self.path)
        if fake.models == "later":
            return self.reply(503, {"message": "loading"}, Retry_After=100000)
        if fake.models is None:
            return self.reply(404, {"detail": "Not Found"})
        if self.path == "/api/tags":
            return self.reply(200, {"models": [{"name": name} for name in fake.models]})
        return self.reply(200, {"data": [{"id": name} for name in fake.models]})

    def do_POST(self):
        fake = self.server.fake
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        problem = body["messages"][-1]["content"]
        with fake.lock:
            fake.questions.append(body)
            fake.keys.append(self.headers.get("Authorization"))
            asked = fake.asked[problem] = fake.asked.get(problem, 0) + 1
        fake.came.release()
        try:
            self.answer(problem.split()[0], asked)
        except OSError:  # the client closed the connection
            self.close_connection = True

    def answer(self, mode, asked):
        fake = self.server.fake
        if mode.endswith("-once"):
            mode = mode.removesuffix("-once") if asked == 1 else "ok"
        if mode == "silent":
            fake.ended.wait(STALL_S)
            self.close_connection = True
        elif mode == "redirect":
            self.reply(307, {}, Location="http://127.0.0.1:9/elsewhere")
        elif mode == "wait":
            self.reply(429, {"error": {"message": "later"}}, Retry_After=1)
        elif mode == "wait-long":
            self.reply(429, {"error": {"message": "later"}}, Retry_After=3600)
        elif mode == "echo-key-cut":  # the shown part of the body ends within the key
            key = self.headers["Authorization"].removeprefix("Bearer ")
            self.reply(400, ("x" * 285 + key).encode(), Content_Type="text/plain")
        elif mode.startswith("echo-key-at-"):  # the shown part of the body ends at a chosen byte of the key
            key = self.headers["Authorization"].removeprefix("Bearer ")
            self.reply(400, ("x" * int(mode.removeprefix("echo-key-at-")) + key).encode(),
                       Content_Type="text/plain")
        elif mode.startswith("event-key-at-"):
            key = self.headers["Authorization"].removeprefix("Bearer ")
            self.stream([f"data: {'x' * int(mode.removeprefix('event-key-at-'))}{key}\n\n".encode()])
        elif mode.startswith("echo-escaped-"):
            key = self.headers["Authorization"].removeprefix("Bearer ")
            escaped = {"slash": key.replace("/", "\\/"), "unicode": "".join(f"\\u{ord(c):04x}" for c in key),
                       "percent": urllib.parse.quote(key, safe=""),
                       "twice": json.dumps(json.dumps("".join(f"\\u{ord(c):04x}" for c in key))),
                       "html": key.replace("/", "&#x2F;").replace("+", "&#43;")}
            self.reply(400, f"no key {escaped[mode.removeprefix('echo-escaped-')]}".encode(),
                       Content_Type="text/plain")
        elif mode == "redirect-key":
            key = self.headers["Authorization"].removeprefix("Bearer ")
            self.reply(307, {}, Location="http://127.0.0.1:9/?key=" + urllib.parse.quote(key, safe=""))
        elif mode == "gzip-bomb":  # 4 GiB
            self.stream(packed((b":" + b"a" * (1 << 16) + b"\n") * (1 << 8), 1 << 8),
                        Content_Encoding="gzip")
        elif mode == "gzip-bomb-error":
            self.stream(packed(b"a" * (1 << 24), 1 << 8), status=400, Content_Encoding="gzip")
        elif mode == "gzip-twice":
            self.reply(200, gzip.compress(gzip.compress(b"".join(STREAMS["ok"]))),
                       Content_Encoding="gzip, gzip", Content_Type="text/event-stream")
        elif mode.startswith("retry-after-"):
            self.reply(429, {"error": {"message": "later"}},
                       Retry_After=mode.removeprefix("retry-after-"))
        elif mode == "finish-key":
            key = self.headers["Authorization"].removeprefix("Bearer ")
            self.stream([delta(content="4"), delta("f " + key), usage(), DONE])
        elif mode == "no-http":
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            self.close_connection = True
        elif mode == "open-end":  # the answer is complete, but the body does not end
            self.stream([*STREAMS["ok"], STALL_S])
        elif mode == "echo-key":
            self.reply(400, {"error": {"message": "bad key " + self.headers["Authorization"]}})
        elif mode in ERRORS:
            self.reply(*ERRORS[mode])
        elif mode == "html":
            self.reply(200, b"<html>", Content_Type="text/html")
        elif mode == "gzip":
            self.reply(200, gzip.compress(b"".join(STREAMS["ok"])), Content_Encoding="gzip",
                       Content_Type="text/event-stream")
        elif mode == "lost":
            self.stream(STREAMS["cut"], cut=True)
        elif self.path == "/api/chat":
            self.stream([json.dumps(line).encode() + b"\n" for line in OLLAMA])
        else:
            self.stream(STREAMS[mode])

    def stream(self, pieces, cut=False, status=200, **headers):
        """Sends `pieces` as chunks; a number is a pause. `cut`: close the connection in mid-stream."""
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if isinstance(piece, bytes):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            elif self.server.fake.ended.wait(piece):
                cut = True
                break
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignores closed connections, because tests close them on purpose."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class FakeModelServer:
    def __init__(self, models=("m/1",), redirect_to=None):
        self.models, self.redirect_to = models, redirect_to
        self.questions, self.keys, self.asked = [], [], {}
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.came = threading.Semaphore(0)  # one release per question

    def __enter__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.fake = self
        self.root = f"http://127.0.0.1:{self.server.server_port}"
        self.base_url = self.root + "/v1"
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
