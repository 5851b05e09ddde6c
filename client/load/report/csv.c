/* csv.c - The figures of each run as a row, for spreadsheets.
 *
 * RFC 4180: commas, CRLF, quotes around texts.  Numbers have a point and no
 * separators; a figure that is lost or absent is an empty cell. */
#include <inttypes.h>
#include <string.h>

#include "client/load/report/cell.h"
#include "client/load/report/report.h"

static const struct column {
    enum metric metric;
    const char *name;
    double q; /* quantile; < 0: the mean */
} columns[] = {
#define METRIC(metric, name)                                           \
    {metric, name "_mean_ms", -1}, {metric, name "_p50_ms", 0.5},      \
        {metric, name "_p90_ms", 0.9}, {metric, name "_p99_ms", 0.99}, \
    {                                                                  \
        metric, name "_max_ms", 1                                      \
    }
    METRIC(METRIC_TTFT, "ttft"),
    METRIC(METRIC_ITL, "itl"),
    METRIC(METRIC_TPOT, "tpot"),
    METRIC(METRIC_E2E, "e2e"),
#undef METRIC
};

static void put_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; text != NULL && *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', to);
        }
        fputc(*text, to);
    }
    fputc('"', to);
}

static void put_head(FILE *to)
{
    fputs("target,model,run,load,closed,invalid,seconds,requests", to);
    for (int i = 0; i < OUTCOMES; i++) {
        fprintf(to, ",%s", outcome_names[i]);
    }
    fputs(",good,prompt_tokens,cached_tokens,output_tokens,chunks_as_tokens,"
          "requests_per_s,output_tokens_per_s,good_per_s",
          to);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        fprintf(to, ",%s", columns[i].name);
    }
    fputs("\r\n", to);
}

static void put_figure(FILE *to, const struct histogram *h, double q)
{
    bool lost = q >= 0 && histogram_quantile(h, q) == HISTOGRAM_LOST;
    double us = q < 0 ? histogram_mean(h) : (double)histogram_quantile(h, q);

    if (lost || h->n + h->lost == 0) {
        fputc(',', to);
    } else {
        fprintf(to, ",%.3f", us / 1000);
    }
}

static void put_run(FILE *to, const struct result *r, uint32_t i)
{
    const struct run *run = &r->runs[i];
    const struct tally *t = run->tally;

    put_text(to, r->target);
    fputc(',', to);
    put_text(to, r->model);
    fprintf(to, ",%" PRIu32 ",%g,%d,%d,%.3f,%" PRIu64, i + 1, run->load,
            run->closed, run->invalid, tally_seconds(t), tally_requests(t));
    for (int k = 0; k < OUTCOMES; k++) {
        fprintf(to, ",%" PRIu64, t->counts.n_outcomes[k]);
    }
    fprintf(to,
            ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
            ",%.3f,%.3f,%.3f",
            t->counts.n_good, t->counts.n_prompt, t->counts.n_cached,
            t->counts.n_output, t->counts.n_chunked, tally_requests_per_s(t),
            tally_tokens_per_s(t), tally_goodput(t));
    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
        put_figure(to, &t->metrics[columns[k].metric], columns[k].q);
    }
    fputs("\r\n", to);
}

enum status report_csv(FILE *to, const struct result *r, struct error *e)
{
    put_head(to);
    for (uint32_t i = 0; i < r->n_runs; i++) {
        if (r->runs[i].tally != NULL) {
            put_run(to, r, i);
        }
    }
    return fflush(to) == 0 && !ferror(to) ? ST_OK : report_fault(e);
}
