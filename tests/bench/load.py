"""The part "load" of tests/bench/run, and load_accuracy and load_rate:
sluice-load against a fake server whose delays are known."""
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile

import measure
from measure import Failed

QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
CLOSE = 0.01      # allowed difference from the server's own delays
LAG_MS = 1.0      # p99 of the generator's lag
STALL_S = 2
FAKE = os.path.join(os.path.dirname(os.path.realpath(measure.BIN)), "tests",
                    "fake_server")


@contextlib.contextmanager
def fake_server(*words):
    """Yields the URL; the server writes its files when it ends."""
    server = subprocess.Popen([FAKE, *map(str, words)], stdout=subprocess.PIPE,
                              text=True)
    try:
        url = server.stdout.readline().strip()
        if not url.startswith("http://"):
            raise Failed("fake_server printed no address")
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def load(url, *words):
    """Runs sluice-load; returns the first run of its result."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "load.json")
        try:
            p = subprocess.run(
                [os.path.join(measure.BIN, "sluice-load"), "--target", url,
                 "--quiet", "--max-lag", "1m", "--json", path,
                 *map(str, words)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                timeout=measure.LIMIT_S, check=False)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"sluice-load took over {measure.LIMIT_S} s") from e
        if p.returncode != 0:
            raise Failed(f"sluice-load: exit code {p.returncode}: "
                         f"{p.stderr.strip()}")
        with open(path, encoding="utf-8") as f:
            return json.load(f)["runs"][0]


def ok(run, wanted):
    """Returns the number of requests, all of which must have ended OK."""
    outcomes = run["tally"]["outcomes"]
    if sum(outcomes.values()) != outcomes["ok"] or outcomes["ok"] < wanted:
        raise Failed(f"{wanted} requests wanted: {outcomes}")
    return outcomes["ok"]


def metric(run, name):
    return run["tally"]["metrics"][name]


def quantile(values, q):
    """The smallest value that a share q of all values does not exceed."""
    return sorted(values)[max(math.ceil(q * len(values)) - 1, 0)]


# ---- are the latencies right? ----

def read_delays(path):
    """Returns the milliseconds from arrival to the first token of each
    request, as the server planned them."""
    with open(path, encoding="ascii") as f:
        rows = [list(map(int, line.split())) for line in f]
    return [(due - arrived) / 1000 for _n, arrived, _delay, due in rows]


def accuracy(requests, seconds):
    """Delays of 200 ms to 2 s, and a stall of 2 s in the middle."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "delays")
        with fake_server("--delay", "200ms..2s", "--stall",
                         f"{seconds // 2}s,{STALL_S}s", "--print-delays",
                         path) as url:
            run = load(url, "--rate", requests / seconds, "--requests",
                       requests, "--duration", f"{10 * seconds}s", "--prompt",
                       32, "--output", 4)
        delays = read_delays(path)
    n = ok(run, requests)
    if len(delays) != n:
        raise Failed(f"{len(delays)} requests came, {n} were sent")
    figures = {"requests": n, "lag_p99_ms": metric(run, "lag")["p99"]}
    for name, q in QUANTILES.items():
        got, true = metric(run, "ttft")[name], quantile(delays, q)
        figures[name] = {"ms": got, "server_ms": true,
                         "ratio": round(got / true, 5)}
    figures["worst"] = max(abs(figures[q]["ratio"] - 1) for q in QUANTILES)
    return figures


def accuracy_text(f):
    each = ", ".join(f"{q} {f[q]['ms']:.1f} ms of {f[q]['server_ms']:.1f} ms"
                     for q in QUANTILES)
    verdict = "PASSED" if f["worst"] <= CLOSE else "FAILED"
    return (f"load_accuracy: {f['requests']} requests, {each}; "
            f"lag p99 {f['lag_p99_ms']:.2f} ms; worst difference "
            f"{100 * f['worst']:.2f} %, {100 * CLOSE:.0f} % allowed: {verdict}")


# ---- is the generator fast enough? ----

def shown(run, wanted):
    return {"requests": ok(run, wanted), "lag_p99_ms": metric(run, "lag")["p99"],
            "lag_max_ms": metric(run, "lag")["max"],
            "requests_s": run["rates"]["requests_per_s"]}


def rate(per_s, seconds, processes):
    """Small requests, answered at once."""
    with fake_server() as url:
        # A stall of the machine for 100 ms needs so many at once.
        run = load(url, "--rate", per_s, "--duration", f"{seconds}s",
                   "--prompt", 4, "--output", 1, "--processes", processes,
                   "--connections", math.ceil(per_s / 10 / processes))
    # Of a Poisson process, six deviations below the mean.
    mean = per_s * seconds
    return shown(run, int(mean - 6 * math.sqrt(mean)))


def streams(open_at_once, tokens, seconds):
    """Long prompts, with so many streams open at once."""
    hold_s = 2
    with fake_server("--delay", f"{hold_s}s", "--gap", "5ms") as url:
        run = load(url, "--rate", open_at_once / hold_s, "--duration",
                   f"{seconds}s", "--arrivals", "constant", "--prompt", tokens,
                   "--output", 16)
    return shown(run, int(open_at_once / hold_s * seconds) - 1)


def rate_text(small, long):
    verdict = "PASSED" if max(small["lag_p99_ms"],
                              long["lag_p99_ms"]) < LAG_MS else "FAILED"
    return (f"load_rate: {small['requests_s']:.0f} requests/s with a lag p99 of "
            f"{small['lag_p99_ms']:.3f} ms; streams of long prompts with "
            f"{long['lag_p99_ms']:.3f} ms; under {LAG_MS:.0f} ms allowed: "
            f"{verdict}")


# ---- the part of tests/bench/run, and the commands ----

def part_load(quick, _keep):
    if quick:
        return {"accuracy": accuracy(600, 6), "rate": rate(2000, 2, 1),
                "streams": streams(20, 5000, 4)}
    return {"accuracy": accuracy(20000, 60), "rate": rate(20000, 10, 1),
            "streams": streams(100, 50000, 20)}


def build():
    if measure.BUILT:
        return
    p = subprocess.run([os.path.join(measure.ROOT, "cmake", "build"),
                        "release", "sluice-load", "fake_server"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False)
    if p.returncode != 0:
        raise Failed("the build failed: " + p.stdout[-2000:])


def command(name, measured):
    """Runs measured(), which returns a line of verdict.  Returns the exit
    code."""
    try:
        build()
        line = measured()
    except Failed as e:
        line = f"{name}: FAILED: {e}"
    print(line)
    return 0 if line.endswith(": PASSED") else 1


def numbers(doc, defaults):
    """Returns the options --NAME N of a command line."""
    values, words = dict(defaults), sys.argv[1:]
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            print(doc)
            sys.exit(0)
        if word[:2] != "--" or word[2:] not in values or not words or \
                not words[0].isdigit() or int(words[0]) < 1:
            print(f"{sys.argv[0]}: {word}: no such option, or no number; --help "
                  "lists them", file=sys.stderr)
            sys.exit(2)
        values[word[2:]] = int(words.pop(0))
    return values


PARTS = {"load": part_load}
