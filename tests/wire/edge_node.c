#include "tests/wire/edge_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/stage.pb-c.h"

/* The first tensor has 4 bytes, the second the most that is allowed, as every
 * tenth.  The others are small: sanitizers need long for a large one. */
static uint32_t bytes_of(const struct edge_node *n, uint32_t step)
{
    uint32_t h = step * 2654435761u;

    if (step == 1 || step % 7 == 0) {
        return step == 1 ? 4 : 0;
    }
    return step % 10 == 2 ? n->bytes_most : 4 + 4 * (h % (n->bytes_most / 256));
}

static void fill(struct edge_node *n, uint32_t step)
{
    uint32_t bytes = bytes_of(n, step);

    for (uint32_t i = 0; i < bytes; i += 4) {
        put_u32(n->tensor + i, step * 2246822519u + i);
    }
}

/* ---- sending ---- */

static bool send_one(struct edge_node *n)
{
    Sluice__V1__StageForward m = SLUICE__V1__STAGE_FORWARD__INIT;
    uint32_t step = n->n_sent + 1, bytes = bytes_of(n, step);
    enum status st;

    m.step = step;
    if (bytes == 0) {
        st = peer_oneway(n->out, METHOD_STAGE_FORWARD, &m.base);
    } else {
        fill(n, step);
        st = peer_oneway_tensor(n->out, METHOD_STAGE_FORWARD, &m.base,
                                n->tensor, bytes);
    }
    n->n_sent += st == ST_OK;
    return st == ST_OK;
}

/* ---- receiving ---- */

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;
    struct edge_node *n = node;
    const void *tensor;
    uint32_t bytes;

    (void)deadline_us;
    if (m->number == METHOD_HEALTH_CHECK) {
        health.serving = true;
        peer_end(p, call, &health.base);
        return;
    }
    tensor = peer_tensor(p, &bytes);
    n->n_got++;
    fill(n, n->n_got);
    if (m->number != METHOD_STAGE_FORWARD || p != n->in ||
        ((const Sluice__V1__StageForward *)request)->step != n->n_got ||
        bytes != bytes_of(n, n->n_got) ||
        (bytes > 0 && memcmp(tensor, n->tensor, bytes) != 0)) {
        n->bad = true;
    }
    n->n_bytes += bytes;
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    (void)node, (void)p, (void)tag, (void)m, (void)status, (void)reply, (void)e,
        (void)retry_after_ms;
}

static const struct peer_ops peer_table = {.on_call = on_call,
                                           .on_end = on_end};

static void next_hello(void *node, ProtobufCMessage *m)
{
    (void)node;
    ((Sluice__V1__HelloRequest *)m)->name = wire_text("edge");
}

static void next_up(void *node, struct peer *p)
{
    struct edge_node *n = node;

    n->out = p;
    n->n_sent = 0;
    n->n_up++;
}

static void next_down(void *node, struct peer *p, enum status refused,
                      const char *why)
{
    struct edge_node *n = node;

    (void)refused;
    n->out = NULL;
    n->n_down += p != NULL;
    snprintf(n->why, sizeof n->why, "%s", why);
}

static const struct session_ops session_table = {
    .hello = next_hello, .up = next_up, .down = next_down};

static enum status before_welcome(void *node, uint64_t assembly, uint32_t index,
                                  const struct identity *who, struct error *e)
{
    (void)node, (void)who;
    if (assembly != EDGE_ASSEMBLY || index != 3) {
        return error_set(e, ST_FAILED_PRECONDITION, "another assembly");
    }
    return ST_OK;
}

static void before_up(void *node, struct peer *p)
{
    struct edge_node *n = node;

    n->in = p;
    n->n_got = 0;
    n->n_came++;
}

static void before_down(void *node, struct peer *p, const char *why)
{
    struct edge_node *n = node;

    (void)p;
    n->in = NULL;
    n->n_gone++;
    snprintf(n->why, sizeof n->why, "%s", why);
}

static const struct greeter_ops greeter_table = {before_welcome, before_up,
                                                 before_down};

/* ---- node_ops ---- */

static void opened(void *node, struct peer_id who)
{
    session_opened(&((struct edge_node *)node)->next, who);
}

static void recv(void *node, struct peer_id from, struct frame **f)
{
    struct edge_node *n = node;

    if (session_is_at(&n->next, from)) {
        session_recv(&n->next, from, f);
    } else {
        greeter_recv(&n->before, from, f);
    }
}

static void lost(void *node, struct peer_id who)
{
    struct edge_node *n = node;

    session_lost(&n->next, who);
    greeter_lost(&n->before, who);
}

/* Sends one tensor a tick: a busy machine needs long for many large ones, and
 * a node that sends them all answers no ping meanwhile. */
static int64_t tick(void *node, int64_t now_us)
{
    struct edge_node *n = node;
    int64_t due = NODE_IDLE, before;
    bool more = n->out != NULL && n->n_sent < n->all && send_one(n);

    if (n->next.node != NULL) {
        due = session_tick(&n->next, now_us);
    }
    before = greeter_tick(&n->before, now_us);
    due = before < due ? before : due;
    return more ? now_us : due;
}

const struct node_ops edge_node_ops = {opened, recv, lost, tick};

void edge_node_init(struct edge_node *n, struct node_io *io, const char *next,
                    uint32_t all, uint32_t bytes_most)
{
    struct session_stage stage = {.assembly = EDGE_ASSEMBLY, .index = 3};

    memset(n, 0, sizeof *n);
    n->io = io;
    n->all = all;
    n->bytes_most = bytes_most;
    n->tensor = malloc(bytes_most);
    if (n->tensor == NULL) {
        abort();
    }
    n->limits = link_limits_tensors(4, bytes_most);
    arena_init(&n->arena);
    greeter_init(&n->before, io, &greeter_table, &peer_table, n, &n->arena,
                 "edge", &n->limits);
    if (next != NULL) {
        snprintf(stage.endpoint, sizeof stage.endpoint, "%s", next);
        stage.limits = n->limits;
        session_init_stage(&n->next, io, &session_table, &peer_table, n,
                           &n->arena, &stage);
    }
}

void edge_node_fini(struct edge_node *n)
{
    if (n->next.node != NULL) {
        session_fini(&n->next, "the test is over");
    }
    greeter_fini(&n->before, "the test is over");
    arena_fini(&n->arena);
    free(n->tensor);
}
