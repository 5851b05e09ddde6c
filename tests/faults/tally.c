#include "tests/faults/tally.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/quote.h"
#include "common/wire/request_id.h"
#include "proto/common.pb-c.h"

#define STATES 6 /* Sluice__V1__SequenceState */

struct samples {
    uint64_t *us;
    size_t n, room;
};

static struct {
    pthread_mutex_t lock;
    uint64_t ended, well, failed, cancelled, receipts, foreign, mismatched;
    uint64_t tokens, moves, lost, doubled, wrong;
    uint64_t states[STATES];
    int64_t longest_gap_us;
    uint32_t unended;
    struct samples freed; /* times in the receipts */
} tally = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t tally_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void add(struct samples *s, uint64_t us)
{
    if (s->n == s->room) {
        s->room = s->room == 0 ? 1024 : 2 * s->room;
        s->us = realloc(s->us, s->room * sizeof *s->us);
        assert(s->us != NULL);
    }
    s->us[s->n++] = us;
}

static void count_cancel(const struct tally_end *t)
{
    const struct client_receipt *k = &t->result->receipt;

    tally.cancelled++;
    if (!t->result->has_receipt) {
        return;
    }
    tally.receipts++;
    tally.states[k->state >= 0 && k->state < STATES ? k->state : 0]++;
    tally.foreign +=
        memcmp(k->request_id, t->result->request_id, sizeof k->request_id) != 0;
    add(&tally.freed, k->micros);
}

/* Counts a chunk that the library refused for a gap or a repetition; the error
 * text has both indices (client/lib/resumable.c). */
static void count_refusal(const char *why)
{
    unsigned came, next;

    if (sscanf(why,
               "bad chunk from the router: tokens from index %u, expected "
               "index %u",
               &came, &next) != 2) {
        tally.wrong++;
    } else if (came < next) {
        tally.doubled += next - came;
    } else {
        tally.lost += came - next;
    }
}

static void print_end(const struct tally_end *t)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(t->result->request_id, id);
    printf("{\"end\":\"%s\",\"at_us\":%" PRId64
           ",\"stream\":%u,\"entry\":%u,\"request\":\"%s\",\"tokens\":%zu,"
           "\"moves\":%u,\"lost\":%" PRIu64 ",\"doubled\":%" PRIu64
           ",\"wrong\":%" PRIu64 ",\"retry_after_ms\":%u,\"why\":%s}\n",
           status_name(t->status), tally_now_us(), t->stream, t->entry, id,
           t->readings[0].n_tokens + t->readings[1].n_tokens,
           t->result->n_moves, t->readings[0].lost + t->readings[1].lost,
           t->readings[0].doubled + t->readings[1].doubled,
           t->readings[0].wrong + t->readings[1].wrong,
           t->result->retry_after_ms, quote(t->why).text);
}

static bool add_readings(const struct tally_end *t)
{
    uint64_t bad = 0;

    for (size_t i = 0; i < CATALOGUE_CHOICES; i++) {
        tally.tokens += t->readings[i].n_tokens;
        tally.lost += t->readings[i].lost;
        tally.doubled += t->readings[i].doubled;
        tally.wrong += t->readings[i].wrong;
        bad +=
            t->readings[i].lost + t->readings[i].doubled + t->readings[i].wrong;
    }
    return bad == 0;
}

void tally_ended(const struct tally_end *t, bool always)
{
    bool asked = t->result->cancelled_here && t->status == ST_CANCELLED;
    bool as_recorded;

    pthread_mutex_lock(&tally.lock);
    tally.ended++;
    tally.moves += t->result->n_moves;
    as_recorded = add_readings(t);
    if (asked) {
        count_cancel(t);
    } else if (t->status == ST_OK) {
        tally.well++;
    } else {
        tally.failed++;
        if (t->status == ST_DATA_LOSS) {
            count_refusal(t->why);
        }
    }
    tally.mismatched += !as_recorded;
    if (always || !as_recorded || (t->status != ST_OK && !asked) ||
        (asked && !t->result->has_receipt)) {
        print_end(t);
    }
    pthread_mutex_unlock(&tally.lock);
}

void tally_gap(uint32_t stream, int64_t from_us, int64_t to_us, bool first,
               bool print)
{
    pthread_mutex_lock(&tally.lock);
    if (!first && to_us - from_us > tally.longest_gap_us) {
        tally.longest_gap_us = to_us - from_us;
    }
    if (!print) {
        pthread_mutex_unlock(&tally.lock);
        return;
    }
    printf("{\"gap\":%u,\"from_us\":%" PRId64 ",\"to_us\":%" PRId64
           ",\"first\":%s}\n",
           stream, from_us, to_us, first ? "true" : "false");
    pthread_mutex_unlock(&tally.lock);
}

void tally_progress(uint32_t marks, uint32_t behind)
{
    pthread_mutex_lock(&tally.lock);
    printf("{\"progress\":%" PRIu64 ",\"tokens\":%" PRIu64
           ",\"cancelled\":%" PRIu64 ",\"failed\":%" PRIu64
           ",\"marks\":%u,\"behind\":%u}\n",
           tally.ended, tally.tokens, tally.cancelled, tally.failed, marks,
           behind);
    pthread_mutex_unlock(&tally.lock);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void print_samples(const char *name, struct samples *s)
{
    if (s->n > 0) {
        qsort(s->us, s->n, sizeof *s->us, by_value);
        printf(",\"%s\":{\"n\":%zu,\"p50\":%" PRIu64 ",\"p99\":%" PRIu64
               ",\"max\":%" PRIu64 "}",
               name, s->n, s->us[s->n / 2], s->us[s->n * 99 / 100],
               s->us[s->n - 1]);
    }
}

static void print_states(void)
{
    static const char *const names[STATES] = {"unknown", "queued", "prefill",
                                              "decode",  "kept",   "finished"};

    for (int i = 0; i < STATES; i++) {
        printf("%s\"%s\":%" PRIu64, i > 0 ? "," : ",\"states\":{", names[i],
               tally.states[i]);
    }
    printf("}");
}

void tally_summary(uint32_t unended)
{
    pthread_mutex_lock(&tally.lock);
    tally.unended = unended;
    printf(
        "{\"summary\":true,\"ended\":%" PRIu64 ",\"well\":%" PRIu64
        ",\"failed\":%" PRIu64 ",\"cancelled\":%" PRIu64
        ",\"unended\":%u,\"tokens\":%" PRIu64 ",\"lost\":%" PRIu64
        ",\"doubled\":%" PRIu64 ",\"wrong\":%" PRIu64 ",\"mismatched\":%" PRIu64
        ",\"moves\":%" PRIu64 ",\"receipts\":%" PRIu64
        ",\"foreign_receipts\":%" PRIu64 ",\"longest_gap_us\":%" PRId64,
        tally.ended, tally.well, tally.failed, tally.cancelled, unended,
        tally.tokens, tally.lost, tally.doubled, tally.wrong, tally.mismatched,
        tally.moves, tally.receipts, tally.foreign, tally.longest_gap_us);
    print_states();
    print_samples("freed_us", &tally.freed);
    printf("}\n");
    pthread_mutex_unlock(&tally.lock);
}

bool tally_is_well(void)
{
    return tally.failed + tally.lost + tally.doubled + tally.wrong +
               tally.foreign + tally.unended ==
           0;
}
