"""The table of all faults, and the verdict."""
from campaign import percentile

COLUMNS = ("fault", "times", "detected p50", "p99", "recovered p50", "p99",
           "ended", "failed", "lost", "doubled", "wrong", "leaked", "verdict")


def figures(run):
    """Returns the figures of a fault, for --json."""
    return {"fault": run.fault.name, "number": run.fault.number,
            "times": run.rounds,
            "detected_s": distribution(run.detected),
            "recovered_s": distribution(run.recovered),
            "leaked": run.leaked, "bad": run.bad,
            "notes": run.notes + cancels(run), **run.totals}


def nothing(name, why):
    """Returns the figures of a run without a result."""
    return {"fault": name, "times": 0, "detected_s": None, "recovered_s": None,
            "leaked": 0, "bad": [why], "notes": []}


def distribution(values):
    if not values:
        return None
    return {"n": len(values), "p50": percentile(values, 50),
            "p99": percentile(values, 99), "max": max(values)}


def seconds(values, p):
    if not values:
        return "-"
    s = values[p]
    return f"{s * 1e3:.0f} ms" if s < 10 else f"{s:.1f} s"


def row(f):
    return (f["fault"], str(f["times"]),
            *(seconds(f[k], p) for k in ("detected_s", "recovered_s")
              for p in ("p50", "p99")),
            *(str(f.get(k, 0)) for k in ("ended", "failed", "lost", "doubled",
                                         "wrong", "leaked")),
            "FAILED" if f["bad"] else "holds")


def table(faults):
    rows = [COLUMNS] + [row(f) for f in faults]
    widths = [max(len(r[i]) for r in rows) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(
        cell.ljust(w) if i in (0, len(COLUMNS) - 1) else cell.rjust(w)
        for i, (cell, w) in enumerate(zip(r, widths))).rstrip() for r in rows)


def cancels(run):
    """Returns the times from cancel to free memory, and the states of the
    cancelled sequences."""
    freed = run.totals.get("freed_us")
    if not freed or not run.fault.cancel:
        return []
    states = ", ".join(f"{n} {s}" for s, n in run.totals["states"].items()
                       if n)
    return [f"{run.totals['cancelled']} cancels ({states}), memory free after "
            f"p50 {freed['p50'] / 1e3:.1f} ms, p99 {freed['p99'] / 1e3:.1f} "
            f"ms, max {freed['max'] / 1e3:.1f} ms"]


def verdict(faults, seed):
    failed = [f["fault"] for f in faults if f["bad"]]
    total = {k: sum(f.get(k, 0) for f in faults)
             for k in ("times", "ended", "failed", "lost", "doubled", "wrong",
                       "leaked")}
    return (f"tests/faults/run: {len(faults)} faults, {total['times']} times, "
            f"{total['ended']} requests: {total['failed']} failed, "
            f"{total['lost']} tokens lost, {total['doubled']} doubled, "
            f"{total['wrong']} wrong, {total['leaked']} pages leaked; "
            f"seed {seed}: "
            + ("FAILED: " + " ".join(failed) if failed else "all holds"))
