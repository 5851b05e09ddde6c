"""Part of tests/bench/run: measures sluice on an OpenCL device, point by point
and through the daemons."""
import contextlib
import datetime
import json
import os
import subprocess
import time

import measure

# Names of configs; with "@N" all matrices have N bits (grid_bench --bits).
SHAPES = ("qwen3.5-0.8b", "qwen3.5-4b", "qwen3.5-9b", "qwen3.5-27b",
          "qwen3.5-35b-a3b", "qwen3.5-35b-a3b@4", "gpt-oss-20b")
POINTS = (*(f"decode:1024:{n}" for n in (1, 8, 32, 128)),
          *(f"decode:16384:{n}" for n in (1, 8, 32)),
          *(f"prefill:{n}" for n in (512, 4096, 16384)))
TINY = "tiny-hybrid"
QUICK = ("decode:48:1", "decode:48:3", "prefill:40")
PROGRAMS = ["device_bench", "grid_bench"]
SERVED, SERVED_TIMES = "qwen3.5-0.8b", 7
SERVED_PROMPT, SERVED_TOKENS = 160, 257  # at most as many steps as a point has
MANY = ("qwen3.5-9b", 128, 1024, 256)  # streams, prompt, tokens
STEPS = {"default steps": (), "steps of a CPU": ("--step-tokens", 512,
                                                 "--chunk-tokens", 256)}
CHOICES = 64  # the most of one request


class NoDevice(Exception):
    """There is no such device; the text gives the reason."""


def limits(device, quick):
    """Returns device_bench's figures of the device."""
    try:
        return measure.program("device_bench", "--device", device, "--seconds",
                               0.005 if quick else 0.1)
    except measure.Failed as e:
        if e.code == 2:
            raise NoDevice(e.said) from e
        raise


def config(shape):
    if shape == TINY:
        return os.path.join(measure.TINY, "config.json")
    return os.path.join(measure.CONFIGS, shape.split("@")[0] + ".json")


def bits(shape):
    """Returns the options of grid_bench for the bits in a shape's name."""
    return ["--bits", shape.split("@")[1]] if "@" in shape else []


def read_points(path, device):
    """Reads the points of an earlier run; none if there is no such file.
    Drops half a line at its end."""
    try:
        with open(path, "r+", encoding="utf-8") as f:
            whole = [line for line in f.readlines() if line.endswith("\n")]
            f.seek(0)
            f.truncate(len("".join(whole).encode()))
    except FileNotFoundError:
        return []
    rows = [json.loads(line) for line in whole]
    others = {row["device"] for row in rows} - {device}
    if others:
        raise measure.Failed(f"{path} has points of {', '.join(others)}, and "
                             f"this is {device}")
    return rows


def figures_of(row, shape, found):
    """Adds shares of the limits to a line of grid_bench."""
    row = {"shape": shape, **row, "device": found["device"],
           "commit": measure.commit(),
           "when": datetime.datetime.now(datetime.timezone.utc).isoformat(
               timespec="seconds")}
    if "skipped" in row:
        return row
    row["read_bandwidth"], row["matrix"] = (found["read_bandwidth"],
                                            found["matrix"])
    row["flops_share"] = row["flops"] / row["step_s"] / found["matrix"]
    if row["point"].startswith("decode"):
        row["bytes_share"] = (row["bytes"] / row["step_s"] /
                              found["read_bandwidth"])
    return row


def text_of(row):
    name = row["point"].replace("decode:", "decode ").replace("prefill:",
                                                              "prefill ")
    name = f"{row['shape']:17s} {name.replace(':', ' x '):18s}"
    if "skipped" in row:
        return f"{name} skipped: {row['skipped']}"
    of = [f"{row['flops_share']:.2f} of the matrix rate"]
    if "bytes_share" in row:
        of.insert(0, f"{row['bytes_share']:.2f} of the read bandwidth")
    return (f"{name} {row['tok_s']:12,.1f} tok/s {1e3 * row['step_s']:10.3f} "
            f"ms  {', '.join(of)}")


def run_shape(shape, points, device, quick):
    """Yields the lines of grid_bench as they arrive."""
    command = [os.path.join(measure.BIN, "grid_bench"), "--device", device,
               "--seconds", "0" if quick else "0.5", *bits(shape),
               config(shape), *points]
    with subprocess.Popen(command, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as p:
        yield from map(json.loads, p.stdout)
        said = p.stderr.read().strip()
    if p.returncode == 2:
        raise NoDevice(said)
    if p.returncode != 0:
        raise measure.Failed(f"grid_bench: exit code {p.returncode}: {said}")


def run_grid(shapes, device, quick, path):
    """Measures all points that are missing, and saves each when it is done."""
    began = time.monotonic()
    found = limits(device, quick)
    print(limits_text(found))
    rows = read_points(path, found["device"]) if path else []
    have = {(row["shape"], row["point"]) for row in rows}
    failed = {}
    for row in rows:
        print(text_of(row), " (before)")
    for shape in shapes:
        points = [p for p in (QUICK if quick else POINTS)
                  if (shape, p) not in have]
        try:
            for line in run_shape(shape, points, device, quick) \
                    if points else ():
                rows.append(figures_of(line, shape, found))
                print(text_of(rows[-1]), flush=True)
                if path:
                    append(path, rows[-1])
        except measure.Failed as e:
            failed[shape] = str(e)
    return {"limits": found, "points": rows,
            "took_s": round(time.monotonic() - began, 1)}, failed


def append(path, row):
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(row) + "\n")


def limits_text(found):
    rates = ", ".join(f"{v / 1e12:.3g} TFLOP/s {k.replace('_', ' ')}"
                      for k, v in found["rates"].items())
    return (f"{found['device']} ({found['units']} units, "
            f"{found['memory_bytes'] / 1e9:.1f} GB, driver {found['driver']}): "
            f"reads {found['read_bandwidth'] / 1e9:,.0f} GB/s; {rates}")


# ---- through the daemons ----

def ctl(clients, *words):
    """Returns the last object that sluicectl prints."""
    p = subprocess.run([os.path.join(measure.BIN, "sluicectl"), *words,
                        "--json", "--router", clients],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, check=False)
    if p.returncode != 0:
        raise measure.Failed(f"sluicectl: {p.stdout}{p.stderr}")
    return json.loads(p.stdout.splitlines()[-1])


def generate(clients, prompt, tokens, batch):
    """Returns tokens/s after the first token, at a client."""
    ids = " ".join(str(1 + 7 * i) for i in range(prompt))
    end = ctl(clients, "generate", "--ids", "--ignore-eos", "--temperature",
              "0", "--n", str(batch), "--max-tokens", str(tokens), ids)
    return sum(1e6 * (c["n_generated"] - 1) /
               (c["client_total_us"] - c["client_first_token_us"])
               for c in end["choices"])


def served(model, device, depth, load):
    """Measures with this many plans in flight; load: prompt, tokens, batch,
    times."""
    *sizes, times = load
    with measure.Daemons() as d:
        _p, workers, clients = measure.router(d)
        d.start("sluice-worker", "--model", model, "--router", workers,
                "--device", device, "--engine-depth", depth,
                "--context", 1024)
        measure.await_workers(clients, 1)
        got = [generate(clients, *sizes) for _ in range(times)]
        step = ctl(clients, "workers")["workers"][0]["step_us"]
    return {"tok_s": sorted(got)[len(got) // 2], "all": got, "step_us": step}


def run_served(device, quick, keep):
    """Measures one shape, bare and through router and wire, in one run."""
    shape, prompt, tokens, times = (
        (TINY, 8, 6, 1) if quick else
        (SERVED, SERVED_PROMPT, SERVED_TOKENS, SERVED_TIMES))
    batches = (1,) if quick else (1, 8)
    rows = run_shape(shape, [f"decode:{prompt}:{n}" for n in batches], device,
                     quick)
    bare = {n: row["tok_s"] for n, row in zip(batches, list(rows))}
    figures = {"shape": shape, "prompt": prompt, "tokens": tokens}
    of = (contextlib.nullcontext(measure.TINY) if quick else
          measure.model_of(shape, keep))
    with of as model:
        for depth in (1, 2):
            for n in batches:
                one = served(model, device, depth, (prompt, tokens, n, times))
                one.update(bare_tok_s=bare[n], ratio=one["tok_s"] / bare[n])
                figures[f"depth {depth}, batch {n}"] = one
    return figures


def served_text(figures):
    for name, one in figures.items():
        if isinstance(one, dict):
            yield (f"{figures['shape']:13s} served, {name}: "
                   f"{one['tok_s']:,.1f} tok/s, {one['ratio']:.3f} of the bare "
                   f"engine's {one['bare_tok_s']:,.1f}; a step "
                   f"{one['step_us']} us")


def output_rate(clients, streams, prompt, tokens):
    """Returns output tokens/s of that many streams that start together, from
    the first request to the last token."""
    ids = " ".join(str(1 + 7 * i % 4000) for i in range(prompt))
    began, running = time.monotonic(), []
    while streams > 0:
        n = min(streams, CHOICES)
        streams -= n
        running.append(subprocess.Popen(
            [os.path.join(measure.BIN, "sluicectl"), "generate", "--ids",
             "--ignore-eos", "--quiet", "--n", str(n), "--max-tokens",
             str(tokens), "--json", "--router", clients, ids],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    ends = [json.loads(p.communicate()[0].splitlines()[-1]) for p in running]
    took = time.monotonic() - began
    return sum(c["n_generated"] for end in ends
               for c in end["choices"]) / took


def run_many(device, quick, keep):
    """Measures many streams at once, with the defaults of the device and with
    those of a CPU.  The first load of each worker warms it up."""
    shape, streams, prompt, tokens = (TINY, 6, 40, 4) if quick else MANY
    figures = {"shape": shape, "streams": streams, "prompt": prompt,
               "tokens": tokens}
    limits(device, True)  # raises NoDevice before a model is written
    of = (contextlib.nullcontext(measure.TINY) if quick else
          measure.model_of(shape, keep))
    with of as model:
        for name, steps in STEPS.items():
            with measure.Daemons() as d:
                _p, workers, clients = measure.router(d)
                _p, line = d.start("sluice-worker", "--model", model,
                                   "--router", workers, "--device", device,
                                   "--max-rows", streams, *steps)
                measure.await_workers(clients, 1)
                output_rate(clients, streams, prompt, tokens)
                figures[name] = {"tok_s": output_rate(clients, streams, prompt,
                                                      tokens),
                                 "ready": line.strip()}
    return figures


def many_text(figures):
    for name in STEPS:
        one = figures[name]
        yield (f"{figures['shape']:13s} {figures['streams']} streams of "
               f"{figures['prompt']} in and {figures['tokens']} out, {name}: "
               f"{one['tok_s']:,.0f} output tok/s; {one['ready']}")
