#include "tests/faults/chaos_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS   6
#define IDS_MAX 64

/* A command in progress. */
struct command {
    struct chaos_proxy *proxy;
    char *word[WORDS]; /* [0]: the target, [1]: the verb */
    unsigned n;
    unsigned first, last; /* routes */
    uint32_t id;          /* or CHAOS_ALL */
    struct error *e;
    char *answer; /* [CHAOS_ANSWER], "ok" so far */
};

struct verb {
    const char *name;
    unsigned min, max; /* words after the verb */
    enum status (*run)(struct command *c);
};

static enum status wrong(struct command *c, const char *wanted)
{
    return error_set(c->e, ST_INVALID_ARGUMENT, "%s: %s is required",
                     c->word[1], wanted);
}

static bool number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    *out = strtoull(text, &end, 10);
    return *end == '\0' && *out <= max;
}

/* ---- settings ---- */

static void copy_delay(struct chaos_settings *s, const void *arg)
{
    const struct chaos_settings *from = arg;

    s->delay_ms = from->delay_ms;
    s->jitter_ms = from->jitter_ms;
}

static void copy_rate(struct chaos_settings *s, const void *arg)
{
    s->rate = ((const struct chaos_settings *)arg)->rate;
}

static void copy_drop(struct chaos_settings *s, const void *arg)
{
    memcpy(s->drop, ((const struct chaos_settings *)arg)->drop, sizeof s->drop);
}

static void copy_freeze(struct chaos_settings *s, const void *arg)
{
    memcpy(s->freeze, ((const struct chaos_settings *)arg)->freeze,
           sizeof s->freeze);
}

static void copy_all(struct chaos_settings *s, const void *arg)
{
    *s = *(const struct chaos_settings *)arg;
}

/* Takes a number; arg has its range and the offset of its field. */
struct chance {
    size_t field;
    uint32_t n;
};

static void copy_chance(struct chaos_settings *s, const void *arg)
{
    const struct chance *c = arg;

    memcpy((char *)s + c->field, &c->n, sizeof c->n);
}

static enum status change(struct command *c, chaos_change_fn *fn,
                          const void *arg)
{
    for (unsigned i = c->first; i <= c->last; i++) {
        if (!chaos_proxy_change(c->proxy, i, c->id, fn, arg)) {
            return error_set(c->e, ST_NOT_FOUND, "%s#%" PRIu32 " is not open",
                             c->word[0], c->id);
        }
    }
    return ST_OK;
}

static enum status run_delay(struct command *c)
{
    struct chaos_settings s = {0};
    uint64_t delay, jitter = 0;

    if (!number(c->word[2], 600000, &delay) || c->n == 4 ||
        (c->n == 5 && (strcmp(c->word[3], "jitter") != 0 ||
                       !number(c->word[4], 600000, &jitter)))) {
        return wrong(c, "MS or MS jitter MS, at most 600000,");
    }
    s.delay_ms = (uint32_t)delay;
    s.jitter_ms = (uint32_t)jitter;
    return change(c, copy_delay, &s);
}

static enum status run_rate(struct command *c)
{
    struct chaos_settings s = {0};

    if (!number(c->word[2], UINT64_MAX, &s.rate)) {
        return wrong(c, "a number of bytes a second");
    }
    return change(c, copy_rate, &s);
}

static bool ways(const char *word, bool out[2])
{
    out[CHAOS_UP] = strcmp(word, "down") != 0;
    out[CHAOS_DOWN] = strcmp(word, "up") != 0;
    return strcmp(word, "both") == 0 || out[CHAOS_UP] != out[CHAOS_DOWN];
}

static enum status run_drop(struct command *c)
{
    struct chaos_settings s = {0};

    if (!ways(c->word[2], s.drop)) {
        return wrong(c, "up, down or both");
    }
    return change(c, copy_drop, &s);
}

static enum status run_freeze(struct command *c)
{
    struct chaos_settings s = {0};

    if (!ways(c->word[2], s.freeze)) {
        return wrong(c, "up, down or both");
    }
    return change(c, copy_freeze, &s);
}

static enum status chance_of(struct command *c, size_t field, bool messages)
{
    struct chance chance = {.field = field};
    uint64_t n;

    if (strncmp(c->word[2], "1/", 2) != 0 ||
        !number(c->word[2] + 2, UINT32_MAX, &n)) {
        return wrong(c, "1/N");
    }
    for (unsigned i = c->first; messages && i <= c->last; i++) {
        if (!chaos_proxy_zmtp(c->proxy, i)) {
            return error_set(c->e, ST_FAILED_PRECONDITION,
                             "%s: route %s is plain and has no messages",
                             c->word[1], chaos_proxy_name(c->proxy, i));
        }
    }
    chance.n = (uint32_t)n;
    return change(c, copy_chance, &chance);
}

static enum status run_flip(struct command *c)
{
    return chance_of(c, offsetof(struct chaos_settings, flip), false);
}

static enum status run_flip_body(struct command *c)
{
    return chance_of(c, offsetof(struct chaos_settings, flip_body), true);
}

static enum status run_dup(struct command *c)
{
    return chance_of(c, offsetof(struct chaos_settings, dup), true);
}

static enum status run_reorder(struct command *c)
{
    return chance_of(c, offsetof(struct chaos_settings, reorder), true);
}

static enum status run_lose(struct command *c)
{
    return chance_of(c, offsetof(struct chaos_settings, lose), true);
}

/* ---- connections and ports ---- */

static enum status end_them(struct command *c, bool reset)
{
    unsigned n = 0;

    for (unsigned i = c->first; i <= c->last; i++) {
        n += chaos_proxy_end(c->proxy, i, c->id, reset);
    }
    snprintf(c->answer, CHAOS_ANSWER, "ok n=%u", n);
    return ST_OK;
}

static enum status run_reset(struct command *c)
{
    return end_them(c, true);
}

static enum status run_close(struct command *c)
{
    return end_them(c, false);
}

static enum status accept_as(struct command *c, enum chaos_accept how)
{
    enum status st = ST_OK;

    if (c->id != CHAOS_ALL) {
        return wrong(c, "a route");
    }
    for (unsigned i = c->first; i <= c->last && st == ST_OK; i++) {
        st = chaos_proxy_accept(c->proxy, i, how, c->e);
    }
    return st;
}

static enum status run_pause(struct command *c)
{
    return accept_as(c, CHAOS_PAUSE);
}

static enum status run_refuse(struct command *c)
{
    return accept_as(c, CHAOS_REFUSE);
}

static enum status run_heal(struct command *c)
{
    static const struct chaos_settings none;
    enum status st = change(c, copy_all, &none);

    return st == ST_OK && c->id == CHAOS_ALL ? accept_as(c, CHAOS_ACCEPT) : st;
}

/* ---- answers ---- */

#define TOTALS(X)                                   \
    X("accepted", accepted)                         \
    X("open", open)                                 \
    X("unreachable", unreachable)                   \
    X("resets", resets)                             \
    X("bytes_up", counts.bytes[CHAOS_UP])           \
    X("bytes_down", counts.bytes[CHAOS_DOWN])       \
    X("messages_up", counts.messages[CHAOS_UP])     \
    X("messages_down", counts.messages[CHAOS_DOWN]) \
    X("dropped_bytes", counts.dropped_bytes)        \
    X("dropped_messages", counts.dropped_messages)  \
    X("flips", counts.flips)                        \
    X("dups", counts.dups)                          \
    X("reorders", counts.reorders)                  \
    X("losses", counts.losses)                      \
    X("not_zmtp", counts.not_zmtp)

static enum status run_stats(struct command *c)
{
    struct chaos_totals sum = {0}, one;
    size_t at = 2; /* after the text "ok" */

    for (unsigned i = c->first; i <= c->last; i++) {
        chaos_proxy_totals(c->proxy, i, &one);
#define X(name, field) sum.field += one.field;
        TOTALS(X)
#undef X
    }
#define X(name, field)                                        \
    at += (size_t)snprintf(c->answer + at, CHAOS_ANSWER - at, \
                           " " name "=%" PRIu64, sum.field);
    TOTALS(X)
#undef X
    return ST_OK;
}

static enum status run_connections(struct command *c)
{
    uint32_t ids[IDS_MAX];
    unsigned n = chaos_proxy_ids(c->proxy, c->first, ids, IDS_MAX);
    int at = snprintf(c->answer, CHAOS_ANSWER, "ok n=%u ids=", n);

    if (c->first != c->last) {
        return wrong(c, "one route");
    }
    for (unsigned i = 0; i < n && i < IDS_MAX; i++) {
        at += snprintf(c->answer + at, CHAOS_ANSWER - (size_t)at,
                       i > 0 ? ",%" PRIu32 : "%" PRIu32, ids[i]);
    }
    return ST_OK;
}

/* ---- lines ---- */

static const struct verb verbs[] = {
    {"delay", 1, 3, run_delay},   {"rate", 1, 1, run_rate},
    {"drop", 1, 1, run_drop},     {"freeze", 1, 1, run_freeze},
    {"flip", 1, 1, run_flip},     {"flip_body", 1, 1, run_flip_body},
    {"dup", 1, 1, run_dup},       {"reorder", 1, 1, run_reorder},
    {"lose", 1, 1, run_lose},     {"reset", 0, 0, run_reset},
    {"close", 0, 0, run_close},   {"pause_accept", 0, 0, run_pause},
    {"refuse", 0, 0, run_refuse}, {"heal", 0, 0, run_heal},
    {"stats", 0, 0, run_stats},   {"connections", 0, 0, run_connections},
};

static enum status find_target(struct command *c)
{
    unsigned n = chaos_proxy_routes(c->proxy);
    char *id = strchr(c->word[0], '#');
    uint64_t v = CHAOS_ALL;

    if (id != NULL) {
        *id++ = '\0';
        if (!number(id, UINT32_MAX, &v) || v == CHAOS_ALL) {
            return error_set(c->e, ST_INVALID_ARGUMENT,
                             "%s#%s: ids are numbers from 1", c->word[0], id);
        }
    }
    c->id = (uint32_t)v;
    if (strcmp(c->word[0], "*") == 0 && id == NULL && n > 0) {
        c->last = n - 1;
        return ST_OK;
    }
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(chaos_proxy_name(c->proxy, i), c->word[0]) == 0) {
            c->first = c->last = i;
            return ST_OK;
        }
    }
    return error_set(c->e, ST_NOT_FOUND, "there is no route %s", c->word[0]);
}

static enum status find_verb(struct command *c, const struct verb **out)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        const struct verb *v = &verbs[i];

        if (c->n > 1 && strcmp(v->name, c->word[1]) == 0) {
            *out = v;
            return c->n >= 2 + v->min && c->n <= 2 + v->max
                       ? ST_OK
                       : error_set(c->e, ST_INVALID_ARGUMENT,
                                   "%s takes %u to %u words, not %u", v->name,
                                   v->min, v->max, c->n - 2);
        }
    }
    return error_set(c->e, ST_INVALID_ARGUMENT, "%s is not a command",
                     c->n > 1 ? c->word[1] : c->word[0]);
}

enum status chaos_route(struct chaos_proxy *p, const char *text,
                        struct error *e)
{
    char name[CHAOS_LINE], *at, *end;
    unsigned long target = 0, from = 0;
    bool plain;

    snprintf(name, sizeof name, "%s", text);
    at = strchr(name, '=');
    if (at != NULL) {
        *at++ = '\0';
        from = strtoul(at, &end, 10);
        target = end > at && *end == ':' ? strtoul(end + 1, &end, 10) : 0;
    }
    plain = target > 0 && strcmp(end, ",plain") == 0;
    if (target == 0 || target > UINT16_MAX || from > UINT16_MAX ||
        (*end != '\0' && !plain)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: NAME=LISTEN:TARGET or NAME=LISTEN:TARGET,plain "
                         "is required, with ports of this machine",
                         text);
    }
    return chaos_proxy_add(p, name, (uint16_t)from, (uint16_t)target, !plain,
                           e);
}

static enum status add_route(struct command *c)
{
    unsigned at = chaos_proxy_routes(c->proxy);
    enum status st = chaos_route(c->proxy, c->n == 2 ? c->word[1] : "", c->e);

    if (st == ST_OK) {
        snprintf(c->answer, CHAOS_ANSWER, "ok %s=%u",
                 chaos_proxy_name(c->proxy, at),
                 chaos_proxy_listen(c->proxy, at));
    }
    return st;
}

static enum status run(struct command *c)
{
    const struct verb *v = NULL;
    enum status st;

    if (c->n == 0) {
        return ST_OK;
    }
    if (strcmp(c->word[0], "add") == 0) {
        return add_route(c);
    }
    st = find_verb(c, &v);
    st = st == ST_OK ? find_target(c) : st;
    return st == ST_OK ? v->run(c) : st;
}

void chaos_command(struct chaos_proxy *p, char *line, char answer[CHAOS_ANSWER])
{
    struct error e = {ST_OK, ""};
    struct command c = {.proxy = p, .e = &e, .answer = answer};
    char *rest = line, *word;

    snprintf(answer, CHAOS_ANSWER, "ok");
    while (c.n < WORDS && (word = strtok_r(rest, " \t\r", &rest)) != NULL) {
        c.word[c.n++] = word;
    }
    if (run(&c) != ST_OK) {
        snprintf(answer, CHAOS_ANSWER, "error %s", e.text);
    }
}
