#include "client/front/bench_table.h"

#include <assert.h>
#include <inttypes.h>

#include "client/ctl/columns.h"

/* Lengths of a chat.  The last load has 4 prompts at once, because a worker
 * prefills several prompts in one step. */
const struct bench_load bench_standard[] = {
    {NULL,
     {"--concurrency", "1", "--requests", "1", "--prompt", "64", "--output",
      "16"}},
    {"decode",
     {"--concurrency", "1", "--sweep", "1,8,32", "--prompt", "128", "--output",
      "128"}},
    {"prefill",
     {"--concurrency", "4", "--sweep", "4", "--prompt", "2048", "--output",
      "16"}},
    {NULL, {NULL}},
};

void bench_command(const struct bench_common *c, const struct bench_load *load,
                   const char *argv[BENCH_WORDS])
{
    size_t n = 0;

    argv[n++] = c->program;
    argv[n++] = "--target";
    argv[n++] = c->target;
    if (c->model != NULL) {
        argv[n++] = "--model";
        argv[n++] = c->model;
    }
    for (size_t i = 0; load->words[i] != NULL; i++) {
        argv[n++] = load->words[i];
    }
    if (load->name == NULL) {
        argv[n++] = "--quiet";
    } else {
        argv[n++] = "--duration";
        argv[n++] = c->duration;
    }
    if (load->name != NULL && c->profile != NULL) {
        argv[n++] = "--profile";
        argv[n++] = c->profile;
    }
    argv[n++] = "--json";
    argv[n++] = c->json;
    argv[n] = NULL;
    assert(n < BENCH_WORDS);
}

/* ---- the table ---- */

static void put_load(struct columns *t, const struct run *r, const char *name)
{
    if (r->load > 0 && r->closed) {
        columns_cell(t, "%s x%.0f", name, r->load);
    } else if (r->load > 0) {
        columns_cell(t, "%s %.4g/s", name, r->load);
    } else {
        columns_cell(t, "%s", name);
    }
}

/* A quantile among requests that failed has no time. */
static void put_time(struct columns *t, const struct tally *y, enum metric m,
                     double q)
{
    const struct histogram *h = &y->metrics[m];
    int64_t us = histogram_quantile(h, q);
    char text[MICROS_TEXT];

    if (h->n + h->lost == 0) {
        columns_cell(t, "-");
    } else if (us == HISTOGRAM_LOST) {
        columns_cell(t, "failed");
    } else {
        micros_write(text, (uint64_t)us);
        columns_cell(t, "%s", text);
    }
}

static double prompt_per_s(const struct tally *t)
{
    double seconds = tally_seconds(t);

    return seconds > 0 ? (double)t->counts.n_prompt / seconds : 0;
}

static void put_row(struct columns *t, const struct run *r, const char *name)
{
    const struct tally *y = r->tally;
    uint64_t n = tally_wanted(y), n_ok = y->counts.n_outcomes[OUTCOME_OK];

    put_load(t, r, name);
    columns_cell(t, "%.0f", histogram_mean(&y->metrics[METRIC_PROMPT]));
    columns_cell(t, "%.0f", histogram_mean(&y->metrics[METRIC_OUTPUT]));
    columns_cell(t, "%.1f", prompt_per_s(y));
    columns_cell(t, "%.1f", tally_tokens_per_s(y));
    put_time(t, y, METRIC_TTFT, 0.5);
    put_time(t, y, METRIC_TTFT, 0.99);
    put_time(t, y, METRIC_ITL, 0.5);
    put_time(t, y, METRIC_ITL, 0.99);
    columns_cell(t, "%" PRIu64, n_ok);
    columns_cell(t, "%" PRIu64, n > n_ok ? n - n_ok : 0);
}

void bench_table(FILE *to, const struct result *r, const char *const *names)
{
    struct columns t;

    columns_init(&t, "load", "in", "out", "in/s", "out/s", "TTFT p50",
                 "TTFT p99", "ITL p50", "ITL p99", "ok", "failed", NULL);
    for (uint32_t i = 0; i < r->n_runs; i++) {
        put_row(&t, &r->runs[i], names[i]);
    }
    columns_print(&t, to);
    columns_fini(&t);
    for (uint32_t i = 0; i < r->n_runs; i++) {
        const struct run *run = &r->runs[i];

        if (run->invalid) {
            fprintf(to, "row %u is no measurement: %s\n", i + 1,
                    run->why_invalid);
        }
        if (run->audited && !run->audit_ok) {
            fprintf(to, "row %u: %s\n", i + 1, run->audit);
        }
    }
}
