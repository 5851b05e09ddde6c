"""The table, the targets and the verdict of tests/bench/run."""

MODELS = ("tiny-hybrid", "qwen3.5-0.8b", "qwen3.5-0.8b-q8", "qwen3.5-0.8b-q4",
          "qwen3-0.6b")
BUSY = 0.5  # with a higher load average before the start, figures mean little


def at(figures, *path):
    """Returns figures[a][b]..., or None if there is no such figure."""
    for key in path:
        try:
            figures = figures[key]
        except (KeyError, IndexError, TypeError):
            return None
    return figures


def decode(figures, model, batch, field):
    for row in at(figures, model, "decode") or []:
        if row["batch"] == batch:
            return row[field]
    return None


def batching(figures, model):
    one = decode(figures, model, 1, "tok_s")
    many = decode(figures, model, 16, "tok_s")
    return many / one if one and many else None


# name, its figure, target, at least (+1) or at most (-1)
TARGETS = (
    ("decode at batch 1, qwen3.5-0.8b, share of the bandwidth",
     lambda f: decode(f, "qwen3.5-0.8b", 1, "share"), 0.7, 1),
    ("decode at batch 1, qwen3.5-0.8b of 8 bits, share of the bandwidth",
     lambda f: decode(f, "qwen3.5-0.8b-q8", 1, "share"), 0.45, 1),
    ("decode at batch 1, qwen3.5-0.8b of 4 bits, share of the bandwidth",
     lambda f: decode(f, "qwen3.5-0.8b-q4", 1, "share"), 0.4, 1),
    ("prefill of 512, qwen3.5-0.8b, share of the f32 rate",
     lambda f: at(f, "qwen3.5-0.8b", "prefill", 1, "share"), 0.5, 1),
    ("prefill of 512, qwen3-0.6b, share of the f32 rate",
     lambda f: at(f, "qwen3-0.6b", "prefill", 1, "share"), 0.5, 1),
    ("batch 16 over batch 1, qwen3.5-0.8b",
     lambda f: batching(f, "qwen3.5-0.8b"), 5, 1),
    ("router, token events a second",
     lambda f: at(f, "router", "events_s"), 300000, 1),
    ("unary call over the raw broker, p50",
     lambda f: at(f, "unary", "p50_ratio"), 1.3, -1),
    ("gateway, bytes of memory for each of 10,000 streams",
     lambda f: at(f, "gateway", "open", "bytes_a_stream"), 24576, -1),
    ("64 streams beside stalled readers over alone, rate",
     lambda f: at(f, "gateway", "stalled", "rate_ratio"), 0.98, 1),
    ("64 streams beside stalled readers over alone, TTFT",
     lambda f: at(f, "gateway", "stalled", "ttft_ratio"), 1.05, -1),
    ("gateway over native, TTFT, 1 stream",
     lambda f: at(f, "gateway", "real", "1", "ttft_ratio"), 1.1, -1),
    ("gateway over native, TTFT, 64 streams",
     lambda f: at(f, "gateway", "real", "64", "ttft_ratio"), 1.1, -1),
    ("gateway over native, token rate, 1 stream",
     lambda f: at(f, "gateway", "real", "1", "rate_ratio"), 0.95, 1),
    ("gateway over native, token rate, 64 streams",
     lambda f: at(f, "gateway", "real", "64", "rate_ratio"), 0.95, 1),
    ("sluice-load, largest difference of a percentile of the server's",
     lambda f: at(f, "load", "accuracy", "worst"), 0.01, -1),
    ("sluice-load, lag p99 at 20,000 requests/s, ms",
     lambda f: at(f, "load", "rate", "lag_p99_ms"), 1.0, -1),
    ("sluice-load, lag p99 with prompts of 50,000 tokens, ms",
     lambda f: at(f, "load", "streams", "lag_p99_ms"), 1.0, -1),
    ("hit rate of 128 sessions over that of an unlimited pool",
     lambda f: at(f, "reuse", "sessions", "share"), 0.98, 1),
    ("TTFT of a repeated prompt of 4,096 tokens over a new one",
     lambda f: at(f, "reuse", "ttft", "warm_share"), 0.1, -1),
    ("TTFT of a new prompt with the index over without",
     lambda f: at(f, "reuse", "ttft", "no_hit_cost"), 1.01, -1),
    ("goodput of --admission expected over strict admission, overloaded",
     lambda f: at(f, "overload", "goodput"), 1.2, 1),
    ("share of tokens computed again with --admission expected, overloaded",
     lambda f: at(f, "overload", "wasted"), 0.05, -1),
    ("three stages, share of the time that the idlest is busy",
     lambda f: at(f, "stages", "busy", "least"), 0.85, 1),
    ("decode of two stages over one worker, qwen3.5-0.8b",
     lambda f: at(f, "stages", "ratio"), 0.9, 1),
    ("decode through the daemons over the bare engine, on a device, batch 1",
     lambda f: at(f, "serve-device", "depth 2, batch 1", "ratio"), 0.9, 1),
)


def targets(figures):
    out = []
    for name, figure, wanted, sign in TARGETS:
        got = figure(figures)
        if got is not None:
            out.append({"name": name, "wanted": wanted,
                        "at_least": sign > 0, "got": round(got, 4),
                        "met": sign * got >= sign * wanted})
    return out


# ---- the table: (name, unit, path of the figure) ----

def machine_rows():
    for key, what in (("read_bandwidth", "read bandwidth"),
                      ("f32", "f32 rate"), ("int8", "int8 rate")):
        unit = "GB/s" if key == "read_bandwidth" else "GOP/s"
        for i, threads in enumerate(("one thread", "all threads")):
            yield (f"{what}, {threads}", unit,
                   lambda f, k=key, i=i: giga(at(f, "machine", k, i)))


def giga(v):
    return None if v is None else v / 1e9


def model_rows(model):
    for i in range(2):
        yield (f"{model}: prefill {'short' if i == 0 else '512'}", "tok/s",
               lambda f, i=i: at(f, model, "prefill", i, "tok_s"))
        yield ("  of the f32 rate", "",
               lambda f, i=i: at(f, model, "prefill", i, "share"))
    for batch in (1, 4, 8, 16, 32):
        yield (f"{model}: decode, batch {batch}", "tok/s",
               lambda f, b=batch: decode(f, model, b, "tok_s"))
        yield ("  of the read bandwidth", "",
               lambda f, b=batch: decode(f, model, b, "share"))


def field(part, name):
    return lambda f: at(f, part, *name.split("."))


def other_rows():
    yield "router: token events", "/s", field("router", "events_s")
    yield ("  a second of its processor", "/s",
           field("router", "events_a_cpu_s"))
    for who in ("sluice", "raw"):
        for p in ("p50", "p99"):
            yield (f"unary: {who}, {p}", "us",
                   field("unary", f"{who}.{p}_us"))
    yield "  p50 over the raw broker's", "", field("unary", "p50_ratio")
    yield "  p99 over the raw broker's", "", field("unary", "p99_ratio")
    for key, what in (("join_us", "join to first token"),
                      ("cancel_us", "cancel to receipt"),
                      ("free_us", "cancel to free, at the worker"),
                      ("step_us", "a step")):
        for p in ("p50", "p99", "max"):
            yield f"serve: {what}, {p}", "us", field("serve", f"{key}.{p}")


def gateway_rows():
    yield ("gateway: memory a stream, 10,000 open", "bytes",
           field("gateway", "open.bytes_a_stream"))
    for run, what in (("receive", "1,000 streams, steps of 20 ms"),
                      ("flood", "1,000 streams, no pause")):
        yield (f"gateway: {what}", "tok/s",
               field("gateway", f"{run}.text_bytes_s"))
        yield ("  its processor time an event", "us",
               field("gateway", f"{run}.cpu_us_a_event"))
        yield "  gap, p99", "us", field("gateway", f"{run}.gap_us.p99")
    for name, what in (("rate_ratio", "token rate"), ("ttft_ratio", "TTFT"),
                       ("gap_ratio", "gap, p99")):
        yield (f"gateway: beside stalled over alone, {what}", "",
               field("gateway", f"stalled.{name}"))
    for run, what in (("real", "tiny-hybrid"), ("paced", "steps of 10 ms")):
        for n in ("1", "64"):
            yield from against_rows(run, n, f"gateway: {what}, {n}")


def against_rows(run, n, what):
    path = f"{run}.{n}"
    for side in ("native", "http"):
        yield (f"{what}, {side}, TTFT p50", "us",
               lambda f, s=side: middle(f, run, n, s, "ttft_p50_us"))
    yield "  ratio", "", field("gateway", f"{path}.ttft_ratio")
    for side in ("native", "http"):
        yield (f"{what}, {side}, text", "B/s",
               lambda f, s=side: middle(f, run, n, s, "text_bytes_s"))
    yield "  ratio", "", field("gateway", f"{path}.rate_ratio")


def middle(figures, run, n, side, key):
    """Returns the median over the rounds."""
    rounds = at(figures, "gateway", run, n, side)
    if not rounds:
        return None
    return sorted(r[key] for r in rounds)[len(rounds) // 2]


def stage_rows():
    yield ("stages: least busy of three", "", field("stages", "busy.least"))
    for i in range(2):
        yield (f"stages: one worker, round {i + 1}", "tok/s",
               lambda f, i=i: at(f, "stages", "one", i))
        yield (f"stages: two stages, round {i + 1}", "tok/s",
               lambda f, i=i: at(f, "stages", "two", i))
    yield "  two stages over one worker", "", field("stages", "ratio")


def load_rows():
    for q, what in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")):
        yield (f"load: TTFT {what} over the server's own", "",
               field("load", f"accuracy.{q}.ratio"))
    for run, what in (("rate", "small requests"),
                      ("streams", "prompts of 50,000 tokens")):
        yield (f"load: {what}", "/s", field("load", f"{run}.requests_s"))
        yield "  lag, p99", "ms", field("load", f"{run}.lag_p99_ms")


def reuse_rows():
    for key, what in (("unlimited", "unlimited pool"),
                      ("limited", "room for 512 states")):
        yield (f"reuse: sessions, tokens reused, {what}", "",
               field("reuse", f"sessions.{key}"))
    for key, what in (("reuse", "trace"), ("no_reuse", "trace, --no-reuse")):
        yield (f"reuse: {what}, tokens reused", "",
               field("reuse", f"trace.{key}.hit_rate"))
        for q in ("mean", "p50", "p99"):
            yield (f"  TTFT, {q}", "ms",
                   field("reuse", f"trace.{key}.ttft_ms.{q}"))
    for key, what in (("cold_ms", "new"), ("warm_ms", "repeated"),
                      ("no_cache_ms", "without the index")):
        yield (f"reuse: TTFT of a long prompt, {what}", "ms",
               field("reuse", f"ttft.{key}"))
    yield "  repeated over new", "", field("reuse", "ttft.warm_share")
    yield "  new over without the index", "", field("reuse",
                                                    "ttft.no_hit_cost")


def overload_rows():
    for way in ("strict", "expected"):
        yield (f"overload: {way}, output tokens", "/s",
               field("overload", f"{way}.tokens_s"))
        yield "  suspensions", "", field("overload", f"{way}.suspended")
        yield "  computed again", "", field("overload", f"{way}.wasted")
    yield "  expected over strict", "", field("overload", "goodput")


def rows():
    yield from machine_rows()
    for model in MODELS:
        yield from model_rows(model)
    yield from other_rows()
    yield from gateway_rows()
    yield from load_rows()
    yield from stage_rows()
    yield from reuse_rows()
    yield from overload_rows()


def number(v):
    if v >= 1000:
        return f"{v:,.0f}"
    return f"{v:.1f}" if v >= 10 else f"{v:.3f}"


def table(figures, earlier):
    print(f"\n{figures['commit']}, {figures['when']}, {figures['cpu']}, "
          f"{figures['threads']} threads, load {figures['load_before']:.2f} "
          f"before{', quick' if figures['quick'] else ''}")
    if earlier:
        print(f"ratio: to {earlier['commit']}, {earlier['when']}, load "
              f"{earlier['load_before']:.2f} before"
              f"{', quick' if earlier['quick'] else ''}")
    for name, unit, figure in rows():
        now = figure(figures)
        if now is None:
            continue
        then = figure(earlier) if earlier else None
        ratio = f"  x {now / then:.3f}" if then else ""
        print(f"{name:44s} {number(now):>12s} {unit:6s}{ratio}")
    for part in ("join_us", "cancel_us", "free_us"):
        histogram(part, at(figures, "serve", part, "histogram"))
    print()
    say_targets(figures)


def say_targets(figures):
    for t in figures["targets"]:
        print(f"{'met   ' if t['met'] else 'MISSED'}  {t['name']}: "
              f"{number(t['got'])}, wanted {'>=' if t['at_least'] else '<='} "
              f"{number(t['wanted'])}")


def histogram(name, bars):
    if not bars:
        return
    most = max(n for _bound, n in bars)
    print(f"\n{name}, up to:")
    for bound, n in bars:
        print(f"{bound:>12,.0f} {n:6d} {'#' * round(50 * n / most)}")


def verdict(figures, failed):
    met = [t for t in figures["targets"] if t["met"]]
    missed = [t["name"] for t in figures["targets"] if not t["met"]]
    notes = []
    if figures["load_before"] > BUSY:
        notes.append(f"load was {figures['load_before']:.2f} before: the "
                     "figures mean little")
    if figures["quick"]:
        notes.append("quick: the figures are rough")
    note = f" ({'; '.join(notes)})" if notes else ""
    if failed:
        what = "; ".join(f"{part}: {why}" for part, why in failed.items())
        return f"bench: FAILED: {what}{note}"
    of = f"{len(met)} of {len(figures['targets'])} targets met"
    if missed:
        return f"bench: {of}; missed: {'; '.join(missed)}{note}"
    return f"bench: {of}{note}"
