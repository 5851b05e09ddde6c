/* Objectives of a request: "ttft=500ms". */
#include <stdlib.h>
#include <string.h>

#include "client/load/figures/tally.h"
#include "common/base/near.h"
#include "common/base/option.h"
#include "common/base/quote.h"

static const struct objective {
    const char *name;
    size_t offset;
} table[] = {
    {"ttft", offsetof(struct objectives, ttft_us)},
    {"tpot", offsetof(struct objectives, tpot_us)},
    {"itl", offsetof(struct objectives, itl_us)},
    {"e2e", offsetof(struct objectives, e2e_us)},
};

#define OBJECTIVES (sizeof table / sizeof table[0])

static const struct objective *find(const char *word, size_t n)
{
    for (size_t i = 0; i < OBJECTIVES; i++) {
        if (strlen(table[i].name) == n && memcmp(table[i].name, word, n) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

static enum status refuse_name(const char *word, size_t n, struct error *e)
{
    struct near near = near_to(word, n);

    for (size_t i = 0; i < OBJECTIVES; i++) {
        near_offer(&near, table[i].name);
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "objective %s is unknown%s%s; use ttft, tpot, itl or e2e",
                     quote_bytes(word, n).text,
                     near.best == NULL ? "" : ", did you mean ",
                     near.best == NULL ? "" : near.best);
}

/* Converts a time, also of microseconds, to microseconds. */
static bool time_us(const char *text, int64_t *us)
{
    char *end;
    uint64_t ms;
    double v;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    v = strtod(text, &end);
    if (strcmp(end, "us") == 0 || strcmp(end, "ms") == 0) {
        v *= end[0] == 'm' ? 1000 : 1;
    } else if (option_ms(text, &ms)) {
        v = (double)ms * 1000;
    } else {
        return false;
    }
    if (!(v >= 1 && v <= (double)HISTOGRAM_MAX)) {
        return false;
    }
    *us = (int64_t)v;
    return true;
}

enum status objectives_parse(struct objectives *o, const char *text,
                             struct error *e)
{
    const char *equals = strchr(text, '=');
    size_t n = equals == NULL ? strlen(text) : (size_t)(equals - text);
    const struct objective *row = find(text, n);
    int64_t us;

    if (row == NULL) {
        return refuse_name(text, n, e);
    }
    if (equals == NULL || !time_us(equals + 1, &us)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "objective %s has no time from 1us to 50 days; write "
                         "for example %s=500ms",
                         quote(text).text, row->name);
    }
    memcpy((char *)o + row->offset, &us, sizeof us);
    return ST_OK;
}

bool objectives_any(const struct objectives *o)
{
    return o->ttft_us > 0 || o->tpot_us > 0 || o->itl_us > 0 || o->e2e_us > 0;
}

/* The limit itself is good: "500ms" is "at most 500 ms". */
static bool within(int64_t from, int64_t to, int64_t limit)
{
    return limit == 0 || to - from <= limit;
}

/* A whole answer without a token has its time to first token at its end: there
 * a user learns that nothing comes. */
bool objectives_met(const struct objectives *o, const struct sample *s,
                    const uint32_t *gaps)
{
    bool has_token = s->first_us != SAMPLE_NEVER;

    if (s->outcome != OUTCOME_OK ||
        !within(s->due_us, has_token ? s->first_us : s->end_us, o->ttft_us) ||
        !within(s->due_us, s->end_us, o->e2e_us)) {
        return false;
    }
    if (o->tpot_us > 0 && has_token && s->n_output > 1 &&
        s->last_us - s->first_us > o->tpot_us * (int64_t)(s->n_output - 1)) {
        return false;
    }
    for (uint32_t i = 0; o->itl_us > 0 && i < s->n_gaps; i++) {
        if ((int64_t)gaps[i] > o->itl_us) {
            return false;
        }
    }
    return true;
}
