/* assembly.c - how an assembly begins and ends, and what it sends.  Its edges
 * are edges.c's. */
#include "worker/stages/assembly.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "worker/stages/edges.h"
#include "worker/stages/leader.h"
#include "worker/worker_state.h"

static const struct sm_row state_rows[ASSEMBLY_STATES] = {
    [ASSEMBLY_NONE] = {"none", SM_TO(ASSEMBLY_JOINING)},
    [ASSEMBLY_JOINING] = {"joining", SM_TO(ASSEMBLY_UP) | SM_TO(ASSEMBLY_NONE)},
    [ASSEMBLY_UP] = {"up", SM_TO(ASSEMBLY_NONE)},
};

static void move(struct assembly *a, enum assembly_state to)
{
    char id[24];

    snprintf(id, sizeof id, "%016" PRIx64, a->id);
    sm_check(state_rows, a->state, to, "assembly", id);
    a->state = to;
}

/* ---- what there is to ask ---- */

bool assembly_is_up(const struct worker_core *w)
{
    return w->assembly.state == ASSEMBLY_UP && !w->assembly.broken;
}

bool assembly_leads(const struct worker_core *w)
{
    return w->o.layer_begin == 0 && w->o.layer_end < w->o.n_layers;
}

bool assembly_obeys(const struct worker_core *w)
{
    return w->o.layer_begin > 0;
}

/* ---- its end ---- */

/* The first why counts. */
__attribute__((format(printf, 2, 0))) static bool
give_up(struct assembly *a, const char *fmt, va_list ap)
{
    if (a->state == ASSEMBLY_NONE || a->broken) {
        return false;
    }
    a->broken = true;
    vsnprintf(a->why, sizeof a->why, fmt, ap);
    return true;
}

void assembly_break(struct worker_core *w, const char *fmt, ...)
{
    struct assembly *a = &w->assembly;
    va_list ap;

    va_start(ap, fmt);
    if (give_up(a, fmt, ap)) {
        w->metrics.streams_broken++;
        log_error("stream-broken",
                  "assembly=%016" PRIx64 " stage=%u why=\"%s\"", a->id,
                  a->stage, a->why);
    }
    va_end(ap);
}

void assembly_edge_down(struct worker_core *w, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)give_up(&w->assembly, fmt, ap);
    va_end(ap);
}

static void drop_sequences(struct worker_core *w)
{
    struct sequence *s = w->table.all.head, *next;

    for (; s != NULL; s = next) {
        next = list_next(s, LIST_ALL);
        worker_drop(w, s);
    }
}

/* Nothing of it is left but what a plan in flight names.  NONE before the
 * edges go: their end is no news. */
static void end(struct worker_core *w, const char *why)
{
    struct assembly *a = &w->assembly;

    log_warn("assembly-over", "assembly=%016" PRIx64 " stage=%u why=\"%s\"",
             a->id, a->stage, why);
    if (assembly_leads(w)) {
        leader_over(w);
    } else {
        stage_over(w);
    }
    move(a, ASSEMBLY_NONE);
    a->broken = false;
    a->call = 0;
    if (!PLANT(ASSEMBLY_LEAKS)) {
        drop_sequences(w);
    }
    edges_end(w, why);
    w->changed = true;
}

/* The Assemble that waits is answered; later there is Broken. */
static void tell(struct worker_core *w, enum status code, const char *why)
{
    Sluice__V1__BrokenMessage m = SLUICE__V1__BROKEN_MESSAGE__INIT;
    struct peer *p = worker_peer(w);
    struct error e;

    if (p == NULL) {
        return;
    }
    if (w->assembly.state == ASSEMBLY_JOINING) {
        error_set(&e, code, "%s", why);
        peer_fail(p, w->assembly.call, &e, 0);
        return;
    }
    w->metrics.assemblies_broken++;
    m.assembly = w->assembly.id;
    m.why = wire_text(why);
    if (peer_oneway(p, METHOD_REGISTRY_BROKEN, &m.base) != ST_OK) {
        worker_break(w, "Broken finds no room");
    }
}

static void end_for(struct worker_core *w, enum status code, const char *why)
{
    tell(w, code, why);
    end(w, why);
}

/* Which edge is missing, and what was last heard of it. */
static void time_out(struct worker_core *w)
{
    struct assembly *a = &w->assembly;
    char why[sizeof a->why + ERROR_TEXT];

    if (a->out == NULL) {
        snprintf(why, sizeof why, "no edge to stage %u at %s in %d ms%s%s",
                 (a->stage + 1) % a->n_stages, a->next.stage.endpoint,
                 EDGES_US / 1000, a->why[0] != '\0' ? ": " : "", a->why);
    } else {
        snprintf(why, sizeof why, "stage %u has not come in %d ms",
                 edges_before(a), EDGES_US / 1000);
    }
    end_for(w, ST_DEADLINE_EXCEEDED, why);
}

void assembly_settle(struct worker_core *w, int64_t now_us)
{
    struct assembly *a = &w->assembly;
    char why[sizeof a->why];

    if (a->broken) {
        memcpy(why, a->why, sizeof why);
        end_for(w, ST_ABORTED, why);
    } else if (a->state == ASSEMBLY_JOINING && now_us >= a->due_us) {
        time_out(w);
    }
}

void assembly_session_over(struct worker_core *w)
{
    if (w->assembly.state != ASSEMBLY_NONE) {
        end(w, "the router's session is over");
    }
}

bool assembly_cancelled(struct worker_core *w, uint64_t call)
{
    if (w->assembly.state != ASSEMBLY_JOINING || w->assembly.call != call) {
        return false;
    }
    end(w, "the router has given it up");
    return true;
}

void assembly_fini(struct worker_core *w, const char *why)
{
    if (w->assembly.state != ASSEMBLY_NONE) {
        end(w, why);
    }
    edges_fini(w, why);
}

/* ---- its beginning ---- */

static enum status check_place(const struct worker_core *w,
                               const Sluice__V1__AssembleRequest *m,
                               struct error *e)
{
    const struct worker_options *o = &w->o;

    if (m->assembly == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "assembly is 0");
    }
    if (m->n_stages < 2 || m->n_stages > STAGES_MAX ||
        m->stage >= m->n_stages) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "stage is %u of %u, a replica has 2 to %d stages",
                         m->stage, m->n_stages, STAGES_MAX);
    }
    if ((m->stage == 0) != (o->layer_begin == 0) ||
        (m->stage + 1 == m->n_stages) != (o->layer_end == o->n_layers)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "layers %u-%u of %u cannot be stage %u of %u",
                         o->layer_begin, o->layer_end, o->n_layers, m->stage,
                         m->n_stages);
    }
    if (!wire_text_ok(m->next, 1, ENDPOINT_MAX - 1)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "next has %zu bytes, an endpoint has 1 to %d of UTF-8",
                         m->next.len, ENDPOINT_MAX - 1);
    }
    return ST_OK;
}

static enum status check_step(const struct worker_core *w,
                              const Sluice__V1__AssembleRequest *m,
                              struct error *e)
{
    const struct worker_options *o = &w->o;
    uint32_t tokens = m->has_step_tokens ? m->step_tokens : o->step_tokens;

    if (m->has_max_rows && (m->max_rows < 1 || m->max_rows > o->max_rows)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "max_rows is %u, this stage takes 1 to %u",
                         m->max_rows, o->max_rows);
    }
    if (tokens < 1 || tokens > o->step_tokens) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "step_tokens is %u, this stage takes 1 to %u", tokens,
                         o->step_tokens);
    }
    if ((uint64_t)tokens * o->hidden * sizeof(float) > FRAME_TENSOR_MAX) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "a step of %u tokens of %u float32 is over the %u "
                         "bytes that a frame carries",
                         tokens, o->hidden, FRAME_TENSOR_MAX);
    }
    return ST_OK;
}

static enum status check(const struct worker_core *w,
                         const Sluice__V1__AssembleRequest *m, struct error *e)
{
    if (w->o.layer_begin == 0 && w->o.layer_end == w->o.n_layers) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "this worker has all layers, and needs no other");
    }
    if (w->o.stage_endpoint == NULL) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "this worker listens for no other stage");
    }
    if (check_place(w, m, e) != ST_OK || check_step(w, m, e) != ST_OK) {
        return e->code;
    }
    return ST_OK;
}

static void take_place(struct assembly *a, const struct worker_options *o,
                       const Sluice__V1__AssembleRequest *m)
{
    a->id = m->assembly;
    a->stage = m->stage;
    a->n_stages = m->n_stages;
    a->max_rows = m->has_max_rows ? m->max_rows : o->max_rows;
    a->step_tokens = m->has_step_tokens ? m->step_tokens : o->step_tokens;
    a->why[0] = '\0';
}

void assembly_recv_assemble(struct worker_core *w, struct peer *p,
                            uint64_t call, const Sluice__V1__AssembleRequest *m)
{
    struct assembly *a = &w->assembly;
    struct error e;

    if (a->state == ASSEMBLY_JOINING) {
        tell(w, ST_ABORTED, "another Assemble came");
    }
    if (a->state != ASSEMBLY_NONE) {
        end(w, "another Assemble came");
    }
    if (check(w, m, &e) != ST_OK) {
        peer_fail(p, call, &e, 0);
        return;
    }
    take_place(a, &w->o, m);
    if (assembly_obeys(w) && !stage_begin(w)) {
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  "memory is out: %u microbatches cannot be held", a->n_stages);
        peer_fail(p, call, &e, 0);
        return;
    }
    log_info("assembly", "assembly=%016" PRIx64 " stage=%u stages=%u", a->id,
             a->stage, a->n_stages);
    move(a, ASSEMBLY_JOINING);
    a->call = call;
    a->due_us = w->io->now_us(w->io) + EDGES_US;
    edges_begin(w, m->next);
}

void assembly_edge_up(struct worker_core *w)
{
    Sluice__V1__Nothing reply = SLUICE__V1__NOTHING__INIT;
    struct assembly *a = &w->assembly;
    struct peer *p = worker_peer(w);

    if (a->state != ASSEMBLY_JOINING || a->in == NULL || a->out == NULL) {
        return;
    }
    move(a, ASSEMBLY_UP);
    w->metrics.assemblies++;
    log_info("assembly-up", "assembly=%016" PRIx64 " stage=%u stages=%u", a->id,
             a->stage, a->n_stages);
    if (assembly_leads(w)) {
        leader_begin(w);
    }
    if (p != NULL) {
        peer_end(p, a->call, &reply.base);
    }
    a->call = 0;
}

/* ---- the stream ---- */

static void sent(struct worker_core *w, enum method m, enum status st)
{
    if (st != ST_OK) {
        assembly_break(w, "%s to stage %u was not taken: %s",
                       method_find((uint16_t)m)->method,
                       (w->assembly.stage + 1) % w->assembly.n_stages,
                       status_text(st));
    }
}

void assembly_send(struct worker_core *w, enum method m,
                   const ProtobufCMessage *message)
{
    if (assembly_is_up(w)) {
        sent(w, m, peer_oneway(w->assembly.out, m, message));
    }
}

void assembly_send_forward(struct worker_core *w,
                           const Sluice__V1__StageForward *m,
                           const float *hidden, uint32_t n_tokens)
{
    uint64_t bytes = (uint64_t)n_tokens * w->o.hidden * sizeof *hidden;

    if (hidden == NULL) {
        assembly_send(w, METHOD_STAGE_FORWARD, &m->base);
    } else if (assembly_is_up(w)) {
        sent(w, METHOD_STAGE_FORWARD,
             peer_oneway_tensor(w->assembly.out, METHOD_STAGE_FORWARD, &m->base,
                                hidden, (uint32_t)bytes));
    }
}
