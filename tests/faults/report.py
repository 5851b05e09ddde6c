"""The table, and the verdict."""
from campaign import percentile

COLUMNS = ("fault", "times", "detected p50", "p99", "recovered p50", "p99",
           "ended", "failed", "lost", "doubled", "wrong", "leaked", "verdict")


def seconds(values, p):
    if not values:
        return "-"
    s = percentile(values, p)
    return f"{s * 1e3:.0f} ms" if s < 10 else f"{s:.1f} s"


def figures(run):
    """For --json."""
    return {"fault": run.fault.name, "number": run.fault.number,
            "times": run.rounds,
            "detected_s": distribution(run.detected),
            "recovered_s": distribution(run.recovered),
            "leaked": run.leaked, "bad": run.bad, "notes": run.notes,
            **run.totals}


def distribution(values):
    if not values:
        return None
    return {"n": len(values), "p50": percentile(values, 50),
            "p99": percentile(values, 99), "max": max(values)}


def row(run):
    t = run.totals
    return (run.fault.name, str(run.rounds), seconds(run.detected, 50),
            seconds(run.detected, 99), seconds(run.recovered, 50),
            seconds(run.recovered, 99), str(t.get("ended", 0)),
            str(t.get("failed", 0)), str(t.get("lost", 0)),
            str(t.get("doubled", 0)), str(t.get("wrong", 0)),
            str(run.leaked), "FAILED" if run.bad else "holds")


def table(runs):
    rows = [COLUMNS] + [row(run) for run in runs]
    widths = [max(len(r[i]) for r in rows) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(
        cell.ljust(w) if i in (0, len(COLUMNS) - 1) else cell.rjust(w)
        for i, (cell, w) in enumerate(zip(r, widths))).rstrip() for r in rows)


def cancels(run):
    """Of a fault with cancels: until the memory was free, and in which state
    they found their sequences."""
    freed = run.totals.get("freed_us")
    if not freed or not run.fault.cancel:
        return []
    states = ", ".join(f"{n} {s}" for s, n in run.totals["states"].items()
                       if n)
    return [f"{run.fault.name}: {run.totals['cancelled']} cancels ({states}), "
            f"memory free after p50 {freed['p50'] / 1e3:.1f} ms, p99 "
            f"{freed['p99'] / 1e3:.1f} ms, max {freed['max'] / 1e3:.1f} ms"]


def verdict(runs, seed):
    failed = [run.fault.name for run in runs if run.bad]
    total = {k: sum(run.totals.get(k, 0) for run in runs)
             for k in ("ended", "failed", "lost", "doubled", "wrong")}
    said = (f"tests/faults/run: {len(runs)} faults, "
            f"{sum(run.rounds for run in runs)} times, {total['ended']} "
            f"requests: {total['failed']} failed, {total['lost']} tokens lost, "
            f"{total['doubled']} doubled, {total['wrong']} wrong, "
            f"{sum(run.leaked for run in runs)} blocks leaked; seed {seed}: ")
    return said + ("FAILED: " + " ".join(failed) if failed else "all holds")
