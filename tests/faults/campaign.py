"""A campaign of one fault: a cluster, the load, rounds, the audit."""
import random
import re
import shutil
import tempfile
import time
import traceback

import audit
import daemons
import hosts
import streams
from daemons import Failed, await_true

WARM_TOKENS = 100
QUICK_STREAMS = 12
PROGRESS_S = 10


class Fault:
    """A fault.  A subclass defines a round; --list prints its docstring."""
    name = ""
    number = ""        # in the catalogue of faults
    must = ""          # the requirement, besides those of the audit
    times, quick = 20, 1
    workers, streams, cancel = 2, 32, 0
    warm = 1           # rounds before the baseline
    memory = "64MiB"
    router_args = worker_args = ()
    may_fail = None    # pattern of errors that requests may end with
    may_log = None     # pattern of allowed stderr lines besides the log
    strikes = False    # the fault corrupts frames
    receipts = True    # every cancel must have a receipt
    detect_s = None    # limit of the p99 of detection in a full run

    def start(self, run):
        run.cluster.start(self.workers)

    def round(self, run):
        raise NotImplementedError

    def finish(self, run):
        """Undoes the fault before the audit."""


class Run:
    """The cluster, the load and the results of one fault."""

    def __init__(self, fault, settings):
        self.fault, self.settings = fault, settings
        self.rng = random.Random(f"{settings.seed}/{fault.name}")
        self.folder = tempfile.mkdtemp(prefix="sluice-faults.")
        self.network = keys = None
        if settings.namespaces:
            self.network = hosts.Network(self.folder)
            keys = hosts.Keys(self.folder, f"{settings.build}/bin/sluicectl")
        self.cluster = daemons.Cluster(
            settings.build, self.folder, self.rng, fault.router_args,
            ("--memory", fault.memory, *fault.worker_args), self.network, keys)
        self.load, self.load_at = None, None
        self.helpers = []  # the fault's processes, killed at the end
        self.hurt_at = []  # (wall clock, monotonic), in seconds
        self.detected, self.recovered = [], []  # seconds
        self.rounds = 0
        self.totals = {}
        self.bad = []
        self.leaked = 0
        self.notes = []
        self.quick = settings.quick

    # ---- for rounds ----

    def pause(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    def hurt(self, act=None, at=None):
        """Injects the fault now, or notes that it happened at that time."""
        wall, mono = time.time(), time.monotonic()
        if at is not None:
            mono -= wall - at
            wall = at
        if act:
            act()
        self.load.mark()
        self.hurt_at.append((wall, mono))
        return wall

    def detect(self, since_wall, mark, names, **fields):
        """Waits for the router's log line.  Time stamps are truncated to
        milliseconds; the end of the millisecond counts."""
        log = self.cluster.router.log
        event = await_true(f"the router logs {names} {fields}",
                           lambda: log.find(mark, names, **fields))
        self.detected.append(max(0.0, event.at + 0.001 - since_wall))
        return event

    def victim(self):
        return self.rng.choice(sorted(self.cluster.workers))

    def note(self, text):
        if text not in self.notes and len(self.notes) < 20:
            self.notes.append(text)

    # ---- the load ----

    def start_load(self):
        self.load = streams.Streams(
            self.cluster, self.settings.reference(),
            self.n_streams(),
            self.rng.randrange(1 << 31), self.settings.longest(),
            self.fault.cancel, at=self.load_at)
        self.load.await_tokens(WARM_TOKENS)

    def n_streams(self):
        if self.settings.streams:
            return self.settings.streams
        return min(self.fault.streams, QUICK_STREAMS) if self.quick else \
            self.fault.streams

    def stop_load(self):
        summary = self.load.stop()
        for key, value in summary.items():
            if isinstance(value, (int, float)) and key != "longest_gap_us":
                self.totals[key] = self.totals.get(key, 0) + value
        for key in ("states", "freed_us"):
            self.totals[key] = summary.get(key)
        self.judge_ends()
        self.take_gaps()
        self.load = None

    def judge_ends(self):
        may = self.fault.may_fail
        allowed = 0
        for end in self.load.ends:
            if end["end"] in ("OK", "CANCELLED"):
                continue
            if may and re.search(may, end["end"] + " " + end["why"]):
                allowed += 1
            elif len(self.bad) < 3:
                self.bad.append(f"a request ended {end}")
        self.totals["failed"] = self.totals.get("failed", 0) - allowed
        self.totals["allowed"] = self.totals.get("allowed", 0) + allowed
        for end in self.load.ends:
            if end["lost"] + end["doubled"] + end["wrong"] and \
                    len(self.bad) < 6:
                self.bad.append(f"a stream differs: {end}")

    def take_gaps(self):
        """Notes how long the streams paused after each fault."""
        for _wall, mono in self.hurt_at:
            for gap in self.load.gaps:
                if not gap["first"] and gap["from_us"] <= mono * 1e6 + 2000 \
                        and gap["to_us"] > mono * 1e6:
                    self.recovered.append(gap["to_us"] / 1e6 - mono)
        self.hurt_at = []

    # ---- the whole ----

    def one_round(self):
        if self.load.process.poll() is not None:
            raise Failed("the load has ended by itself")
        self.fault.round(self)

    def rounds_of(self, times):
        said = time.monotonic()
        for i in range(times):
            self.one_round()
            self.rounds += 1
            if time.monotonic() - said > PROGRESS_S:
                said = time.monotonic()
                print(f"  {self.fault.name}: {i + 1} of {times}, "
                      f"{self.load.read().progress}", flush=True)

    def warm_up(self):
        """Runs rounds before the baseline of sizes is measured."""
        self.start_load()
        for _ in range(self.fault.warm):
            self.one_round()
        self.stop_load()
        self.fault.finish(self)
        audit.settle(self.cluster)
        base = audit.baseline(self.cluster)
        self.detected, self.recovered, self.totals = [], [], {}
        return base

    def go(self, times):
        """Raises only on Ctrl-C; failures are in self.bad."""
        try:
            self.settings.reference()
            self.fault.start(self)
            base = self.warm_up()
            self.start_load()
            self.rounds_of(times)
            self.stop_load()
            self.fault.finish(self)
            if not self.settings.rss:
                for one in base.values():
                    one["rss"] = one["large"] = 1 << 40
            self.leaked, wrong = audit.audit(self.cluster, base,
                                             self.fault.strikes)
            self.bad += wrong
            self.judge()
            self.bad += self.cluster.stop()
        except Failed as e:
            self.bad.append(str(e))
            self.salvage()
        except (OSError, ValueError, KeyError) as e:
            at = traceback.extract_tb(e.__traceback__)[-1]
            self.bad.append(f"{e!r} at {at}")
        finally:
            self.clean_up()

    def judge(self):
        for key in ("failed", "lost", "doubled", "wrong", "unended",
                    "foreign_receipts"):
            if self.totals.get(key):
                self.bad.append(f"{self.totals[key]} {key}")
        if self.fault.receipts and \
                self.totals["receipts"] != self.totals["cancelled"]:
            self.bad.append(f"{self.totals['cancelled']} cancels, "
                            f"{self.totals['receipts']} receipts")
        if self.totals["ended"] == 0:
            self.bad.append("no request ended")
        if self.fault.detect_s and not self.quick and self.detected:
            p99 = percentile(self.detected, 99)
            if p99 > self.fault.detect_s:
                self.bad.append(f"detected in {p99 * 1e3:.0f} ms at p99, "
                                f"limit {self.fault.detect_s * 1e3:.0f} ms")

    def salvage(self):
        """After a failed round: notes the load's last ends and log lines."""
        if self.load and self.load.process.poll() is None:
            self.load.read()
            self.bad += [f"earlier end: {e}" for e in self.load.ends[-3:]]
        for d in self.cluster.all():
            self.bad.append(f"{d.name}: {daemons.tail(d, 3)}")

    def clean_up(self):
        if self.load:
            self.load.kill()
        for helper in self.helpers:
            helper.kill()
        self.cluster.kill()
        if self.network:
            self.network.close()
        gone = self.cluster.ended + self.cluster.all()
        self.bad += [line for line in audit.strange(gone)
                     if not (self.fault.may_log and
                             re.search(self.fault.may_log, line))][:5]
        if self.settings.keep:
            shutil.copytree(self.folder,
                            f"{self.settings.keep}/{self.fault.name}",
                            dirs_exist_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, len(values) * p // 100)]
