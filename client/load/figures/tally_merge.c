/* Merging of tallies, and figures of a whole tally. */
#include <stdio.h>

#include "client/load/figures/tally_parts.h"

/* ---- merging ---- */

static void merge_counts(struct tally *to, const struct tally *from)
{
    for (int i = 0; i < OUTCOMES; i++) {
        to->counts.n_outcomes[i] += from->counts.n_outcomes[i];
    }
    to->counts.n_warm += from->counts.n_warm;
    to->counts.n_good += from->counts.n_good;
    to->counts.n_slow_readers += from->counts.n_slow_readers;
    to->counts.n_receipts += from->counts.n_receipts;
    to->counts.n_leaked += from->counts.n_leaked;
    to->counts.n_bad_streams += from->counts.n_bad_streams;
    to->counts.n_resumed += from->counts.n_resumed;
    to->counts.n_moves += from->counts.n_moves;
    to->counts.n_prompt += from->counts.n_prompt;
    to->counts.n_output += from->counts.n_output;
    to->counts.n_cached += from->counts.n_cached;
    to->counts.n_chunked += from->counts.n_chunked;
    to->counts.n_checked += from->counts.n_checked;
    to->counts.n_differ += from->counts.n_differ;
    to->n_pulses += from->n_pulses;
    if (from->gap_max_us > to->gap_max_us) {
        to->gap_max_us = from->gap_max_us;
    }
}

static void merge_time(struct tally *to, const struct tally *from)
{
    bool first = !to->has_time;

    if (from->has_time) {
        to->from_us =
            first || from->from_us < to->from_us ? from->from_us : to->from_us;
        to->to_us = first || from->to_us > to->to_us ? from->to_us : to->to_us;
        to->has_time = true;
    }
}

/* Levels are powers of two from 1 in every tally, so indexes agree. */
static void merge_levels(struct tally *to, const struct tally *from)
{
    for (uint32_t i = 0; i < from->n_levels; i++) {
        to->levels[i].in_flight = from->levels[i].in_flight;
        histogram_merge(&to->levels[i].ttft, &from->levels[i].ttft);
        histogram_merge(&to->levels[i].itl, &from->levels[i].itl);
    }
    if (from->n_levels > to->n_levels) {
        to->n_levels = from->n_levels;
    }
}

void tally_merge(struct tally *to, const struct tally *from)
{
    merge_time(to, from);
    merge_counts(to, from);
    for (int m = 0; m < METRICS; m++) {
        histogram_merge(&to->metrics[m], &from->metrics[m]);
    }
    histogram_merge(&to->turns, &from->turns);
    merge_levels(to, from);
    for (uint32_t i = 0; i < from->n_whys; i++) {
        tally_why(to, &from->whys[i], from->whys[i].n);
    }
    tally_rows_merge(to, from);
    tally_batches_merge(to, from);
}

/* ---- figures of a run ---- */

uint64_t tally_requests(const struct tally *t)
{
    uint64_t n = 0;

    for (int i = 0; i < OUTCOMES; i++) {
        n += t->counts.n_outcomes[i];
    }
    return n;
}

uint64_t tally_wanted(const struct tally *t)
{
    return tally_requests(t) - t->counts.n_outcomes[OUTCOME_CANCELLED] -
           t->counts.n_outcomes[OUTCOME_DISCONNECTED] -
           t->counts.n_outcomes[OUTCOME_SKIPPED];
}

double tally_seconds(const struct tally *t)
{
    return (double)(t->to_us - t->from_us) / 1e6;
}

/* Without time, as with one request that was never sent, there is no rate. */
static double per_s(const struct tally *t, uint64_t n)
{
    double s = tally_seconds(t);

    return s > 0 ? (double)n / s : 0;
}

double tally_requests_per_s(const struct tally *t)
{
    return per_s(t, t->counts.n_outcomes[OUTCOME_OK]);
}

double tally_tokens_per_s(const struct tally *t)
{
    return per_s(t, t->counts.n_output);
}

double tally_goodput(const struct tally *t)
{
    return per_s(t, t->counts.n_good);
}

bool tally_invalid(const struct tally *t, int64_t lag_max_us, char *why,
                   size_t size)
{
    int64_t lag = histogram_quantile(&t->metrics[METRIC_LAG], 0.99);

    if (tally_requests(t) == 0) {
        snprintf(why, size,
                 "no request was measured; make the run longer than its "
                 "warm-up, or raise the load");
        return true;
    }
    if (lag > lag_max_us) {
        snprintf(why, size,
                 "p99 of the generator's own lag is %.3f ms, at most %.3f ms "
                 "is valid; add --processes, lower the load or raise "
                 "--max-lag",
                 (double)lag / 1e3, (double)lag_max_us / 1e3);
        return true;
    }
    return false;
}
