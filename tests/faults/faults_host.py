"""Faults of the host and of operators: clocks, disks, descriptors, files,
names, ports, strangers."""
import os
import shutil
import signal
import socket
import subprocess
import time

from campaign import Fault
from daemons import MODEL, Failed, await_true, on_start, tail
from faults_process import LOST


def model_copy(run, name):
    """Makes a model to be damaged: copies the files that change, links the
    rest."""
    path = os.path.join(run.folder, name)
    os.makedirs(path, exist_ok=True)
    for f in os.listdir(MODEL):
        there = os.path.join(path, f)
        if os.path.lexists(there):
            os.unlink(there)
        if f.endswith((".safetensors", ".json")):
            shutil.copy(os.path.join(MODEL, f), there)
        else:
            os.symlink(os.path.join(MODEL, f), there)
    return path


def refused(run, daemon, words):
    """Checks that a daemon exits with 2 and one of the words."""
    rc = daemon.wait()
    if rc != 2 or not any(w in tail(daemon) for w in words):
        raise Failed(f"{daemon.name}: exit code {rc}, expected 2: "
                     f"{tail(daemon)}")
    daemon.log.read().strange.clear()
    daemon.kill()
    run.load.await_tokens(30)


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 32)
READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"


def crowd(port, n):
    """Connects n strangers to a port.  Every other one sends a handshake and
    keeps its connection until a heartbeat times out."""
    strangers = []
    for _ in range(n):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", port))
        strangers.append(s)
    for s in strangers[::2]:
        try:
            s.send(GREETING + READY)
        except OSError:
            pass  # not accepted yet, or disconnected
    return strangers


class ClockJumps(Fault):
    """the wall clocks of router and workers jump by up to a day, both ways"""
    name, number = "clock_jumps", "26"
    must = "no effect"
    times, quick = 50, 2

    def start(self, run):
        run.clock = os.path.join(run.folder, "clock")
        self.jump(run, 0)
        shim = os.path.join(run.cluster.build, "tests", "clock_shim.so")
        env = {"LD_PRELOAD": shim, "CLOCK_SHIM": run.clock}
        c = run.cluster
        c.start_router(env=env)
        for i in range(self.workers):
            c.start_worker(f"w{i}", env=env)

    def jump(self, run, seconds):
        with open(run.clock + ".new", "w", encoding="ascii") as f:
            f.write(str(seconds))
        os.rename(run.clock + ".new", run.clock)

    def round(self, run):
        mark = run.cluster.router.log.mark()
        run.hurt()
        self.jump(run, run.rng.choice((-86400, -3600, -60, 5, 3600, 86400)))
        run.pause(0.1, 0.4)
        run.load.await_tokens(50)
        if run.cluster.router.log.find(mark, LOST):
            raise Failed("a worker was lost when the clock jumped")


class SignalStorm(Fault):
    """1,000 handled signals a second to each thread of router and workers"""
    name, number = "signal_storm", "42"
    must = "no effect"
    times, quick = 100, 1

    def start(self, run):
        run.storm = os.path.join(run.folder, "storm")
        shim = os.path.join(run.cluster.build, "tests", "storm_shim.so")
        env = {"LD_PRELOAD": shim, "STORM_SHIM": run.storm}
        c = run.cluster
        c.start_router(env=env)
        for i in range(self.workers):
            c.start_worker(f"w{i}", env=env)

    def arrived(self, run):
        """{daemon: signals so far}"""
        counts = {}
        for d in run.cluster.all():
            with open(f"{run.storm}.{d.process.pid}", encoding="ascii") as f:
                counts[d.name] = int(f.read() or 0)
        return counts

    def round(self, run):
        mark, before = run.cluster.router.log.mark(), self.arrived(run)
        run.hurt()
        run.load.await_tokens(100)
        await_true("signals arrive at every daemon", lambda: all(
            n >= before[name] + 100
            for name, n in self.arrived(run).items()))
        if run.cluster.router.log.find(mark, LOST):
            raise Failed("a worker was lost")


class DiskFull(Fault):
    """a worker that logs to a full disk at level debug"""
    name, number = "disk_full", "33"
    must = "the worker serves and exits with 0"
    times, quick, receipts = 20, 1, False

    def round(self, run):
        mark = run.cluster.router.log.mark()
        with open("/dev/full", "wb") as full:
            x = run.cluster.workers["x"] = run.cluster.spawn_worker(
                "x", stderr=full, args=("--log-level", "debug"))
        run.cluster.await_up("x", mark)
        run.hurt()
        run.load.await_tokens(200)
        x.signal(signal.SIGTERM)
        rc = x.wait()
        if rc != 0:
            raise Failed(f"a worker with a full disk ended with {rc}")
        run.cluster.worker_gone("x")


class Descriptors(Fault):
    """2,000 strangers connect to a router with a limit of 200 descriptors"""
    name, number = "descriptors", "44"
    must = "streams continue; newcomers are accepted when they have gone"
    times, quick = 10, 1
    warm = 4  # memory of 200 handshakes is reused after a few rounds

    def start(self, run):
        import resource
        run.cluster.start_router(
            limits=((resource.RLIMIT_NOFILE, (200, 200)),))
        for i in range(self.workers):
            run.cluster.start_worker(f"w{i}")

    def round(self, run):
        port = int(run.cluster.clients_at.rsplit(":", 1)[1])
        run.hurt()
        strangers = crowd(port, 300 if run.quick else 2000)
        time.sleep(0.5 if run.quick else 3)
        run.load.await_tokens(30)
        for s in strangers:
            s.close()
        await_true("a newcomer is served", lambda: run.cluster.ctl(
            "status", "--timeout", "1s", rc=(0, 1, 3)).get("router"))


class Mismatch(Fault):
    """a worker with another tokenizer, and one with a name in use"""
    name, number = "mismatch", "38"
    must = "they are refused with a message, no other effect"
    times, quick = 20, 0

    def round(self, run):
        other = model_copy(run, "other")
        path = os.path.join(other, "tokenizer.json")
        with open(path, "ab") as f:
            f.write(b"\n")
        run.hurt()
        for name, options in (("other", {"model": other}),
                              (run.victim(), {})):
            mark = run.cluster.router.log.mark()
            x = run.cluster.spawn_worker(name, **options)
            run.cluster.others.append(x)
            await_true(f"{name} is refused", lambda m=mark:
                       run.cluster.router.log.find(m, ("hello-refused",)))
            x.signal(signal.SIGTERM)
            rc = x.wait()
            x.kill()
            run.cluster.others.remove(x)
            run.cluster.ended.append(x)
            if rc != 0:
                raise Failed(f"a refused worker ended with {rc}")
            if run.cluster.router.log.find(mark, LOST):
                raise Failed("a refused worker cost another one its session")


class DoubleStart(Fault):
    """a second router at the same ports"""
    name, number = "double_start", "43"
    must = "it exits with 2 and a message, no other effect"
    times, quick = 20, 0

    def round(self, run):
        c = run.cluster
        run.hurt()
        refused(run, c.daemon("second", [
            c.program("sluice-router"), "--workers", c.workers_at, "--clients",
            c.clients_at]), ("in use",))


class BrokenFiles(Fault):
    """workers with models that are truncated, altered or missing"""
    name, number = "broken_files", "34"
    must = "each exits with 2 and a message, no other effect"
    times, quick = 20, 1

    def round(self, run):
        weights = "model-00002-of-00002.safetensors"
        for harm in (self.cut, self.header, self.gone, self.config):
            path = model_copy(run, "broken")
            harm(run, path, os.path.join(path, weights))
            run.hurt()
            refused(run, run.cluster.spawn_worker("broken", model=path),
                    ("broken",))

    @staticmethod
    def cut(run, _path, weights):
        os.truncate(weights, run.rng.randrange(os.path.getsize(weights)))

    @staticmethod
    def header(run, _path, weights):
        with open(weights, "r+b") as f:
            f.seek(run.rng.randrange(8))
            f.write(b"\xff")

    @staticmethod
    def gone(_run, _path, weights):
        os.unlink(weights)

    @staticmethod
    def config(_run, path, _weights):
        with open(os.path.join(path, "config.json"), "w",
                  encoding="ascii") as f:
            f.write('{"architectures": ["Nothing"]}')


class FilesGo(Fault):
    """a model's files are removed, then truncated, while workers run"""
    name, number = "files_go", "34"
    must = "no wrong token; a worker that dies is replaced"
    times, quick = 20, 1

    def round(self, run):
        path = model_copy(run, "going")
        mark = run.cluster.router.log.mark()
        x = run.cluster.workers["x"] = run.cluster.spawn_worker(
            "x", model=path)
        run.cluster.await_up("x", mark)
        run.load.await_tokens(50)
        run.hurt()
        held = [os.open(os.path.join(path, f), os.O_RDWR)
                for f in os.listdir(path) if f.endswith(".safetensors")]
        for f in os.listdir(path):
            os.unlink(os.path.join(path, f))
        run.load.await_tokens(100)
        if not x.alive():
            raise Failed("a worker died when its files were unlinked")
        for fd in held:
            os.ftruncate(fd, 0)
            os.close(fd)
        run.load.await_tokens(100)
        run.note("a worker with truncated weights "
                 + ("lives" if x.alive() else f"dies ({x.wait()})"))
        run.cluster.worker_gone("x")
        await_true("x is lost", lambda: run.cluster.router.log.
                   find(mark, LOST, worker="x"))


class Garbage(Fault):
    """strangers at both ports: random bytes, half greetings, silence"""
    name, number = "garbage", "24, 25"
    must = "no effect"
    times, quick = 100, 1
    strikes = True

    def round(self, run):
        ports = [int(at.rsplit(":", 1)[1]) for at in
                 (run.cluster.workers_at, run.cluster.clients_at)]
        mark = run.cluster.router.log.mark()
        run.hurt()
        strangers = []
        for i in range(40):
            s = socket.create_connection(("127.0.0.1", ports[i % 2]))
            strangers.append(s)
            s.settimeout(1)
            try:
                s.sendall(self.words(run, i % 5))
            except OSError:
                pass  # disconnected while sending
        run.pause(0, 0.2)
        for s in strangers:
            s.close()
        run.load.await_tokens(30)
        if run.cluster.router.log.find(mark, LOST):
            raise Failed("a worker lost its session to strangers")

    @staticmethod
    def words(run, kind):
        noise = run.rng.randbytes(run.rng.randrange(1, 5000))
        return (b"", noise, GREETING[:run.rng.randrange(64)],
                GREETING + noise, b"GET / HTTP/1.1\r\n\r\n" + noise)[kind]


class Poison(Fault):
    """a request that kills every worker that runs it"""
    name, number = "poison", "39"
    must = "it ends ABORTED after few deaths, no other request fails"
    times, quick, workers, memory = 20, 1, 3, "128MiB"
    most = 5  # limit of deaths by one request

    def round(self, run):
        name = bytes(run.rng.randrange(256) for _ in range(16)).hex()
        p = subprocess.Popen(
            [run.cluster.program("sluicectl"), "generate", "--router",
             run.cluster.clients_at, "--request-id", name, "--ids",
             "--ignore-eos", "--max-tokens", "64",
             " ".join(str(run.rng.randrange(4000)) for _ in range(3500))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        run.helpers.append(p)
        deaths = 0
        while p.poll() is None and deaths <= self.most:
            on = self.where(run, name)
            if on not in run.cluster.workers:
                continue
            mark = run.cluster.router.log.mark()
            run.hurt(lambda n=on: run.cluster.workers[n].signal(
                signal.SIGKILL))
            deaths += 1
            run.cluster.worker_gone(on)
            await_true("its end is seen", lambda m=mark, n=on: run.cluster.
                       router.log.find(m, LOST, worker=n))
            run.cluster.start_worker(on)
        run.helpers.remove(p)
        p.kill() if deaths > self.most else None
        said = p.communicate()[1]
        if deaths > self.most or "ABORTED" not in said:
            raise Failed(f"after {deaths} deaths it ended: {said.strip()}")
        run.note(f"ABORTED after {deaths} deaths")
        run.load.await_tokens(50)

    @staticmethod
    def where(run, name):
        for s in run.cluster.ctl("sequences")["sequences"]:
            if s["sequence"]["request_id"] == name:
                return s.get("worker")
        return None


class Rogues(Fault):
    """peers that break the rules, random cases of tests/faults/rogue"""
    name, number = "rogues", "24, 25, 40"
    must = "each is refused as its case requires, no other effect"
    times, quick, strikes = 50, 0, True

    def round(self, run):
        rogue = run.cluster.program("rogue", True)
        cases = [line.split() for line in subprocess.run(
            [rogue, "--list"], capture_output=True, text=True,
            check=True).stdout.splitlines()]
        mine = run.rng.sample([c[0] for c in cases if c[1] == "router"], 6)
        run.hurt()
        p = subprocess.run(
            [rogue, *mine, "--workers", run.cluster.workers_at, "--clients",
             run.cluster.clients_at], capture_output=True, text=True,
            check=False, preexec_fn=on_start(()))
        if p.returncode != 0:
            raise Failed(f"{' '.join(mine)}: {p.stdout[-300:]}{p.stderr}")
        run.load.await_tokens(30)

    def finish(self, run):
        """Removes requests that asked for a long keep_ms."""
        for s in run.cluster.ctl("sequences")["sequences"]:
            run.cluster.ctl("remove", s["sequence"]["request_id"])


FAULTS = [ClockJumps, SignalStorm, DiskFull, Descriptors, Mismatch,
          DoubleStart, BrokenFiles, FilesGo, Garbage, Rogues, Poison]
