#include "worker/stages/edges.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/wire/identity.h"
#include "proto/registry.pb-c.h"

_Static_assert(STAGES_MAX <= LINK_TENSORS_MAX, "one tensor a microbatch");

/* ---- messages ---- */

/* The peer itself answers the other methods that workers may call of each
 * other: this worker implements none. */
static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *message)
{
    struct assembly *a = ((struct edges *)node)->a;

    (void)deadline_us;
    if (m->number == METHOD_HEALTH_CHECK) {
        base_health(p, call);
    } else if (p != a->in) {
        assembly_break(a, "%s came from stage %u, against the ring", m->method,
                       assembly_after(a));
    } else if (a->state != ASSEMBLY_UP) {
        assembly_break(a, "%s came before the assembly was up", m->method);
    } else if (!a->broken) {
        a->member->recv(a->self, p, m, message);
    }
}

/* The only calls on an edge are pings, and the keepalive handles those. */
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

/* ---- the edge out ---- */

static void next_hello(void *node, ProtobufCMessage *m)
{
    const struct edges *g = node;

    ((Sluice__V1__HelloRequest *)m)->name = wire_text(g->a->base->o.name);
}

static void next_up(void *node, struct peer *p)
{
    struct edges *g = node;

    g->a->out = p;
    g->up(g->owner);
}

/* In JOINING the session retries, whether the edge was up or not.  The reason
 * is kept for the error after EDGES_US. */
static void next_down(void *node, struct peer *p, enum status refused,
                      const char *why)
{
    struct assembly *a = ((struct edges *)node)->a;

    a->out = NULL;
    if (a->state == ASSEMBLY_UP) {
        assembly_edge_down(a, "the edge to stage %u ended: %s",
                           assembly_after(a), why);
    } else if (a->state == ASSEMBLY_JOINING && !a->broken) {
        snprintf(a->why, sizeof a->why, "%s", why);
    }
    log_debug("edge-down", "stage=%u refused=%s why=\"%s\" was_up=%d", a->stage,
              status_name(refused), why, p != NULL);
}

static const struct session_ops next_table = {
    .hello = next_hello, .up = next_up, .down = next_down};

/* Room for a tensor of each microbatch that may be under way, and for the Opens
 * of twice the sequences that this pool holds. */
static struct link_limits limits_of(const struct edges *g)
{
    const struct assembly *a = g->a;
    uint64_t x = (uint64_t)a->step_tokens * a->base->o.hidden * sizeof(float);
    struct link_limits l = link_limits_tensors(a->n_stages, (uint32_t)x);

    l.outbox_bytes += assembly_stream_bytes(g->table);
    return l;
}

/* ---- the edge in ---- */

/* A key of role worker is not enough: a worker of another replica has one. */
static enum status check_previous(const struct assembly *a,
                                  const struct identity *who, struct error *e)
{
    if (!a->keyed || identity_has_key(who, a->previous_key) ||
        PLANT(PREVIOUS_KEY_IGNORED)) {
        return ST_OK;
    }
    return error_set(e, ST_PERMISSION_DENIED,
                     "the key %s is not that of stage %u, which comes before "
                     "stage %u",
                     who != NULL ? who->name : "(none)", assembly_before(a),
                     a->stage);
}

static enum status before_welcome(void *node, uint64_t assembly, uint32_t index,
                                  const struct identity *who, struct error *e)
{
    const struct assembly *a = ((const struct edges *)node)->a;

    if (a->state == ASSEMBLY_NONE || a->broken) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "this worker has no assembly");
    }
    if (assembly != a->id && !PLANT(ASSEMBLY_UNCHECKED)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "this worker belongs to another assembly");
    }
    if (index != assembly_before(a)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "stage %u comes before stage %u of %u, not stage %u",
                         assembly_before(a), a->stage, a->n_stages, index);
    }
    return check_previous(a, who, e);
}

static void before_up(void *node, struct peer *p)
{
    struct edges *g = node;

    g->a->in = p;
    g->up(g->owner);
}

static void before_down(void *node, struct peer *p, const char *why)
{
    struct assembly *a = ((struct edges *)node)->a;

    (void)p;
    a->in = NULL;
    if (a->state == ASSEMBLY_UP) {
        assembly_edge_down(a, "the edge from stage %u ended: %s",
                           assembly_before(a), why);
    }
}

static const struct greeter_ops before_table = {before_welcome, before_up,
                                                before_down};

/* ---- made and ended ---- */

void edges_init(struct edges *g, struct assembly *a,
                const struct sequence_table *table, void (*up)(void *owner),
                void *owner)
{
    struct worker_base *b = a->base;

    memset(g, 0, sizeof *g);
    g->a = a;
    g->table = table;
    g->up = up;
    g->owner = owner;
    /* Only acknowledgements and answers to pings go back on that edge, so its
     * link has the usual size. */
    greeter_init(&g->before, b->io, &before_table, &peer_table, g, &b->arena,
                 b->o.name, &link_limits_usual);
}

void edges_begin(struct edges *g, const Sluice__V1__AssembleRequest *m)
{
    struct worker_base *b = g->a->base;
    struct session_stage stage = {
        .assembly = g->a->id, .index = g->a->stage, .limits = limits_of(g)};

    memcpy(stage.endpoint, m->next.data, m->next.len);
    stage.endpoint[m->next.len] = '\0';
    stage.keyed = g->a->keyed;
    if (stage.keyed) {
        memcpy(stage.key, m->next_key.data, KEY_BYTES);
    }
    session_init_stage(&g->next, b->io, &next_table, &peer_table, g, &b->arena,
                       &stage);
    g->has_next = true;
}

void edges_end(struct edges *g, const char *why)
{
    if (g->has_next) {
        session_fini(&g->next, why);
        g->has_next = false;
    }
    greeter_end(&g->before, why);
}

void edges_fini(struct edges *g, const char *why)
{
    edges_end(g, why);
    greeter_fini(&g->before, why);
}

/* ---- node_ops ---- */

bool edges_opened(struct edges *g, struct peer_id from)
{
    if (!g->has_next || !session_is_at(&g->next, from)) {
        return false;
    }
    session_opened(&g->next, from);
    return true;
}

/* A frame that breaks a rule is dropped with its message, so the stream has a
 * gap from there on. */
static void recv_before(struct edges *g, struct peer_id from, struct frame **f)
{
    struct assembly *a = g->a;
    uint64_t strikes = g->before.counts.strikes;
    bool is_edge = a->in != NULL && g->before.id.v == from.v;

    a->arriving = *f;
    greeter_recv(&g->before, from, f);
    a->arriving = NULL;
    if (is_edge && g->before.counts.strikes > strikes) {
        assembly_break(a, "stage %u sent an invalid frame", assembly_before(a));
    }
}

/* Returns whether `from` is a connection to the stage port: everything that is
 * not the router. */
static bool is_stage_port(const struct edges *g, struct peer_id from)
{
    const struct worker_base *b = g->a->base;

    return b->o.stage_endpoint != NULL && !session_is_at(&b->session, from);
}

bool edges_recv(struct edges *g, struct peer_id from, struct frame **f)
{
    if (g->has_next && session_is_at(&g->next, from)) {
        session_recv(&g->next, from, f);
        return true;
    }
    if (!is_stage_port(g, from)) {
        return false;
    }
    recv_before(g, from, f);
    return true;
}

bool edges_lost(struct edges *g, struct peer_id from)
{
    if (g->has_next && session_is_at(&g->next, from)) {
        session_lost(&g->next, from);
        return true;
    }
    if (!is_stage_port(g, from)) {
        return false;
    }
    greeter_lost(&g->before, from);
    return true;
}

int64_t edges_tick(struct edges *g, int64_t now_us)
{
    const struct assembly *a = g->a;
    int64_t due = NODE_IDLE, next;

    if (g->has_next) {
        due = session_tick(&g->next, now_us);
        due = a->state == ASSEMBLY_JOINING && a->due_us < due ? a->due_us : due;
    }
    if (a->base->o.stage_endpoint != NULL) {
        next = greeter_tick(&g->before, now_us);
        due = next < due ? next : due;
    }
    return a->broken ? now_us : due;
}
