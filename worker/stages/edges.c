#include "worker/stages/edges.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/stages/leader.h"
#include "worker/worker_state.h"

/* What an Open has beside its ids, at most, with its Remove: the lists of its
 * sampling, and a column or two for each stage. */
#define OPEN_BYTES 16384u

_Static_assert(STAGES_MAX <= LINK_TENSORS_MAX, "as many tensors may wait");

uint32_t edges_before(const struct assembly *a)
{
    return (a->stage + a->n_stages - 1) % a->n_stages;
}

/* ---- what comes in ---- */

static void to_stage(struct worker_core *w, struct peer *p,
                     const struct method_row *m,
                     const ProtobufCMessage *message)
{
    const void *x;
    uint32_t bytes;

    switch (m->number) {
    case METHOD_STAGE_OPEN:
        stage_recv_open(w, (const Sluice__V1__StageOpen *)message);
        break;
    case METHOD_STAGE_OPEN_PART:
        stage_recv_open_part(w, (const Sluice__V1__StageOpenPart *)message);
        break;
    case METHOD_STAGE_FORWARD:
        x = peer_tensor(p, &bytes);
        stage_recv_forward(w, (const Sluice__V1__StageForward *)message, x,
                           bytes);
        break;
    case METHOD_STAGE_REMOVE:
        stage_recv_remove(w, (const Sluice__V1__StageRemove *)message);
        break;
    default:
        assembly_break(w, "%s came to stage %u, which does not lead", m->method,
                       w->assembly.stage);
    }
}

static void to_leader(struct worker_core *w, const struct method_row *m,
                      const ProtobufCMessage *message)
{
    switch (m->number) {
    case METHOD_STAGE_RESULT:
        leader_recv_result(w, (const Sluice__V1__StageResult *)message);
        break;
    case METHOD_STAGE_REMOVE:
        leader_recv_remove(w, (const Sluice__V1__StageRemove *)message);
        break;
    default:
        assembly_break(w, "%s came to stage 0, which leads", m->method);
    }
}

/* The other methods that one worker may call of another are answered by the
 * peer: none is built. */
static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *message)
{
    struct worker_core *w = node;
    struct assembly *a = &w->assembly;

    (void)deadline_us;
    if (m->number == METHOD_HEALTH_CHECK) {
        worker_health(p, call);
    } else if (p != a->in) {
        assembly_break(w, "%s came from stage %u, against the ring", m->method,
                       (a->stage + 1) % a->n_stages);
    } else if (a->state != ASSEMBLY_UP) {
        assembly_break(w, "%s came before the assembly stood", m->method);
    } else if (a->broken) {
        return;
    } else if (assembly_leads(w)) {
        to_leader(w, m, message);
    } else {
        to_stage(w, p, m, message);
    }
}

/* Only pings are called, of which nobody is told. */
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
    ((Sluice__V1__HelloRequest *)m)->name =
        wire_text(((struct worker_core *)node)->o.name);
}

static void next_up(void *node, struct peer *p)
{
    struct worker_core *w = node;

    w->assembly.out = p;
    assembly_edge_up(w);
}

/* One that stood before the assembly did is tried again, as one that did not
 * come up; why it did not is for the sentence when time is over. */
static void next_down(void *node, struct peer *p, enum status refused,
                      const char *why)
{
    struct worker_core *w = node;
    struct assembly *a = &w->assembly;

    a->out = NULL;
    if (a->state == ASSEMBLY_UP) {
        assembly_edge_down(w, "the edge to stage %u ended: %s",
                           (a->stage + 1) % a->n_stages, why);
    } else if (a->state == ASSEMBLY_JOINING && !a->broken) {
        snprintf(a->why, sizeof a->why, "%s", why);
    }
    log_debug("edge-down", "stage=%u refused=%s why=\"%s\" was_up=%d", a->stage,
              status_name(refused), why, p != NULL);
}

static const struct session_ops next_table = {
    .hello = next_hello, .up = next_up, .down = next_down};

/* Tensors as many as there may be microbatches; Opens of twice what this pool
 * holds. */
static struct link_limits limits_of(const struct worker_core *w)
{
    const struct assembly *a = &w->assembly;
    uint64_t x = (uint64_t)a->step_tokens * w->o.hidden * sizeof(float);
    struct link_limits l = link_limits_tensors(a->n_stages, (uint32_t)x);

    l.outbox_bytes += (size_t)w->table.capacity * OPEN_BYTES;
    l.outbox_bytes += ((size_t)w->table.slab.n_pages << w->table.slab.shift) *
                      ASSEMBLY_ID_BYTES;
    return l;
}

/* ---- the edge in ---- */

static enum status before_welcome(void *node, uint64_t assembly, uint32_t index,
                                  struct error *e)
{
    const struct worker_core *w = node;
    const struct assembly *a = &w->assembly;

    if (a->state == ASSEMBLY_NONE || a->broken) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "no assembly is ordered here");
    }
    if (assembly != a->id && !PLANT(ASSEMBLY_UNCHECKED)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "another assembly is ordered here");
    }
    if (index != edges_before(a)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "stage %u comes before stage %u of %u, not stage %u",
                         edges_before(a), a->stage, a->n_stages, index);
    }
    return ST_OK;
}

static void before_up(void *node, struct peer *p)
{
    struct worker_core *w = node;

    w->assembly.in = p;
    assembly_edge_up(w);
}

static void before_down(void *node, struct peer *p, const char *why)
{
    struct worker_core *w = node;
    struct assembly *a = &w->assembly;

    (void)p;
    a->in = NULL;
    if (a->state == ASSEMBLY_UP) {
        assembly_edge_down(w, "the edge from stage %u ended: %s",
                           edges_before(a), why);
    }
}

static const struct greeter_ops before_table = {before_welcome, before_up,
                                                before_down};

/* ---- made and ended ---- */

void assembly_init(struct worker_core *w)
{
    struct assembly *a = &w->assembly;

    memset(a, 0, sizeof *a);
    /* What is sent that way is small: acknowledgements, answers to pings. */
    greeter_init(&a->before, w->io, &before_table, &peer_table, w, &w->arena,
                 w->o.name, &link_limits_usual);
}

void edges_begin(struct worker_core *w, ProtobufCBinaryData next)
{
    struct assembly *a = &w->assembly;
    struct session_stage stage = {
        .assembly = a->id, .index = a->stage, .limits = limits_of(w)};

    memcpy(stage.endpoint, next.data, next.len);
    stage.endpoint[next.len] = '\0';
    session_init_stage(&a->next, w->io, &next_table, &peer_table, w, &w->arena,
                       &stage);
    a->has_next = true;
}

void edges_end(struct worker_core *w, const char *why)
{
    struct assembly *a = &w->assembly;

    if (a->has_next) {
        session_fini(&a->next, why);
        a->has_next = false;
    }
    greeter_end(&a->before, why);
}

void edges_fini(struct worker_core *w, const char *why)
{
    edges_end(w, why);
    greeter_fini(&w->assembly.before, why);
}

/* ---- node_ops ---- */

bool assembly_opened(struct worker_core *w, struct peer_id who)
{
    struct assembly *a = &w->assembly;

    if (!a->has_next || !session_is_at(&a->next, who)) {
        return false;
    }
    session_opened(&a->next, who);
    return true;
}

/* A frame of the edge that breaks a rule was dropped, with what was in it. */
static void recv_before(struct worker_core *w, struct peer_id from,
                        struct frame **f)
{
    struct assembly *a = &w->assembly;
    uint64_t strikes = a->before.counts.strikes;
    bool is_edge = a->in != NULL && a->before.id.v == from.v;

    a->arriving = *f;
    greeter_recv(&a->before, from, f);
    a->arriving = NULL;
    if (is_edge && a->before.counts.strikes > strikes) {
        assembly_break(w, "stage %u sent what breaks the rules of frames",
                       edges_before(a));
    }
}

bool assembly_recv(struct worker_core *w, struct peer_id from, struct frame **f)
{
    struct assembly *a = &w->assembly;

    if (a->has_next && session_is_at(&a->next, from)) {
        session_recv(&a->next, from, f);
        return true;
    }
    if (w->o.stage_endpoint == NULL || session_is_at(&w->session, from)) {
        return false;
    }
    recv_before(w, from, f);
    return true;
}

bool assembly_lost(struct worker_core *w, struct peer_id who)
{
    struct assembly *a = &w->assembly;

    if (a->has_next && session_is_at(&a->next, who)) {
        session_lost(&a->next, who);
        return true;
    }
    if (w->o.stage_endpoint == NULL || session_is_at(&w->session, who)) {
        return false;
    }
    greeter_lost(&a->before, who);
    return true;
}

int64_t assembly_tick(struct worker_core *w, int64_t now_us)
{
    struct assembly *a = &w->assembly;
    int64_t due = NODE_IDLE, next;

    if (a->has_next) {
        due = session_tick(&a->next, now_us);
        due = a->state == ASSEMBLY_JOINING && a->due_us < due ? a->due_us : due;
    }
    if (w->o.stage_endpoint != NULL) {
        next = greeter_tick(&a->before, now_us);
        due = next < due ? next : due;
    }
    return a->broken ? now_us : due;
}
