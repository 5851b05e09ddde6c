/* native_target.c - Our own protocol as a target of a generator.
 *
 * Requests are dealt to three kinds of sessions with the router:
 *
 *     shared  n_connections of them, requests in turn; more when all are full
 *     cut     requests that will be disconnected (call_request.disconnects).
 *             To disconnect one, its connection is dropped, which ends every
 *             request on it: all of them were to be disconnected, those then
 *             are somewhat early
 *     slow    requests with a slow reader, NATIVE_SLOW_MAX connections, each of
 *             which reads nothing for seconds at a time
 *
 * A request that is disconnected without having been announced shares its
 * connection with others: only its stream is left.
 *
 * Calls that have ended are reported from native_turn() alone, when no core is
 * running: a generator may start the next request right there. */
#include "client/load/drive/native_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/load/drive/native_call.h"
#include "common/base/bytes.h"
#include "common/base/memory.h"
#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"

/* Half of the calls of a session, so that each request has room for its
 * Cancel. */
#define NATIVE_CALLS      (CLIENT_CALLS_MAX / 2)
#define NATIVE_SHARED_MAX 20
#define NATIVE_CUT_MAX    8
#define NATIVE_SLOW_MAX   4
#define NATIVE_SHARED_N   4 /* connections by default */

#define GROUPS (1 + NATIVE_SLOW_MAX) /* the first: shared and cut */

static_assert(2 * (NATIVE_SHARED_MAX + NATIVE_CUT_MAX + NATIVE_SLOW_MAX) +
                      GROUPS * TRANSPORT_OWN_ITEMS <=
                  TARGET_ITEMS,
              "every socket and its monitor have an item");

struct way {
    struct native_session *sessions[NATIVE_SHARED_MAX]; /* [n] */
    unsigned n, max, next;
};

struct target {
    struct native_shape shape;
    char endpoint[ENDPOINT_MAX], name[PEER_NAME_MAX + 1];
    struct curve_keys *keys;             /* NULL: none */
    struct native_group *groups[GROUPS]; /* [n_groups] */
    int n_items[GROUPS];                 /* of the last items() */
    unsigned n_groups;
    struct way ways[NATIVE_WAYS];
    bool cuts[NATIVE_CUT_MAX]; /* cut in the next turn */
    struct list ended;
    struct call **calls; /* [size], by the index in their ids */
    uint32_t *unused;    /* [n_unused], indices */
    uint32_t size, n_unused;
    uint64_t salt;
    uint32_t serial;
    bool closes;
};

/* ---- the table of calls ---- */

static uint32_t take_index(struct target *t)
{
    if (t->n_unused == 0) {
        uint32_t size = t->size == 0 ? 256 : 2 * t->size;

        t->calls = memory_must(realloc(t->calls, size * sizeof *t->calls));
        t->unused = memory_must(realloc(t->unused, size * sizeof *t->unused));
        for (uint32_t i = size; i-- > t->size;) {
            t->calls[i] = NULL;
            t->unused[t->n_unused++] = i;
        }
        t->size = size;
    }
    return t->unused[--t->n_unused];
}

static void give_index(struct target *t, const struct call *c)
{
    t->calls[c->index] = NULL;
    t->unused[t->n_unused++] = c->index;
}

/* 8 random bytes, the place in the table, and a serial number. */
static void write_id(struct target *t, uint32_t index, uint8_t id[16])
{
    put_u64(id, t->salt);
    put_u32(id + 8, index);
    put_u32(id + 12, ++t->serial);
}

static void on_sent(void *arg, const uint8_t id[16], int64_t now_us)
{
    struct target *t = arg;
    uint32_t index = get_u32(id + 8);
    struct call *c = index < t->size ? t->calls[index] : NULL;

    if (c != NULL && memcmp(c->id, id, sizeof c->id) == 0) {
        native_call_sent(c, now_us);
    }
}

/* ---- sessions ---- */

static enum status add_group(struct target *t, bool slow, struct error *e)
{
    struct native_group_options o = {
        .endpoint = t->endpoint,
        .name = t->name,
        .keys = t->keys,
        .n_max = slow ? 1 : NATIVE_SHARED_MAX + NATIVE_CUT_MAX,
        .slow = slow,
        .on_sent = on_sent,
        .arg = t};
    enum status st = native_group_new(&t->groups[t->n_groups], &o, e);

    t->n_groups += st == ST_OK;
    return st;
}

/* Adds a session of a kind.  Slow ones have a transport each, so that one of
 * them pauses alone. */
static void add_session(struct target *t, enum native_way kind)
{
    struct way *w = &t->ways[kind];
    struct native_group *g = t->groups[0];

    if (kind == NATIVE_SLOW) {
        if (add_group(t, true, NULL) != ST_OK) {
            return; /* too few descriptors: the others serve */
        }
        g = t->groups[t->n_groups - 1];
    }
    w->sessions[w->n++] = native_group_add(g);
}

/* Requests that are cut take the session with the fewest, so that few are cut
 * early; one that just connects again comes last. */
static struct native_session *least_used(const struct way *w)
{
    struct native_session *best = NULL;
    bool better;

    for (unsigned i = 0; i < w->n; i++) {
        struct native_session *s = w->sessions[i];

        better = best == NULL ||
                 (native_session_up(s) && !native_session_up(best)) ||
                 (native_session_up(s) == native_session_up(best) &&
                  s->n_calls < best->n_calls);
        best = better ? s : best;
    }
    return best != NULL && best->n_calls < NATIVE_CALLS ? best : NULL;
}

static struct native_session *in_turn(struct way *w)
{
    for (unsigned i = 0; i < w->n; i++) {
        struct native_session *s = w->sessions[w->next++ % w->n];

        if (s->n_calls < NATIVE_CALLS) {
            return s;
        }
    }
    return NULL;
}

static struct native_session *pick(struct target *t, enum native_way kind)
{
    struct way *w = &t->ways[kind];
    struct native_session *s = kind == NATIVE_CUT ? least_used(w) : in_turn(w);

    if (s == NULL && w->n < w->max) {
        add_session(t, kind);
        s = in_turn(w);
    }
    if (s == NULL && kind != NATIVE_SHARED) {
        return pick(t, NATIVE_SHARED);
    }
    return s;
}

/* ---- open and close ---- */

static ProtobufCBinaryData text_of(const char *s)
{
    const char *at = s == NULL ? "" : s;

    return (ProtobufCBinaryData){strlen(at), (uint8_t *)(uintptr_t)at};
}

static void set_sampling(Sluice__V1__Sampling *m,
                         const struct target_options *o)
{
    sluice__v1__sampling__init(m);
    m->has_temperature = m->has_top_p = m->has_top_k = true;
    m->temperature = (float)o->temperature;
    m->top_p = (float)o->top_p;
    m->top_k = o->top_k;
    m->has_seed = o->has_seed;
    m->seed = o->seed;
    m->has_ignore_eos = true;
    m->ignore_eos = o->ignore_eos;
}

static void set_shape(struct target *t, const struct target_options *o)
{
    struct native_shape *s = &t->shape;

    set_sampling(&s->sampling, o);
    s->model = text_of(o->model);
    s->tenant = text_of(o->tenant);
    s->n = o->n;
    s->has_drafts = o->has_drafts;
    s->drafts = o->drafts;
    s->n_stops = o->n_stops;
    for (uint32_t i = 0; i < o->n_stops; i++) {
        s->stops[i] = text_of(o->stops[i]);
    }
    s->resume_ms = o->resume ? CLIENT_RESUME_MS : 0;
    s->ended = &t->ended;
}

static int native_items(struct target *t, struct pollfd *items,
                        int64_t *due_us);
static void native_turn(struct target *t, const struct pollfd *items, int n,
                        int64_t now_us);
static void native_close(struct target **pt);

static void wait_turn(struct target *t, int64_t max_us)
{
    struct pollfd items[TARGET_ITEMS];
    int64_t due_us = INT64_MAX, us;
    int n = native_items(t, items, &due_us);
    struct timespec wait = {0};

    us = due_us - loop_now_us();
    us = us < max_us ? us : max_us;
    if (us > 0) {
        wait = (struct timespec){us / 1000000, us % 1000000 * 1000};
    }
    (void)ppoll(items, (nfds_t)n, &wait, NULL);
    native_turn(t, items, n, loop_now_us());
}

/* Returns the core of a session that is not up, NULL if all are. */
static const struct client_core *not_up(const struct way *w)
{
    for (unsigned i = 0; i < w->n; i++) {
        if (!native_session_up(w->sessions[i])) {
            return w->sessions[i]->core;
        }
    }
    return NULL;
}

static enum status wait_up(struct target *t, uint32_t connect_ms,
                           struct error *e)
{
    const struct way *w = &t->ways[NATIVE_SHARED];
    uint32_t ms = connect_ms > 0 ? connect_ms : CLIENT_TIMEOUT_MS;
    int64_t end_us = loop_now_us() + (int64_t)ms * 1000;
    const struct client_core *core;

    while ((core = not_up(w)) != NULL) {
        if (client_core_refused(core) != ST_OK) {
            return error_set(e, client_core_refused(core), "%s",
                             client_core_trouble(core));
        }
        if (loop_now_us() >= end_us) {
            return error_set(e, ST_UNAVAILABLE,
                             "no router answered at %s within %u ms; start "
                             "sluice-router, or name another --target",
                             t->endpoint, ms);
        }
        wait_turn(t, end_us - loop_now_us());
    }
    return ST_OK;
}

static enum status check_connections(const struct target_options *o,
                                     struct error *e)
{
    if (o->n_connections > NATIVE_SHARED_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u connections exceed the limit of %d of a process "
                         "to a router; lower --connections, or raise "
                         "--processes",
                         o->n_connections, NATIVE_SHARED_MAX);
    }
    if (strlen(o->endpoint) >= ENDPOINT_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the endpoint exceeds %d bytes", ENDPOINT_MAX - 1);
    }
    return ST_OK;
}

static enum status native_open(struct target **out,
                               const struct target_options *o, struct error *e)
{
    enum status st = check_connections(o, e);
    unsigned n = o->n_connections > 0 ? o->n_connections : NATIVE_SHARED_N;
    struct target *t;

    if (st != ST_OK) {
        return st;
    }
    t = memory_must(calloc(1, sizeof *t));
    list_init(&t->ended);
    snprintf(t->endpoint, sizeof t->endpoint, "%s", o->endpoint);
    snprintf(t->name, sizeof t->name, "sluice-load-%ld", (long)getpid());
    t->ways[NATIVE_SHARED].max = NATIVE_SHARED_MAX;
    t->ways[NATIVE_CUT].max = NATIVE_CUT_MAX;
    t->ways[NATIVE_SLOW].max = NATIVE_SLOW_MAX;
    set_shape(t, o);
    while (getrandom(&t->salt, sizeof t->salt, 0) != sizeof t->salt) {
    }
    st = curve_keys_load(&t->keys, o->curve_key, o->trust, e);
    st = st == ST_OK ? add_group(t, false, e) : st;
    for (unsigned i = 0; st == ST_OK && i < n; i++) {
        add_session(t, NATIVE_SHARED);
    }
    st = st == ST_OK ? wait_up(t, o->connect_ms, e) : st;
    if (st != ST_OK) {
        native_close(&t);
        return st;
    }
    *out = t;
    return ST_OK;
}

static void report(struct target *t)
{
    struct list *l;

    while ((l = list_take(&t->ended)) != NULL) {
        struct call *c = LIST_OF(l, struct call, ended_calls);

        give_index(t, c);
        native_call_report(c);
    }
}

static void native_close(struct target **pt)
{
    struct target *t = *pt;

    *pt = NULL;
    if (t == NULL) {
        return;
    }
    t->closes = true;
    for (unsigned i = 0; i < t->n_groups; i++) {
        native_group_end(t->groups[i]);
    }
    report(t); /* reads the sessions of the calls */
    for (unsigned i = 0; i < t->n_groups; i++) {
        native_group_free(&t->groups[i]);
    }
    for (uint32_t i = 0; i < t->size; i++) { /* prepared, never started */
        if (t->calls[i] != NULL) {
            native_call_free(t->calls[i]);
        }
    }
    curve_keys_free(&t->keys);
    free(t->calls);
    free(t->unused);
    free(t);
}

/* ---- requests ---- */

static enum native_way way_of(const struct call_request *r)
{
    if (r->disconnects) {
        return NATIVE_CUT;
    }
    return r->slow_reader ? NATIVE_SLOW : NATIVE_SHARED;
}

/* Sessions of a kind begin to connect with the first requests that need them,
 * some time before those are due. */
static struct call *native_prepare(struct target *t,
                                   const struct call_request *r, size_t *bytes,
                                   struct error *e)
{
    uint32_t index = take_index(t);
    struct way *w;
    uint8_t id[16];
    struct call *c;

    write_id(t, index, id);
    c = native_call_new(&t->shape, r, id, bytes, e);
    if (c == NULL) {
        t->unused[t->n_unused++] = index;
        return NULL;
    }
    c->index = index;
    c->way = way_of(r);
    t->calls[index] = c;
    w = &t->ways[c->way];
    if (c->way != NATIVE_SHARED && w->n < w->max && !t->closes) {
        add_session(t, c->way);
    }
    return c;
}

static void native_start(struct target *t, struct call *c, int64_t now_us)
{
    struct native_session *s;

    (void)now_us; /* a little old: on_sent() reads the clock */
    if (t->closes) {
        native_call_fail(c, ST_UNAVAILABLE, "the target is closing");
        return;
    }
    s = pick(t, c->way);
    if (s == NULL) {
        native_call_fail(c, ST_RESOURCE_EXHAUSTED,
                         "all connections of this process are full; raise "
                         "--processes");
        return;
    }
    native_call_begin(c, s);
    native_session_flush(s);
}

static void native_drop(struct target *t, struct call *c)
{
    give_index(t, c);
    native_call_free(c);
}

/* Returns false if s is no connection to cut. */
static bool mark_cut(struct target *t, const struct native_session *s)
{
    const struct way *w = &t->ways[NATIVE_CUT];

    for (unsigned i = 0; i < w->n; i++) {
        if (w->sessions[i] == s) {
            t->cuts[i] = true;
            return true;
        }
    }
    return false;
}

static void native_give_up(struct target *t, struct call *c, enum give_up how,
                           int64_t now_us)
{
    (void)now_us;
    if (c->given_up || c->stream_ended) {
        return; /* its end is on the way */
    }
    if (how != GIVE_UP_DISCONNECT) {
        native_call_cancel(c, how);
        native_session_flush(c->session);
    } else if (!mark_cut(t, c->session)) {
        native_call_leave(c);
        native_session_flush(c->session);
    }
}

/* ---- the loop ---- */

static void cut_marked(struct target *t)
{
    const struct way *w = &t->ways[NATIVE_CUT];

    for (unsigned i = 0; i < w->n; i++) {
        if (t->cuts[i]) {
            t->cuts[i] = false;
            native_session_cut(w->sessions[i]);
        }
    }
}

static bool is_cutting(const struct target *t)
{
    for (unsigned i = 0; i < NATIVE_CUT_MAX; i++) {
        if (t->cuts[i]) {
            return true;
        }
    }
    return false;
}

static int native_items(struct target *t, struct pollfd *items, int64_t *due_us)
{
    int n = 0;

    *due_us = NODE_IDLE;
    for (unsigned i = 0; i < t->n_groups; i++) {
        t->n_items[i] = native_group_items(t->groups[i], items + n, due_us);
        n += t->n_items[i];
    }
    if (!list_empty(&t->ended) || is_cutting(t)) {
        *due_us = 0;
    }
    return n;
}

static void native_turn(struct target *t, const struct pollfd *items, int n,
                        int64_t now_us)
{
    unsigned n_groups = t->n_groups; /* report() may add more */
    int at = 0;

    (void)n;
    (void)now_us; /* each frame is stamped as it is read */
    cut_marked(t);
    report(t);
    for (unsigned i = 0; i < n_groups; i++) {
        native_group_turn(t->groups[i], items + at);
        at += t->n_items[i];
        t->n_items[i] = 0;
        report(t);
    }
}

const struct target_ops native_target = {.open = native_open,
                                         .close = native_close,
                                         .prepare = native_prepare,
                                         .start = native_start,
                                         .drop = native_drop,
                                         .give_up = native_give_up,
                                         .items = native_items,
                                         .turn = native_turn};
