/* replay_net.c - Frames between the core and its peers, and their sessions.
 *
 * The peers speak the wire protocol through common/wire/peer.h, as daemons do:
 * the core cannot distinguish them, so that its checks of ledgers,
 * rows and receipts hold for a replay too. */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "common/base/splitmix.h"
#include "router/replay/replay_state.h"

static int64_t now_of(struct node_io *io)
{
    return ((struct replay *)io->impl)->now_us;
}

static int64_t peer_now(struct node_io *io)
{
    return ((struct replay_peer *)io->impl)->in->now_us;
}

static uint64_t random_of(struct node_io *io)
{
    return splitmix_next(&((struct replay *)io->impl)->random);
}

static uint64_t peer_random(struct node_io *io)
{
    return splitmix_next(&((struct replay_peer *)io->impl)->in->random);
}

/* Frames are delivered in the next round and not at once: a core must not be
 * called from its own call. */
static void fly(struct replay *x, struct replay_peer *p, bool to_router,
                struct frame **f)
{
    if (x->n_frames == x->frames_size) {
        x->frames_size = max_u32(64, 2 * x->frames_size);
        x->frames =
            memory_must(realloc(x->frames, x->frames_size * sizeof *x->frames));
    }
    x->frames[x->n_frames++] = (struct replay_frame){p, to_router, *f};
    *f = NULL;
}

static enum status router_send(struct node_io *io, struct peer_id to,
                               struct frame **f)
{
    struct replay *x = io->impl;

    if (to.v == 0 || to.v > x->n_peers || x->peers[to.v - 1]->gone) {
        frame_free(f);
        return ST_UNAVAILABLE;
    }
    fly(x, x->peers[to.v - 1], false, f);
    return ST_OK;
}

static enum status peer_send(struct node_io *io, struct peer_id to,
                             struct frame **f)
{
    struct replay_peer *p = io->impl;

    (void)to;
    fly(p->in, p, true, f);
    return ST_OK;
}

static void router_close(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who; /* no peer here breaks a rule */
}

void replay_net_init(struct replay *x, const struct router_options *o)
{
    x->io = (struct node_io){.impl = x,
                             .now_us = now_of,
                             .random = random_of,
                             .send = router_send,
                             .close = router_close};
    arena_init(&x->arena);
    x->router = router_new(o, &x->io);
}

/* The core goes first, as in a daemon.  It sends to nobody any more. */
void replay_net_fini(struct replay *x)
{
    for (uint32_t i = 0; i < x->n_peers; i++) {
        x->peers[i]->gone = true;
    }
    router_free(&x->router);
    for (uint32_t i = 0; i < x->n_peers; i++) {
        peer_free(&x->peers[i]->peer);
    }
    for (uint32_t i = 0; i < x->n_frames; i++) {
        frame_free(&x->frames[i].frame);
    }
    free(x->frames);
    free(x->peers);
    arena_fini(&x->arena);
}

/* ---- the side of a peer ---- */

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct replay_peer *x = node;

    (void)p, (void)deadline_us;
    if (x->worker != NULL) {
        replay_worker_hears(x->worker, m, call, request);
    }
}

static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    (void)node, (void)p, (void)call;
}

/* The worker has noted its tokens already. */
static void on_reply(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    (void)reply, (void)m, (void)tag, (void)p, (void)node;
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct replay_peer *x = node;

    (void)p, (void)m, (void)reply, (void)e, (void)retry_after_ms;
    if (x->worker == NULL) {
        replay_ended(x->in, (uint32_t)tag, status);
    }
}

static void on_dirty(void *node, struct peer *p)
{
    (void)p;
    ((struct replay_peer *)node)->dirty = true;
}

static const struct peer_ops peer_table = {on_call, on_cancel, on_reply, on_end,
                                           on_dirty};

static void begin_session(struct replay_peer *p,
                          const Sluice__V1__HelloReply *r)
{
    const struct peer_config c = {.io = &p->io,
                                  .id = {1},
                                  .session = r->session,
                                  .self =
                                      p->worker != NULL ? BY_WORKER : BY_CLIENT,
                                  .other = BY_ROUTER,
                                  .ops = &peer_table,
                                  .node = p,
                                  .arena = &p->in->arena};

    if (r->has_prefix_key) {
        memcpy(p->key.bytes, r->prefix_key.data, PREFIX_KEY_BYTES);
    }
    p->peer = memory_must(peer_new(&c));
    p->up = true;
}

/* An answer to Hello, a Goodbye, or a frame of the session. */
static void hear(struct replay_peer *p, const struct frame *f)
{
    struct replay *x = p->in;
    struct frame_header h;
    struct envelope v;
    ProtobufCMessage *m;
    struct error e;

    if (frame_check(f->data, f->bytes, &h, &e) != ST_OK) {
        return;
    }
    if (hello_is_answer(f, &h, &v)) {
        if (!p->up && v.status == ST_OK &&
            wire_unpack(&x->arena, &sluice__v1__hello_reply__descriptor, v.body,
                        v.body_bytes, &m, &e) == ST_OK) {
            begin_session(p, (const void *)m);
        } else if (v.status != ST_OK) {
            uint32_t retry_ms;

            failure_read(&x->arena, &v, &x->refusal, &retry_ms);
        }
    } else if (hello_is_goodbye(f, &h, &v)) {
        p->gone = true;
    } else if (p->up) {
        p->gone = peer_recv(p->peer, f, &h, x->now_us) == PEER_OUT;
    }
}

void replay_connect(struct replay *x, struct replay_peer *p,
                    const Sluice__V1__HelloRequest *hello)
{
    struct frame *f;

    if (x->n_peers == x->peers_size) {
        x->peers_size = max_u32(64, 2 * x->peers_size);
        x->peers = memory_must(
            realloc(x->peers, x->peers_size * sizeof(struct replay_peer *)));
    }
    x->peers[x->n_peers++] = p;
    p->in = x;
    p->id.v = x->n_peers;
    p->io = (struct node_io){.impl = p,
                             .now_us = peer_now,
                             .random = peer_random,
                             .send = peer_send};
    f = memory_must(hello_make(&hello->base));
    fly(x, p, true, &f);
    replay_pump(x);
}

void replay_disconnect(struct replay_peer *p)
{
    p->gone = true;
    router_node_ops.lost(p->in->router, p->id);
}

/* ---- the clock ---- */

/* Frames that are sent meanwhile belong to the next round. */
static bool deliver(struct replay *x)
{
    struct replay_frame *now = x->frames;
    uint32_t n = x->n_frames;

    x->frames = NULL;
    x->n_frames = x->frames_size = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (now[i].peer->gone) {
            frame_free(&now[i].frame);
        } else if (now[i].to_router) {
            router_node_ops.recv(x->router, now[i].peer->id, &now[i].frame);
        } else {
            hear(now[i].peer, now[i].frame);
            frame_free(&now[i].frame);
        }
    }
    free(now);
    return n > 0;
}

/* Only peers that have something to send, or whose link is due. */
static void flush(struct replay *x)
{
    for (uint32_t i = 0; i < x->n_peers; i++) {
        struct replay_peer *p = x->peers[i];

        if (p->up && !p->gone && (p->dirty || peer_due(p->peer) <= x->now_us)) {
            p->dirty = false;
            peer_flush(p->peer, x->now_us);
        }
    }
}

void replay_pump(struct replay *x)
{
    do {
        x->router_due_us = router_node_ops.tick(x->router, x->now_us);
        flush(x);
    } while (deliver(x));
}

int64_t replay_net_due(const struct replay *x)
{
    int64_t due = x->router_due_us;

    for (uint32_t i = 0; i < x->n_peers; i++) {
        const struct replay_peer *p = x->peers[i];

        if (p->up && !p->gone) {
            due = min_i64(due, peer_due(p->peer));
        }
    }
    return max_i64(due, x->now_us + 1);
}
