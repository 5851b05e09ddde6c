"""The part "gateway" of tests/bench/run: HTTP streams, and the same requests
over the native protocol.  All processes share the first two cores."""
import contextlib
import os
import urllib.request

import measure
from measure import Failed

ROWS = 512            # sequences of a fake worker
OPEN = 10000          # streams of "open"
OPEN_STEP_MS = 500    # a token each half second: the streams only stay open


@contextlib.contextmanager
def two_cores():
    """Limits this process and its new children to two cores."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_of_them)[:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


class Cluster:
    """A router and a gateway; workers join afterwards."""

    def __init__(self, daemons):
        model = f"tiny-hybrid={measure.TINY}"
        _p, self.workers, self.clients = measure.router(daemons, "--model",
                                                        model)
        p, line = daemons.start("sluice-gateway", "--router", self.clients,
                                "--listen", "127.0.0.1:0", "--model", model,
                                "--log-level", "error")
        self.daemons, self.pid = daemons, p.pid
        self.http = line.split("http://")[1].split(",")[0].split()[0]

    def fakes(self, n, step_ms, tokens=512):
        """Adds fake workers with room for n sequences of `tokens` tokens."""
        n = -(-n // ROWS)
        self.daemons.start("fake_workers", self.workers, n, ROWS, tokens,
                           measure.TINY, step_ms)
        measure.await_workers(self.clients, n)
        return self

    def worker(self):
        """Adds a worker that computes, on one thread."""
        self.daemons.start("sluice-worker", "--model", measure.TINY,
                           "--router", self.workers, "--threads", 1)
        measure.await_workers(self.clients, 1)
        return self

    def load(self, how, **options):
        """Returns the figures of gateway_load."""
        words = [how, self.http if how == "http" else self.clients,
                 "tiny-hybrid", "--pid", self.pid]
        for key, value in options.items():
            words += [f"--{key}"] if value is True else [f"--{key}", value]
        return measure.program("gateway_load", *words)

    def metric(self, name):
        """Returns a metric of the gateway that has no labels."""
        with urllib.request.urlopen(f"http://{self.http}/metrics") as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        raise Failed(f"the gateway has no metric {name}")


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def summary(run):
    """Returns the figures of a load, with quantiles of its TTFT."""
    times = run.pop("ttft_us")
    run["n_ttft"] = len(times)
    for name, share in (("ttft_p50_us", 50), ("ttft_p99_us", 99)):
        run[name] = times[len(times) * share // 100] if times else 0
    return run


# ---- the runs ----

def open_streams(daemons, quick):
    """Memory of the gateway with 10,000 streams that receive two tokens a
    second; the prompt has 16 words."""
    n = 500 if quick else OPEN
    c = Cluster(daemons).fakes(n, OPEN_STEP_MS)
    f = summary(c.load("http", streams=n, tokens=400, ramp=2000, alphabet=True,
                       seconds=2 if quick else 15))
    grown = max(f["rss_open"], f["rss_end"]) - f["rss_before"]
    f["bytes_a_stream"] = grown / n
    return f


def all_receive(daemons, quick, step_ms):
    """1,000 streams at a token each step_ms."""
    n = 100 if quick else 1000
    c = Cluster(daemons).fakes(n, step_ms)
    f = summary(c.load("http", streams=n, tokens=400, alphabet=True, ramp=n,
                       seconds=2 if quick else 15))
    f["step_ms"] = step_ms
    f["cpu_us_a_event"] = f["cpu_s"] / f["events"] * 1e6
    if f["least_bytes"] == 0:
        raise Failed("a stream received nothing")
    return f


def beside_stalled(daemons, quick):
    """64 streams, alone and beside 200 stalled readers and 1,000 idle
    connections, in turn.  Steps of 10 ms."""
    c = Cluster(daemons).fakes(ROWS, 10, tokens=4096)
    beside = {"stalled": 20, "idle": 100} if quick else {"stalled": 200,
                                                         "idle": 1000}
    load = {"streams": 64, "tokens": 64, "alphabet": True,
            "seconds": 2 if quick else 20}
    slow = "sluice_gateway_slow_readers_total"
    alone, with_them = [], []
    for _ in range(1 if quick else 3):
        alone.append(summary(c.load("http", **load)))
        cancelled = c.metric(slow)
        with_them.append(summary(c.load("http", **load, **beside)))
        with_them[-1]["cancelled"] = c.metric(slow) - cancelled
    return {"alone": alone, "beside": with_them,
            "rate_ratio": ratio(with_them, alone, "text_bytes_s"),
            "ttft_ratio": ratio(with_them, alone, "ttft_p50_us"),
            "gap_ratio": ratio(with_them, alone,
                               lambda f: f["gap_us"]["p99"])}


def ratio(of, to, key):
    """Returns the median of the ratios of the rounds."""
    figure = key if callable(key) else lambda f: f[key]
    if not all(map(figure, to)):
        raise Failed(f"no {key} within a round")
    return median(figure(a) / figure(b) for a, b in zip(of, to))


def against_native(c, quick, check):
    """Alternating rounds over HTTP and over the native protocol, with equal
    prompts; their texts must be equal."""
    out = {}
    for streams in (1, 64):
        http, native = [], []
        load = {"streams": streams, "tokens": 16 if quick else 64,
                "words": 32, "seconds": 2 if quick else 8}
        for _ in range(1 if quick else 5):
            native.append(summary(c.load("native", **load, **check)))
            http.append(summary(c.load("http", **load, **check)))
            same_text(http[-1], native[-1])
        out[str(streams)] = {
            "native": native, "http": http,
            "ttft_ratio": ratio(http, native, "ttft_p50_us"),
            "rate_ratio": ratio(http, native, "text_bytes_s")}
    return out


def same_text(http, native):
    for key in ("text", "text_n", "n_prompt"):
        if http[key] != native[key]:
            raise Failed(f"{key} over HTTP is {http[key]}, over the native "
                         f"protocol {native[key]}")


def part_gateway(quick, _keep):
    figures = {}
    with two_cores():
        with measure.Daemons() as d:
            figures["open"] = open_streams(d, quick)
        with measure.Daemons() as d:
            figures["receive"] = all_receive(d, quick, 20)
        with measure.Daemons() as d:
            figures["flood"] = all_receive(d, quick, 0)
        with measure.Daemons() as d:
            figures["stalled"] = beside_stalled(d, quick)
        with measure.Daemons() as d:
            figures["real"] = against_native(Cluster(d).worker(), quick, {})
        with measure.Daemons() as d:
            figures["paced"] = against_native(
                Cluster(d).fakes(ROWS, 10), quick, {"alphabet": True})
    return figures


PARTS = {"gateway": part_gateway}
