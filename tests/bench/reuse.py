"""The part "reuse" of tests/bench/run: what the prefix index saves.

sessions  128 sessions of 12 turns, all at once, in a pool with room for 512
          states: the share of prompt tokens that were reused, and the same with
          a pool that never evicts
trace     Mooncake's conversation trace, lengths scaled by 1/8: time to first
          token with and without reuse, and the ledger over time
ttft      a prompt of 4,096 tokens in the shape of qwen3.5-0.8b: cold, repeated,
          and without the index
"""
import json
import lzma
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile

import measure
from measure import Failed

TRACE = os.path.join(measure.ROOT, "tests", "vectors",
                     "mooncake_conversation_trace.jsonl.xz")
CONTEXT = 32768
SESSIONS, TURNS, STATES = 128, 12, 512
FIRST, LATER, ANSWER = 512, 128, 32  # tokens of a session's turns
SHARED = 256                         # of FIRST: the same in all sessions
SCALE = 0.125    # of the trace: its blocks of 512 tokens become 64
TRACE_MEMORY = "128MiB"  # less than the trace leaves in the index
HIT_SHARE = 0.98  # of an unlimited pool
WARM_SHARE, NO_HIT_COST = 0.1, 1.01
COLUMNS = ("held", "granted", "cached", "free")


def small_model(folder):
    """Makes random weights in the shape of the embedded model, but smaller and
    with a longer context: what is reused does not depend on the weights."""
    with open(os.path.join(measure.TINY, "config.json"),
              encoding="utf-8") as f:
        config = json.load(f)
    for part in (config, config.get("text_config", {})):
        if "max_position_embeddings" in part:
            part["max_position_embeddings"] = CONTEXT
    config.update(hidden_size=64, intermediate_size=64, num_hidden_layers=4,
                  layer_types=config["layer_types"][:4], head_dim=64,
                  rope_parameters={**config["rope_parameters"],
                                   "mrope_section": [4, 2, 2]},
                  linear_key_head_dim=32, linear_value_head_dim=32,
                  linear_num_value_heads=2, vocab_size=1024, eos_token_id=1023)
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    model = os.path.join(folder, "model")
    measure.program("mkmodel", path, model, "--dtype", "bf16")
    return model


class Cluster:
    """A router and a worker on this machine."""

    def __init__(self, model, *words):
        self.daemons = measure.Daemons()
        self.model, self.words = model, words

    def __enter__(self):
        self.daemons.__enter__()
        _p, workers, self.clients = measure.router(self.daemons)
        self.daemons.start("sluice-worker", "--model", self.model, "--router",
                           workers, "--log-level", "error", *self.words)
        measure.await_workers(self.clients, 1)
        return self

    def __exit__(self, *what):
        self.daemons.__exit__(*what)

    def row(self):
        return measure.program("sluicectl", "workers", "--json", "--router",
                               self.clients)["workers"][0]

    def load(self, *words):
        """Runs sluice-load; returns the first run of its result."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "load.json")
            p = subprocess.run(
                [os.path.join(measure.BIN, "sluice-load"), "--target",
                 self.clients, "--quiet", "--max-lag", "10s", "--json", path,
                 *map(str, words)], stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, timeout=measure.LIMIT_S,
                check=False)
            if p.returncode != 0:
                raise Failed(f"sluice-load: exit code {p.returncode}: "
                             f"{p.stderr.strip()}")
            with open(path, encoding="utf-8") as f:
                run = json.load(f)["runs"][0]
        outcomes = run["tally"]["outcomes"]
        if sum(outcomes.values()) != outcomes["ok"] or not outcomes["ok"]:
            raise Failed(f"not every request ended well: {outcomes}")
        return run


def fixed_bytes(model, *words):
    """Returns the bytes of weights and scratch of a worker."""
    p = subprocess.run([os.path.join(measure.BIN, "sluice-worker"), "--check",
                        model, *map(str, words)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, check=False)
    if p.returncode != 0:
        raise Failed(f"sluice-worker --check: {p.stderr.strip()}")
    found = dict(re.findall(r"^(weights|scratch) +(\d+) bytes", p.stdout,
                            re.MULTILINE))
    return int(found["weights"]) + int(found["scratch"])


def hit_rate(run):
    return run["tally"]["n_cached"] / run["tally"]["n_prompt"]


# ---- sessions ----

def sessions(model, quick):
    n, turns = (16, 4) if quick else (SESSIONS, TURNS)
    states = STATES * n // SESSIONS
    longest = FIRST + turns * (LATER + ANSWER)
    words = ("--concurrency", n, "--requests", n, "--turns", turns, "--prefix",
             SHARED, "--prompt", FIRST, "--turn-prompt", LATER, "--output",
             ANSWER, "--turn-think", "0ms")
    figures = {"sessions": n, "turns": turns, "states": states,
               "first_tokens": FIRST, "shared_tokens": SHARED,
               "turn_tokens": LATER, "answer_tokens": ANSWER}
    own = ("--context", 4096)
    with Cluster(model, "--memory", "4GiB", *own) as c:
        row = c.row()
        figures["unlimited"] = hit_rate(c.load(*words))
    tokens = n * longest * row["block_bytes"] // row["block_tokens"]
    pool = states * row["slot_bytes"] + tokens
    memory = fixed_bytes(model, "--memory", "4GiB", *own) + pool
    figures["pool_bytes"] = pool
    with Cluster(model, "--memory", memory, *own) as c:
        figures["limited"] = hit_rate(c.load(*words))
    figures["share"] = figures["limited"] / figures["unlimited"]
    return figures


# ---- the trace ----

def ledger_rows(run):
    """Returns the ledger over time, in shares of the pages."""
    return [[p["at_us"] / 1e6,
             *(p[f"pages_{c}"] / max(p["pages_total"], 1) for c in COLUMNS)]
            for p in run["points"]]


def trace(model, quick):
    figures = {"scale": SCALE}
    seconds = 10 if quick else 120
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.jsonl")
        with lzma.open(TRACE) as packed, open(path, "wb") as f:
            shutil.copyfileobj(packed, f)
        words = ("--trace", path, "--trace-scale", SCALE, "--duration",
                 f"{seconds}s")
        for name, more in (("reuse", ()), ("no_reuse", ("--no-reuse",))):
            with Cluster(model, "--memory", TRACE_MEMORY, *more) as c:
                run = c.load(*words)
            ttft = run["tally"]["metrics"]["ttft"]
            figures[name] = {"requests": run["tally"]["outcomes"]["ok"],
                             "prompt_tokens": run["tally"]["n_prompt"],
                             "hit_rate": hit_rate(run), "ttft_ms": {
                                 q: ttft[q] for q in ("mean", "p50", "p99")}}
            figures[name]["ledger"] = ledger_rows(run)
    return figures


# ---- time to first token ----

def first_token_ms(cluster, ids, *more):
    p = subprocess.run([os.path.join(measure.BIN, "sluicectl"), "generate",
                        "--ids", "--json", "--max-tokens", "1",
                        "--temperature", "0", "--router", cluster.clients,
                        *more], input=" ".join(map(str, ids)),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, check=False)
    if p.returncode != 0:
        raise Failed(f"sluicectl generate: {p.stderr.strip()}"
                     f"{p.stdout.strip()}")
    end = json.loads(p.stdout.splitlines()[-1])
    figures = end.get("figures", end)
    return figures["first_token_us"] / 1000, figures["n_cached"]


def prompt(seed, n):
    drawn = random.Random(seed)
    return [drawn.randrange(10, 500) for _ in range(n)]


def no_cache_ms(cluster, seed, n):
    return first_token_ms(cluster, prompt(1000 + seed, n), "--no-cache")[0]


def ttft(model, n, rounds, *words):
    """Returns medians; cold prompts with and without the index take turns."""
    cold, warm, off = [], [], []
    with Cluster(model, *words) as c:
        first_token_ms(c, prompt(0, n))
        for i in range(1, rounds + 1):
            # Half of the pairs begin with the other one.
            if i % 2:
                off.append(no_cache_ms(c, i, n))
            ms, reused = first_token_ms(c, prompt(i, n))
            cold.append(ms)
            if reused:
                raise Failed(f"a new prompt reused {reused} tokens")
            if not i % 2:
                off.append(no_cache_ms(c, i, n))
            ms, reused = first_token_ms(c, prompt(i, n))
            warm.append(ms)
            if not reused:
                raise Failed("a repeated prompt reused nothing")
    figures = {"tokens": n, "cold_ms": statistics.median(cold),
               "warm_ms": statistics.median(warm),
               "no_cache_ms": statistics.median(off)}
    figures["warm_share"] = figures["warm_ms"] / figures["cold_ms"]
    figures["no_hit_cost"] = statistics.median(
        a / b for a, b in zip(cold, off))
    return figures


def part_reuse(quick, keep):
    folder = tempfile.mkdtemp(prefix="sluice-bench.")
    try:
        model = small_model(folder)
        figures = {"sessions": sessions(model, quick),
                   "trace": trace(model, quick)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if quick:
        figures["ttft"] = ttft(measure.TINY, 2048, 2)
        return figures
    with measure.model_of("qwen3.5-0.8b", keep) as model:
        figures["ttft"] = ttft(model, 4096, 4, "--context", 8192)
    return figures


PARTS = {"reuse": part_reuse}
