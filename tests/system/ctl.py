"""Functions shared by the system tests in Python: sluicectl and its JSON."""
import json
import os
import re
import subprocess

PROGRAM = os.path.join(os.environ["SLUICE_BIN"], "sluicectl")


def call(*args, rc=0):
    """Returns the objects that sluicectl prints, one per line."""
    p = subprocess.run([PROGRAM, *args, "--json"], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True)
    assert p.returncode == rc, (args, p.returncode, p.stdout, p.stderr)
    assert p.stderr == "", (args, p.stderr)
    return [json.loads(line) for line in p.stdout.splitlines()]


def metric_rows(program):
    """[name, kind, help, labels or nothing] of each row of --list-metrics."""
    p = subprocess.run([os.path.join(os.path.dirname(PROGRAM), program),
                        "--list-metrics"], stdout=subprocess.PIPE, text=True,
                       check=True)
    return [line.split("\t") for line in p.stdout.splitlines()]


def own_rows(program):
    """metric_rows() without those of the process, which every daemon has."""
    return [row for row in metric_rows(program)
            if row[0].startswith(program.replace("-", "_") + "_")]


def metric_names(program):
    """Names without the prefix of the program and the suffix of the kind."""
    return {re.sub(r"^sluice_[a-z]+_|_(total|seconds)$", "", row[0])
            for row in own_rows(program)}


class Choice:
    """The chunks of one choice, put together."""

    def __init__(self):
        self.tokens, self.text, self.logprobs, self.top = [], "", [], []
        self.finish = self.stop_string = None

    def add(self, chunk):
        assert self.finish is None, "a chunk after the end"
        assert chunk["first_index"] == len(self.tokens), chunk
        self.tokens += chunk["tokens"]
        self.text += chunk.get("text", "")
        self.logprobs += chunk.get("logprobs", [])
        self.top += [[(one["token"], one["logprob"]) for one in best]
                     for best in chunk.get("top_logprobs", [])]
        self.finish = chunk.get("finish")
        self.stop_string = chunk.get("stop_string")

    def same(self, other):
        return vars(self) == vars(other)


def together(lines, n):
    """Returns the choices of a request's lines, and its last line."""
    *chunks, end = lines
    choices = [Choice() for _ in range(n)]
    for chunk in chunks:
        choices[chunk["choice"]].add(chunk)
    assert [c["finish"] for c in end["choices"]] == \
        [c.finish for c in choices], end
    return choices, end


def generate(*args, n=1):
    if n > 1:
        args = ("--n", str(n), *args)
    return together(call("generate", *args), n)


def one(*args):
    """Returns the only choice."""
    return generate(*args)[0][0]
