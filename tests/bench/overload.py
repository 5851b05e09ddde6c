"""The part "overload" of tests/bench/run: strict and expected-length admission.

A closed loop of many more sequences than the pool holds, on random weights in
the shape of the embedded model, smaller.  Each sequence may generate TOKENS
tokens and ends by itself after a quarter of them on average: the model has
END_TOKENS end tokens, and its samples are nearly uniform.  The pool holds PLACES
sequences by their greatest needs, so OVERLOAD times what could be held at
best is asked for at once.

strict    --admission strict
expected  the router's default: as many as are expected to fit; a worker without
          pages suspends one

The two take turns.  Goodput is the rate of output tokens of requests that ended
well; every request must.  Wasted are tokens that were computed again because
their sequence was suspended, as a share of all that were computed."""
import json
import os
import re
import shutil
import socket
import statistics
import tempfile
import urllib.request

import measure
import reuse
from measure import Failed

VOCAB, END_TOKENS = 1024, 8
PROMPT, TOKENS = 32, 512
PLACES, OVERLOAD = 2, 3
SHARE = 4            # of TOKENS: what sequences use on average
GOODPUT, WASTED = 1.2, 0.05
FIRST = 64           # requests in the warm-up, by which lengths are learned
COUNTERS = ("suspended", "resumed_swap", "resumed_recompute",
            "wasted_suspended", "prompt_tokens", "tokens")


def short_model(folder):
    """Makes the small model with more end tokens."""
    made = reuse.small_model(folder)
    path = os.path.join(made, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    for part in (config, config.get("text_config", {})):
        if "eos_token_id" in part:
            part["eos_token_id"] = list(range(VOCAB - END_TOKENS, VOCAB))
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    return made


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Place(reuse.Cluster):
    """A router with options, and a worker whose metrics can be read."""

    def __init__(self, model, router_words, *words):
        self.page = f"127.0.0.1:{free_port()}"
        super().__init__(model, "--metrics", self.page, *words)
        self.router_words = router_words

    def __enter__(self):
        self.daemons.__enter__()
        _p, workers, self.clients = measure.router(self.daemons,
                                                   *self.router_words)
        self.daemons.start("sluice-worker", "--model", self.model, "--router",
                           workers, "--log-level", "error", *self.words)
        measure.await_workers(self.clients, 1)
        return self

    def counters(self):
        url = f"http://{self.page}/metrics"
        with urllib.request.urlopen(url, timeout=20) as f:
            text = f.read().decode()
        found = dict(re.findall(r"^sluice_worker_(\w+)_total (\d+)$", text,
                                re.MULTILINE))
        return {name: int(found[name]) for name in COUNTERS}


def memory_for(model, *own):
    """Returns the --memory with which the pool holds PLACES sequences."""
    with reuse.Cluster(model, "--memory", "1GiB", *own) as c:
        row = c.row()
    blocks = -(-(PROMPT + TOKENS) // row["block_tokens"])
    pages = row["ledger"]["pages"]
    page = row["pool_bytes"] // pages["total"]
    slots = row["slot_bytes"] + page
    pool = PLACES * (blocks * row["block_bytes"] + slots)
    return reuse.fixed_bytes(model, "--memory", "1GiB", *own) + pool


def one(model, words, own, requests):
    concurrency = PLACES * SHARE * OVERLOAD
    load = ("--concurrency", concurrency, "--prompt", PROMPT, "--output",
            TOKENS, "--stop-at-eos", "--temperature", 1, "--vocab", VOCAB // 2)
    with Place(model, words, *own) as c:
        c.load(*load, "--requests", FIRST, "--duration", "10m")
        before = c.counters()
        run = c.load(*load, "--requests", requests, "--duration", "30m",
                     "--seed", 2)
        after = c.counters()
    figures = {name: after[name] - before[name] for name in COUNTERS}
    computed = figures["prompt_tokens"] + figures["tokens"]
    figures.update(
        requests=run["tally"]["outcomes"]["ok"],
        tokens_s=run["rates"]["output_tokens_per_s"],
        wasted=figures["wasted_suspended"] /
        max(computed + figures["wasted_suspended"], 1),
        output_share=figures["tokens"] / (requests * TOKENS))
    return figures


def check(name, figures):
    """A strict router never has a sequence suspended."""
    if name == "strict" and (figures["suspended"] or
                             figures["wasted_suspended"]):
        raise Failed(f"strict admission suspended sequences: {figures}")


def part_overload(quick, _keep):
    folder = tempfile.mkdtemp(prefix="sluice-bench.")
    requests, rounds = (200, 1) if quick else (1000, 3)
    runs = {"strict": [], "expected": []}
    ways = {name: ("--admission", name) for name in runs}
    try:
        model = short_model(folder)
        own = ["--context", 1024, "--no-reuse"]
        own += ["--memory", memory_for(model, *own)]
        for i in range(rounds):
            for name in sorted(ways, reverse=i % 2):
                runs[name].append(one(model, ways[name], own, requests))
                check(name, runs[name][-1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures = {name: of[len(of) // 2] for name, of in (
        (name, sorted(of, key=lambda f: f["tokens_s"]))
        for name, of in runs.items())}
    figures.update(
        places=PLACES, concurrency=PLACES * SHARE * OVERLOAD,
        goodput=statistics.median(
            b["tokens_s"] / a["tokens_s"]
            for a, b in zip(runs["strict"], runs["expected"])),
        wasted=max(f["wasted"] for f in runs["expected"]))
    return figures


PARTS = {"overload": part_overload}
