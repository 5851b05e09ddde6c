"""The audit after every fault: all memory is released, nothing is open, no
process has grown."""
import re
import time

from daemons import PATIENCE_S, Failed, await_true

# Allowed growth of a process since the warm-up rounds.
RSS_SHARE, RSS_KB = 0.02, 4096
LARGE_KB = 2048  # smallest mapping that counts as large
QUIET_S = 30
# Allowed output of daemons besides their log.
BENIGN = re.compile(r"\s*$|reading weights: ")


def held(cluster):
    """Returns the number of pages that are neither free nor cached, by the
    workers' ledgers."""
    n = 0
    for w in cluster.ctl("workers")["workers"]:
        pages = w["ledger"]["pages"]
        n += pages["total"] - pages["free"] - pages["cached"]
    return n


def is_quiet(cluster):
    return cluster.ctl("sequences")["sequences"] == [] and held(cluster) == 0


def settle(cluster):
    """Waits until nothing is open or held; audit() reports what is left."""
    try:
        await_true("quiet", lambda: is_quiet(cluster), QUIET_S)
    except Failed:
        pass


def mappings(pid):
    """Returns [(size, resident, anonymous and writable)], sizes in kB."""
    out, size, anonymous = [], 0, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
        for line in f:
            words = line.split()
            if words[0] == "Size:":
                size = int(words[1])
            elif words[0] == "Rss:":
                out.append((size, int(words[1]), anonymous))
            elif not words[0].endswith(":"):
                # Reserved address space is not memory.
                anonymous = len(words) < 6 and words[1].startswith("rw")
    return out


def measure(daemon):
    """Returns a daemon's sizes.  A worker's pool and scratch count as "large"
    instead of "rss", because their pages become resident over time."""
    maps = mappings(daemon.pid)
    large = [m for m in maps if m[2] and m[0] >= LARGE_KB
             and daemon.name != "router"]
    return {"fds": daemon.files(), "threads": daemon.status("Threads"),
            "rss": sum(m[1] for m in maps) - sum(m[1] for m in large),
            "large": sum(m[0] for m in large)}


def answers(cluster):
    return len(cluster.ctl("audit", rc=(0, 1))["workers"]) == \
        len(cluster.workers)


def baseline(cluster):
    """Returns the sizes of the router and of the largest worker.  Every worker
    is connected then: a fault may have ended its connection a moment ago, and
    an idle router does not notice."""
    await_true("every worker answers an audit", lambda: answers(cluster))
    workers = [measure(w) for w in cluster.workers.values()]
    return {"router": measure(cluster.router),
            "worker": {k: max(w[k] for w in workers) for k in workers[0]}}


def grown(daemon, base):
    """Returns a text for each size that has grown."""
    end = time.monotonic() + PATIENCE_S  # sockets of gone clients close one by one
    while True:
        now = measure(daemon)
        bad = [f"{daemon.name}: {now[k]} {k}, {base[k]} before"
               for k in ("fds", "threads") if now[k] > base[k]]
        bad += [f"{daemon.name}: {k} {now[k]} kB, {base[k]} before"
                for k in ("rss", "large")
                if now[k] > base[k] + max(base[k] * RSS_SHARE, RSS_KB)]
        if not bad or time.monotonic() > end:
            return bad
        time.sleep(0.05)


def audit(cluster, base, strikes=False):
    """Returns (pages leaked, list of errors).  strikes: the fault corrupts
    frames."""
    settle(cluster)
    bad = []
    leaked = held(cluster)
    left = len(cluster.ctl("sequences")["sequences"])
    if leaked or left:
        bad.append(f"{leaked} pages are held, {left} sequences open")
    whole = cluster.ctl("audit", rc=(0, 1))
    if whole["n_differences"] != 0:
        bad.append(f"audit: {whole}")
    if len(whole["workers"]) != len(cluster.workers):
        bad.append(f"{len(whole['workers'])} workers were audited, of "
                   f"{len(cluster.workers)}")
    status = cluster.ctl("status")
    if status["ledger_violations"] != 0:
        bad.append(f"{status['ledger_violations']} ledger violations")
    if status["n_strikes"] != 0 and not strikes:
        bad.append(f"{status['n_strikes']} strikes")
    if status["n_waiting"] + status["n_running"] != 0:
        bad.append(f"{status['n_waiting']} waiting and {status['n_running']} "
                   "running in the router's figures")
    bad += grown(cluster.router, base["router"])
    for w in cluster.workers.values():
        bad += grown(w, base["worker"])
    return leaked, bad


def strange(daemons):
    """Returns output that is not a log line, such as a sanitizer's report."""
    return [f"{d.name} printed: {line}" for d in daemons
            for line in d.log.strange if not BENIGN.match(line)]
