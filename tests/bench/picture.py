"""The figures of tests/bench/run as one SVG: shares of the limits, and
distributions.  No library: rectangles and text."""
from html import escape

from report import MODELS, at

WIDTH, LEFT, BAR, GAP = 860, 250, 16, 6
LEDGER = (("held", "#2f6f9f"), ("granted", "#9dbfd8"), ("cached", "#c0792a"),
          ("free", "#eeeeee"))
COLOURS = {"decode": "#2f6f9f", "prefill": "#c0792a", "other": "#5a8f4e"}


class Page:
    def __init__(self):
        self.parts, self.y = [], 24

    def text(self, x, y, words, size=12, anchor="start", weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" '
            f'text-anchor="{anchor}" font-weight="{weight}">'
            f'{escape(words)}</text>')

    def rect(self, x, y, w, h, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" '
                          f'height="{h:.1f}" fill="{colour}"/>')

    def title(self, words):
        self.y += 14
        self.text(16, self.y, words, 14, weight="bold")
        self.y += 14

    def bar(self, name, share, label, colour):
        full = WIDTH - LEFT - 150
        self.rect(LEFT, self.y, full, BAR, "#eeeeee")
        self.rect(LEFT, self.y, full * min(share, 1.0), BAR, colour)
        self.text(LEFT - 8, self.y + 12, name, anchor="end")
        self.text(LEFT + full + 8, self.y + 12, label)
        self.y += BAR + GAP

    def svg(self):
        height = self.y + 20
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
                f'height="{height}" font-family="sans-serif">\n'
                f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def draw_model(page, figures, model):
    rows = at(figures, model)
    if not rows:
        return
    page.title(f"{model}: share of the limit (decode: read bandwidth; "
               "prefill: f32 rate)")
    for kind, key in (("prefill", "tokens"), ("decode", "batch")):
        for row in rows[kind]:
            page.bar(f"{kind}, {key} {row[key]}", row["share"],
                     f"{row['share']:.2f}   {row['tok_s']:,.1f} tok/s",
                     COLOURS[kind])


def draw_router(page, figures):
    targets = [t for t in figures["targets"]
               if t["name"].startswith(("router", "unary"))]
    if targets:
        page.title("the router: share of its target")
    for t in targets:
        share = t["got"] / t["wanted"]
        share = share if t["at_least"] else 1 / share
        page.bar(t["name"][:40], share, f"{t['got']:,.2f}", COLOURS["other"])


def draw_histogram(page, name, d):
    if not d:
        return
    bars, height = d["histogram"], 90
    most = max(n for _bound, n in bars)
    width = (WIDTH - 140) / len(bars)
    page.title(f"{name}: p50 {d['p50']:,.0f}, p99 {d['p99']:,.0f}, max "
               f"{d['max']:,.0f} us")
    base = page.y + height
    for i, (bound, n) in enumerate(bars):
        h = height * n / most
        page.rect(70 + i * width, base - h, max(width - 2, 1), h,
                  COLOURS["other"])
        if i in (0, len(bars) - 1):
            page.text(70 + (i + 0.5) * width, base + 14, f"{bound:,.0f} us",
                      10, "middle")
    page.y = base + 20


def draw_ledger(page, figures):
    """Draws the columns of the ledger over time, as stacked areas."""
    rows = at(figures, "reuse", "trace", "reuse", "ledger")
    if not rows or len(rows) < 2:
        return
    page.title("the pool while a trace runs: share of the pages")
    width, height, base = WIDTH - 140, 120, page.y + 120
    end = rows[-1][0]
    below = [0.0] * len(rows)
    for i, (name, colour) in enumerate(LEDGER):
        above = [b + row[i + 1] for b, row in zip(below, rows)]
        edge = [(70 + width * row[0] / end, base - height * y)
                for row, y in zip(rows, above)]
        edge += [(70 + width * row[0] / end, base - height * y)
                 for row, y in zip(reversed(rows), reversed(below))]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in edge)
        page.parts.append(f'<polygon points="{points}" fill="{colour}"/>')
        page.rect(70 + 110 * i, base + 22, 10, 10, colour)
        page.text(84 + 110 * i, base + 31, name, 11)
        below = above
    page.text(70, base + 14, "0 s", 10)
    page.text(70 + width, base + 14, f"{end:,.0f} s", 10, "end")
    page.y = base + 40


def draw(figures):
    page = Page()
    page.text(16, page.y, f"sluice {figures['commit']}, {figures['when']}, "
              f"{figures['cpu']}, {figures['threads']} threads, load "
              f"{figures['load_before']:.2f} before", 11)
    page.y += 8
    for model in MODELS:
        draw_model(page, figures, model)
    draw_router(page, figures)
    draw_ledger(page, figures)
    for key, name in (("join_us", "join to first token"),
                      ("cancel_us", "cancel to receipt"),
                      ("free_us", "cancel to free")):
        draw_histogram(page, name, at(figures, "serve", key))
    return page.svg()
