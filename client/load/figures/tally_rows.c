#include <assert.h>
#include <string.h>

#include "client/load/figures/tally_parts.h"

static void row_fini(struct tally_row *r)
{
    histogram_fini(&r->ttft);
    histogram_fini(&r->itl);
    histogram_fini(&r->e2e);
}

/* Maxima stay maxima: the sum over runs of one moment means nothing. */
static void row_merge(struct tally_row *to, const struct tally_row *from)
{
    to->n_due += from->n_due;
    to->n_good += from->n_good;
    to->n_output += from->n_output;
    to->n_prompt += from->n_prompt;
    for (int i = 0; i < OUTCOMES; i++) {
        to->n_ended[i] += from->n_ended[i];
    }
    if (from->in_flight_max > to->in_flight_max) {
        to->in_flight_max = from->in_flight_max;
    }
    if (from->lag_max_us > to->lag_max_us) {
        to->lag_max_us = from->lag_max_us;
    }
    histogram_merge(&to->ttft, &from->ttft);
    histogram_merge(&to->itl, &from->itl);
    histogram_merge(&to->e2e, &from->e2e);
}

/* Makes rows twice as wide. */
static void fold(struct tally *t)
{
    t->row_us *= 2;
    for (uint32_t i = 0; i < t->n_rows; i++) {
        struct tally_row *from = &t->rows[i], *to = &t->rows[i / 2];

        if (i % 2 == 1) {
            row_merge(to, from);
            row_fini(from);
        } else {
            *to = *from;
            to->from_us = (int64_t)(i / 2) * t->row_us;
            to->to_us = to->from_us + t->row_us;
        }
        if (i > 0) {
            memset(from, 0, sizeof *from);
        }
    }
    t->n_rows = (t->n_rows + 1) / 2;
}

/* Bounded before the loop: a wrong clock must not make it endless. */
struct tally_row *tally_row(struct tally *t, int64_t at_us)
{
    int64_t at = at_us < 0 ? 0 : at_us > HISTOGRAM_MAX ? HISTOGRAM_MAX : at_us;

    while (at / t->row_us >= TALLY_ROWS) {
        fold(t);
    }
    while (t->n_rows <= at / t->row_us) {
        struct tally_row *r = &t->rows[t->n_rows];

        r->from_us = (int64_t)t->n_rows * t->row_us;
        r->to_us = r->from_us + t->row_us;
        t->n_rows++;
    }
    return &t->rows[at / t->row_us];
}

void tally_rows_merge(struct tally *to, const struct tally *from)
{
    while (to->row_us < from->row_us) {
        fold(to);
    }
    for (uint32_t i = 0; i < from->n_rows; i++) {
        row_merge(tally_row(to, from->rows[i].from_us), &from->rows[i]);
    }
}

void tally_rows_fini(struct tally *t)
{
    for (uint32_t i = 0; i < t->n_rows; i++) {
        row_fini(&t->rows[i]);
    }
    t->n_rows = 0;
}
