"""The part "schedule" of tests/bench/run: what users wait for under load.

Real routers, and workers whose engines sleep (sleeping_workers.c), so that the
figures show decisions and not kernels.  Requests state their lengths, which the
router does not see.  Of each scenario three rounds run in turn; figures are
medians.

over_asking   48 at once ask for 3,900 tokens and use about 150, every fiftieth
              1,500: against a scheduler that preempts, simulated with the same
              lengths
all_used      requests that use all that they ask for: against --admission
              strict
head_of_line  three sequences hold most pages, a fourth waits for as many, then
              come 30 small ones
long_short    8 prompts of 3,800 tokens beside prompts of 48
hot_prefix    a shared prefix of 2,048 tokens at four workers, 8 and 14 requests
              a second, with and without reuse; a fifth worker joins
tenants       a light tenant beside one that sends ten times as much; two with
              weights 1:3
flood         3 and 10 times of capacity, mixed lengths
two_models    two models, one of them flooded
"""
import contextlib
import os
import random
import re
import statistics
import subprocess
import time
import urllib.request

import measure
import overload
from measure import Failed

BLOCK = 32
OK = "OK"
OPEN_MOST = 1000  # at one connection: PEER_CALLS_MAX is 1,024


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


class Ended:
    """A line of schedule_load."""

    def __init__(self, line):
        w = line.split()
        self.number, self.group = int(w[0]), int(w[1])
        self.sent, self.first, self.end = (int(x) / 1e6 for x in w[2:5])
        self.tokens, self.cached = int(w[5]), int(w[6])
        self.status, self.retry = w[7], int(w[8]) / 1e3
        self.worker = w[9]

    @property
    def ok(self):
        return self.status == OK

    @property
    def ttft(self):
        return self.first - self.sent


def request(group=0, at=None, tenant="one", prompt=128, prefix=0, shared=0,
            most=256, length=64, deadline=0):
    """Returns a line of a plan.  at: seconds; None: of the closed loop."""
    us = -1 if at is None else int(at * 1e6)
    return (f"{group} {us} {tenant} {prompt} {prefix} {shared} {most} "
            f"{length} {deadline}\n")


class Cluster(contextlib.ExitStack):
    """A router with options, and sleeping workers."""

    def __init__(self, *router_words):
        super().__init__()
        self.daemons = self.enter_context(measure.Daemons())
        self.page = f"127.0.0.1:{overload.free_port()}"
        try:
            self.router, self.workers_at, self.clients = measure.router(
                self.daemons, "--metrics", self.page, *router_words)
        except BaseException:
            self.close()
            raise
        self.n = 0

    def workers(self, n, pages, rows=64, base_us=10000, row_us=0, token_us=20,
                reuse=1, step=2048, chunk=1024, model="sleeping"):
        self.daemons.start("sleeping_workers", self.workers_at, n, pages, rows,
                           base_us, row_us, token_us, self.n, reuse, step,
                           chunk, model)
        self.n += n
        measure.await_workers(self.clients, self.n)

    def begin(self, plan, closed=1, model="sleeping"):
        p = subprocess.Popen(
            [os.path.join(measure.BIN, "schedule_load"), self.clients, model,
             str(closed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        p.stdin.write("".join(plan))
        p.stdin.close()
        return p

    @staticmethod
    def finish(p):
        text = p.stdout.read()
        if p.wait(timeout=measure.LIMIT_S) != 0:
            raise Failed("schedule_load failed")
        return [Ended(line) for line in text.splitlines()]

    def load(self, plan, closed=1):
        return self.finish(self.begin(plan, closed))

    def counters(self):
        with urllib.request.urlopen(f"http://{self.page}/metrics",
                                    timeout=20) as f:
            text = f.read().decode()
        found = {}
        for name, value in re.findall(
                r"^sluice_router_(\w+?)_total(?:\{[^}]*\})? ([0-9.e+]+)$",
                text, re.MULTILINE):
            found[name] = found.get(name, 0) + float(value)
        return found


def all_ok(ended):
    bad = [e for e in ended if not e.ok]
    if bad:
        raise Failed(f"{len(bad)} of {len(ended)} requests failed, the first "
                     f"with {bad[0].status}")
    return ended


def rate(ended):
    """Returns the output tokens a second, from the first request to the last
    end."""
    return sum(e.tokens for e in ended) / (
        max(e.end for e in ended) - min(e.sent for e in ended))


# ---- over-asking ----

PAGES, ROWS, PROMPT, ASKED, AT_ONCE = 500, 64, 128, 3900, 48
BASE_S, TOKEN_S = 0.010, 20e-6


def lengths(n, seed):
    r = random.Random(seed)
    return [int(150 * (0.5 + r.random())) * (10 if r.randrange(50) == 0 else 1)
            for _ in range(n)]


def blocks(tokens):
    return -(-tokens // BLOCK)


def preempting(of, skip):
    """Simulates a scheduler that admits what fits now, and gives up the newest
    sequence when a running one needs a block: tokens/s after the first `skip`
    ends."""
    now, used, made, ends = 0.0, 0, 0, 0
    waiting, running, left = [], [], list(enumerate(of))[::-1]
    since = None
    while left or waiting or running:
        while left and len(waiting) + len(running) < AT_ONCE:
            waiting.append({"length": left.pop()[1], "made": 0, "todo": PROMPT,
                            "blocks": 0})
        for s in list(running):
            while s in running and s["blocks"] < blocks(PROMPT + s["made"] + 1):
                if used < PAGES:
                    used, s["blocks"] = used + 1, s["blocks"] + 1
                    continue
                last = running.pop()
                used, last["blocks"] = used - last["blocks"], 0
                last["todo"] = PROMPT + last["made"]
                waiting.insert(0, last)
        budget = 2048
        while waiting and len(running) < ROWS and \
                used + blocks(PROMPT + waiting[0]["made"]) <= PAGES:
            s = waiting.pop(0)
            s["blocks"] = blocks(PROMPT + s["made"])
            used += s["blocks"]
            running.append(s)
        for s in running:
            n = min(budget, s["todo"])
            s["todo"], budget = s["todo"] - n, budget - n
        now += BASE_S + TOKEN_S * (2048 - budget)
        for s in [s for s in running if s["todo"] == 0]:
            s["made"] += 1
            made += since is not None
            if s["made"] >= s["length"]:
                running.remove(s)
                used -= s["blocks"]
                ends += 1
        if since is None and ends >= skip:
            since = now
    return made / (now - since)


def over_asking(quick):
    n, skip = (300, 100) if quick else (4000, 200)
    of = lengths(n, 7)
    with Cluster() as c:
        c.workers(1, PAGES, ROWS)
        begun = c.counters()
        ended = all_ok(c.load([request(prompt=PROMPT, most=ASKED, length=x)
                               for x in of], AT_ONCE))
        done = c.counters()
    ended.sort(key=lambda e: e.end)
    from_s = ended[skip - 1].end
    made = sum(e.tokens * (e.end - max(e.first, from_s)) /
               max(e.end - e.first, 1e-9) for e in ended[skip:])
    ideal = preempting(of, skip)
    speed = made / (ended[-1].end - from_s)
    diff = {k: done.get(k, 0) - begun.get(k, 0) for k in done}
    computed = sum(e.tokens for e in ended) + n * PROMPT
    return {"tokens_s": speed, "preempting_tokens_s": ideal,
            "share": speed / ideal,
            "ttft_p50_s": statistics.median(e.ttft for e in ended[skip:]),
            "ttft_p99_s": percentile([e.ttft for e in ended[skip:]], 0.99),
            "suspended": diff.get("suspensions", 0) / n,
            "computed_again": diff.get("wasted_suspended_tokens", 0) / computed}


def all_used(quick):
    n = 60 if quick else 200
    plan = [request(prompt=128, most=400, length=400)] * n
    found = {}
    for way in ("expected", "strict"):
        with Cluster("--admission", way) as c:
            c.workers(1, PAGES, ROWS)
            found[way] = rate(all_ok(c.load(plan, AT_ONCE)))
    return {"tokens_s": found["expected"], "strict_tokens_s": found["strict"],
            "share": found["expected"] / found["strict"]}


# ---- head of line ----

def head_of_line(_quick):
    """Longs hold 127 pages each: 3,064 tokens of prompt and 1,000 of output."""
    long = dict(group=1, prompt=3064, most=1000, length=1000)
    small = dict(group=3, prompt=96, most=32, length=32)
    longs = [request(at=0, **long)] * 3
    fourth = request(at=1, **{**long, "group": 2})
    smalls = [request(at=1.5, **small)] * 30

    def run(plan):
        with Cluster() as c:
            c.workers(1, PAGES, ROWS)
            return all_ok(c.load(plan))

    def span(ended):
        of = [e for e in ended if e.group == 3]
        return max(e.end for e in of) - min(e.sent for e in of)

    def start(ended):
        return next(e.first for e in ended if e.group == 2)

    alone = span(run(smalls))
    fifo = start(run([*longs, fourth]))
    both = run([*longs, fourth, *smalls])
    return {"small_s": span(both), "small_alone_s": alone,
            "small_ratio": span(both) / alone, "fourth_s": start(both),
            "fourth_fifo_s": fifo,
            "fourth_ratio": (start(both) - 1) / (fifo - 1)}


# ---- long and short prompts ----

def long_short(quick):
    longs = [request(group=1, at=0, prompt=3800, most=16, length=16)] * 8
    # Once steps have a known cost; their own work is a twentieth of all.
    shorts = [request(group=2, at=2 + i / 2, prompt=48, most=16, length=16)
              for i in range(10 if quick else 30)]

    def run(plan):
        with Cluster() as c:
            c.workers(1, 2000, ROWS, token_us=500, step=512, chunk=256,
                      reuse=0)
            return all_ok(c.load(plan))

    def ttft(ended, share):
        return percentile([e.ttft for e in ended if e.group == 2], share)

    def total(ended):
        return max(e.end for e in ended if e.group == 1)

    alone, both = run(shorts), run(longs + shorts)
    longs_alone = total(run(longs))
    # Work that shorts bring is not the longs' delay by unfairness, but counts.
    return {"short_p50_s": ttft(both, 0.5),
            "short_p50_ratio": ttft(both, 0.5) / ttft(alone, 0.5),
            "short_p99_ratio": ttft(both, 0.99) / ttft(alone, 0.99),
            "long_s": total(both), "long_ratio": total(both) / longs_alone}


# ---- a hot prefix ----

HOT = dict(base_us=10000, row_us=3000, token_us=60, step=512, chunk=256)


def hot(requests_s, seconds, reuse, joins=False):
    r = random.Random(5)
    at, plan = 0.0, []
    while at < seconds:
        plan.append(request(at=at, prompt=2048 + 64, prefix=1, shared=2048,
                            most=64, length=r.randrange(24, 40)))
        at += r.expovariate(requests_s)
    with Cluster() as c:
        c.workers(4, 4000, ROWS, reuse=reuse, **HOT)
        p = c.begin(plan)
        joined = None
        if joins:
            time.sleep(seconds / 2)
            begun = time.monotonic()
            c.workers(1, 4000, ROWS, reuse=reuse, **HOT)
            joined = seconds / 2 + time.monotonic() - begun
        ended = all_ok(c.finish(p))
    warm = [e for e in ended if e.sent > 2]
    places = {}
    for e in warm:
        places[e.worker] = places.get(e.worker, 0) + 1
    figures = {"e2e_p50_s": statistics.median(e.end - e.sent for e in warm),
               "ttft_p50_s": statistics.median(e.ttft for e in warm),
               "largest": max(places.values()) / len(warm)}
    if joins:
        after = [e for e in ended if joined < e.sent < joined + 5]
        figures["joined"] = sum(e.worker == "w4" for e in after) / \
            max(len(after), 1)
    return figures


def hot_prefix(quick):
    seconds = 15 if quick else 40
    figures = {}
    for n in (8, 14):
        without = hot(n, seconds, 0)
        with_reuse = hot(n, seconds, 1)
        figures[f"at_{n}"] = {
            **with_reuse,
            "e2e_ratio": with_reuse["e2e_p50_s"] / without["e2e_p50_s"],
            "ttft_ratio": with_reuse["ttft_p50_s"] / without["ttft_p50_s"]}
    figures["joined"] = hot(14, seconds, 1, True)["joined"]
    return figures


# ---- tenants ----

TENANTS = dict(token_us=500, step=512, chunk=256, reuse=0)


def tenants(quick):
    seconds = 15 if quick else 40
    r = random.Random(3)

    def stream(group, tenant, requests_s):
        at, plan = 0.0, []
        while at < seconds:
            plan.append(request(group=group, at=at, tenant=tenant, prompt=128,
                                most=100, length=r.randrange(50, 101)))
            at += 1 / requests_s
        return plan

    def run(plan, *words, closed=1):
        with Cluster("--max-waiting", 4096, *words) as c:
            c.workers(1, PAGES, ROWS, **TENANTS)
            return c.load(plan, closed)

    def p99(ended):
        return percentile([e.ttft for e in all_ok(ended) if e.group == 1],
                          0.99)

    light, heavy = stream(1, "light", 1), stream(2, "heavy", 10)
    alone, both = p99(run(light)), p99(run(light + heavy))
    n = 200 if quick else OPEN_MOST // 2
    pair = [request(group=1 + i % 2, at=0, tenant=("a", "b")[i % 2],
                    prompt=128, most=100, length=r.randrange(50, 101))
            for i in range(2 * n)]
    ended = all_ok(run(pair, "--tenant-weight", "b=3", "--queue-timeout", "0"))
    # While both wait: until three quarters of b's have ended.
    until = sorted(e.end for e in ended if e.group == 2)[3 * n // 4]
    made = [sum(e.tokens + 128 for e in ended
                if e.group == g and e.end < until) for g in (1, 2)]
    return {"light_p99_s": both, "light_alone_p99_s": alone,
            "light_ratio": both / alone, "weighted_share": made[1] / sum(made)}


# ---- more than can be served ----

FLOOD = dict(base_us=10000, row_us=500, token_us=200, step=512, chunk=256,
             reuse=0)


def mixed(n, seed, **more):
    r = random.Random(seed)
    return [dict(prompt=r.randrange(64, 1025), most=512,
                 length=min(512, int(r.lognormvariate(4.6, 0.8)) + 1), **more)
            for _ in range(n)]


def flood(quick):
    seconds = 15 if quick else 60
    with Cluster() as c:
        c.workers(1, PAGES, ROWS, **FLOOD)
        n = 60 if quick else 300
        ended = all_ok(c.load([request(**m) for m in mixed(n, 1)], AT_ONCE))
        ended.sort(key=lambda e: e.end)
        # Without the start and the end, where fewer run.
        a, b = ended[n // 5], ended[-n // 5]
        capacity = (n - 2 * (n // 5)) / (b.end - a.end)
        one = [c.load([request(**m)])[0].ttft for m in mixed(20, 2)]
    slo = 10 * statistics.median(one)
    figures = {"capacity_s": capacity, "slo_s": slo}
    for times in (3, 10):
        r = random.Random(times)
        at, plan = 0.0, []
        for m in mixed(int(seconds * capacity * times), 3):
            plan.append(request(at=at, **m))
            at += r.expovariate(capacity * times)
        with Cluster("--queue-timeout", f"{slo:.2f}",
                     "--max-waiting", 65536) as c:
            c.workers(1, PAGES, ROWS, **FLOOD)
            c.load([request(**m) for m in mixed(100, 4)], 8)  # it learns
            ended = c.load(plan)
        good = [e for e in ended if e.ok and e.ttft <= slo]
        refused = [e for e in ended if not e.ok]
        last = max(e.end for e in ended if e.ok)
        figures[f"at_{times}"] = {
            "goodput": len(good) / last / capacity,
            "late": sum(e.ok and e.ttft > slo for e in ended) / len(ended),
            "refused": len(refused) / len(ended),
            "refusal_p99_s": percentile([e.end - e.sent for e in refused],
                                        0.99) if refused else 0,
            "retry_p50_s": statistics.median(e.retry for e in refused)
            if refused else 0}
    return figures


# ---- two models ----

def two_models(quick):
    seconds = 10 if quick else 30
    calm = [request(group=1, at=i / 4, prompt=64, most=32, length=32)
            for i in range(seconds * 4)]
    wave = [request(group=2, at=0, prompt=512, most=200, length=200)
            for _ in range(OPEN_MOST)]

    def run(flooded):
        with Cluster("--max-waiting", 1024) as c:
            c.workers(1, PAGES, ROWS, model="sleeping")
            c.workers(1, PAGES, ROWS, model="other")
            p = c.begin(calm)
            q = c.begin(wave, model="other") if flooded else None
            ended = all_ok(c.finish(p))
            if q is not None:
                if q.poll() is not None:
                    raise Failed("the flood ended before the others")
                q.terminate()
                q.wait()
        return percentile([e.ttft for e in ended], 0.99)

    alone, beside = run(False), run(True)
    return {"alone_p99_s": alone, "beside_p99_s": beside,
            "ratio": beside / alone}


SCENARIOS = {f.__name__: f for f in (
    over_asking, all_used, head_of_line, long_short, hot_prefix, tenants,
    flood, two_models)}


def median_of(rounds):
    """Returns the median of each figure of equal trees."""
    first = rounds[0]
    if isinstance(first, dict):
        return {k: median_of([r[k] for r in rounds]) for k in first}
    return statistics.median(rounds)


def part_schedule(quick, _keep):
    only = os.environ.get("SLUICE_SCHEDULE", "").split()
    chosen = {k: f for k, f in SCENARIOS.items() if not only or k in only}
    rounds = {name: [] for name in chosen}
    for _ in range(1 if quick else 3):
        for name, scenario in chosen.items():
            rounds[name].append(scenario(quick))
            print(f"  {name}: {rounds[name][-1]}", flush=True)
    return {name: median_of(of) for name, of in rounds.items()}


PARTS = {"schedule": part_schedule}
