/* report_summary(): a result on a terminal of 80 columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/report/cell.h"
#include "client/load/report/group.h"
#include "client/load/report/report.h"
#include "common/base/quote.h"

#define SUMMARY_COLUMNS 80
#define TOP_WHYS        5

static const double columns[] = {-1, 0.5, 0.9, 0.99, 0.999, 1};

#define COLUMNS (sizeof columns / sizeof columns[0])

/* ---- latencies ---- */

static const struct line {
    enum metric metric;
    const char *label;
    bool with_interval;
} lines[] = {
    {METRIC_TTFT, "TTFT", true},
    {METRIC_TTFT_SENT, "  from the send", false},
    {METRIC_ITL, "ITL", true},
    {METRIC_TPOT, "TPOT", true},
    {METRIC_E2E, "end-to-end", true},
    {METRIC_E2E_SENT, "  from the send", false},
    {METRIC_QUEUE, "queue (server)", false},
    {METRIC_LAG, "lag (own)", false},
};

#define LINES (sizeof lines / sizeof lines[0])

static void print_interval(FILE *to, const struct tally *t, enum metric m)
{
    char text[COLUMNS * 16] = "";
    size_t at = 0;
    bool any = false;

    for (size_t i = 0; i < COLUMNS; i++) {
        struct tally_span span;
        struct cell c = {""};

        if (tally_interval(t, m, columns[i], &span)) {
            c = cell_time((span.high - span.low) / 2);
            any = true;
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "%10.10s", c.text);
    }
    while (at > 0 && text[at - 1] == ' ') {
        text[--at] = '\0';
    }
    if (any) {
        fprintf(to, "  %-16s%s\n", "  +- (95 %)", text);
    }
}

/* Returns whether a cell of the line is lost. */
static bool print_line(FILE *to, const struct line *line,
                       const struct histogram *h)
{
    fprintf(to, "  %-16s", line->label);
    for (size_t i = 0; i < COLUMNS; i++) {
        fprintf(to, "%10s", cell_figure(h, columns[i], true).text);
    }
    fputc('\n', to);
    return h->lost > 0;
}

static void print_latencies(FILE *to, const struct tally *t)
{
    bool lost = false;

    fprintf(to, "\n  %-16s%10s%10s%10s%10s%10s%10s\n", "", "mean", "p50", "p90",
            "p99", "p99.9", "max");
    for (size_t i = 0; i < LINES; i++) {
        const struct histogram *h = &t->metrics[lines[i].metric];

        if (h->n + h->lost == 0) {
            continue;
        }
        lost = print_line(to, &lines[i], h) || lost;
        if (lines[i].with_interval) {
            print_interval(to, t, lines[i].metric);
        }
    }
    if (lost) {
        fprintf(to,
                "  lost: the figure lies among %s requests that did not end "
                "ok;\n  means are without them\n",
                cell_count(t->metrics[METRIC_E2E].lost).text);
    }
}

/* ---- rates ---- */

static void print_rate(FILE *to, const struct group *g, const char *label,
                       group_figure_fn figure)
{
    double values[GROUP_VALUES], low, high;
    uint32_t n = group_values(g, figure, values);

    fprintf(to, "  %-18s%12s", label, cell_number(group_mean(g, figure)).text);
    if (n > 1) {
        low = high = values[0];
        for (uint32_t i = 1; i < n; i++) {
            low = fmin(low, values[i]);
            high = fmax(high, values[i]);
        }
        fprintf(to, "   %s .. %s over %u runs", cell_number(low).text,
                cell_number(high).text, n);
    }
    fputc('\n', to);
}

static void print_objectives(FILE *to, const struct objectives *o)
{
    const struct {
        const char *name;
        int64_t us;
    } limits[] = {{"ttft", o->ttft_us},
                  {"tpot", o->tpot_us},
                  {"itl", o->itl_us},
                  {"e2e", o->e2e_us}};
    const char *before = "";

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].us > 0) {
            fprintf(to, "%s%s <= %s", before, limits[i].name,
                    cell_time((double)limits[i].us).text);
            before = ", ";
        }
    }
}

/* The verdict is that of the search: by Wilson's bounds, not by the share. */
static void print_good(FILE *to, const struct tally *t)
{
    const struct objectives *o = &t->objectives;
    uint64_t wanted = tally_wanted(t);
    double low, high;

    if (!objectives_any(o) || wanted == 0) {
        return;
    }
    search_bounds(t->counts.n_good, wanted, &low, &high);
    fprintf(to,
            "  good: %s of %s, %s (95 %%: %.2f..%.2f %%), %g %% wanted: %s\n",
            cell_count(t->counts.n_good).text, cell_count(wanted).text,
            cell_share(t->counts.n_good, wanted).text, 100 * low, 100 * high,
            100 * o->attain,
            low >= o->attain   ? "met"
            : high < o->attain ? "missed"
                               : "open");
    fprintf(to, "        ");
    print_objectives(to, o);
    fputc('\n', to);
}

static void print_chunked(FILE *to, const struct tally *t)
{
    if (t->counts.n_chunked > 0) {
        fprintf(to,
                "\n  WARNING: the server does not report the tokens of %s of "
                "%s answers; each chunk\n  counts as one token in TPOT and "
                "tokens/s.  Give --tokenizer DIR to count tokens.\n",
                cell_count(t->counts.n_chunked).text,
                cell_count(t->counts.n_outcomes[OUTCOME_OK]).text);
    }
}

static void print_rates(FILE *to, const struct group *g)
{
    fputc('\n', to);
    print_rate(to, g, "requests/s, ok", tally_requests_per_s);
    print_rate(to, g, "output tokens/s", tally_tokens_per_s);
    if (objectives_any(&g->tally->objectives)) {
        print_rate(to, g, "good requests/s", tally_goodput);
    }
    print_good(to, g->tally);
    print_chunked(to, g->tally);
}

/* ---- outcomes and checks ---- */

/* Descending. */
static int by_count(const void *a, const void *b)
{
    const struct tally_why *x = a, *y = b;

    return x->n < y->n ? 1 : x->n > y->n ? -1 : 0;
}

static void print_whys(FILE *to, const struct tally *t)
{
    struct tally_why whys[TALLY_WHYS];
    uint32_t n = t->n_whys;

    memcpy(whys, t->whys, sizeof whys);
    qsort(whys, n, sizeof *whys, by_count);
    for (uint32_t i = 0; i < n && i < TOP_WHYS; i++) {
        fprintf(to, "    %8s %s", cell_count(whys[i].n).text,
                outcome_names[whys[i].outcome]);
        if (whys[i].code != 0) {
            fprintf(to, " (%u)", whys[i].code);
        }
        fprintf(to, ": %.48s\n",
                whys[i].why[0] == '\0' ? "no reason" : quote(whys[i].why).text);
    }
    if (n > TOP_WHYS) {
        fprintf(to, "    and %u more reasons\n", n - TOP_WHYS);
    }
}

static bool has_more(const struct tally *t, int i)
{
    while (++i < OUTCOMES && t->counts.n_outcomes[i] == 0) {
    }
    return i < OUTCOMES;
}

/* Prints text after what is on the line, or on a new line of its own if it
 * would pass the last column.  *at: the column. */
static void print_part(FILE *to, int *at, const char *text)
{
    int n = (int)strlen(text);

    if (*at + n > SUMMARY_COLUMNS) {
        fprintf(to, "\n  %s", text + (text[0] == ' '));
        *at = 2 + n;
    } else {
        fputs(text, to);
        *at += n;
    }
}

static void print_outcomes(FILE *to, const struct tally *t)
{
    char text[CELL_TEXT * 2];
    int at = 1;

    fputs(tally_requests(t) == 0 ? "\n  no request" : "\n ", to);
    for (int i = 0; i < OUTCOMES; i++) {
        if (t->counts.n_outcomes[i] > 0) {
            snprintf(text, sizeof text, " %s %s%s",
                     cell_count(t->counts.n_outcomes[i]).text, outcome_names[i],
                     has_more(t, i) ? "," : "");
            print_part(to, &at, text);
        }
    }
    if (t->counts.n_warm > 0) {
        snprintf(text, sizeof text, " (and %s of the warm-up)",
                 cell_count(t->counts.n_warm).text);
        print_part(to, &at, text);
    }
    fputc('\n', to);
    print_whys(to, t);
}

static void print_reuse(FILE *to, const struct tally *t)
{
    if (t->counts.n_prompt > 0) {
        fprintf(to, "  prompt tokens: %s, %.1f %% of them reused\n",
                cell_count(t->counts.n_prompt).text,
                100 * (double)t->counts.n_cached / (double)t->counts.n_prompt);
    }
}

static void print_injected(FILE *to, const struct tally *t)
{
    uint64_t cancelled = t->counts.n_outcomes[OUTCOME_CANCELLED];

    if (cancelled + t->counts.n_receipts + t->counts.n_leaked > 0) {
        fprintf(to, "  cancels: %s, receipts %s, leaked %s\n",
                cell_count(cancelled).text,
                cell_count(t->counts.n_receipts).text,
                cell_count(t->counts.n_leaked).text);
    }
    if (t->counts.n_outcomes[OUTCOME_DISCONNECTED] + t->counts.n_slow_readers >
        0) {
        fprintf(to, "  disconnects: %s, slow readers %s\n",
                cell_count(t->counts.n_outcomes[OUTCOME_DISCONNECTED]).text,
                cell_count(t->counts.n_slow_readers).text);
    }
}

static void print_checks(FILE *to, const struct tally *t)
{
    if (t->counts.n_checked > 0) {
        fprintf(to, "  outputs equal to the solo run: %s of %s\n",
                cell_count(t->counts.n_checked - t->counts.n_differ).text,
                cell_count(t->counts.n_checked).text);
    }
    print_reuse(to, t);
    print_injected(to, t);
    if (t->counts.n_bad_streams > 0) {
        fprintf(to, "  BAD STREAMS: %s had tokens lost, doubled or late\n",
                cell_count(t->counts.n_bad_streams).text);
    }
    if (t->counts.n_resumed + t->counts.n_moves > 0) {
        fprintf(to, "  resumed: %s, moved %s times, longest pause %s\n",
                cell_count(t->counts.n_resumed).text,
                cell_count(t->counts.n_moves).text,
                cell_time((double)t->gap_max_us).text);
    }
}

/* Prints the most sequences that were suspended at once, of the points that
 * were kept. */
static void print_suspended(FILE *to, const struct run *r)
{
    const struct cluster_point *most = NULL;

    for (uint32_t i = 0; i < r->n_points; i++) {
        const struct cluster_point *p = &r->points[i];

        if (p->n_suspended > (most != NULL ? most->n_suspended : 0)) {
            most = p;
        }
    }
    if (most != NULL) {
        fprintf(to, "  suspended: up to %s at once",
                cell_count(most->n_suspended).text);
        if (most->host_total > 0) {
            fprintf(to, ", then %s of %s host pages in use",
                    cell_count(most->host_used).text,
                    cell_count(most->host_total).text);
        }
        fputc('\n', to);
    }
}

static void print_drafts(FILE *to, const struct run *r)
{
    const struct draft_counts c = run_drafts(r);

    if (c.rows > 0 && c.verified > 0) {
        fprintf(to,
                "  drafts: %s, %.1f %% accepted, %.2f tokens a step with "
                "drafts\n",
                cell_count(c.verified).text,
                100 * (double)c.accepted / (double)c.verified,
                draft_tokens(&c));
    }
}

/* Events and audits belong to one run, so they are not merged. */
static void print_run_notes(FILE *to, const struct run *r)
{
    for (uint32_t i = 0; i < r->n_events; i++) {
        fprintf(to, "  at %s: %.60s",
                cell_time((double)r->events[i].at_us).text,
                cell_plain(r->events[i].text).text);
        if (r->events[i].exit_code > 0) {
            fprintf(to, " (exit code %d)", r->events[i].exit_code);
        }
        fputc('\n', to);
    }
    print_suspended(to, r);
    print_drafts(to, r);
    if (!r->audited && r->audit[0] != '\0') {
        fprintf(to, "  %s\n", cell_plain(r->audit).text);
    } else if (r->audited) {
        fprintf(to, "  audit: %s%s\n",
                r->audit_ok ? "" : "FAILED: ", cell_plain(r->audit).text);
    }
}

/* ---- groups ---- */

static double seconds_of(const struct group *g)
{
    return group_mean(g, tally_seconds);
}

static void print_group(FILE *to, const struct result *r, const struct group *g)
{
    char text[CELL_TEXT * 2];
    int at = fprintf(to, "sluice-load: %s requests in ",
                     cell_count(tally_requests(g->tally)).text);

    if (g->n_runs > 1) {
        at += fprintf(to, "%u runs of ", g->n_runs);
    }
    at += fprintf(to, "%.1f s", seconds_of(g));
    snprintf(text, sizeof text, " to %.70s", cell_plain(r->target).text);
    print_part(to, &at, text);
    if (r->model != NULL) {
        snprintf(text, sizeof text, " (%.70s)", cell_plain(r->model).text);
        print_part(to, &at, text);
    }
    fputc('\n', to);
    if (g->runs[0]->plan != NULL) {
        fprintf(to, "  %s\n", g->runs[0]->plan);
    }
    print_latencies(to, g->tally);
    print_rates(to, g);
    print_outcomes(to, g->tally);
    print_checks(to, g->tally);
    for (uint32_t i = 0; i < g->n_runs; i++) {
        print_run_notes(to, g->runs[i]);
    }
}

/* One line for each load of a sweep. */
static void print_sweep(FILE *to, const struct result *r,
                        const struct groups *g)
{
    fprintf(to, "sluice-load: %u loads to %.50s\n\n", g->n,
            cell_plain(r->target).text);
    fprintf(to, "  %18s%10s%10s%10s%10s%10s%9s\n", "load", "tokens/s",
            "TTFT p50", "TTFT p99", "ITL p99", "E2E p99", "good");
    for (uint32_t i = 0; i < g->n; i++) {
        const struct tally *t = g->group[i].tally;
        const struct histogram *m = t->metrics;

        fprintf(to, "  %18.18s%10s%10s%10s",
                group_name(g->group[i].load, g->group[i].closed).text,
                cell_number(group_mean(&g->group[i], tally_tokens_per_s)).text,
                cell_figure(&m[METRIC_TTFT], 0.5, true).text,
                cell_figure(&m[METRIC_TTFT], 0.99, true).text);
        fprintf(to, "%10s%10s%9s\n",
                cell_figure(&m[METRIC_ITL], 0.99, true).text,
                cell_figure(&m[METRIC_E2E], 0.99, true).text,
                cell_share(t->counts.n_good, tally_wanted(t)).text);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        const struct group *one = &g->group[i];

        fprintf(to, "\n  %s:", group_name(one->load, one->closed).text);
        print_outcomes(to, one->tally);
        print_checks(to, one->tally);
        for (uint32_t k = 0; k < one->n_runs; k++) {
            print_run_notes(to, one->runs[k]);
        }
    }
}

/* ---- the search ---- */

static void print_trial(FILE *to, const struct search_trial *t)
{
    static const char *const kinds[] = {"bracket", "bisect", "confirm",
                                        "beyond"};
    static const char *const verdicts[] = {"open", "meets", "misses"};
    double low, high;

    search_bounds(t->n_good, t->n_wanted, &low, &high);
    fprintf(to, "  %-8s%12s%6u%12s", kinds[t->kind], cell_load(t->load).text,
            t->n_runs, cell_share(t->n_good, t->n_wanted).text);
    fprintf(to, "   %6.2f..%6.2f %%   %s\n", 100 * low, 100 * high,
            verdicts[t->verdict]);
}

static void print_conclusion(FILE *to, const struct search *s)
{
    const char *unit = s->options.whole ? "at once" : "requests/s";
    double load = search_result(s);

    if (load <= 0) {
        fprintf(to, "  No load meets the objectives.\n");
        return;
    }
    fprintf(to, "  The largest load that meets is %s %s", cell_load(load).text,
            unit);
    if (s->confirmed) {
        fprintf(to, ":\n  confirmed by a second run, and missed at %s.\n",
                cell_load(s->trials[s->n_trials - 1].load).text);
    } else if (s->capped) {
        fprintf(to, ": the limit of the search;\n  the server may take "
                    "more.\n");
    } else {
        fprintf(to, ", but this is NOT CONFIRMED:\n  %s.\n",
                s->invalid                     ? "a run was invalid"
                : s->n_trials == SEARCH_TRIALS ? "trials contradict each other"
                                               : "the search was stopped");
    }
}

static void print_search(FILE *to, const struct search *s)
{
    fprintf(to, "\n  %-8s%12s%6s%12s   %16s   %s\n", "search", "load", "runs",
            "good", "95 %", "verdict");
    for (uint32_t i = 0; i < s->n_trials; i++) {
        print_trial(to, &s->trials[i]);
    }
    print_conclusion(to, s);
}

static void print_banners(FILE *to, const struct result *r)
{
    for (uint32_t i = 0; i < r->n_runs; i++) {
        const struct run *run = &r->runs[i];

        if (run->invalid) {
            fprintf(to,
                    "INVALID: run %u of %u at %s is no measurement:\n  %s\n\n",
                    i + 1, r->n_runs, group_name(run->load, run->closed).text,
                    run->why_invalid);
        }
        if (run->stopped) {
            fprintf(to, "STOPPED: run %u of %u ended early.\n\n", i + 1,
                    r->n_runs);
        }
    }
}

void report_summary(FILE *to, const struct result *r)
{
    struct groups g;

    groups_init(&g, r);
    print_banners(to, r);
    if (g.n == 1) {
        print_group(to, r, &g.group[0]);
    } else if (g.n > 1) {
        print_sweep(to, r, &g);
    } else {
        fprintf(to, "sluice-load: %s at %.50s\n",
                r->searched ? "a search" : "no run",
                cell_plain(r->target).text);
    }
    if (r->searched) {
        print_search(to, &r->search);
    }
    groups_fini(&g);
}
