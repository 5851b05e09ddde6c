"""Faults of the network: every worker reaches the router through the proxy,
and for some faults the load does too."""
import subprocess
import time

import hosts
from campaign import Fault
from daemons import Failed, on_start
from faults_process import LOST

SHAKE_S = 15  # limit until every kind of fault has occurred


class Chaos:
    """The proxy, with a route for each worker and one for clients."""

    def __init__(self, cluster, ports, seed):
        """ports: {name of a route: target port}"""
        clients = cluster.clients_at.rsplit(":", 1)[1]
        at, far = "127.0.0.1", []
        if cluster.network:
            at = hosts.ADMIN
            far = ["--hosts", at, cluster.network.address("router")]
        self.process = subprocess.Popen(
            [cluster.program("chaos", True), "--seed", str(seed), *far,
             *(f"{n}=0:{p}" for n, p in ports.items()),
             f"clients=0:{clients}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=on_start(()))
        ready = self.process.stdout.readline().split()
        if not ready or ready[0] != "ready":
            raise Failed("the proxy did not start")
        self.at = {k: f"tcp://{at}:{v}" for k, v in
                   (word.split("=") for word in ready[2:])}

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer.startswith("ok"):
            raise Failed(f"the proxy answered to {words}: {answer}")
        return answer

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Cables:
    """The proxy, but what is lost is lost on the cable of a worker's host, so
    that the kernels at both ends send it again."""

    def __init__(self, chaos, network):
        self.chaos, self.network, self.at = chaos, network, chaos.at
        self.kill = chaos.kill

    def __call__(self, name, *words):
        what = " ".join(map(str, words)).split()
        if what[0] == "drop" and name in self.network.numbers:
            self.network.lose(name, what[1])
            return "ok"
        if what[0] == "heal":
            for host in list(self.network.numbers):
                if name in (host, "*"):
                    self.network.heal(host)
        return self.chaos(name, *words)


class Link(Fault):
    via_clients = False

    def start(self, run):
        c = run.cluster
        c.start_router()
        names = [f"w{i}" for i in range(self.workers)]
        port = c.workers_at.rsplit(":", 1)[1]
        run.chaos = Chaos(c, dict.fromkeys(names, port),
                          run.rng.randrange(1 << 30))
        if c.network:
            run.chaos = Cables(run.chaos, c.network)
        run.helpers.append(run.chaos)
        if self.via_clients:
            run.load_at = run.chaos.at["clients"]
        mark = c.router.log.mark()
        for name in names:
            c.workers[name] = c.spawn_worker(name, router=run.chaos.at[name])
        for name in names:
            c.await_up(name, mark)

    def finish(self, run):
        run.chaos("*", "heal")

    def back(self, run, name, mark):
        """Waits until the worker is connected, whether it was lost or not."""
        lost = run.cluster.router.log.find(mark, LOST, worker=name)
        if lost:
            run.cluster.await_up(name, mark)
        run.load.await_tokens(100)


class Cut(Link):
    """nothing passes a worker's link, but no connection ends"""
    name, number = "cut", "12"
    must = "noticed within 2 s, no request fails; it reconnects"
    times, quick = 50, 1
    detect_s = 2.0

    def round(self, run):
        run.pause(0, 0.2)
        name, mark = run.victim(), run.cluster.router.log.mark()
        at = run.hurt(lambda: run.chaos(name, "drop both"))
        run.detect(at, mark, LOST, worker=name)
        run.pause(0, 1)
        run.chaos(name, "reset")
        run.chaos(name, "heal")
        run.cluster.await_up(name, mark)


class Partition(Link):
    """a worker's link is frozen for 0.2 to 60 s"""
    name, number = "partition", "13"
    must = "below 1 s no effect; longer, sequences continue elsewhere"
    times, quick = 40, 1
    toggle = 0

    def round(self, run):
        self.toggle += 1
        long = self.toggle % 2 == 0
        if run.quick:
            d = 2.5 if long else 0.3
        else:
            d = run.rng.choice((2.2, 3, 5, 60)) if long else \
                run.rng.uniform(0.2, 0.9)
        name, mark = run.victim(), run.cluster.router.log.mark()
        at = run.hurt(lambda: run.chaos(name, "freeze both"))
        if long:
            run.detect(at, mark, LOST, worker=name)
        time.sleep(max(0, at + d - time.time()))
        run.chaos(name, "heal")
        if not long and run.cluster.router.log.find(mark, LOST, worker=name):
            raise Failed(f"{name} was lost after {d:.1f} s")
        self.back(run, name, mark)


class OneWay(Link):
    """one direction of a worker's link is lost for 0.1 to 3 s"""
    name, number = "one_way", "14, 19"
    must = "no request fails"
    times, quick = 50, 0

    def round(self, run):
        name, mark = run.victim(), run.cluster.router.log.mark()
        way = run.rng.choice(("up", "down"))
        run.hurt(lambda: run.chaos(name, "drop", way))
        run.pause(0.1, 0.4 if run.quick else 3)
        run.chaos(name, "heal")
        self.back(run, name, mark)


class Shaken(Link):
    """Faults of the proxy on a worker's link, for some seconds."""
    settings = ()
    counted = ()  # counters of the proxy that must not stay 0
    seconds = 3

    def round(self, run):
        name, mark = run.victim(), run.cluster.router.log.mark()
        if self.via_clients:
            name = "clients"
        Shaken.shake(self, run, name)
        self.back(run, name, mark)

    def shake(self, run, name):
        """Runs for `seconds`, and until every kind of fault has occurred."""
        run.hurt()
        for words in self.settings:
            run.chaos(name, words)
        time.sleep(0.5 if run.quick else self.seconds)
        end = time.monotonic() + SHAKE_S
        while time.monotonic() < end and not Shaken.has_shaken(self, run):
            time.sleep(0.1)
        run.chaos(name, "heal")

    def stats(self, run):
        words = run.chaos("*", "stats").split()[1:]
        return dict(word.split("=") for word in words)

    def has_shaken(self, run):
        stats = Shaken.stats(self, run)
        return all(stats[word] != "0" for word in self.counted)

    def finish(self, run):
        super().finish(run)
        Shaken.tell(self, run)

    def tell(self, run):
        """Checks and notes the proxy's counters."""
        if run.rounds == 0:
            return
        stats = Shaken.stats(self, run)
        if not Shaken.has_shaken(self, run):
            raise Failed(f"no fault occurred: {stats}")
        if self.counted:
            run.note(", ".join(f"{stats[w]} {w}" for w in self.counted))


class SlowLink(Shaken):
    """a link with 50 ms delay, jitter, and 128 KiB/s"""
    name, number = "slow_link", "15"
    must = "slow, no other effect"
    times, quick = 30, 0
    settings = ("delay 50 jitter 30", "rate 131072")


class Lost(Shaken):
    """one message in 10 is lost"""
    name, number = "lost", "19"
    must = "the link repairs the loss, no request fails"
    times, quick = 30, 1
    settings = ("lose 1/10",)
    counted = ("losses",)


class Flips(Shaken):
    """one bit in 500 bytes of messages is flipped"""
    name, number = "flips", "16"
    must = "every flip is detected, no wrong token, no request fails"
    times, quick, strikes = 50, 1, True
    settings = ("flip_body 1/500",)
    counted = ("flips",)


class FlipsOfAll(Shaken):
    """one bit in 1,000 bytes is flipped, also in ZeroMQ's own bytes"""
    name, number = "flips_of_all", "16"
    must = "no wrong token, no request fails"
    times, quick, strikes = 30, 0, True
    settings = ("flip 1/1000",)
    counted = ("flips",)


class Doubled(Shaken):
    """messages: 1 in 5 doubled, 1 in 5 swapped with the next"""
    name, number = "doubled", "17, 18"
    must = "no effect"
    times, quick = 30, 1
    settings = ("dup 1/5", "reorder 1/5")
    counted = ("dups", "reorders")


class Reset(Link):
    """a worker's connection is reset"""
    name, number = "reset", "13"
    must = "noticed at once, no request fails, it reconnects"
    times, quick = 300, 1
    detect_s = 0.050

    def round(self, run):
        run.pause(0, 0.2)
        name, mark = run.victim(), run.cluster.router.log.mark()
        at = run.hurt(lambda: run.chaos(name, "reset"))
        run.detect(at, mark, LOST, worker=name)
        run.cluster.await_up(name, mark)
        run.load.await_tokens(100)


class ClientReset(Link):
    """the connections of all clients are reset"""
    name, number = "client_reset", "21"
    must = "clients resume, no request fails"
    times, quick, via_clients, receipts = 100, 0, True, False

    def round(self, run):
        run.pause(0, 0.2)
        run.hurt(lambda: run.chaos("clients", "reset"))
        run.load.await_all()


class ClientFlips(Shaken):
    """one bit in 500 bytes between clients and router is flipped"""
    name, number = "client_flips", "16"
    must = "no wrong token, no request fails"
    times, quick, strikes, via_clients = 30, 0, True, True
    settings = ("flip_body 1/500",)
    counted = ("flips",)


class ClientDoubled(Shaken):
    """clients' messages: 1 in 5 doubled, 1 in 5 late, 1 in 20 lost"""
    name, number = "client_doubled", "17, 18, 19"
    must = "no effect"
    times, quick, via_clients = 30, 0, True
    settings = ("dup 1/5", "reorder 1/5", "lose 1/20")
    counted = ("dups", "reorders", "losses")


FAULTS = [Cut, Partition, OneWay, SlowLink, Lost, Flips, FlipsOfAll, Doubled,
          Reset, ClientReset, ClientFlips, ClientDoubled]
