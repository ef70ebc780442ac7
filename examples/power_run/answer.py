"""A command of xplane-time power run, without a model:

    xplane-time power run problems.jsonl --model adder -- python answer.py
"""
from xplane_time.power_client import Answer, serve


def answer(problem):
    words = problem.removesuffix("?").split()
    total = sum(int(word) for word in words if word.isdigit())
    return Answer(str(total), input_tokens=len(words), output_tokens=1)


serve(answer)
