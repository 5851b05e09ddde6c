/* Batches for batch means (Law and Kelton, Simulation Modeling and Analysis,
 * 9.5.3): their number stays between 10 and 20 while their size doubles. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "client/load/figures/confidence.h"
#include "client/load/figures/tally_parts.h"

static void batch_fini(struct tally_batch *b)
{
    for (int m = 0; m < METRICS; m++) {
        histogram_fini(&b->metrics[m]);
    }
    b->n = 0;
}

static void batch_merge(struct tally_batch *to, const struct tally_batch *from)
{
    to->n += from->n;
    for (int m = 0; m < METRICS; m++) {
        histogram_merge(&to->metrics[m], &from->metrics[m]);
    }
}

/* Merges pairs of all[0..n).  Returns how many are left. */
static uint32_t fold(struct tally_batch *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct tally_batch *to = &all[i / 2];

        if (i % 2 == 1) {
            batch_merge(to, &all[i]);
            batch_fini(&all[i]);
        } else if (i > 0) {
            *to = all[i];
            memset(&all[i], 0, sizeof all[i]);
        }
    }
    return (n + 1) / 2;
}

struct tally_batch *tally_batch(struct tally *t)
{
    bool full =
        t->n_batches == 0 || t->batches[t->n_batches - 1].n >= t->batch_size;

    if (full && t->n_batches == TALLY_BATCHES) {
        t->n_batches = fold(t->batches, t->n_batches);
        t->batch_size *= 2;
    }
    t->n_batches += full;
    t->batches[t->n_batches - 1].n++;
    return &t->batches[t->n_batches - 1];
}

/* Batches of one size side by side; batches of both are consecutive requests
 * of their own runs. */
void tally_batches_merge(struct tally *to, const struct tally *from)
{
    struct tally_batch all[2 * TALLY_BATCHES];
    uint32_t n = from->n_batches;
    uint64_t size = from->batch_size;

    memset(all, 0, sizeof all);
    for (uint32_t i = 0; i < n; i++) {
        batch_merge(&all[i], &from->batches[i]);
    }
    while (size < to->batch_size) {
        n = fold(all, n);
        size *= 2;
    }
    while (to->batch_size < size) {
        to->n_batches = fold(to->batches, to->n_batches);
        to->batch_size *= 2;
    }
    memmove(all + to->n_batches, all, n * sizeof *all);
    memcpy(all, to->batches, to->n_batches * sizeof *all);
    n += to->n_batches;
    while (n > TALLY_BATCHES) {
        n = fold(all, n);
        to->batch_size *= 2;
    }
    memset(to->batches, 0, sizeof to->batches);
    memcpy(to->batches, all, n * sizeof *all);
    to->n_batches = n;
}

void tally_batches_fini(struct tally *t)
{
    for (uint32_t i = 0; i < t->n_batches; i++) {
        batch_fini(&t->batches[i]);
    }
    t->n_batches = 0;
}

/* ---- intervals ---- */

/* Returns false if the figure is lost. */
static bool figure(const struct histogram *h, double q, double *out)
{
    int64_t v = q < 0 ? 0 : histogram_quantile(h, q);

    *out = q < 0 ? histogram_mean(h) : (double)v;
    return v != HISTOGRAM_LOST;
}

/* Returns how many values a batch needs to have a quantile at all. */
static uint64_t values_needed(double q)
{
    return q < 0 ? 1 : (uint64_t)ceil(1 / fmin(q, 1 - q) - 1e-9);
}

uint32_t tally_batch_values(const struct tally *t, enum metric m, double q,
                            double out[TALLY_BATCHES])
{
    struct histogram group = {0};
    uint32_t n = 0;
    bool ok = q < 0 || (q > 0 && q < 1);

    for (uint32_t i = 0; ok && i < t->n_batches; i++) {
        if (t->batches[i].n * 2 < t->batch_size) {
            continue; /* the last one: too few requests to weigh as much */
        }
        histogram_merge(&group, &t->batches[i].metrics[m]);
        if (group.n + (q < 0 ? 0 : group.lost) >= values_needed(q)) {
            ok = figure(&group, q, &out[n++]);
            histogram_clear(&group);
        }
    }
    histogram_fini(&group);
    return ok ? n : 0;
}

bool tally_interval(const struct tally *t, enum metric m, double q,
                    struct tally_span *out)
{
    double values[TALLY_BATCHES], centre, half;
    struct confidence c;
    uint32_t n = tally_batch_values(t, m, q, values);

    if (n < TALLY_GROUPS_MIN || !figure(&t->metrics[m], q, &centre)) {
        return false;
    }
    c = confidence_of(values, n);
    half = confidence_half(&c);
    out->low = centre > half ? centre - half : 0;
    out->high = centre + half;
    return true;
}
