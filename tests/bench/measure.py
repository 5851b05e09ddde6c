"""The parts of tests/bench/run: each runs programs of build/release and returns
their figures, as docs/speed.md lists them."""
import contextlib
import datetime
import json
import os
import shutil
import subprocess
import tempfile
import time

FORMAT = 2
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILT = os.environ.get("SLUICE_BIN")  # a folder of existing programs
BIN = BUILT or os.path.join(ROOT, "build", "release", "bin")
TINY = os.path.join(ROOT, "models", "tiny-hybrid")
CONFIGS = os.path.join(ROOT, "tests", "vectors", "configs")
PROGRAMS = ["machine_bench", "device_bench", "kernels_bench", "grid_bench",
            "mkmodel", "fake_workers", "sleeping_workers", "schedule_load",
            "stream_clients", "unary_bench", "serve_bench", "replica_bench",
            "replica_speed", "gateway_load", "sluice-router", "sluice-worker",
            "sluice-gateway", "sluicectl", "sluice-load", "fake_server"]
LIMIT_S = 1800  # no program takes longer
# The files of an installed sluice are not for measurements.
for role in ("ROUTER", "GATEWAY", "WORKER"):
    os.environ[f"SLUICE_{role}_CONFIG"] = "none"


class Failed(Exception):
    """A part could not be measured; the text gives the reason.  For a program
    that failed: its exit code and its output."""

    def __init__(self, text, code=0, said=""):
        super().__init__(text)
        self.code, self.said = code, said


def program(name, *words):
    """Runs a program of the build; returns its output, parsed as JSON."""
    try:
        p = subprocess.run([os.path.join(BIN, name), *map(str, words)],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as e:
        raise Failed(f"{name} took over {LIMIT_S} s") from e
    if p.returncode != 0:
        raise Failed(f"{name}: exit code {p.returncode}: {p.stderr.strip()}",
                     p.returncode, p.stderr.strip())
    if not p.stdout.lstrip().startswith("{"):
        return {}
    return json.loads(p.stdout)


def build():
    """Builds; prints nothing unless the build fails."""
    if BUILT:
        return
    log = os.path.join(ROOT, "build", "bench.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "w", encoding="utf-8") as f:
        if subprocess.run([os.path.join(ROOT, "cmake", "build"), "-j", "2",
                           "release", *PROGRAMS], stdout=f, stderr=f,
                          check=False).returncode != 0:
            raise Failed(f"the build failed; all of it is in {log}")


# ---- the machine and the forward pass ----

def part_machine(_quick, _keep):
    return program("machine_bench")


def forward(model, quick):
    words = ["--prompt", 32, "--steps", 1] if quick else []
    return program("kernels_bench", "--json", *words, model)


def part_tiny(quick, _keep):
    return forward(TINY, quick)


@contextlib.contextmanager
def model_of(name, keep, bits=0):
    """Makes a directory with random weights in the shape of a published model,
    quantised to `bits` if that is not 0, else bf16; deleted after the run
    unless --keep names a folder."""
    config = os.path.join(CONFIGS, name + ".json")
    where = keep or tempfile.mkdtemp(prefix="sluice-bench.")
    path = os.path.join(where, f"{name}-q{bits}" if bits else name)
    try:
        if not os.path.exists(os.path.join(path, "model.safetensors")):
            os.makedirs(where, exist_ok=True)
            program("mkmodel", config, path, "--dtype", "bf16",
                    *(["--bits", bits] if bits else []))
        yield path
    finally:
        if not keep:
            shutil.rmtree(where, ignore_errors=True)


def of_shape(name, bits=0):
    def part(quick, keep):
        with model_of(name, keep, bits) as path:
            return forward(path, quick)
    return part


# ---- daemons ----

class Daemons:
    """Programs that run in the background; each is stopped at the end, and its
    stderr is shown if it ended early."""

    def __init__(self):
        self.running = []
        self.log = tempfile.TemporaryFile(mode="w+")

    def start(self, name, *words, two_cores=False):
        """Starts a program; waits for its line if it prints one when ready."""
        pipe = name.startswith("sluice-")
        p = subprocess.Popen([os.path.join(BIN, name), *map(str, words)],
                             stdout=subprocess.PIPE if pipe else None,
                             stderr=self.log, text=True)
        self.running.append((name, p))
        if two_cores:
            os.sched_setaffinity(p.pid, sorted(os.sched_getaffinity(0))[:2])
        line = p.stdout.readline() if pipe else ""
        while pipe and " waiting for the router: " in line:
            line = p.stdout.readline()
        if pipe and " ready" not in line:
            raise Failed(f"{name} did not get ready: {self.said()}")
        return p, line

    def said(self):
        self.log.seek(0)
        return self.log.read()[-2000:]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        for _name, p in reversed(self.running):
            p.terminate()
        for name, p in reversed(self.running):
            try:
                p.wait(timeout=20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                raise Failed(f"{name} did not stop") from None
        self.log.close()


def router(daemons, *more):
    """Starts a router on free ports of loopback TCP, with more arguments;
    returns the process and its endpoints for workers and for clients."""
    p, line = daemons.start("sluice-router", "--workers", "tcp://127.0.0.1:0",
                            "--clients", "tcp://127.0.0.1:0",
                            "--log-level", "error", *more, two_cores=True)
    words = line.replace(",", "").split()
    return p, words[words.index("workers") + 1], words[
        words.index("clients") + 1]


def await_workers(clients, n):
    """Waits until n workers are connected."""
    for _ in range(200):
        p = subprocess.run([os.path.join(BIN, "sluicectl"), "workers",
                            "--json", "--router", clients],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, check=False)
        if p.returncode == 0 and len(json.loads(p.stdout)["workers"]) >= n:
            return
        time.sleep(0.1)
    raise Failed(f"{n} workers did not join")


def part_router(quick, _keep):
    with Daemons() as d:
        p, workers, clients = router(d)
        d.start("fake_workers", workers, 8, 32, 4096)
        await_workers(clients, 8)
        figures = program("stream_clients", clients, 16, 256,
                          2 if quick else 10, p.pid)
    figures.update(workers=8, rows_a_step=32)
    return figures


def part_unary(quick, _keep):
    with Daemons() as d:
        _p, workers, clients = router(d)
        d.start("fake_workers", workers, 1, 2, 64)
        await_workers(clients, 1)
        return program("unary_bench", clients, 7, 500 if quick else 20000)


def part_serve(quick, _keep):
    with Daemons() as d:
        _p, workers, clients = router(d)
        d.start("sluice-worker", "--model", TINY, "--router", workers)
        await_workers(clients, 1)
        raw = program("serve_bench", clients, 8, 40 if quick else 400)
    figures = {"background": raw["background"], "probes": len(raw["join_us"])}
    for key in ("join_us", "cancel_us", "free_us", "step_us"):
        figures[key] = distribution(raw[key])
    return figures


def part_stages(quick, keep):
    """Measures how busy three stages are; then two stages of one thread, cut by
    `plan`, and one worker of two threads, in turn, 16 rows a microbatch."""
    figures = {"busy": program("replica_bench", "--json"), "one": [],
               "two": []}
    with model_of("qwen3.5-0.8b", keep) as model:
        plan = program("sluicectl", "plan", model, "--json", "--workers",
                       "a=64GiB,b=64GiB")
        figures["cut"] = plan["stages"][0]["layer_end"]
        load = ["--sequences", 2 if quick else 32, "--prompt", 32, "--json"]
        for _ in range(1 if quick else 2):
            figures["one"].append(program(
                "replica_speed", model, "--threads", 2, *load)["tok_s"])
            figures["two"].append(program(
                "replica_speed", model, "--threads", 1, "--cuts",
                figures["cut"], *load)["tok_s"])
    figures["ratio"] = sum(figures["two"]) / sum(figures["one"])
    return figures


def distribution(values):
    """Returns p50, p99, max, and a histogram: [upper bound, count] with two
    bars a doubling."""
    values = sorted(values)
    bars, at, bound = [], 0, 1.0
    while at < len(values):
        n = 0
        while at < len(values) and values[at] <= bound:
            at, n = at + 1, n + 1
        if n or bars:
            bars.append([round(bound), n])
        bound *= 2 ** 0.5
    return {"p50": values[len(values) // 2],
            "p99": values[len(values) * 99 // 100],
            "max": values[-1], "histogram": bars}


PARTS = {"machine": part_machine, "tiny-hybrid": part_tiny,
         "qwen3.5-0.8b": of_shape("qwen3.5-0.8b"),
         "qwen3.5-0.8b-q8": of_shape("qwen3.5-0.8b", 8),
         "qwen3.5-0.8b-q4": of_shape("qwen3.5-0.8b", 4),
         "qwen3-0.6b": of_shape("qwen3-0.6b"),
         "router": part_router, "unary": part_unary, "serve": part_serve,
         "stages": part_stages}


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown"


def commit():
    p = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                       text=True, check=False)
    return p.stdout.strip() or "unknown"


def start(quick):
    """Returns the fields of every run, with failures as {part: reason}."""
    figures = {"sluice_bench": FORMAT, "quick": quick, "commit": commit(),
               "when": datetime.datetime.now(datetime.timezone.utc).isoformat(
                   timespec="seconds"),
               "cpu": cpu_name(), "threads": len(os.sched_getaffinity(0)),
               "load_before": os.getloadavg()[0]}
    try:
        build()
    except Failed as e:
        return figures, {"build": str(e)}
    return figures, {}


def run(parts, quick, keep):
    """Returns all figures, and the failures."""
    figures, failed = start(quick)
    for part in [] if failed else parts:
        print(f"tests/bench/run: {part} ...", flush=True)
        try:
            figures[part] = PARTS[part](quick, keep)
        except Failed as e:
            failed[part] = str(e)
    return figures, failed
