#include "client/load/drive/native_group.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "common/wire/loop.h"
#include "common/wire/method.h"

#define ID_BYTES 16
/* Every GenerateRequest begins with its request_id: tag and length. */
#define ID_TAG 0x0a

struct native_group {
    struct native_group_options o;
    struct transport *transport;
    struct native_session *sessions[TRANSPORT_SESSIONS_MAX]; /* [n] */
    unsigned n;
    int n_items;       /* of the last native_group_items() */
    bool inside;       /* in a turn */
    int64_t now_us;    /* real, of the event in progress */
    int64_t wake_us;   /* end of the pause; 0: none */
    int64_t paused_us; /* real time at which the pause began */
    int64_t awake_us;  /* no pause begins before this time */
    int64_t behind_us; /* sum of the pauses: real time - cores' time */
};

/* ---- the clock of the cores ---- */

static int64_t core_us(const struct native_group *g, int64_t real_us)
{
    return (g->wake_us != 0 ? g->paused_us : real_us) - g->behind_us;
}

static int64_t session_now_us(struct node_io *io)
{
    const struct native_session *s = io->impl;

    return core_us(s->group, loop_now_us());
}

/* ---- the io of a session ---- */

static struct node_io *group_io(const struct native_session *s)
{
    return transport_io(s->group->transport);
}

static uint64_t session_random(struct node_io *io)
{
    struct node_io *inner = group_io(io->impl);

    return inner->random(inner);
}

static void note_calls(struct native_session *s, const uint8_t ids[][ID_BYTES],
                       uint32_t n)
{
    const struct native_group_options *o = &s->group->o;
    int64_t now_us = loop_now_us();

    for (uint32_t i = 0; i < n; i++) {
        o->on_sent(o->arg, ids[i], now_us);
    }
}

/* Copies the ids of the Generate calls in a frame, which its own sender has
 * just sealed.  They are read before the frame is sent, because the transport
 * takes it. */
static uint32_t find_calls(const struct frame *f, uint64_t *number,
                           uint8_t ids[FRAME_ENVELOPES_MAX][ID_BYTES])
{
    struct frame_header h = {.n_ordered = get_u16(f->data + 8),
                             .envelopes_bytes = get_u32(f->data + 12),
                             .number = get_u64(f->data + 32)};
    struct envelope e;
    uint32_t at = 0, n = 0;

    for (unsigned i = 0; i < h.n_ordered && envelope_next(f, &h, &at, &e);
         i++) {
        if (e.kind == ENVELOPE_CALL && e.method == METHOD_INFERENCE_GENERATE &&
            e.body_bytes >= 2 + ID_BYTES && e.body[0] == ID_TAG &&
            e.body[1] == ID_BYTES) {
            for (int b = 0; b < ID_BYTES; b++) {
                ids[n][b] = e.body[2 + b];
            }
            n++;
        }
    }
    *number = h.number;
    return n;
}

static enum status session_send(struct node_io *io, struct peer_id to,
                                struct frame **f)
{
    struct native_session *s = io->impl;
    uint8_t ids[FRAME_ENVELOPES_MAX][ID_BYTES];
    uint64_t number;
    uint32_t n = find_calls(*f, &number, ids);
    struct node_io *inner = group_io(s);
    enum status st = inner->send(inner, to, f);

    if (st == ST_OK && number > s->last_frame) { /* not one sent again */
        s->last_frame = number;
        note_calls(s, (const uint8_t(*)[ID_BYTES])ids, n);
    }
    return st;
}

static struct peer_id session_open(struct node_io *io)
{
    struct native_session *s = io->impl;
    struct node_io *inner = group_io(s);

    s->id = inner->open(inner);
    s->last_frame = 0;
    return s->id;
}

static void session_close(struct node_io *io, struct peer_id who)
{
    struct native_session *s = io->impl;
    struct node_io *inner = group_io(s);

    if (s->id.v == who.v) {
        s->id = (struct peer_id){0};
    }
    inner->close(inner, who);
}

static struct client_core *core_new(struct native_session *s)
{
    struct client_options options = {.name = s->group->o.name};

    return memory_must(client_core_new(&options, &s->io));
}

struct native_session *native_group_add(struct native_group *g)
{
    struct native_session *s = memory_must(calloc(1, sizeof *s));

    assert(g->n < g->o.n_max);
    s->group = g;
    s->io = (struct node_io){.impl = s,
                             .now_us = session_now_us,
                             .random = session_random,
                             .send = session_send,
                             .open = session_open,
                             .close = session_close};
    s->core = core_new(s);
    g->sessions[g->n++] = s;
    return s;
}

/* ---- events ---- */

static struct native_session *session_at(const struct native_group *g,
                                         struct peer_id who)
{
    for (unsigned i = 0; who.v != 0 && i < g->n; i++) {
        if (g->sessions[i]->id.v == who.v) {
            return g->sessions[i];
        }
    }
    return NULL;
}

static void group_opened(void *node, struct peer_id who)
{
    struct native_session *s = session_at(node, who);

    if (s != NULL) {
        client_node_ops.opened(s->core, who);
    }
}

static void group_recv(void *node, struct peer_id from, struct frame **f)
{
    struct native_group *g = node;
    struct native_session *s = session_at(g, from);

    g->now_us = loop_now_us();
    if (s != NULL) {
        client_node_ops.recv(s->core, from, f);
    }
    frame_free(f);
}

static void group_lost(void *node, struct peer_id who)
{
    struct native_session *s = session_at(node, who);

    if (s != NULL) {
        s->id = (struct peer_id){0};
        client_node_ops.lost(s->core, who);
    }
}

/* The transport only passes events on; native_group_turn() ticks. */
static const struct node_ops group_ops = {group_opened, group_recv, group_lost,
                                          NULL};

static void tick(struct native_session *s)
{
    s->due_us =
        client_node_ops.tick(s->core, core_us(s->group, s->group->now_us));
}

/* ---- pauses ---- */

static bool has_calls(const struct native_group *g)
{
    for (unsigned i = 0; i < g->n; i++) {
        if (g->sessions[i]->n_calls > 0 && native_session_up(g->sessions[i])) {
            return true;
        }
    }
    return false;
}

/* Pauses if everything that had come was read and acknowledged. */
static void maybe_pause(struct native_group *g)
{
    struct node_io *io = transport_io(g->transport);
    uint64_t range = NATIVE_PAUSE_MAX_US - NATIVE_PAUSE_MIN_US + 1;

    if (g->o.slow && g->now_us >= g->awake_us && has_calls(g) &&
        !transport_look(g->transport)) {
        g->paused_us = g->now_us;
        g->wake_us =
            g->now_us + NATIVE_PAUSE_MIN_US + (int64_t)(io->random(io) % range);
    }
}

static void maybe_wake(struct native_group *g)
{
    if (g->wake_us != 0 && g->now_us >= g->wake_us) {
        g->behind_us += g->now_us - g->paused_us;
        g->wake_us = 0;
        g->awake_us = g->now_us + NATIVE_AWAKE_US;
        g->n_items = 0; /* its descriptors have not been polled yet */
    }
}

/* ---- turns ---- */

int native_group_items(struct native_group *g, struct pollfd *items,
                       int64_t *due_us)
{
    g->n_items = 0;
    if (g->wake_us != 0) {
        *due_us = min_i64(*due_us, g->wake_us);
        return 0;
    }
    g->n_items = transport_items(g->transport, items);
    if (transport_look(g->transport)) {
        *due_us = 0;
    }
    for (unsigned i = 0; i < g->n; i++) {
        if (g->sessions[i]->due_us != NODE_IDLE) {
            *due_us = min_i64(*due_us, g->sessions[i]->due_us + g->behind_us);
        }
    }
    return g->n_items;
}

void native_group_turn(struct native_group *g, const struct pollfd *items)
{
    bool polled;

    g->now_us = loop_now_us();
    maybe_wake(g);
    if (g->wake_us != 0) {
        return;
    }
    polled = g->n_items > 0; /* else it was made, or woke, since the poll */
    g->inside = true;
    if (polled) {
        transport_turn(g->transport, items, &group_ops, g);
        g->now_us = loop_now_us();
    }
    for (unsigned i = 0; i < g->n; i++) {
        tick(g->sessions[i]);
    }
    g->inside = false;
    g->n_items = 0;
    if (polled) {
        maybe_pause(g);
    }
}

int64_t native_group_now_us(const struct native_group *g)
{
    return g->now_us;
}

void native_session_flush(struct native_session *s)
{
    if (s->group->inside) {
        s->due_us = 0;
        return;
    }
    s->group->inside = true;
    s->group->now_us = loop_now_us();
    tick(s);
    s->group->inside = false;
}

/* Calls that end here still look at s->core. */
static void end_core(struct native_session *s)
{
    struct client_core *core = s->core;

    client_core_free(&core);
    s->core = NULL;
}

/* A session that is lost soon after it came up waits longer and longer before
 * it connects again.  A new core does not. */
void native_session_cut(struct native_session *s)
{
    assert(!s->group->inside);
    s->cuts = true;
    client_core_drop(s->core, "cut by the load tester");
    native_session_flush(s);
    end_core(s);
    s->cuts = false;
    s->core = core_new(s);
    s->due_us = 0;
}

bool native_session_up(const struct native_session *s)
{
    return client_core_up(s->core);
}

/* ---- the group ---- */

enum status native_group_new(struct native_group **out,
                             const struct native_group_options *o,
                             struct error *e)
{
    struct native_group *g = memory_must(calloc(1, sizeof *g));
    enum status st;

    assert(o->n_max > 0 && o->n_max <= TRANSPORT_SESSIONS_MAX);
    g->o = *o;
    g->now_us = loop_now_us();
    st = transport_connect_many(&g->transport, o->endpoint, o->n_max, o->keys,
                                e);
    if (st != ST_OK) {
        free(g);
        return st;
    }
    *out = g;
    return ST_OK;
}

void native_group_end(struct native_group *g)
{
    g->inside = true;
    for (unsigned i = 0; i < g->n; i++) {
        end_core(g->sessions[i]);
    }
    g->inside = false;
}

void native_group_free(struct native_group **pg)
{
    struct native_group *g = *pg;

    *pg = NULL;
    if (g == NULL) {
        return;
    }
    for (unsigned i = 0; i < g->n; i++) {
        assert(g->sessions[i]->core == NULL);
        free(g->sessions[i]);
    }
    transport_free(&g->transport);
    free(g);
}
