/* record.c - Formats the lines of a recording.
 *
 * Lines are text and not a binary format: a recording is looked at with grep
 * and awk at least as often as it is replayed, and a line is about 40 bytes. */
#include "router/record/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "proto/limits.h"

#define STEPS_LEAST  8
#define STEP_US_CAP  60000000
#define CHUNK_UNSEEN 512

/* A prefix, and the newest request that has it. */
struct known_prefix {
    uint64_t hash;
    uint64_t request;
};

/* Sums over the steps of a place: plain ones, and those with prompt tokens. */
struct step_totals {
    double n, us, rows, us_rows, rows_square;
    double mixed_us, mixed_rows, mixed_n, tokens;
    uint32_t chunk;
};

struct known_place {
    uint64_t session, number; /* session 0: this place is free */
    bool seen;
    struct record_cost cost; /* as it was written last */
    struct step_totals steps;
};

/* The table of prefixes is a part of the recorder: it is direct-mapped, so that
 * a new prefix costs one write, and the newest request wins its place. */
struct recorder {
    struct record_sink *sink;
    int64_t begin_us;
    bool begun;
    uint64_t n_places, n_requests, n_lost;
    struct known_place places[RECORD_PLACES];
    struct known_prefix prefixes[RECORD_PREFIXES];
};

struct recorder *recorder_new(struct record_sink *sink)
{
    struct recorder *r = calloc(1, sizeof *r);

    if (r != NULL) {
        r->sink = sink;
    }
    return r;
}

void recorder_free(struct recorder **r)
{
    free(*r);
    *r = NULL;
}

size_t record_name(char *out, const char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    bool dash = strcmp(name, "-") == 0;
    size_t n = 0;

    if (name[0] == '\0') {
        out[n++] = '-';
    }
    for (const char *p = name; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (c > ' ' && c <= '~' && c != '%' && !dash) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    out[n] = '\0';
    return n;
}

const char *record_tier_name(enum record_tier tier)
{
    static const char *const names[RECORD_TIERS] = {"priority", "default",
                                                    "flex"};

    return names[tier];
}

const char *record_end_name(enum record_end how)
{
    static const char *const names[RECORD_ENDS] = {"stop", "length",
                                                   "cancelled", "failed"};

    return names[how];
}

/* Writes a line of this kind: lines that were lost first, if there were. */
static void put(struct recorder *r, int64_t now_us, char kind, const char *fmt,
                ...) __attribute__((format(printf, 4, 5)));

static bool put_lost(struct recorder *r, int64_t us)
{
    char line[64];
    int n = snprintf(line, sizeof line, "l %" PRId64 " %" PRIu64 "\n", us,
                     r->n_lost);

    if (r->n_lost > 0 && r->sink->put(r->sink, line, (size_t)n)) {
        r->n_lost = 0;
    }
    return r->n_lost == 0;
}

static void put(struct recorder *r, int64_t now_us, char kind, const char *fmt,
                ...)
{
    int64_t us = now_us - r->begin_us;
    char line[RECORD_LINE_MAX];
    size_t n = (size_t)snprintf(line, sizeof line, "%c %" PRId64 " ", kind, us);
    va_list ap;

    va_start(ap, fmt);
    n += (size_t)vsnprintf(line + n, sizeof line - n, fmt, ap);
    va_end(ap);
    if (n + 1 >= sizeof line || !put_lost(r, us)) {
        r->n_lost++;
        return;
    }
    line[n++] = '\n';
    r->n_lost += !r->sink->put(r->sink, line, n);
}

void record_options(struct recorder *r, int64_t now_us,
                    const struct record_options *o)
{
    if (r == NULL) {
        return;
    }
    r->begin_us = now_us;
    (void)r->sink->put(r->sink, RECORD_FIRST_LINE "\n",
                       sizeof RECORD_FIRST_LINE);
    put(r, now_us, 'o',
        "%s %" PRIu32 " %" PRId64 " %" PRId64 " %" PRIu32 " %" PRIu32
        " %" PRIu32 " %d %" PRIu32 " %" PRIu32,
        o->strict ? "strict" : "expected", o->suspensions, o->queue_timeout_us,
        o->worker_wait_us, o->max_requests, o->max_waiting, o->kept,
        o->headroom, o->tenant_quota, o->retry_budget);
}

void record_weight(struct recorder *r, int64_t now_us, const char *tenant,
                   uint32_t weight)
{
    char name[RECORD_NAME(MODEL_NAME_MAX)];

    if (r != NULL && strlen(tenant) <= MODEL_NAME_MAX) {
        record_name(name, tenant);
        put(r, now_us, 't', "%s %" PRIu32, name, weight);
    }
}

/* ---- places ---- */

/* Sessions are numbers that the router draws at random, and never 0. */
static struct known_place *find(struct recorder *r, uint64_t session)
{
    for (uint32_t i = 0; i < RECORD_PLACES; i++) {
        if (r->places[i].session == session) {
            return &r->places[i];
        }
    }
    return NULL;
}

/* Writes the line of a new place. */
static void put_place(struct recorder *r, int64_t now_us, uint64_t number,
                      const struct record_place *p)
{
    char name[RECORD_NAME(PEER_NAME_MAX)], model[RECORD_NAME(MODEL_NAME_MAX)];

    record_name(name, p->name);
    record_name(model, p->model);
    put(r, now_us, 'p',
        "%" PRIu64 " %s %s %d %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32
        " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32,
        number, name, model, p->grows, p->block_tokens, p->block_pages,
        p->slot_pages, p->pages, p->slots, p->context, p->max_rows,
        p->window_tokens, p->window_pages, p->chunk_tokens);
}

/* Returns whether a differs from b by more than a sixteenth of it. */
static bool differs(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) > b / 16;
}

/* A cost is written again only if a replay would show the difference. */
static bool costs_differ(const struct record_cost *a,
                         const struct record_cost *b)
{
    return differs(a->base_ns, b->base_ns) || differs(a->row_ns, b->row_ns) ||
           differs(a->token_ns, b->token_ns) || a->chunk != b->chunk;
}

/* Returns the cost of the steps so far. */
static struct record_cost cost_of(const struct step_totals *s)
{
    double n = s->n > 0 ? s->n : 1;
    double mean = s->rows / n, spread = s->rows_square / n - mean * mean;
    double row =
        spread < 1e-3 ? 0 : (s->us_rows / n - s->us / n * mean) / spread;
    double base, token;

    row = row < 0 ? 0 : row;
    base = s->us / n - row * mean;
    base = base < 0 ? 0 : base;
    token = s->tokens > 0
                ? (s->mixed_us - base * s->mixed_n - row * s->mixed_rows) /
                      s->tokens
                : 0;
    token = token < 0 ? 0 : token;
    return (struct record_cost){(uint64_t)(base * 1000), (uint64_t)(row * 1000),
                                (uint64_t)(token * 1000),
                                s->chunk > 0 ? s->chunk : CHUNK_UNSEEN};
}

void record_step(struct recorder *r, uint64_t session, uint32_t us,
                 uint32_t n_rows, uint32_t n_prompt_tokens)
{
    struct known_place *x = r == NULL ? NULL : find(r, session);
    double t = us < STEP_US_CAP ? us : STEP_US_CAP;

    if (x == NULL || us == 0) {
        return;
    }
    if (n_prompt_tokens == 0) {
        x->steps.n++;
        x->steps.us += t;
        x->steps.rows += n_rows;
        x->steps.us_rows += t * n_rows;
        x->steps.rows_square += (double)n_rows * n_rows;
    } else {
        x->steps.mixed_n++;
        x->steps.mixed_us += t;
        x->steps.mixed_rows += n_rows;
        x->steps.tokens += n_prompt_tokens;
        x->steps.chunk = max_u32(x->steps.chunk, n_prompt_tokens);
    }
}

static void put_cost(struct recorder *r, int64_t now_us, struct known_place *x)
{
    struct record_cost c = cost_of(&x->steps);

    if (x->steps.n < STEPS_LEAST || !costs_differ(&c, &x->cost)) {
        return;
    }
    x->cost = c;
    put(r, now_us, 'c',
        "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32, x->number,
        c.base_ns, c.row_ns, c.token_ns, c.chunk);
}

void record_place(struct recorder *r, int64_t now_us,
                  const struct record_place *p)
{
    struct known_place *x = r == NULL ? NULL : find(r, p->session);

    if (r != NULL && x == NULL && (x = find(r, 0)) != NULL) {
        *x = (struct known_place){.session = p->session,
                                  .number = ++r->n_places};
        put_place(r, now_us, x->number, p);
    }
    if (x != NULL) {
        x->seen = true;
        put_cost(r, now_us, x);
    }
}

void record_places_seen(struct recorder *r, int64_t now_us)
{
    for (uint32_t i = 0; r != NULL && i < RECORD_PLACES; i++) {
        struct known_place *x = &r->places[i];

        if (x->session != 0 && !x->seen) {
            put(r, now_us, 'x', "%" PRIu64, x->number);
            x->session = 0;
        }
        x->seen = false;
    }
}

/* ---- requests ---- */

/* Two prefixes that meet in one place of the table replace each other: the
 * requests that had the older one then count as having less in common. */
static struct known_prefix *prefix_of(struct recorder *r, uint64_t hash)
{
    return &r->prefixes[hash % RECORD_PREFIXES];
}

void record_prefix(struct recorder *r, uint64_t request,
                   struct prefix_hash prefix)
{
    if (r != NULL && request != 0) {
        *prefix_of(r, prefix.lo) = (struct known_prefix){prefix.lo, request};
    }
}

/* Returns the newest request that has the longest prefix of a, and its units.
 */
static uint64_t like(struct recorder *r, const struct record_arrival *a,
                     uint32_t *n_units)
{
    for (uint32_t i = a->n_units; i > 0; i--) {
        const struct known_prefix *k = prefix_of(r, a->units[i - 1].lo);

        if (k->request != 0 && k->hash == a->units[i - 1].lo) {
            *n_units = i;
            return k->request;
        }
    }
    *n_units = 0;
    return 0;
}

/* The longest prefix is looked up before the own ones are added, or each
 * request would be like itself. */
uint64_t record_arrival(struct recorder *r, int64_t now_us,
                        const struct record_arrival *a)
{
    char model[RECORD_NAME(MODEL_NAME_MAX)],
        tenant[RECORD_NAME(TENANT_NAME_MAX)],
        route[RECORD_NAME(ROUTE_NAME_MAX)];
    uint32_t n_units;
    uint64_t other;

    if (r == NULL) {
        return 0;
    }
    other = like(r, a, &n_units);
    record_name(model, a->model);
    record_name(tenant, a->tenant);
    record_name(route, a->route);
    put(r, now_us, 'a',
        "%" PRIu64 " %s %s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRId64
        " %d %" PRIu64 " %" PRIu32 " %s %d %s",
        ++r->n_requests, model, tenant, a->n_prompt, a->max_tokens,
        a->n_choices, a->deadline_us, a->cache, other, n_units * PREFIX_UNIT,
        record_tier_name(a->tier), a->guaranteed, route);
    for (uint32_t i = 0; i < a->n_units; i++) {
        record_prefix(r, r->n_requests, a->units[i]);
    }
    return r->n_requests;
}

void record_refused(struct recorder *r, int64_t now_us, uint64_t request,
                    const char *status)
{
    if (r != NULL && request != 0) {
        put(r, now_us, 'r', "%" PRIu64 " %s", request, status);
    }
}

void record_granted(struct recorder *r, int64_t now_us, uint64_t request,
                    uint32_t choice, uint64_t session, uint64_t pages)
{
    const struct known_place *x = r == NULL ? NULL : find(r, session);

    if (x != NULL && request != 0) {
        put(r, now_us, 'g', "%" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64,
            request, choice, x->number, pages);
    }
}

void record_first(struct recorder *r, int64_t now_us, uint64_t request,
                  uint32_t choice, uint32_t restored)
{
    if (r != NULL && request != 0) {
        put(r, now_us, 'f', "%" PRIu64 " %" PRIu32 " %" PRIu32, request, choice,
            restored);
    }
}

void record_suspended(struct recorder *r, int64_t now_us, uint64_t request,
                      uint32_t choice)
{
    if (r != NULL && request != 0) {
        put(r, now_us, 's', "%" PRIu64 " %" PRIu32, request, choice);
    }
}

void record_ended(struct recorder *r, int64_t now_us, uint64_t request,
                  uint32_t choice, uint32_t n_tokens, enum record_end how)
{
    if (r != NULL && request != 0) {
        put(r, now_us, 'e', "%" PRIu64 " %" PRIu32 " %" PRIu32 " %s", request,
            choice, n_tokens, record_end_name(how));
    }
}
