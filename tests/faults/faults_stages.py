"""Faults of replicas with several stages: two replicas of two stages each,
made of workers that the router assigns layers to."""
import resource
import signal
import time

from campaign import Fault
from daemons import Failed, await_true, free_port, tail
from faults_host import crowd
from faults_link import Chaos, Shaken
from faults_points import acted, points
from faults_process import LOST, stutter

OVER = ("replica-over",)
N_STAGES = 2


class Staged(Fault):
    workers, streams = 4, 24
    worker_args = ("--stages", str(N_STAGES))

    def start(self, run):
        run.cluster.start_router()
        for i in range(self.workers):
            name = f"w{i}"
            run.cluster.workers[name] = self.spawn(run, name)
        self.await_replicas(run)

    def spawn(self, run, name, **options):
        return run.cluster.spawn_worker(name, **options)

    @staticmethod
    def n_replicas(run):
        return run.cluster.ctl("status")["n_replicas"]

    def await_replicas(self, run):
        """Waits for all replicas, including workers that reconnect."""
        wanted = len(run.cluster.workers) // N_STAGES
        await_true(f"{wanted} replicas are up",
                   lambda: self.n_replicas(run) >= wanted)

    def again(self, run, name, **options):
        """Starts a worker that takes over the layers of the lost one."""
        run.cluster.workers[name] = self.spawn(run, name, **options)
        self.await_replicas(run)

    def lost(self, run, name, mark):
        return run.cluster.router.log.find(mark, LOST, worker=name)


class StageKill(Staged):
    """kill -9 a stage at a random moment, start it again"""
    name, number = "stage_kill", "35"
    must = "no request fails, the other replica continues; the gap is filled"
    times, quick = 500, 1
    memory = "96MiB"  # one replica has room for all
    detect_s = 0.050

    def round(self, run):
        run.pause(0, 0.12)
        name = run.victim()
        mark = run.cluster.router.log.mark()
        worker = run.cluster.workers[name]
        at = run.hurt(lambda: worker.signal(signal.SIGKILL))
        run.detect(at, mark, LOST, worker=name)
        run.cluster.worker_gone(name)
        run.load.await_tokens(100)
        self.again(run, name)


class StageKillBoth(Staged):
    """kill -9 a stage of each replica at once, start them again"""
    name, number = "stage_kill_both", "2, 35"
    must = "requests wait for a replica, none fails"
    times, quick = 50, 0

    def round(self, run):
        run.pause(0, 0.2)
        rows = run.cluster.ctl("workers")["workers"]
        stage = run.rng.randrange(N_STAGES)
        names = [w["name"] for w in rows if w.get("stage") == stage]
        mark = run.cluster.router.log.mark()
        at = run.hurt(lambda: [run.cluster.workers[n].signal(signal.SIGKILL)
                               for n in names])
        for name in names:
            run.detect(at, mark, LOST, worker=name)
            run.cluster.worker_gone(name)
        for name in names:
            run.cluster.workers[name] = self.spawn(run, name)
        self.await_replicas(run)
        run.load.await_tokens(100)


class StageStop(Staged):
    """SIGSTOP a stage for 0.1 to 10 s, then SIGCONT"""
    name, number = "stage_stop", "4, 36"
    must = "below 1 s no effect; longer, the other replica continues"
    times, quick = 60, 0
    detect_s = 2.0
    toggle = 0

    def round(self, run):
        self.toggle += 1
        long = self.toggle % 2 == 0
        if run.quick:
            d = 2.5 if long else 0.2
        else:
            d = run.rng.uniform(2.2, 10) if long else run.rng.uniform(0.1, 0.9)
        name, mark = run.victim(), run.cluster.router.log.mark()
        worker = run.cluster.workers[name]
        at = run.hurt(lambda: worker.signal(signal.SIGSTOP))
        try:
            if long:
                run.detect(at, mark, OVER)
            time.sleep(max(0, at + d - time.time()))
        finally:
            worker.signal(signal.SIGCONT)
        if not long and run.cluster.router.log.find(mark, OVER):
            raise Failed(f"a replica was lost after {d:.1f} s")
        self.await_replicas(run)
        run.load.await_tokens(50)


class StageStutter(Staged):
    """SIGSTOP and SIGCONT a stage every few ms: a straggler"""
    name, number = "stage_stutter", "36"
    must = "its replica is slow, no other effect"
    times, quick = 50, 0

    def round(self, run):
        stutter(run, OVER)


class StageWedge(Staged):
    """the thread of a stage's engine spins for ever"""
    name, number = "stage_wedge", "5, 36"
    must = "its replica ends within 2 s, the other continues"
    times, quick = 20, 0
    detect_s = 2.0
    may_log = "failpoint"

    def round(self, run):
        name = run.victim()
        run.cluster.worker_gone(name)
        run.cluster.workers[name] = self.spawn(
            run, name, failpoints="worker.engine.before_forward=spin@"
            f"{run.rng.randint(1, 20)}")
        x, mark = run.cluster.workers[name], run.cluster.router.log.mark()
        event = await_true(f"the engine of {name} spins", lambda: acted(x))
        run.detect(run.hurt(at=event), mark, LOST, worker=name)
        run.cluster.worker_gone(name)
        self.again(run, name)


class StageSlowStep(Staged):
    """steps of seconds with ticking layers, at one stage"""
    name, number = "stage_slow_step", "36"
    must = "its replica is kept, however long a step takes"
    times, quick, warm = 5, 0, 0
    may_log = "failpoint"

    def round(self, run):
        ms, steps_s = (200, 4) if run.quick else (1000, 25)
        name = run.victim()
        run.cluster.worker_gone(name)
        self.again(run, name, failpoints=f"worker.engine.layer=sleep({ms})")
        mark = run.cluster.router.log.mark()
        run.hurt()
        time.sleep(steps_s)
        if run.cluster.router.log.find(mark, OVER):
            raise Failed("a replica was lost during a slow step: "
                         + tail(run.cluster.router))
        run.cluster.worker_gone(name)
        self.again(run, name)


class StageKillAt(Staged):
    """a stage dies at each of its failpoints in turn, also during assembly"""
    name, number = "stage_kill_at", "3, 35"
    must = "no request fails; the other replica continues, the gap is filled"
    times, quick, cancel, receipts = 100, 0, 200, False
    may_log = "failpoint"
    turn = 0

    def next_point(self, run):
        mine = [p for p in points(run, "sluice-worker")
                if p.split(".")[0] in ("worker", "session", "transport")]
        if self.turn == 0:
            self.turn = run.rng.randrange(len(mine))
        self.turn += 1
        return mine[self.turn % len(mine)]

    def round(self, run):
        point = self.next_point(run)
        x = f"x{self.turn}"  # a name each: these deaths are no crash loop
        run.cluster.worker_gone(run.victim())
        dying = run.cluster.workers[x] = self.spawn(
            run, x, failpoints=f"{point}=kill@{run.rng.randint(1, 12)}")
        try:
            dying.wait(4)
        except Failed:
            run.note(f"{point} was not reached within 4 s")
        run.hurt(at=acted(dying))
        run.cluster.worker_gone(x)
        self.again(run, f"w{self.turn + self.workers}")
        run.load.await_tokens(50)


class StageTerm(Staged):
    """SIGTERM each stage in turn, start it again when it has gone"""
    name, number = "stage_term", "6"
    must = "each exits with 0, no request fails"
    times, quick = 50, 0

    def round(self, run):
        for name in sorted(run.cluster.workers):
            run.pause(0, 0.05)
            worker = run.cluster.workers[name]
            run.hurt(lambda w=worker: w.signal(signal.SIGTERM))
            rc = worker.wait()
            if rc != 0:
                raise Failed(f"{name} exited with {rc} after SIGTERM")
            run.cluster.worker_gone(name)
            self.again(run, name)


class StageDrain(Staged):
    """sluicectl drain a stage, then undrain it"""
    name, number = "stage_drain", "6"
    must = "its replica is empty when drain returns, no request fails"
    times, quick = 50, 0

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
        self.await_replicas(run)


class StageRouterKill(Staged):
    """kill -9 the router of staged workers, start it again"""
    name, number = "stage_router_kill", "8"
    must = "clients resume, the replicas form again; no request fails"
    times, quick = 100, 0
    memory, receipts = "128MiB", False  # room for all

    def round(self, run):
        run.pause(0, 0.3)
        run.hurt(lambda: run.cluster.router.signal(signal.SIGKILL))
        run.cluster.router_gone()
        run.pause(0, 0.1)
        run.cluster.start_router()
        self.await_replicas(run)
        run.load.await_all()


class StageDescriptors(Staged):
    """strangers take all descriptors of a stage, then its router is killed"""
    name, number = "stage_descriptors", "8, 44"
    must = "the stage lives, and reconnects when they go; no request fails"
    times, quick = 20, 0
    memory, receipts = "128MiB", False
    limit = 96

    def start(self, run):
        self.ports = {f"w{i}": free_port(run.rng)
                      for i in range(self.workers)}
        super().start(run)

    def spawn(self, run, name, **options):
        return run.cluster.spawn_worker(
            name, args=("--stage-listen",
                        f"tcp://127.0.0.1:{self.ports[name]}"),
            limits=((resource.RLIMIT_NOFILE, (self.limit, self.limit)),),
            **options)

    def round(self, run):
        name = run.victim()
        worker = run.cluster.workers[name]
        strangers = crowd(self.ports[name], 4 * self.limit)
        await_true(f"{name} has no descriptor left",
                   lambda: worker.files() >= self.limit)
        run.hurt(lambda: run.cluster.router.signal(signal.SIGKILL))
        run.cluster.router_gone()
        run.cluster.start_router()
        run.pause(0.2, 1)
        if not worker.alive():
            raise Failed(f"{name} died without descriptors: {tail(worker)}")
        for s in strangers:
            s.close()
        self.await_replicas(run)
        run.load.await_all()


class Edge(Staged):
    """A fault whose edges between stages pass through the proxy."""

    def start(self, run):
        self.ports = {f"w{i}": free_port(run.rng)
                      for i in range(self.workers)}
        run.chaos = Chaos(run.cluster, self.ports, run.rng.randrange(1 << 30))
        run.helpers.append(run.chaos)
        super().start(run)

    def spawn(self, run, name, **options):
        return run.cluster.spawn_worker(name, args=(
            "--stage-listen", f"tcp://127.0.0.1:{self.ports[name]}",
            "--advertise", run.chaos.at[name]), **options)

    def finish(self, run):
        run.chaos("*", "heal")
        self.await_replicas(run)


class StageCut(Edge):
    """nothing passes between two stages, but no connection ends"""
    name, number = "stage_cut", "12, 14"
    must = "the replica ends within 2 s, no request fails; it forms again"
    times, quick = 50, 0
    detect_s = 2.0
    way = "both"

    def round(self, run):
        run.pause(0, 0.2)
        name, mark = run.victim(), run.cluster.router.log.mark()
        at = run.hurt(lambda: run.chaos(name, "drop", self.way))
        run.detect(at, mark, OVER)
        run.pause(0, 1)
        run.chaos(name, "reset")
        run.chaos(name, "heal")
        self.await_replicas(run)
        run.load.await_tokens(100)


class StageOneWay(StageCut):
    """one direction between two stages is lost"""
    name, number = "stage_one_way", "14"
    quick = 1
    must = "the replica ends within 2 s, no stream hangs; it forms again"

    def round(self, run):
        self.way = run.rng.choice(("up", "down"))
        super().round(run)


class StageReset(Edge):
    """the connection between two stages is reset"""
    name, number = "stage_reset", "13, 14"
    must = "noticed at once, no request fails, the replica forms again"
    times, quick = 100, 0
    detect_s = 0.5

    def round(self, run):
        run.pause(0, 0.2)
        name, mark = run.victim(), run.cluster.router.log.mark()
        at = run.hurt(lambda: run.chaos(name, "reset"))
        run.detect(at, mark, OVER)
        self.await_replicas(run)
        run.load.await_tokens(100)


class ShakenEdge(Edge):
    """Faults of the proxy on one edge, for some seconds."""
    settings, counted, seconds = (), (), 3

    def round(self, run):
        Shaken.shake(self, run, run.victim())
        self.await_replicas(run)
        run.load.await_tokens(100)

    def finish(self, run):
        super().finish(run)
        Shaken.tell(self, run)


class StageGarbage(ShakenEdge):
    """one bit in 20,000 bytes between stages is flipped, also in tensors"""
    name, number = "stage_garbage", "16"
    must = "every flip is detected, no wrong token, no request fails"
    times, quick, strikes = 30, 1, True
    settings = ("flip_body 1/20000",)
    counted = ("flips",)


class StageDoubled(ShakenEdge):
    """messages between stages: 1 in 5 doubled, 1 in 5 late, 1 in 20 lost"""
    name, number = "stage_doubled", "17, 18, 19"
    must = "no effect"
    times, quick = 30, 0
    settings = ("dup 1/5", "reorder 1/5", "lose 1/20")
    counted = ("dups", "reorders", "losses")


class StageSlowLink(ShakenEdge):
    """an edge of 20 ms with jitter"""
    name, number = "stage_slow_link", "15"
    must = "its replica is slow, no other effect"
    times, quick = 20, 0
    settings = ("delay 20 jitter 10",)


FAULTS = [StageKill, StageKillBoth, StageStop, StageStutter, StageWedge,
          StageSlowStep, StageKillAt, StageTerm, StageDrain, StageRouterKill,
          StageDescriptors, StageCut, StageOneWay, StageReset,
          StageGarbage, StageDoubled, StageSlowLink]
