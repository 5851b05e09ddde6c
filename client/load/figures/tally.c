#include "client/load/figures/tally.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/figures/tally_parts.h"
#include "common/base/memory.h"

const struct metric_name metric_table[METRICS] = {
    [METRIC_TTFT] = {"ttft", "time to first token", "us"},
    [METRIC_TTFT_SENT] = {"ttft_sent", "time to first token, from the send",
                          "us"},
    [METRIC_ITL] = {"itl", "inter-token latency", "us"},
    [METRIC_TPOT] = {"tpot", "time per output token", "us"},
    [METRIC_E2E] = {"e2e", "end-to-end", "us"},
    [METRIC_E2E_SENT] = {"e2e_sent", "end-to-end, from the send", "us"},
    [METRIC_QUEUE] = {"queue", "queue, as the server reports", "us"},
    [METRIC_LAG] = {"lag", "the generator's own lag", "us"},
    [METRIC_PROMPT] = {"prompt", "prompt tokens", "tokens"},
    [METRIC_OUTPUT] = {"output", "output tokens", "tokens"},
};

struct tally *tally_new(const struct objectives *o)
{
    struct tally *t = memory_must(calloc(1, sizeof *t));

    t->objectives = *o;
    t->row_us = TALLY_ROW_US;
    t->batch_size = 1;
    return t;
}

void tally_free(struct tally **t)
{
    if (*t == NULL) {
        return;
    }
    for (int m = 0; m < METRICS; m++) {
        histogram_fini(&(*t)->metrics[m]);
    }
    for (uint32_t i = 0; i < (*t)->n_levels; i++) {
        histogram_fini(&(*t)->levels[i].ttft);
        histogram_fini(&(*t)->levels[i].itl);
    }
    histogram_fini(&(*t)->turns);
    tally_rows_fini(*t);
    tally_batches_fini(*t);
    free(*t);
    *t = NULL;
}

/* ---- reasons ---- */

/* Texts with counters or identifiers in them would fill the table. */
static bool same_but_digits(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return true;
}

void tally_why(struct tally *t, const struct tally_why *why, uint64_t n)
{
    struct tally_why *w = t->whys;

    for (uint32_t i = 0; i < t->n_whys; i++, w++) {
        if (w->outcome == why->outcome && w->code == why->code &&
            same_but_digits(w->why, why->why)) {
            w->n += n;
            return;
        }
    }
    if (t->n_whys < TALLY_WHYS - 1) {
        *w = *why;
        w->n = n;
        t->n_whys++;
        return;
    }
    w = &t->whys[TALLY_WHYS - 1];
    if (t->n_whys < TALLY_WHYS) {
        memset(w, 0, sizeof *w);
        snprintf(w->why, sizeof w->why, TALLY_OTHER_WHYS);
        w->outcome = why->outcome;
        t->n_whys++;
    }
    w->n += n;
}

/* ---- the times of a sample ---- */

/* A request that the tool itself ended is no failure of the server. */
static bool injected(const struct sample *s)
{
    return s->outcome == OUTCOME_CANCELLED ||
           s->outcome == OUTCOME_DISCONNECTED || s->outcome == OUTCOME_SKIPPED;
}

/* Returns the output of a request: what a failed one sent is of no use. */
static uint32_t output_of(const struct sample *s)
{
    return s->outcome == OUTCOME_OK || injected(s) ? s->n_output : 0;
}

/* Returns to - from; SAMPLE_NEVER if one did not happen. */
static int64_t between(int64_t from, int64_t to)
{
    return from == SAMPLE_NEVER || to == SAMPLE_NEVER ? SAMPLE_NEVER
                                                      : to - from;
}

/* Fills one value of each metric but METRIC_ITL: SAMPLE_NEVER if there is
 * none, HISTOGRAM_LOST. */
static void values_of(const struct sample *s, int64_t v[METRICS])
{
    bool ok = s->outcome == OUTCOME_OK, lost = !ok && !injected(s);

    for (int m = 0; m < METRICS; m++) {
        v[m] = SAMPLE_NEVER;
    }
    v[METRIC_TTFT] = between(s->due_us, s->first_us);
    v[METRIC_TTFT_SENT] = between(s->sent_us, s->first_us);
    if (ok) {
        v[METRIC_E2E] = between(s->due_us, s->end_us);
        v[METRIC_E2E_SENT] = between(s->sent_us, s->end_us);
        v[METRIC_OUTPUT] = s->n_output;
    } else if (lost) {
        v[METRIC_E2E] = v[METRIC_E2E_SENT] = HISTOGRAM_LOST;
        if (s->first_us == SAMPLE_NEVER) {
            v[METRIC_TTFT] = v[METRIC_TTFT_SENT] = HISTOGRAM_LOST;
        }
    }
    if (ok && s->first_us != SAMPLE_NEVER && s->n_output > 1) {
        v[METRIC_TPOT] = (s->last_us - s->first_us) / (s->n_output - 1);
    }
    v[METRIC_QUEUE] = s->queue_us;
    v[METRIC_LAG] = between(s->due_us, s->sent_us);
    if (s->sent_us != SAMPLE_NEVER) {
        v[METRIC_PROMPT] = s->n_prompt;
    }
}

static void put(struct histogram *h, int64_t value)
{
    if (value == HISTOGRAM_LOST) {
        histogram_lose(h, 1);
    } else if (value != SAMPLE_NEVER) {
        histogram_add(h, value, 1);
    }
}

/* ---- taking a sample ---- */

/* Prompts that were refused cost the server nothing, so n_prompt counts
 * answered requests only. */
static void count(struct tally *t, const struct sample *s, bool good)
{
    t->counts.n_outcomes[s->outcome]++;
    t->counts.n_good += good;
    t->counts.n_slow_readers += (s->flags & SAMPLE_SLOW_READER) != 0;
    t->counts.n_receipts += (s->flags & SAMPLE_RECEIPT) != 0;
    t->counts.n_leaked += (s->flags & SAMPLE_LEAKED) != 0;
    t->counts.n_bad_streams += (s->flags & SAMPLE_BAD_STREAM) != 0;
    t->counts.n_resumed += (s->flags & SAMPLE_RESUMED) != 0;
    t->counts.n_moves += s->n_moves;
    t->counts.n_output += output_of(s);
    t->counts.n_chunked +=
        s->outcome == OUTCOME_OK && (s->flags & SAMPLE_CHUNKS) != 0;
    if (s->outcome == OUTCOME_OK || s->first_us != SAMPLE_NEVER) {
        t->counts.n_prompt += s->n_prompt;
        t->counts.n_cached += s->n_cached;
    }
    if ((s->flags & SAMPLE_RESUMED) != 0 && s->gap_us > t->gap_max_us) {
        t->gap_max_us = s->gap_us;
    }
}

/* The measured time is from the first intended start to the last end, so that
 * a server that falls behind pays for the time in which it catches up. */
static void widen(struct tally *t, const struct sample *s)
{
    int64_t end = s->end_us != SAMPLE_NEVER ? s->end_us : s->due_us;
    int64_t due = s->due_us != SAMPLE_NEVER ? s->due_us : end;

    if (due == SAMPLE_NEVER) {
        return; /* a turn whose parent failed: no time at all */
    }
    t->from_us = !t->has_time || due < t->from_us ? due : t->from_us;
    t->to_us = !t->has_time || end > t->to_us ? end : t->to_us;
    t->has_time = true;
}

static struct tally_level *level_of(struct tally *t, const struct sample *s)
{
    uint64_t n = s->n_in_flight, processes = t->n_processes;
    uint32_t i = 0;

    n *= processes > 1 ? processes : 1;
    while (i + 1 < TALLY_LEVELS && n >> (i + 1) > 0) {
        i++;
    }
    while (t->n_levels <= i) {
        t->levels[t->n_levels].in_flight = 1u << t->n_levels;
        t->n_levels++;
    }
    return &t->levels[i];
}

/* Puts the request into the row of its intended start. */
static void take_row(struct tally *t, const struct sample *s,
                     const int64_t v[METRICS], bool good)
{
    int64_t at = s->due_us != SAMPLE_NEVER   ? s->due_us
                 : s->end_us != SAMPLE_NEVER ? s->end_us
                                             : t->to_us;
    struct tally_row *r = tally_row(t, at);

    r->n_due++;
    r->n_ended[s->outcome]++;
    r->n_good += good;
    r->n_prompt += s->sent_us == SAMPLE_NEVER ? 0 : s->n_prompt;
    put(&r->ttft, v[METRIC_TTFT]);
    put(&r->e2e, v[METRIC_E2E]);
    if (v[METRIC_LAG] != SAMPLE_NEVER && v[METRIC_LAG] > r->lag_max_us) {
        r->lag_max_us = v[METRIC_LAG];
    }
}

/* Puts tokens and gaps into the rows in which they came.  The tokens are
 * spread evenly over the chunks: their number in a chunk is unknown. */
static void take_tokens(struct tally *t, const struct sample *s,
                        const uint32_t *gaps, struct histogram *batch)
{
    struct histogram *level =
        s->sent_us == SAMPLE_NEVER ? NULL : &level_of(t, s)->itl;
    uint64_t n_chunks = (uint64_t)s->n_gaps + 1, n = output_of(s);
    int64_t at = s->first_us;

    if (at == SAMPLE_NEVER) {
        return;
    }
    for (uint64_t i = 0; i < n_chunks; i++) {
        struct tally_row *r;

        at += i == 0 ? 0 : gaps[i - 1];
        r = tally_row(t, at);
        r->n_output += (i + 1) * n / n_chunks - i * n / n_chunks;
        if (i > 0) {
            histogram_add(&r->itl, gaps[i - 1], 1);
            histogram_add(&t->metrics[METRIC_ITL], gaps[i - 1], 1);
            histogram_add(batch, gaps[i - 1], 1);
            if (level != NULL) {
                histogram_add(level, gaps[i - 1], 1);
            }
        }
    }
}

static void take_why(struct tally *t, const struct sample *s)
{
    struct tally_why why = {.outcome = s->outcome, .code = s->code};

    if (s->outcome != OUTCOME_OK && !injected(s)) {
        memcpy(why.why, s->why, sizeof why.why - 1);
        tally_why(t, &why, 1);
    }
}

void tally_sample(struct tally *t, const struct sample *s, const uint32_t *gaps)
{
    bool good = objectives_met(&t->objectives, s, gaps);
    int64_t v[METRICS];
    struct tally_batch *batch;

    assert(s->outcome < OUTCOMES);
    if ((s->flags & SAMPLE_WARM) != 0) {
        t->counts.n_warm++;
        return;
    }
    widen(t, s);
    count(t, s, good);
    take_why(t, s);
    values_of(s, v);
    batch = tally_batch(t);
    for (int m = 0; m < METRICS; m++) {
        put(&t->metrics[m], v[m]);
        put(&batch->metrics[m], v[m]);
    }
    if (s->sent_us != SAMPLE_NEVER) {
        put(&level_of(t, s)->ttft, v[METRIC_TTFT]);
    }
    take_row(t, s, v, good);
    take_tokens(t, s, gaps, &batch->metrics[METRIC_ITL]);
}

void tally_pulse(struct tally *t, const struct pulse *p)
{
    struct tally_row *r = tally_row(t, p->at_us);

    t->n_pulses++;
    histogram_add(&t->turns, p->turn_max_us, 1);
    if (p->process < TALLY_PROCESSES) {
        t->n_in_flight += p->n_in_flight - t->in_flight[p->process];
        t->in_flight[p->process] = p->n_in_flight;
        if (p->process >= t->n_processes) {
            t->n_processes = p->process + 1;
        }
    }
    if (t->n_in_flight > r->in_flight_max) {
        r->in_flight_max = t->n_in_flight;
    }
    if (p->lag_max_us > r->lag_max_us) {
        r->lag_max_us = p->lag_max_us;
    }
}
