/* replay_figures.c - Counts and percentiles of a run.
 *
 * Percentiles are of sorted samples and not of buckets: two runs are compared,
 * and a difference of a few percent counts. */
#include "router/replay/replay_figures.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/minmax.h"

/* Requests of one tenant, or of all (NULL). */
struct sums {
    struct replay_figures *f;
    int64_t *queue, *first; /* [n_queue], [n_first] */
    uint32_t n_queue, n_first;
    int64_t from_us, to_us;
};

/* A choice that was refused later has no figures but its refusal. */
static void add_choice(struct sums *s, const struct recorded_request *q,
                       const struct recorded_choice *c, int64_t good_us)
{
    bool finished = c->end_us != RECORDING_NEVER &&
                    (c->how == RECORD_STOP || c->how == RECORD_LENGTH);

    if (c->granted_us != RECORDING_NEVER) {
        s->queue[s->n_queue++] = c->granted_us - q->at_us;
    }
    if (c->first_us != RECORDING_NEVER) {
        s->first[s->n_first++] = c->first_us - q->at_us;
    }
    s->f->n_tokens += c->n_tokens;
    s->f->n_restored += c->n_restored;
    s->f->n_suspensions += c->n_suspended;
    s->f->n_suspended += c->n_suspended > 0;
    s->f->n_finished += finished;
    s->f->n_cancelled +=
        c->end_us != RECORDING_NEVER && c->how == RECORD_CANCELLED;
    s->f->n_failed += c->end_us != RECORDING_NEVER && c->how == RECORD_FAILED;
    s->f->n_good += finished && c->first_us != RECORDING_NEVER &&
                    c->first_us - q->at_us <= good_us;
    s->to_us = max_i64(s->to_us, c->end_us);
}

static void add(struct sums *s, const struct recording *r,
                const struct replay_run *run, uint32_t i, int64_t good_us)
{
    const struct recorded_request *q = &r->requests[i];

    s->from_us = s->f->n_requests == 0 ? q->at_us : s->from_us;
    s->to_us = max_i64(s->to_us, q->at_us);
    s->f->n_requests++;
    s->f->n_refused += run->fates[i].refused;
    for (uint32_t c = 0; !run->fates[i].refused && c < q->n_choices; c++) {
        add_choice(s, q, &run->choices[q->choices + c], good_us);
    }
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The sample at the share n/2 or 99 n/100, without interpolation. */
static struct replay_waits waits_of(int64_t *us, uint32_t n)
{
    if (n == 0) {
        return (struct replay_waits){RECORDING_NEVER, RECORDING_NEVER};
    }
    qsort(us, n, sizeof *us, ascending);
    return (struct replay_waits){us[n / 2], us[(uint64_t)n * 99 / 100]};
}

/* Names are compared by pointer: equal ones are one. */
static uint32_t tenant_of(struct replay_figures *out, uint32_t *n,
                          const char *name)
{
    uint32_t i = 1;

    while (i < *n && out[i].tenant != name) {
        i++;
    }
    if (i == *n && *n <= REPLAY_TENANTS_MAX) {
        out[(*n)++] = (struct replay_figures){.tenant = name};
    }
    return min_u32(i, REPLAY_TENANTS_MAX);
}

/* Makes the figures of tenant t of out; 0: of all. */
static void sum_up(struct replay_figures *out, uint32_t t, const uint32_t *of,
                   const struct recording *r, const struct replay_run *run,
                   int64_t good_us)
{
    struct sums s = {.f = &out[t]};

    s.queue = memory_must(calloc(r->n_choices + 1, sizeof *s.queue));
    s.first = memory_must(calloc(r->n_choices + 1, sizeof *s.first));
    for (uint32_t i = 0; i < r->n_requests; i++) {
        if (!r->requests[i].lost && (t == 0 || of[i] == t)) {
            add(&s, r, run, i, good_us);
        }
    }
    out[t].us = max_i64(s.to_us - s.from_us, 1);
    out[t].queue = waits_of(s.queue, s.n_queue);
    out[t].first = waits_of(s.first, s.n_first);
    free(s.queue);
    free(s.first);
}

uint32_t replay_figures(struct replay_figures out[1 + REPLAY_TENANTS_MAX],
                        const struct recording *r, const struct replay_run *run,
                        int64_t good_us)
{
    uint32_t *of = memory_must(calloc(r->n_requests + 1, sizeof *of));
    uint32_t n = 1;

    out[0] = (struct replay_figures){.tenant = NULL};
    for (uint32_t i = 0; i < r->n_requests; i++) {
        if (!r->requests[i].lost) {
            of[i] = tenant_of(out, &n, r->requests[i].tenant);
        }
    }
    for (uint32_t t = 0; t < n; t++) {
        sum_up(out, t, of, r, run, good_us);
    }
    free(of);
    return n;
}
