"""A fake command of power run, whose answers repeat the questions. The metadata `mode` of a record selects
a misbehaviour. Each question is appended as a line to the file of the first argument."""
import json
import os
import pathlib
import signal
import sys
import time

requests = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_IN"]))
answers = os.fdopen(int(os.environ["XPLANE_TIME_HARNESS_OUT"]), "w")
log = pathlib.Path(sys.argv[1])
options = set(sys.argv[2:])


def send(text):
    answers.write(text)
    answers.flush()


def answer(**message):
    send(json.dumps({"v": 1, **message}) + "\n")


def misbehave(mode, request):
    if mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "exit":
        print("the model is on fire", file=sys.stderr, flush=True)
        sys.exit(3)
    if mode == "traceback":
        raise ValueError("no such tool")
    if mode == "once" and not log.with_suffix(".once").exists():
        log.with_suffix(".once").touch()
        answer(type="answer", request=request, status="runtime_error", message="not yet")
    elif mode == "once":
        answer(type="answer", request=request, status="ok", answer="now")
    if mode == "twice":  # sends a second answer before the next question
        both = [json.dumps({"v": 1, "type": "answer", "request": request + i, "status": "ok",
                            "answer": f"stale {i}"}) + "\n" for i in range(2)]
        send("".join(both))
    if mode == "hang":
        time.sleep(1000)
    if mode == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if mode == "garbage":
        send("no answer at all\n")
    if mode == "cut":
        send('{"v":1,"type":"answer","requ')
        sys.exit(0)
    if mode == "wrong-id":
        answer(type="answer", request=request + 1, status="ok", answer="of another")
    if mode == "early":
        answer(type="answer", request=request - 1, status="ok", answer="of the one before")
    if mode == "negative":
        answer(type="answer", request=request, status="ok", answer="x", output_tokens=-1)
    if mode == "late-token":
        answer(type="answer", request=request, status="ok", answer="x", time_to_first_token_ms=1e9)
    if mode == "raises":
        answer(type="answer", request=request, status="runtime_error", message="no such tool")


def ask(request):
    with log.open("a") as file:
        file.write(request["problem"] + "\n")
    print("a framework prints to standard output", flush=True)
    time.sleep(request["dataset_metadata"].get("sleep_s", 0))
    mode = request["dataset_metadata"].get("mode")
    if mode is not None:
        misbehave(mode, request["request"])
        return
    if "slow" in options:
        time.sleep(0.02)
    if "unknown" in options:
        answer(type="answer", request=request["request"], status="ok", answer="?")
        return
    answer(type="answer", request=request["request"], status="ok",
           answer=f"{request['model']}: {request['problem']}", input_tokens=len(request["problem"]),
           output_tokens=4, time_to_first_token_ms=0.001, something_new=[{}])


if "mute" in options:
    sys.exit(7)
for line in requests:
    message = json.loads(line)
    if message["type"] == "hello":
        answer(type="hello", name="fake",
               **({"versions": {"fake": "1.0"}} if "versions" in options else {}))
    elif message["type"] == "ask":
        ask(message)
    elif message["type"] == "bye":
        with log.open("a") as file:
            file.write("bye\n")
        break
