/* report_compare(): two results side by side. */
#include <math.h>
#include <string.h>

#include "client/load/figures/confidence.h"
#include "client/load/report/cell.h"
#include "client/load/report/group.h"
#include "client/load/report/report.h"

#define PARTS 10 /* of a run, for its rates */

enum verdict { VERDICT_NONE, VERDICT_NOISE, VERDICT_BETTER, VERDICT_WORSE };

static const char *const verdict_names[] = {"-", "noise", "better", "worse"};

static enum verdict judge(double a, double b, bool differ, bool more_is_better)
{
    if (!differ) {
        return VERDICT_NOISE;
    }
    return (b > a) == more_is_better ? VERDICT_BETTER : VERDICT_WORSE;
}

static void print_row(FILE *to, const char *label, const char *a, const char *b,
                      double ratio, enum verdict v)
{
    char text[24] = "-";

    if (isfinite(ratio)) {
        snprintf(text, sizeof text, "%.3f", ratio);
    }
    fprintf(to, "  %-22s%14s%14s%10s   %s\n", label, a, b, text,
            verdict_names[v]);
}

static double ratio_of(double a, double b)
{
    return a > 0 ? b / a : (double)NAN;
}

/* Returns the verdict of Welch's test on two lists of values. */
static enum verdict test(const double *a, uint32_t n_a, const double *b,
                         uint32_t n_b, bool more_is_better)
{
    struct confidence of_a = confidence_of(a, n_a);
    struct confidence of_b = confidence_of(b, n_b);

    return judge(of_a.mean, of_b.mean, confidence_differ(&of_a, &of_b),
                 more_is_better);
}

/* ---- latencies ---- */

static double figure(const struct histogram *h, double q)
{
    return q < 0 ? histogram_mean(h) : (double)histogram_quantile(h, q);
}

/* Fills one value of each run, or of each batch if there are few runs. */
static uint32_t values_of(const struct group *g, bool by_runs, enum metric m,
                          double q, double out[GROUP_VALUES])
{
    uint32_t n = 0;

    if (!by_runs) {
        n = tally_batch_values(g->tally, m, q, out);
        return n < TALLY_GROUPS_MIN ? 0 : n;
    }
    for (uint32_t i = 0; i < g->n_runs && n < GROUP_VALUES; i++) {
        const struct histogram *h = &g->runs[i]->tally->metrics[m];

        out[n] = figure(h, q);
        if (out[n] >= (double)HISTOGRAM_LOST) {
            return 0; /* to leave it out would make the others look better */
        }
        n += h->n > 0;
    }
    return n;
}

/* Runs are independent, batches of one run almost: runs are better if there
 * are enough. */
static bool by_runs(const struct group *a, const struct group *b)
{
    return a->n_runs >= COMPARE_RUNS_MIN && b->n_runs >= COMPARE_RUNS_MIN;
}

static enum verdict judge_metric(const struct group *a, const struct group *b,
                                 enum metric m, double q)
{
    double x[GROUP_VALUES], y[GROUP_VALUES];
    bool lost_a = figure(&a->tally->metrics[m], q) >= (double)HISTOGRAM_LOST;
    bool lost_b = figure(&b->tally->metrics[m], q) >= (double)HISTOGRAM_LOST;
    uint32_t n_a, n_b;

    if (lost_a || lost_b) {
        return lost_a && lost_b ? VERDICT_NONE
               : lost_b         ? VERDICT_WORSE
                                : VERDICT_BETTER;
    }
    n_a = values_of(a, by_runs(a, b), m, q, x);
    n_b = values_of(b, by_runs(a, b), m, q, y);
    return n_a < 2 || n_b < 2 ? VERDICT_NONE : test(x, n_a, y, n_b, false);
}

static void print_metric(FILE *to, const struct group *a, const struct group *b,
                         enum metric m, const char *label)
{
    static const struct {
        const char *name;
        double q;
    } rows[] = {{"mean", -1},  {"p50", 0.5},     {"p90", 0.9},
                {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
    const struct histogram *x = &a->tally->metrics[m];
    const struct histogram *y = &b->tally->metrics[m];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double q = rows[i].q;
        char text[40];
        bool none = x->n + x->lost == 0 || y->n + y->lost == 0;
        bool lost = figure(x, q) >= (double)HISTOGRAM_LOST ||
                    figure(y, q) >= (double)HISTOGRAM_LOST;

        snprintf(text, sizeof text, "%s %s", label, rows[i].name);
        print_row(to, text, cell_figure(x, q, true).text,
                  cell_figure(y, q, true).text,
                  lost || none ? (double)NAN
                               : ratio_of(figure(x, q), figure(y, q)),
                  none ? VERDICT_NONE : judge_metric(a, b, m, q));
    }
}

/* ---- rates ---- */

static double row_ended(const struct tally_row *r)
{
    return (double)r->n_ended[OUTCOME_OK];
}

static double row_tokens(const struct tally_row *r)
{
    return (double)r->n_output;
}

static double row_good(const struct tally_row *r)
{
    return (double)r->n_good;
}

static const struct rate {
    const char *label;
    group_figure_fn of_run;
    double (*of_row)(const struct tally_row *r);
} rates[] = {
    {"requests/s", tally_requests_per_s, row_ended},
    {"output tokens/s", tally_tokens_per_s, row_tokens},
    {"good requests/s", tally_goodput, row_good},
};

/* Fills the sums over up to PARTS equal parts of the rows in which requests
 * were due.  The first and the last of them are left out: they are measured in
 * part only. */
static uint32_t parts_of(const struct tally *t, const struct rate *rate,
                         double out[PARTS])
{
    int64_t first = t->from_us / t->row_us + 1, end = t->n_rows, n, size;
    uint32_t parts = 0;

    while (end > 0 && t->rows[end - 1].n_due == 0) {
        end--;
    }
    end--;
    n = end - first;
    size = (n + PARTS - 1) / PARTS;
    if (first < 0 || n < 2) {
        return 0;
    }
    for (; first + size <= end && parts < PARTS; first += size) {
        out[parts] = 0;
        for (int64_t i = first; i < first + size; i++) {
            out[parts] += rate->of_row(&t->rows[i]);
        }
        out[parts++] /= (double)(size * t->row_us) / 1e6;
    }
    return parts;
}

static enum verdict judge_rate(const struct group *a, const struct group *b,
                               const struct rate *rate)
{
    double x[GROUP_VALUES], y[GROUP_VALUES];
    uint32_t n_a, n_b;

    if (by_runs(a, b)) {
        n_a = group_values(a, rate->of_run, x);
        n_b = group_values(b, rate->of_run, y);
    } else {
        n_a = parts_of(a->runs[0]->tally, rate, x);
        n_b = parts_of(b->runs[0]->tally, rate, y);
        if (n_a < TALLY_GROUPS_MIN || n_b < TALLY_GROUPS_MIN) {
            return VERDICT_NONE;
        }
    }
    return test(x, n_a, y, n_b, true);
}

static void print_rate(FILE *to, const struct group *a, const struct group *b,
                       const struct rate *rate)
{
    double x = group_mean(a, rate->of_run), y = group_mean(b, rate->of_run);

    print_row(to, rate->label, cell_number(x).text, cell_number(y).text,
              ratio_of(x, y), judge_rate(a, b, rate));
}

/* ---- shares ---- */

static void print_share(FILE *to, const char *label, const uint64_t k[2],
                        const uint64_t n[2], bool more_is_better)
{
    double low[2], high[2], share[2];
    enum verdict v = VERDICT_NONE;

    for (int i = 0; i < 2; i++) {
        search_bounds(k[i], n[i], &low[i], &high[i]);
        share[i] = n[i] == 0 ? 0 : (double)k[i] / (double)n[i];
    }
    if (n[0] > 0 && n[1] > 0) {
        v = judge(share[0], share[1], high[0] < low[1] || high[1] < low[0],
                  more_is_better);
    }
    print_row(to, label, cell_share(k[0], n[0]).text,
              cell_share(k[1], n[1]).text, ratio_of(share[0], share[1]), v);
}

/* Injected ends are no failures, so they are in neither number. */
static void print_shares(FILE *to, const struct tally *a, const struct tally *b)
{
    const uint64_t wanted[] = {tally_wanted(a), tally_wanted(b)};
    const uint64_t good[] = {a->counts.n_good, b->counts.n_good};
    const uint64_t failed[] = {wanted[0] - a->counts.n_outcomes[OUTCOME_OK],
                               wanted[1] - b->counts.n_outcomes[OUTCOME_OK]};

    if (objectives_any(&a->objectives) || objectives_any(&b->objectives)) {
        print_share(to, "good share", good, wanted, true);
    }
    print_share(to, "not OK share", failed, wanted, false);
}

/* ---- heads ---- */

static void print_difference(FILE *to, const char *what, const char *a,
                             const char *b)
{
    struct cell x = cell_plain(a), y = cell_plain(b);

    if (strcmp(a == NULL ? "" : a, b == NULL ? "" : b) != 0) {
        fprintf(to, "  different %s:\n    A: %.74s\n    B: %.74s\n", what,
                x.text, y.text);
    }
}

static void print_side(FILE *to, char side, const struct result *r)
{
    const struct run *first = r->n_runs > 0 ? &r->runs[0] : NULL;
    bool invalid = false;

    for (uint32_t i = 0; i < r->n_runs; i++) {
        invalid = invalid || r->runs[i].invalid;
    }
    fprintf(to, "%c: %.40s, %.24s%s%s\n", side,
            cell_plain(r->title != NULL ? r->title : r->target).text,
            cell_plain(first == NULL ? "no run" : first->started).text,
            first != NULL && r->n_runs > 1 ? ", several runs" : "",
            invalid ? ", INVALID" : "");
}

/* attain is left out: it changes a verdict, not a share. */
static bool same_objectives(const struct objectives *a,
                            const struct objectives *b)
{
    return a->ttft_us == b->ttft_us && a->tpot_us == b->tpot_us &&
           a->itl_us == b->itl_us && a->e2e_us == b->e2e_us;
}

static void print_heads(FILE *to, const struct result *a,
                        const struct result *b)
{
    print_side(to, 'A', a);
    print_side(to, 'B', b);
    print_difference(to, "targets", a->target, b->target);
    print_difference(to, "models", a->model, b->model);
    print_difference(to, "hosts", a->host, b->host);
    if (!same_objectives(&a->objectives, &b->objectives)) {
        fprintf(to, "  different objectives: good shares do not compare\n");
    }
}

/* ---- groups ---- */

static void print_group(FILE *to, const struct group *a, const struct group *b)
{
    print_difference(to, "plans", a->runs[0]->plan, b->runs[0]->plan);
    fprintf(to, "\n  %-22s%14s%14s%10s   %s\n", "", "A", "B", "B / A",
            "verdict");
    print_metric(to, a, b, METRIC_TTFT, "TTFT");
    print_metric(to, a, b, METRIC_ITL, "ITL");
    print_metric(to, a, b, METRIC_TPOT, "TPOT");
    print_metric(to, a, b, METRIC_E2E, "end-to-end");
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        print_rate(to, a, b, &rates[i]);
    }
    print_shares(to, a->tally, b->tally);
}

static const struct group *same_load(const struct groups *g,
                                     const struct group *like)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->group[i].load == like->load &&
            g->group[i].closed == like->closed) {
            return &g->group[i];
        }
    }
    return NULL;
}

static uint32_t print_groups(FILE *to, const struct groups *a,
                             const struct groups *b)
{
    uint32_t n = 0;

    if (a->n == 1 && b->n == 1) {
        print_group(to, &a->group[0], &b->group[0]);
        return 1;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        const struct group *other = same_load(b, &a->group[i]);

        if (other != NULL) {
            fprintf(to, "\n%s\n", group_name(other->load, other->closed).text);
            print_group(to, &a->group[i], other);
            n++;
        }
    }
    return n;
}

static void print_searches(FILE *to, const struct search *a,
                           const struct search *b)
{
    double x = search_result(a), y = search_result(b);
    double width = 1 + fmax(a->options.tolerance, b->options.tolerance);

    fputc('\n', to);
    if (a->options.whole != b->options.whole) {
        fprintf(to, "  searches of rate and of concurrency do not compare\n");
        return;
    }
    print_row(to, "largest load", cell_load(x).text, cell_load(y).text,
              ratio_of(x, y),
              judge(x, y, x > y * width || y > x * width, true));
}

void report_compare(FILE *to, const struct result *a, const struct result *b)
{
    struct groups in_a, in_b;

    groups_init(&in_a, a);
    groups_init(&in_b, b);
    print_heads(to, a, b);
    if (print_groups(to, &in_a, &in_b) == 0) {
        fprintf(to, "\n  no load that both results have\n");
    } else {
        fprintf(to, "\n  Verdicts are at 95 %%: of 20 figures that are equal, "
                    "one seems to differ.\n");
    }
    if (a->searched && b->searched) {
        print_searches(to, &a->search, &b->search);
    }
    groups_fini(&in_a);
    groups_fini(&in_b);
}
