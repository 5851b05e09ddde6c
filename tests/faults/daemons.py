"""A cluster of real daemons, and their logs."""
import calendar
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "models", "tiny-hybrid")
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
POLL_S = 0.002
PATIENCE_S = int(os.environ.get("SLUICE_PATIENCE", "300"))  # tests/patience

# The files of an installed sluice are not for tests.
for role in ("ROUTER", "GATEWAY", "WORKER"):
    os.environ[f"SLUICE_{role}_CONFIG"] = "none"

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{3})Z "
                  r"(\w+) (\S+) ?(.*)")
FIELD = re.compile(r'(\w+)=("[^"]*"|\S+)')


class Failed(Exception):
    """An expected event did not happen; the text names the event."""


def built():
    """Builds build/release and returns the folder."""
    targets = [p + "-failpoints" for p in ("sluice-router", "sluice-worker",
                                           "sluicectl")]
    p = subprocess.run([os.path.join(ROOT, "cmake", "build"), "release",
                        "sluice-router", "sluice-worker", "sluice-gateway",
                        "sluicectl", "chaos", "rogue", "fault_load",
                        "clock_shim", "storm_shim", *targets],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False)
    if p.returncode != 0:
        raise Failed("the build failed: " + p.stdout[-2000:])
    return os.path.join(ROOT, "build", "release")


def await_true(what, ask, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while True:
        value = ask()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(POLL_S)


class Event:
    """A line of a log: its wall-clock time, its name, its fields."""

    def __init__(self, match):
        self.at = (calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S"))
                   + int(match[2]) / 1000)
        self.level, self.name, self.rest = match[3], match[4], match[5]
        self.fields = {k: v.strip('"') for k, v in FIELD.findall(match[5])}

    def __str__(self):
        return f"{self.level} {self.name} {self.rest}"


class Log:
    """Standard error of a daemon, read as it grows."""

    def __init__(self, path):
        self.path, self.events, self.strange = path, [], []
        self.file = open(path, "rb")
        self.part = b""

    def read(self):
        if self.file.closed:
            return self
        data = self.part + self.file.read()
        *lines, self.part = data.split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")
            match = LINE.fullmatch(text)
            if match:
                self.events.append(Event(match))
            else:
                self.strange.append(text)
        return self

    def mark(self):
        return len(self.read().events)

    def find(self, since, names, **fields):
        for event in self.read().events[since:]:
            if event.name in names and all(
                    event.fields.get(k) == v for k, v in fields.items()):
                return event
        return None

    def close(self):
        self.file.close()


def on_start(limits, when_we_go=signal.SIGKILL):
    """Returns a function for the child: it ends when this process ends."""
    def run():
        LIBC.prctl(PR_SET_PDEATHSIG, when_we_go)
        os.setsid()
        for limit, value in limits:
            import resource
            resource.setrlimit(limit, value)
    return run


class Daemon:
    """A process with its log."""

    def __init__(self, name, words, folder, number, env=None, stderr=None,
                 limits=()):
        self.name, self.words = name, words
        self.path = os.path.join(folder, f"{name}.{number}.log")
        with open(self.path, "wb") as log, open(os.devnull, "rb") as none:
            self.out = open(os.path.join(folder, f"{name}.{number}.out"), "wb")
            self.process = subprocess.Popen(
                words, stdin=none, stdout=self.out, stderr=stderr or log,
                env={**os.environ, **(env or {})},
                preexec_fn=on_start(limits))
        self.out.close()
        self.log = Log(self.path)
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds=PATIENCE_S):
        """Returns the exit code, or minus the number of a signal."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not exit within {seconds} s") \
                from None

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait()
        self.log.read().close()

    def files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def status(self, field):
        """Returns a number of /proc/PID/status, a count or kB."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        return 0


def free_port(rng):
    """Returns a port below the kernel's ephemeral range, so that it is still
    free when a killed daemon is started again."""
    while True:
        port = rng.randrange(12000, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Cluster:
    """A router and workers; each start of a daemon has a log of its own.
    Without a network (hosts.py) and keys all are on this host."""

    def __init__(self, build, folder, rng, router_args=(), worker_args=(),
                 network=None, keys=None):
        self.network, self.keys = network, keys
        self.env = {**os.environ, **(keys.environment() if keys else {})}
        self.build, self.folder = build, folder
        self.router_args, self.worker_args = router_args, worker_args
        self.workers_at = f"tcp://127.0.0.1:{free_port(rng)}"
        self.clients_at = f"tcp://127.0.0.1:{free_port(rng)}"
        if network:
            at = network.address("router")
            self.workers_at = f"tcp://{at}:7070"
            self.clients_at = f"tcp://{at}:7071"
        self.router, self.workers = None, {}
        self.others = []  # daemons outside the rounds
        self.ended = []  # ended daemons, for their logs
        self.started = 0

    def program(self, name, failpoints=False):
        return os.path.join(self.build, "tests" if failpoints else "bin", name)

    def on_host(self, name):
        """Returns the words before a command that runs on a host."""
        return self.network.host(name) if self.network else []

    def key_of(self, name):
        return self.keys.words(name) if self.keys else []

    def daemon(self, name, words, **options):
        self.started += 1
        return Daemon(name, words, self.folder, self.started, **options)

    # ---- the router ----

    def start_router(self, failpoints=None, args=(), **options):
        words = [*self.on_host("router"),
                 self.program("sluice-router", failpoints), "--workers",
                 self.workers_at, "--clients", self.clients_at, "--model",
                 f"tiny-hybrid={MODEL}", "--log-level", "info",
                 *self.key_of("router"), *self.router_args, *args]
        if failpoints:
            options["env"] = {"SLUICE_FAILPOINTS": failpoints}
        self.router = self.daemon("router", words, **options)
        out = self.router.path[:-4] + ".out"
        await_true("the router is ready", lambda: os.path.getsize(out) > 0
                   or not self.router.alive())
        if not self.router.alive():
            raise Failed("the router did not start: " + tail(self.router))

    def router_gone(self):
        self.ended.append(self.router)
        self.router.kill()

    # ---- workers ----

    def worker_words(self, name, model, router, failpoints, args):
        return [*self.on_host(name),
                self.program("sluice-worker", failpoints), "--model", model,
                "--model-name", "tiny-hybrid", "--router",
                router or self.workers_at, "--name", name, "--threads", "1",
                "--log-level", "info", *self.key_of(name),
                *self.worker_args, *args]

    def spawn_worker(self, name, model=MODEL, router=None, failpoints=None,
                     args=(), **options):
        if failpoints:
            options["env"] = {**options.get("env", {}),
                              "SLUICE_FAILPOINTS": failpoints}
        return self.daemon(name, self.worker_words(name, model, router,
                                                   failpoints, args), **options)

    def start_worker(self, name, **options):
        """Starts a worker and waits until the router lists it."""
        mark = self.router.log.mark()
        worker = self.workers[name] = self.spawn_worker(name, **options)
        self.await_up(name, mark)
        return worker

    def await_up(self, name, mark):
        worker = self.workers[name]
        up = await_true(f"{name} is up", lambda: self.router.log.find(
            mark, ("worker-up",), worker=name) or
            (None if worker.alive() else "dead"))
        if up == "dead":
            raise Failed(f"{name} did not start: {tail(worker)}")

    def worker_gone(self, name):
        """Removes a worker that is dead, or kills it."""
        worker = self.workers.pop(name)
        worker.kill()
        self.ended.append(worker)
        return worker

    def start(self, n):
        self.start_router()
        mark = self.router.log.mark()
        for i in range(n):
            self.workers[f"w{i}"] = self.spawn_worker(f"w{i}")
        for name in self.workers:
            self.await_up(name, mark)

    def all(self):
        return [d for d in [self.router, *self.workers.values(), *self.others]
                if d]

    def stop(self):
        """Stops all daemons; returns those that did not exit with 0."""
        bad = []
        for d in [*self.others, *self.workers.values(), self.router]:
            if d and d.alive():
                d.signal(signal.SIGCONT)
                d.signal(signal.SIGTERM)
        for d in self.all():
            try:
                rc = d.wait()
            except Failed:
                rc = f"none within {PATIENCE_S} s"
            if rc != 0:
                bad.append(f"{d.name}: exit code {rc} after SIGTERM")
            d.kill()
            self.ended.append(d)
        self.router, self.workers, self.others = None, {}, []
        return bad

    def kill(self):
        for d in self.all():
            d.kill()

    # ---- sluicectl ----

    def ctl(self, *words, rc=(0,)):
        p = subprocess.run([self.program("sluicectl"), *words, "--json",
                            "--router", self.clients_at],
                           stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False, env=self.env)
        if p.returncode not in rc:
            raise Failed(f"sluicectl {' '.join(words)}: exit code "
                         f"{p.returncode}: {p.stdout}{p.stderr}")
        return json.loads(p.stdout.splitlines()[-1])


def tail(daemon, n=5):
    with open(daemon.path, encoding="utf-8", errors="replace") as f:
        return " | ".join(line.strip() for line in f.readlines()[-n:])
