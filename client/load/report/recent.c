#include "client/load/report/recent.h"

#include <string.h>

#define SECOND_US 1000000

static const enum metric metric_of[RECENT_METRICS] = {
    [RECENT_TTFT] = METRIC_TTFT,
    [RECENT_ITL] = METRIC_ITL,
    [RECENT_E2E] = METRIC_E2E,
    [RECENT_LAG] = METRIC_LAG,
};

static void copy_fini(struct recent_copy *c)
{
    for (int i = 0; i < RECENT_METRICS; i++) {
        histogram_fini(&c->metrics[i]);
    }
}

void recent_fini(struct recent *r)
{
    for (uint32_t i = 0; i < r->n_copies; i++) {
        copy_fini(&r->copies[i]);
    }
    r->n_copies = 0;
}

void recent_figures_fini(struct recent_figures *f)
{
    for (int i = 0; i < RECENT_METRICS; i++) {
        histogram_fini(&f->metrics[i]);
    }
}

uint64_t recent_ended(const struct tally *t)
{
    return tally_requests(t) + t->counts.n_warm;
}

/* Adds to `out` the values of `now` that are not in `old`, which was a copy of
 * it. */
static void subtract(struct histogram *out, const struct histogram *now,
                     const struct histogram *old)
{
    uint32_t i = 0, k = 0;
    int64_t from, to, old_from = 0, old_to;
    uint64_t count, old_count = 0;
    bool more = histogram_next(old, &k, &old_from, &old_to, &old_count);

    while (histogram_next(now, &i, &from, &to, &count)) {
        if (more && old_from == from) {
            count -= old_count;
            more = histogram_next(old, &k, &old_from, &old_to, &old_count);
        }
        if (count > 0) {
            histogram_add(out, to < now->max ? to : now->max, count);
        }
    }
    if (now->lost > old->lost) {
        histogram_lose(out, now->lost - old->lost);
    }
}

static void take_copy(struct recent *r, const struct tally *t, int64_t now_us)
{
    struct recent_copy *c;

    if (r->n_copies == RECENT_S + 1) {
        copy_fini(&r->copies[0]);
        memmove(&r->copies[0], &r->copies[1], RECENT_S * sizeof *r->copies);
        r->n_copies--;
    }
    c = &r->copies[r->n_copies++];
    memset(c, 0, sizeof *c);
    c->at_us = now_us;
    c->n_ended = recent_ended(t);
    c->n_sent = recent_ended(t) + t->n_in_flight;
    c->n_output = t->counts.n_output;
    for (int i = 0; i < RECENT_METRICS; i++) {
        histogram_merge(&c->metrics[i], &t->metrics[metric_of[i]]);
    }
}

void recent_take(struct recent *r, const struct tally *t, int64_t now_us,
                 struct recent_figures *out)
{
    static const struct recent_copy start;
    const struct recent_copy *old = r->n_copies > 0 ? &r->copies[0] : &start;
    uint64_t ended = recent_ended(t), sent = ended + t->n_in_flight;
    double s = (double)(now_us - old->at_us) / SECOND_US;

    memset(out, 0, sizeof *out);
    if (s > 0) {
        out->ended_per_s = (double)(ended - old->n_ended) / s;
        out->sent_per_s =
            sent < old->n_sent ? 0 : (double)(sent - old->n_sent) / s;
        out->tokens_per_s = (double)(t->counts.n_output - old->n_output) / s;
    }
    for (int i = 0; i < RECENT_METRICS; i++) {
        subtract(&out->metrics[i], &t->metrics[metric_of[i]], &old->metrics[i]);
    }
    if (r->n_copies == 0 ||
        now_us - r->copies[r->n_copies - 1].at_us >= SECOND_US) {
        take_copy(r, t, now_us);
    }
}
