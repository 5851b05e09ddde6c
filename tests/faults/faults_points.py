"""Faults at a defined point: programs with the failpoints of
common/base/failpoint.h.  The victim is a worker x beside two normal ones."""
import os
import signal
import subprocess
import time

from campaign import Fault
from daemons import Failed, await_true, tail
from faults_process import LOST


def points(run, program):
    """Returns the failpoints of a program."""
    text = subprocess.run([run.cluster.program(program, True),
                           "--list-failpoints"], capture_output=True,
                          text=True, check=True).stdout
    return [line.split()[0] for line in text.splitlines()]


def start_x(run, rule):
    """Starts worker x with a rule; it may die while it starts."""
    mark = run.cluster.router.log.mark()
    x = run.cluster.workers["x"] = run.cluster.spawn_worker(
        "x", failpoints=rule)
    return x, mark


def acted(daemon):
    """Returns the wall-clock time at which a daemon met its failpoint: the
    last line of a hung or dead daemon."""
    daemon.log.read()
    if any(line.startswith("failpoint ") for line in daemon.log.strange):
        return os.stat(daemon.path).st_mtime
    return None


class Points(Fault):
    may_log = "failpoint"

    def finish(self, run):
        if "x" in run.cluster.workers:
            run.cluster.worker_gone("x")


class KillAt(Points):
    """a worker dies at each of its failpoints in turn"""
    name, number = "kill_at", "3"
    must = "no request fails, in prefill or decode, cancelled or not"
    times, quick, cancel, receipts = 200, 3, 200, False
    seldom = ("session", "cancel", "receipt")
    turn = 0

    def next_point(self, run):
        mine = [p for p in points(run, "sluice-worker")
                if p.split(".")[0] in ("worker", "session", "transport")]
        first = run.rng.randrange(len(mine)) if self.turn == 0 else 0
        self.turn += 1 + first
        return mine[self.turn % len(mine)]

    def round(self, run):
        point = self.next_point(run)
        most = 1 if any(w in point for w in self.seldom) else 12
        x, mark = start_x(run, f"{point}=kill@{run.rng.randint(1, most)}")
        try:
            x.wait(4)
        except Failed:
            run.note(f"{point} was not reached within 4 s")
            x.signal(signal.SIGKILL)
            x.wait()
        event = acted(x)
        was_up = run.cluster.router.log.find(mark, ("worker-up",), worker="x")
        if event and was_up:
            run.detect(run.hurt(at=event), mark, LOST, worker="x")
        elif was_up:
            await_true("x is lost", lambda: run.cluster.router.log.
                       find(mark, LOST, worker="x"))
        run.cluster.worker_gone("x")


class Wedge(Points):
    """the thread of a worker's engine spins for ever"""
    name, number = "wedge", "5"
    must = "its session ends within 2 s, it exits with 5 after 10 s"
    times, quick = 20, 1
    detect_s = 2.0

    def round(self, run):
        x, mark = start_x(run, "worker.engine.before_forward=spin@"
                               f"{run.rng.randint(1, 20)}")
        event = await_true("the engine of x spins", lambda: acted(x))
        run.detect(run.hurt(at=event), mark, LOST, worker="x")
        if not run.quick:
            rc = x.wait()
            if rc != 5:
                raise Failed(f"x exited with {rc}, expected 5")
        run.cluster.worker_gone("x")


class SlowStep(Points):
    """steps of 10 s with ticking layers"""
    name, number = "slow_step", "5"
    must = "the worker keeps its session, however long a step takes"
    times, quick, warm = 5, 1, 0

    def round(self, run):
        ms, steps_s = (400, 4) if run.quick else (1250, 25)
        x, mark = start_x(run, f"worker.engine.layer=sleep({ms})")
        await_true("the first layer of x", lambda: acted(x))
        run.hurt()
        time.sleep(steps_s)
        if run.cluster.router.log.find(mark, LOST, worker="x"):
            raise Failed("a worker was lost during a slow step: "
                         + tail(run.cluster.router))
        if not x.alive():
            raise Failed("a worker exited in a slow step: " + tail(x))
        x.signal(signal.SIGKILL)
        await_true("x is lost", lambda: run.cluster.router.log.
                   find(mark, LOST, worker="x"))
        run.cluster.worker_gone("x")


class Lossy(Points):
    """lost frames, full links, ignored acknowledgements"""
    name, number = "lossy", "19"
    must = "no effect"
    times, quick, warm, cancel = 30, 0, 1, 100
    rules = ("transport.send=error%1/20#{0}", "transport.recv=error%1/20#{0}",
             "worker.output.before_send=error%1/5#{0}",
             "worker.acknowledge.came=error%1/3#{0}")

    def round(self, run):
        rule = ";".join(self.rules).format(run.rng.randrange(1 << 30))
        x, mark = start_x(run, rule)
        run.cluster.await_up("x", mark)
        run.hurt()
        run.load.await_tokens(200 if run.quick else 1000)
        x.signal(signal.SIGKILL)
        await_true("x is lost", lambda: run.cluster.router.log.
                   find(mark, LOST, worker="x"))
        run.cluster.worker_gone("x")


class FailedStep(Points):
    """a worker's step fails, or its engine refuses one"""
    name, number = "failed_step", "30"
    must = "no request fails: the sequences of that step are computed again"
    times, quick, cancel = 50, 1, 0
    points = ("worker.engine.step", "worker.plan.before_submit")

    def round(self, run):
        point = run.rng.choice(self.points)
        x, mark = start_x(run, f"{point}=error@{run.rng.randint(1, 30)}")
        run.cluster.await_up("x", mark)
        await_true("a step fails", lambda: acted(x))
        run.hurt()
        run.load.await_tokens(100)
        x.signal(signal.SIGKILL)
        await_true("x is lost", lambda: run.cluster.router.log.
                   find(mark, LOST, worker="x"))
        run.cluster.worker_gone("x")


class DamagedRow(FailedStep):
    """the logits of one row of a worker's step are not finite"""
    name, number = "damaged_row", "30"
    must = "only the request of that row fails, with a message that names it"
    points = ("worker.engine.row",)
    may_fail = "sequence [0-9a-f]{32}/[0-9]+: the logits at position"


class RouterKillAt(Points):
    """the router dies at each of its failpoints in turn"""
    name, number = "router_kill_at", "8"
    must = "clients resume, no request fails"
    times, quick, receipts, cancel = 100, 2, False, 100
    turn = 0

    def round(self, run):
        mine = [p for p in points(run, "sluice-router")
                if p.startswith("router.")]
        if self.turn == 0:
            self.turn = run.rng.randrange(len(mine))
        self.turn += 1
        point = mine[self.turn % len(mine)]
        run.cluster.router.signal(signal.SIGKILL)
        run.cluster.router_gone()
        run.cluster.start_router(
            failpoints=f"{point}=kill@{run.rng.randint(1, 40)}")
        try:
            run.cluster.router.wait(5)
        except Failed:
            run.note(f"{point} was not reached within 5 s")
        event = acted(run.cluster.router)
        run.cluster.router_gone()
        run.hurt(at=event)
        run.cluster.start_router()
        for name in run.cluster.workers:
            run.cluster.await_up(name, 0)
        run.load.await_all()


FAULTS = [KillAt, Wedge, SlowStep, Lossy, FailedStep, DamagedRow,
          RouterKillAt]
