"""A fake proposer. It proposes the points of the space in a fixed order, except for points with a known
result. So a run that was killed and resumed has the same result as an uninterrupted run. Arguments select a
misbehaviour. Each process appends its requests to the file of the first argument."""
import itertools
import json
import os
import pathlib
import sys

requests = os.fdopen(int(os.environ["XPLANE_TIME_PROPOSER_IN"]))
answers = os.fdopen(int(os.environ["XPLANE_TIME_PROPOSER_OUT"]), "w")
log = pathlib.Path(sys.argv[1])
options = set(sys.argv[2:])
told = set()
points = []


def answer(**message):
    answers.write(json.dumps({"v": 1, **message}) + "\n")
    answers.flush()


def key(params):
    return json.dumps(params, sort_keys=True)


for line in requests:
    request = json.loads(line)
    kind = request["type"]
    with log.open("a") as file:
        file.write(line)
    if kind == "bye":
        break
    if kind == "hello":
        if "mute" in options:
            sys.exit("no optimizer here")
        names = [each["name"] for each in request["parameters"]]
        grid = itertools.product(*(each["values"] for each in request["parameters"]))
        points = [dict(zip(names, values)) for values in grid]
        points = points[1::2] + points[::2]
        answer(type="hello", name="walk")
    elif kind == "tell":
        told.add(key(request["params"]))
    elif kind == "ask":
        if "garbage" in options:
            answer(type="configurations", request=request["request"], params=7)
        fresh = [each for each in points if key(each) not in told]
        if "stubborn" in options:
            fresh = points[:1] * 3 + [{"cost": 1e6}, {}]
        if "silent" in options:
            fresh = []
        if "stranger" in options:
            fresh = [{"cost": 1e6}]
        answer(type="configurations", request=request["request"], params=fresh[:request["count"]])
