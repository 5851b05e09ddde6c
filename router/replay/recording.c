/* recording.c - Reads a recording line by line into arrays.
 *
 * A file that a person has edited or cut is likely, so every field has a range
 * and each sentence names its line.  Arrays grow by doubling: the number of
 * requests is only known at the end. */
#include "router/replay/recording.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "router/base/router_options.h"
#include "router/replay/recording_line.h"

const struct limit_row recording_limits[] = {
    LIMIT_ROW(RECORDING_REQUESTS_MAX, "", "requests of a recording"),
    LIMIT_ROW(RECORDING_CHOICES_MAX, "", "choices of a recording"),
    LIMIT_ROW(RECORDING_PLACES_MAX, "", "places of a recording"),
    LIMIT_ROW(RECORDING_COSTS_MAX, "", "costs of places in a recording"),
    LIMIT_ROW(RECORDING_NAMES_MAX, "",
              "tenants, models and routes of a recording"),
    LIMIT_ROW(RECORDING_WEIGHTS_MAX, "", "weights of tenants in a recording"),
    LIMIT_ROW(RECORDING_US_MAX, "us", "a time in a recording"),
    LIMIT_ROW(RECORD_LINE_MAX, "bytes", "a line of a recording"),
};
const size_t recording_limits_n =
    sizeof recording_limits / sizeof recording_limits[0];

/* Makes room for one more of n items.  Returns false without memory. */
/* The arrays have different types, and the pointer to each is passed as one to
 * void *: all pointers have one representation here. */
static bool grow(void *items, uint32_t n, uint32_t *size, size_t bytes)
{
    uint32_t next = *size == 0 ? 64 : *size * 2;
    void *more;

    if (n < *size) {
        return true;
    }
    more = realloc(*(void **)items, next * bytes);
    if (more == NULL) {
        return false;
    }
    *(void **)items = more;
    *size = next;
    return true;
}

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     "no memory is left for the recording");
}

static enum status too_many(struct error *e, const char *what, uint32_t most)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "there are more than %" PRIu32 " %s", most, what);
}

/* Sets *out to the one copy of a name. */
/* The names of one recording are few, and most lines have the newest ones: the
 * search from the end is short.  Equal names are one pointer, so that others
 * compare pointers. */
static enum status intern(struct recording *r, const char *name,
                          const char **out, struct error *e)
{
    for (uint32_t i = r->n_names; i > 0; i--) {
        if (strcmp(r->names[i - 1], name) == 0) {
            *out = r->names[i - 1];
            return ST_OK;
        }
    }
    if (r->n_names == RECORDING_NAMES_MAX) {
        return too_many(e, "tenants, models and routes", RECORDING_NAMES_MAX);
    }
    if (!grow(&r->names, r->n_names, &r->names_size, sizeof *r->names) ||
        (r->names[r->n_names] = strdup(name)) == NULL) {
        return no_memory(e);
    }
    *out = r->names[r->n_names++];
    return ST_OK;
}

/* Ends a line.  Returns false if there is nothing to take of it: it is wrong,
 * or refers to a line that is lost. */
static bool whole(struct record_line *l, struct error *e)
{
    return line_end(l, e) == ST_OK && !l->lost;
}

/* ---- one function for each kind of line ---- */

/* The options can only be the second line: what follows is read by them. */
static enum status take_options(struct recording *r, struct record_line *l,
                                struct error *e)
{
    struct record_options *o = &r->options;
    const char *word = line_word(l, "admission");

    if (r->n_lines != 2) {
        line_wrong(l, "options", "may only be the second line");
    }
    if (word != NULL && strcmp(word, "strict") != 0 &&
        strcmp(word, "expected") != 0) {
        line_wrong(l, "admission", "is not \"strict\" or \"expected\"");
    }
    o->strict = word != NULL && strcmp(word, "strict") == 0;
    o->suspensions = line_u32(l, "suspensions", 0, 500000);
    o->queue_timeout_us = line_i64(l, "queue timeout", 0, RECORDING_US_MAX);
    o->worker_wait_us = line_i64(l, "worker wait", 0, RECORDING_US_MAX);
    o->max_requests = line_u32(l, "max requests", 1, 1048576);
    o->max_waiting = line_u32(l, "max waiting", 0, 1048576);
    o->kept = line_u32(l, "kept", 0, 1048576);
    o->headroom = line_u32(l, "headroom", 0, 1) == 1;
    if (line_goes_on(l)) {
        o->tenant_quota = line_u32(l, "tenant quota", 0, TENANT_QUOTA_MAX);
        o->retry_budget = line_u32(l, "retry budget", 0, RETRY_BUDGET_MAX);
    }
    return line_end(l, e);
}

static enum status take_weight(struct recording *r, struct record_line *l,
                               struct error *e)
{
    struct recorded_weight w = {.weight = 0};
    char name[MODEL_NAME_MAX + 1];

    line_name(l, "tenant", name, 1, MODEL_NAME_MAX);
    w.weight = line_u32(l, "weight", 1, 1000);
    if (line_end(l, e) != ST_OK || intern(r, name, &w.tenant, e) != ST_OK) {
        return e->code;
    }
    if (r->n_weights == RECORDING_WEIGHTS_MAX) {
        return too_many(e, "weights", RECORDING_WEIGHTS_MAX);
    }
    if (!grow(&r->weights, r->n_weights, &r->weights_size, sizeof w)) {
        return no_memory(e);
    }
    r->weights[r->n_weights++] = w;
    return ST_OK;
}

/* The ranges are those that the router accepts of a worker's Hello. */
static void read_shape(struct record_line *l, struct record_place *p)
{
    p->grows = line_u32(l, "growth", 0, 1) == 1;
    p->block_tokens =
        line_u32(l, "tokens of a block", 1, SHARD_BLOCK_TOKENS_MAX);
    p->block_pages = line_u32(l, "pages of a block", 0, SHARD_PAGES_MAX);
    p->slot_pages = line_u32(l, "pages of a slot", 0, SHARD_PAGES_MAX);
    p->pages = line_u32(l, "pages", 1, UINT32_MAX);
    p->slots = line_u32(l, "slots", 0, UINT32_MAX);
    p->context = line_u32(l, "context", 2, MODEL_CONTEXT_MAX);
    p->max_rows = line_u32(l, "rows", 1, STEP_ROWS_MAX);
    p->window_tokens = line_u32(l, "window", 0, MODEL_CONTEXT_MAX);
    p->window_pages =
        line_u32(l, "pages of a window block", 0, SHARD_PAGES_MAX);
    p->chunk_tokens = line_u32(l, "chunk", 0, STEP_TOKENS_MAX);
    if (l->error.code == ST_OK && SHARD_BLOCK_TOKENS_MAX % p->block_tokens) {
        line_wrong(l, "tokens of a block",
                   "does not divide a unit of prefixes");
    }
    if (l->error.code == ST_OK && p->block_pages + p->slot_pages == 0) {
        line_wrong(l, "pages of a block", "is 0, and so is that of a slot");
    }
}

static enum status take_place(struct recording *r, struct record_line *l,
                              struct error *e)
{
    struct recorded_place p = {.from_us = l->at_us,
                               .until_us = RECORDING_NEVER};
    char name[PEER_NAME_MAX + 1], model[MODEL_NAME_MAX + 1];

    uint32_t number = line_next(l, "place", r->n_places, RECORDING_PLACES_MAX);

    line_name(l, "name", name, 1, PEER_NAME_MAX);
    line_name(l, "model", model, 1, MODEL_NAME_MAX);
    read_shape(l, &p.shape);
    if (line_end(l, e) != ST_OK || intern(r, name, &p.name, e) != ST_OK ||
        intern(r, model, &p.model, e) != ST_OK) {
        return e->code;
    }
    while (r->n_places <= number) {
        if (!grow(&r->places, r->n_places, &r->places_size, sizeof p)) {
            return no_memory(e);
        }
        /* Those before it are lost: without pages. */
        r->places[r->n_places] = p;
        if (r->n_places++ < number) {
            r->places[r->n_places - 1].shape.pages = 0;
        }
    }
    return ST_OK;
}

/* Costs of all places are one array in order of time; a replay walks it once.
 */
static enum status take_cost(struct recording *r, struct record_line *l,
                             struct error *e)
{
    struct recorded_cost c = {.at_us = l->at_us};

    c.place = line_ref(l, "place", r->n_places);
    c.cost.base_ns = line_u64(l, "base", 0, UINT64_C(60000000000));
    c.cost.row_ns = line_u64(l, "row", 0, UINT64_C(60000000000));
    c.cost.token_ns = line_u64(l, "token", 0, UINT64_C(60000000000));
    c.cost.chunk = line_u32(l, "chunk", 1, STEP_TOKENS_MAX);
    if (!whole(l, e)) {
        return l->error.code;
    }
    if (r->n_costs == RECORDING_COSTS_MAX) {
        return too_many(e, "costs", RECORDING_COSTS_MAX);
    }
    if (!grow(&r->costs, r->n_costs, &r->costs_size, sizeof c)) {
        return no_memory(e);
    }
    r->costs[r->n_costs++] = c;
    return ST_OK;
}

static enum status take_gone(struct recording *r, struct record_line *l,
                             struct error *e)
{
    uint32_t i = line_ref(l, "place", r->n_places);

    if (!whole(l, e)) {
        return l->error.code;
    }
    if (r->places[i].until_us != RECORDING_NEVER) {
        line_wrong(l, "place", "is gone already");
        return line_end(l, e);
    }
    r->places[i].until_us = l->at_us;
    return ST_OK;
}

static enum status add_choices(struct recording *r, struct recorded_request *q,
                               struct error *e)
{
    q->choices = r->n_choices;
    if (r->n_choices + q->n_choices > RECORDING_CHOICES_MAX) {
        return too_many(e, "choices", RECORDING_CHOICES_MAX);
    }
    for (uint32_t c = 0; c < q->n_choices; c++) {
        if (!grow(&r->choices, r->n_choices, &r->choices_size,
                  sizeof *r->choices)) {
            return no_memory(e);
        }
        r->choices[r->n_choices++] =
            (struct recorded_choice){.granted_us = RECORDING_NEVER,
                                     .first_us = RECORDING_NEVER,
                                     .end_us = RECORDING_NEVER};
    }
    return ST_OK;
}

/* Reads what an older router did not write: each request then had the default
 * tier, and none a guarantee or a route. */
static void read_class(struct record_line *l, struct recorded_request *q,
                       char route[ROUTE_NAME_MAX + 1])
{
    const char *word;
    uint32_t tier = 0;

    route[0] = '\0';
    q->tier = RECORD_DEFAULT;
    if (!line_goes_on(l)) {
        return;
    }
    word = line_word(l, "tier");
    while (word != NULL && tier < RECORD_TIERS &&
           strcmp(word, record_tier_name((enum record_tier)tier)) != 0) {
        tier++;
    }
    if (tier == RECORD_TIERS) {
        line_wrong(l, "tier", "is not \"priority\", \"default\" or \"flex\"");
        return;
    }
    q->tier = (enum record_tier)tier;
    q->guaranteed = line_u32(l, "guarantee", 0, 1) == 1;
    line_name(l, "route", route, 0, ROUTE_NAME_MAX);
}

static enum status take_arrival(struct recording *r, struct record_line *l,
                                struct error *e)
{
    struct recorded_request q = {.at_us = l->at_us,
                                 .refused_us = RECORDING_NEVER};
    char model[MODEL_NAME_MAX + 1], tenant[TENANT_NAME_MAX + 1];
    char route[ROUTE_NAME_MAX + 1];
    uint32_t number =
        line_next(l, "request", r->n_requests, RECORDING_REQUESTS_MAX);
    uint64_t like;

    line_name(l, "model", model, 0, MODEL_NAME_MAX);
    line_name(l, "tenant", tenant, 0, TENANT_NAME_MAX);
    q.n_prompt = line_u32(l, "prompt", 1, MODEL_CONTEXT_MAX);
    q.max_tokens = line_u32(l, "max_tokens", 0, UINT32_MAX);
    q.n_choices = line_u32(l, "choices", 1, CHOICES_MAX);
    q.deadline_us = line_i64(l, "deadline", 0, RECORDING_US_MAX);
    q.cache = line_u32(l, "cache", 0, 1) == 1;
    like = line_u64(l, "like", 0, number);
    q.shared = line_u32(l, "shared", 0, q.n_prompt);
    if (l->error.code == ST_OK && (like == 0) != (q.shared == 0)) {
        line_wrong(l, "shared", "is 0 exactly if no request is named");
    }
    read_class(l, &q, route);
    q.like = like > 0 ? (uint32_t)like - 1 : 0;
    if (line_end(l, e) != ST_OK || intern(r, model, &q.model, e) != ST_OK ||
        intern(r, tenant, &q.tenant, e) != ST_OK ||
        intern(r, route, &q.route, e) != ST_OK) {
        return e->code;
    }
    if (add_choices(r, &q, e) != ST_OK) {
        return e->code;
    }
    while (r->n_requests <= number) {
        if (!grow(&r->requests, r->n_requests, &r->requests_size, sizeof q)) {
            return no_memory(e);
        }
        r->requests[r->n_requests] = q;
        if (r->n_requests++ < number) {
            r->requests[r->n_requests - 1].lost = true;
            r->requests[r->n_requests - 1].n_choices = 0;
            r->requests[r->n_requests - 1].shared = 0;
        }
    }
    return ST_OK;
}

/* The status is for people: in a replay a refusal has no kinds. */
static enum status take_refusal(struct recording *r, struct record_line *l,
                                struct error *e)
{
    uint32_t i = line_ref(l, "request", r->n_requests);

    (void)line_word(l, "status");
    if (!whole(l, e)) {
        return l->error.code;
    }
    r->requests[i].refused = true;
    r->requests[i].refused_us = l->at_us;
    return ST_OK;
}

/* Returns the choice that a line names; NULL: there is none. */
static struct recorded_choice *choice_of(struct recording *r,
                                         struct record_line *l)
{
    uint32_t i = line_ref(l, "request", r->n_requests);
    uint32_t c = line_u32(l, "choice", 0, CHOICES_MAX - 1);

    if (l->error.code != ST_OK || l->lost) {
        return NULL;
    }
    if (r->requests[i].lost) {
        l->lost = true;
        return NULL;
    }
    if (c >= r->requests[i].n_choices) {
        line_wrong(l, "choice", "is not one of its request");
        return NULL;
    }
    return &r->choices[r->requests[i].choices + c];
}

/* Only the first grant counts: a sequence that moves is granted again. */
static enum status take_grant(struct recording *r, struct record_line *l,
                              struct error *e)
{
    struct recorded_choice *x = choice_of(r, l);
    uint32_t place = line_ref(l, "place", r->n_places);

    (void)line_u64(l, "pages", 0, UINT64_MAX);
    if (whole(l, e) && x->granted_us == RECORDING_NEVER) {
        x->granted_us = l->at_us;
        x->place = place;
    }
    return l->error.code;
}

static enum status take_first(struct recording *r, struct record_line *l,
                              struct error *e)
{
    struct recorded_choice *x = choice_of(r, l);
    uint32_t restored = line_u32(l, "restored", 0, UINT32_MAX);

    if (whole(l, e)) {
        x->first_us = l->at_us;
        x->n_restored = restored;
    }
    return l->error.code;
}

static enum status take_suspension(struct recording *r, struct record_line *l,
                                   struct error *e)
{
    struct recorded_choice *x = choice_of(r, l);

    if (whole(l, e)) {
        x->n_suspended++;
    }
    return l->error.code;
}

static enum status take_end(struct recording *r, struct record_line *l,
                            struct error *e)
{
    struct recorded_choice *x = choice_of(r, l);
    uint32_t n = line_u32(l, "tokens", 0, MODEL_CONTEXT_MAX);
    const char *word = line_word(l, "ending");
    uint32_t how = 0;

    while (word != NULL && how < RECORD_ENDS &&
           strcmp(word, record_end_name((enum record_end)how)) != 0) {
        how++;
    }
    if (how == RECORD_ENDS) {
        line_wrong(l, "ending",
                   "is not \"stop\", \"length\", \"cancelled\" or \"failed\"");
    }
    if (whole(l, e)) {
        x->end_us = l->at_us;
        x->n_tokens = n;
        x->how = (enum record_end)how;
    }
    return l->error.code;
}

/* From here on numbers may have gaps, and lines may refer to what is lost. */
static enum status take_lost(struct recording *r, struct record_line *l,
                             struct error *e)
{
    uint64_t n = line_u64(l, "lines", 1, UINT64_MAX / 2);

    if (line_end(l, e) == ST_OK) {
        r->n_lost = min_u64(r->n_lost + n, UINT64_MAX / 2);
    }
    return l->error.code;
}

static const struct {
    const char *kind;
    enum status (*take)(struct recording *r, struct record_line *l,
                        struct error *e);
} kinds[] = {
    {"o", take_options},    {"t", take_weight}, {"p", take_place},
    {"c", take_cost},       {"x", take_gone},   {"a", take_arrival},
    {"r", take_refusal},    {"g", take_grant},  {"f", take_first},
    {"s", take_suspension}, {"e", take_end},    {"l", take_lost},
};

static enum status take_line(struct recording *r, char *text, struct error *e)
{
    struct record_line l;
    const char *kind;

    line_begin(&l, text);
    l.lax = r->n_lost > 0;
    kind = line_word(&l, "kind");
    l.at_us = line_i64(&l, "time", r->end_us, RECORDING_US_MAX);
    if (l.error.code != ST_OK) {
        return line_end(&l, e);
    }
    if (r->n_lines == 2 && strcmp(kind, "o") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the second line must have the options (o)");
    }
    r->end_us = l.at_us;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].kind, kind) == 0) {
            return kinds[i].take(r, &l, e);
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT, "kind \"%.16s\" is unknown", kind);
}

/* Reads a line without its newline.  Returns false at the end, also of one that
 * is not whole. */
static bool next_line(FILE *from, char line[RECORD_LINE_MAX + 1],
                      bool *too_long)
{
    size_t n = 0;
    int c;

    *too_long = false;
    while ((c = getc(from)) != EOF && c != '\n') {
        *too_long = *too_long || n + 1 >= RECORD_LINE_MAX || c == '\0';
        if (!*too_long) {
            line[n++] = (char)c;
        }
    }
    line[n] = '\0';
    return c == '\n';
}

/* A last line without its newline is not an error: the router was killed, or
 * the disk is full, while it was written. */
static enum status read_all(struct recording *r, FILE *from, struct error *e)
{
    char line[RECORD_LINE_MAX + 1];
    bool too_long;
    enum status st = ST_OK;

    while (st == ST_OK && next_line(from, line, &too_long)) {
        r->n_lines++;
        if (too_long) {
            st = error_set(e, ST_INVALID_ARGUMENT,
                           "it has more than %d bytes, or a NUL",
                           RECORD_LINE_MAX);
        } else if (r->n_lines > 1) {
            st = take_line(r, line, e);
        } else if (strcmp(line, RECORD_FIRST_LINE) != 0) {
            st = error_set(e, ST_INVALID_ARGUMENT,
                           "a recording begins with \"" RECORD_FIRST_LINE "\"");
        }
    }
    if (st == ST_OK && ferror(from)) {
        return error_set(e, ST_UNAVAILABLE, "it cannot be read");
    }
    if (st == ST_OK && r->n_lines < 2) {
        r->n_lines++;
        st = error_set(e, ST_INVALID_ARGUMENT, "the recording ends here");
    }
    if (st == ST_INVALID_ARGUMENT) {
        error_wrap(e, "line %" PRIu64, r->n_lines);
    }
    return st;
}

enum status recording_read(struct recording **out, FILE *from, struct error *e)
{
    struct recording *r = calloc(1, sizeof *r);
    enum status st;

    *out = r;
    if (r == NULL) {
        return no_memory(e);
    }
    st = read_all(r, from, e);
    if (st != ST_OK) {
        recording_free(out);
    }
    return st;
}

void recording_free(struct recording **pr)
{
    struct recording *r = *pr;

    *pr = NULL;
    if (r == NULL) {
        return;
    }
    for (uint32_t i = 0; i < r->n_names; i++) {
        free(r->names[i]);
    }
    free(r->names);
    free(r->weights);
    free(r->places);
    free(r->costs);
    free(r->requests);
    free(r->choices);
    free(r);
}
