"""Faults of processes: killed, stopped, terminated, in a crash loop."""
import signal
import time

import streams
from campaign import Fault, percentile
from daemons import Failed, await_true

LOST = ("worker-lost",)


def kill(run, name):
    """Kills a worker and waits until the router notices."""
    log, worker = run.cluster.router.log, run.cluster.workers[name]
    mark = log.mark()
    at = run.hurt(lambda: worker.signal(signal.SIGKILL))
    run.detect(at, mark, LOST, worker=name)
    run.cluster.worker_gone(name)


class Kill(Fault):
    """kill -9 a worker at a random moment, start it again"""
    name, number = "kill", "1"
    must = "no request fails, its sequences continue at the other worker"
    times, quick = 1000, 2
    memory = "128MiB"  # one worker has room for all
    detect_s = 0.050

    def round(self, run):
        run.pause(0, 0.12)
        name = run.victim()
        kill(run, name)
        run.cluster.start_worker(name)
        run.load.await_all()


class FullHouse(Fault):
    """kill -9 a worker of a cluster as full as --headroom allows"""
    name, number = "full_house", "1, 2"
    must = "its sequences continue at once, before any other one ends"
    times, quick = 100, 1
    # With expected-length admission a survivor may be left with less.
    router_args = ("--headroom", "--admission", "strict")
    memory = "48MiB"

    @staticmethod
    def rows(run):
        """Returns {sequence: row} of the router's sequences."""
        return {(r["sequence"]["request_id"], r["sequence"]["choice"]): r
                for r in run.cluster.ctl("sequences")["sequences"]}

    def full(self, run):
        """Returns the rows if requests wait and each worker runs one with 2 or
        more tokens, which is no suspect of a crash."""
        rows = self.rows(run)
        at = {r["worker"] for r in rows.values()
              if "worker" in r and r["n_generated"] >= 2}
        waits = any("worker" not in r for r in rows.values())
        return rows if waits and at == set(run.cluster.workers) else None

    def settled(self, run, movers, others):
        """Returns whether all movers run again or have ended.  Fails if a
        sequence of the other worker had to end first."""
        rows = self.rows(run)
        waiting = [k for k in movers if k in rows and "worker" not in rows[k]]
        if waiting and any(k not in rows for k in others):
            raise Failed(f"{len(waiting)} of {len(movers)} wait for the end "
                         "of sequences at the other worker")
        return not waiting

    def round(self, run):
        rows = await_true("the cluster is full", lambda: self.full(run))
        name = run.victim()
        movers = [k for k, r in rows.items() if r.get("worker") == name
                  and r["n_generated"] >= 2]
        kill(run, name)
        others = [k for k, r in self.rows(run).items() if "worker" in r
                  and k in rows and k not in movers]
        await_true("its sequences continue",
                   lambda: self.settled(run, movers, others))
        run.cluster.start_worker(name)
        run.load.await_all()


class KillOnly(Fault):
    """kill -9 the only worker, start it again within 2 s"""
    name, number = "kill_only", "2"
    must = "requests wait for it, none fails"
    times, quick, workers = 50, 1, 1
    detect_s = 0.050

    def round(self, run):
        run.pause(0, 0.2)
        kill(run, "w0")
        run.pause(0, 0.3 if run.quick else 2)
        run.cluster.start_worker("w0")
        run.load.await_tokens(100)


class KillAll(Fault):
    """kill -9 every worker at once, start them again"""
    name, number = "kill_all", "2"
    must = "requests wait for them, none fails"
    times, quick = 50, 0

    def round(self, run):
        run.pause(0, 0.2)
        mark, names = run.cluster.router.log.mark(), sorted(run.cluster.workers)
        at = run.hurt(lambda: [run.cluster.workers[n].signal(signal.SIGKILL)
                               for n in names])
        for name in names:
            run.detect(at, mark, LOST, worker=name)
            run.cluster.worker_gone(name)
        for name in names:
            run.cluster.start_worker(name)
        run.load.await_tokens(100)


class Zombie(Fault):
    """SIGSTOP a worker for 0.1 to 10 s, then SIGCONT"""
    name, number = "zombie", "4"
    must = "noticed within 2 s, its late tokens are dropped, it reconnects"
    times, quick = 100, 1
    detect_s = 2.0
    toggle = 0

    def round(self, run):
        self.toggle += 1
        long = self.toggle % 2 == 0
        if run.quick:
            d = 2.5 if long else 0.2
        else:
            d = run.rng.uniform(2.2, 10) if long else run.rng.uniform(0.1, 1)
        name = run.victim()
        worker, log = run.cluster.workers[name], run.cluster.router.log
        mark = log.mark()
        at = run.hurt(lambda: worker.signal(signal.SIGSTOP))
        try:
            if long:
                run.detect(at, mark, LOST, worker=name)
            time.sleep(max(0, at + d - time.time()))
        finally:
            worker.signal(signal.SIGCONT)
        if long:
            run.cluster.await_up(name, mark)
        elif log.find(mark, LOST, worker=name):
            raise Failed(f"{name} was lost after {d:.1f} s")
        run.load.await_tokens(50)


def stutter(run, gone):
    """Checks that a victim that runs in short bursts keeps its session."""
    worker = run.cluster.workers[run.victim()]
    mark = run.cluster.router.log.mark()
    run.hurt()
    for _ in range(20):
        worker.signal(signal.SIGSTOP)
        run.pause(0.005, 0.03)
        worker.signal(signal.SIGCONT)
        run.pause(0, 0.005)
    if run.cluster.router.log.find(mark, gone):
        raise Failed("a slow daemon was lost")


class Stutter(Fault):
    """SIGSTOP and SIGCONT a worker every few ms: a straggler"""
    name, number = "stutter", "36, 42"
    must = "slow, no other effect"
    times, quick = 50, 0

    def round(self, run):
        stutter(run, LOST)


class Rolling(Fault):
    """SIGTERM each worker in turn, start it again when it has gone"""
    name, number = "rolling", "6"
    must = "each exits with 0, no request fails"
    times, quick = 200, 1

    def round(self, run):
        for name in sorted(run.cluster.workers):
            run.pause(0, 0.05)
            worker = run.cluster.workers[name]
            run.hurt(lambda w=worker: w.signal(signal.SIGTERM))
            rc = worker.wait()
            if rc != 0:
                raise Failed(f"{name} exited with {rc} after SIGTERM")
            run.cluster.worker_gone(name)
            run.cluster.start_worker(name)


class Drain(Fault):
    """sluicectl drain a worker, then undrain it"""
    name, number = "drain", "6"
    must = "the worker is empty when drain returns, no request fails"
    times, quick = 50, 1

    def round(self, run):
        run.pause(0, 0.1)
        name = run.victim()
        run.hurt()
        run.cluster.ctl("drain", name, "--grace",
                        "0s" if run.rng.random() < 0.5 else "1s",
                        "--timeout", "60s")
        row = next(w for w in run.cluster.ctl("workers")["workers"]
                   if w["name"] == name)
        if row["n_sequences"] or row["ledger"]["slots"]["held"]:
            raise Failed(f"{name} is drained and still has "
                         f"{row['n_sequences']} sequences")
        run.cluster.ctl("undrain", name)


class CrashLoop(Fault):
    """a third worker dies at its first sequences, eight times in a row"""
    name, number = "crash_loop", "7"
    must = "no request fails; exponential backoff delays its next sequence"
    times, quick, warm = 10, 1, 1
    may_log = "failpoint"

    def round(self, run):
        for _ in range(3 if run.quick else 8):
            mark = run.cluster.router.log.mark()
            run.cluster.workers["loop"] = run.cluster.spawn_worker(
                "loop", failpoints="worker.submit.accepted=kill@1")
            worker = run.cluster.workers["loop"]
            run.cluster.await_up("loop", mark)
            try:
                worker.wait(1.5)
            except Failed:
                run.note("loop received no sequence for more than 1.5 s")
            run.hurt()
            run.cluster.worker_gone("loop")
            await_true("loop is lost", lambda: run.cluster.router.
                       log.find(mark, LOST, worker="loop"))


class RouterKill(Fault):
    """kill -9 the router, start it again at the same ports"""
    name, number = "router_kill", "8"
    must = "clients resume, workers keep running; no request fails"
    times, quick, streams = 200, 1, 64
    memory, receipts = "192MiB", False  # room for all

    def round(self, run):
        run.pause(0, 0.3)
        run.hurt(lambda: run.cluster.router.signal(signal.SIGKILL))
        run.cluster.router_gone()
        run.pause(0, 0.1)
        run.cluster.start_router()
        for name in run.cluster.workers:
            run.cluster.await_up(name, 0)
        run.load.await_all()


class RouterStop(Fault):
    """SIGSTOP the router for 0.2 to 5 s, then SIGCONT"""
    name, number = "router_stop", "9"
    must = "no request fails, no process grows"
    times, quick = 20, 1

    def round(self, run):
        d = 0.3 if run.quick else run.rng.choice((0.2, 1, 2, 5))
        run.hurt(lambda: run.cluster.router.signal(signal.SIGSTOP))
        time.sleep(d)
        run.cluster.router.signal(signal.SIGCONT)
        run.load.await_tokens(100)


class Herd(Fault):
    """kill -9 a router with 12 workers and 128 clients"""
    name, number = "herd", "11"
    must = "all reconnect, no request fails"
    times, quick, workers, streams = 20, 1, 12, 128
    memory, receipts = "40MiB", False

    def round(self, run):
        run.hurt(lambda: run.cluster.router.signal(signal.SIGKILL))
        run.cluster.router_gone()
        began = time.monotonic()
        run.cluster.start_router()
        for name in run.cluster.workers:
            run.cluster.await_up(name, 0)
        run.note(f"all workers back within "
                 f"{time.monotonic() - began:.1f} s")
        run.load.await_tokens(300)


class ClientKill(Fault):
    """kill -9 a program with 8 streams in the middle of them"""
    name, number = "client_kill", "21"
    must = "its sequences are removed, other streams continue"
    times, quick = 200, 1

    def round(self, run):
        clients = run.cluster.ctl("status")["n_clients"]
        other = streams.Streams(
            run.cluster, run.settings.reference(), 8,
            run.rng.randrange(1 << 31), run.settings.longest())
        try:
            other.await_tokens(50)
            run.pause(0, 0.1)
        finally:
            other.kill()
        run.hurt()
        await_true("its sessions end", lambda: run.cluster.ctl("status")[
            "n_clients"] <= clients)


class Cancels(Fault):
    """1,000 cancels a round at random moments, in every phase"""
    name, number = "cancels", "22, 23"
    must = "a receipt for each, no memory held"
    times, quick, cancel = 100, 1, 950
    memory = "80MiB"  # most requests run, some wait

    def __init__(self):
        self.steps_us = []

    def round(self, run):
        wanted = 100 if run.quick else 1000
        at = run.load.read().progress.get("cancelled", 0)
        await_true("cancels", lambda: run.load.read().progress["cancelled"]
                   >= at + wanted)
        self.steps_us += [w["step_us"] for w in run.cluster.ctl("workers")[
            "workers"] if "step_us" in w]

    def finish(self, run):
        """Notes the step times, to compare with the times to free."""
        if self.steps_us:
            run.note(f"steps of p50 {percentile(self.steps_us, 50) / 1e3:.1f}"
                     f" ms, p99 {percentile(self.steps_us, 99) / 1e3:.1f} ms")


class CancelsAndKills(Fault):
    """cancel at random moments while workers are killed"""
    name, number = "cancels_kills", "22"
    must = "one end for each, no memory held"
    times, quick, cancel, receipts = 100, 0, 500, False

    def round(self, run):
        Kill.round(self, run)


FAULTS = [Kill, FullHouse, KillOnly, KillAll, Zombie, Stutter, Rolling, Drain,
          CrashLoop, RouterKill, RouterStop, Herd, ClientKill, Cancels, CancelsAndKills]
