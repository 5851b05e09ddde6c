#include "worker/stages/stages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "proto/registry.pb-c.h"
#include "worker/sequences/alone.h"
#include "worker/sequences/ending.h"

/* ---- the end of an assembly ---- */

/* The state is NONE before the edges end, so that their end is not reported as
 * the loss of an edge. */
static void end_assembly(struct stages *g, const char *why)
{
    struct assembly *a = &g->assembly;

    log_warn("assembly-over", "assembly=%016" PRIx64 " stage=%u why=\"%s\"",
             a->id, a->stage, why);
    a->member->over(a->self);
    assembly_move(a, ASSEMBLY_NONE);
    a->broken = false;
    a->call = 0;
    if (!PLANT(ASSEMBLY_LEAKS)) {
        ending_drop_all(g->sequences);
    }
    edges_end(&g->edges, why);
    g->sequences->report.changed = true;
}

/* Notifies the router: fails an Assemble that is still open, else sends
 * Broken. */
static void notify_router(struct stages *g, enum status code, const char *why)
{
    Sluice__V1__BrokenMessage m = SLUICE__V1__BROKEN_MESSAGE__INIT;
    struct assembly *a = &g->assembly;
    struct peer *p = base_peer(a->base);
    struct error e;

    /* Without a session the router has given the assembly up itself. */
    if (p == NULL) {
        return;
    }
    if (a->state == ASSEMBLY_JOINING) {
        error_set(&e, code, "%s", why);
        peer_fail(p, a->call, &e, 0);
        return;
    }
    a->base->metrics.assemblies_broken++;
    m.assembly = a->id;
    m.why = wire_text(why);
    if (peer_oneway(p, METHOD_REGISTRY_BROKEN, &m.base) != ST_OK) {
        base_break(a->base, "the link has no room for Broken");
    }
}

static void end_with_error(struct stages *g, enum status code, const char *why)
{
    notify_router(g, code, why);
    end_assembly(g, why);
}

/* Names the edge that is missing, and the last reason that it failed for. */
static void time_out(struct stages *g)
{
    const struct assembly *a = &g->assembly;
    char why[sizeof a->why + ERROR_TEXT];

    if (a->out == NULL) {
        snprintf(why, sizeof why, "no edge to stage %u at %s in %d ms%s%s",
                 assembly_after(a), g->edges.next.stage.endpoint,
                 EDGES_US / 1000, a->why[0] != '\0' ? ": " : "", a->why);
    } else {
        snprintf(why, sizeof why, "stage %u has not connected in %d ms",
                 assembly_before(a), EDGES_US / 1000);
    }
    end_with_error(g, ST_DEADLINE_EXCEEDED, why);
}

void stages_settle(struct stages *g, int64_t now_us)
{
    const struct assembly *a = &g->assembly;
    char why[sizeof a->why];

    /* A copy, because the assembly changes while it ends. */
    if (a->broken) {
        memcpy(why, a->why, sizeof why);
        end_with_error(g, ST_ABORTED, why);
    } else if (a->state == ASSEMBLY_JOINING && now_us >= a->due_us) {
        time_out(g);
    }
}

void stages_session_over(struct stages *g)
{
    if (g->assembly.state != ASSEMBLY_NONE) {
        end_assembly(g, "the router's session is over");
    }
}

bool stages_cancelled(struct stages *g, uint64_t call)
{
    const struct assembly *a = &g->assembly;

    if (a->state != ASSEMBLY_JOINING || a->call != call) {
        return false;
    }
    end_assembly(g, "the router cancelled Assemble");
    return true;
}

void stages_replace(struct stages *g)
{
    static const char why[] = "another Assemble came";

    if (g->assembly.state == ASSEMBLY_JOINING) {
        notify_router(g, ST_ABORTED, why);
    }
    if (g->assembly.state != ASSEMBLY_NONE) {
        end_assembly(g, why);
    }
}

/* ---- its beginning ---- */

static void take_place(struct assembly *a, const Sluice__V1__AssembleRequest *m)
{
    const struct worker_options *o = &a->base->o;

    a->id = m->assembly;
    a->stage = m->stage;
    a->n_stages = m->n_stages;
    a->max_rows = m->has_max_rows ? m->max_rows : o->max_rows;
    a->step_tokens = m->has_step_tokens ? m->step_tokens : o->step_tokens;
    a->keyed = m->has_previous_key;
    if (a->keyed) {
        memcpy(a->previous_key, m->previous_key.data, KEY_BYTES);
    }
    a->why[0] = '\0';
}

enum status stages_join(struct stages *g, uint64_t call,
                        const Sluice__V1__AssembleRequest *m, struct error *e)
{
    struct assembly *a = &g->assembly;

    /* The place comes first: the member sizes its memory by n_stages. */
    take_place(a, m);
    if (!a->member->begin(a->self)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "out of memory for %u microbatches", a->n_stages);
    }
    log_info("assembly", "assembly=%016" PRIx64 " stage=%u stages=%u", a->id,
             a->stage, a->n_stages);
    assembly_move(a, ASSEMBLY_JOINING);
    a->call = call;
    a->due_us = base_now_us(a->base) + EDGES_US;
    edges_begin(&g->edges, m);
    return ST_OK;
}

static void on_edge_up(void *owner)
{
    Sluice__V1__Nothing reply = SLUICE__V1__NOTHING__INIT;
    struct assembly *a = &((struct stages *)owner)->assembly;
    struct peer *p = base_peer(a->base);

    if (a->state != ASSEMBLY_JOINING || a->in == NULL || a->out == NULL) {
        return;
    }
    assembly_move(a, ASSEMBLY_UP);
    a->base->metrics.assemblies++;
    log_info("assembly-up", "assembly=%016" PRIx64 " stage=%u stages=%u", a->id,
             a->stage, a->n_stages);
    a->member->up(a->self);
    /* The leader is ready before the router can send it a Submit. */
    if (p != NULL) {
        peer_end(p, a->call, &reply.base);
    }
    a->call = 0;
}

/* ---- made and freed ---- */

void stages_init(struct stages *g, struct sequences *q)
{
    struct worker_base *b = q->base;
    const struct member_ops *member = NULL;
    void *self = NULL;

    memset(g, 0, sizeof *g);
    g->sequences = q;
    /* The role follows from the layers, so it is set once and never changes. */
    q->role = (struct role){&alone_role, q};
    switch (worker_options_role(&b->o)) {
    case ROLE_LEADER:
        q->role = (struct role){&leader_role, &g->leader};
        member = &leader_member;
        self = &g->leader;
        break;
    case ROLE_STAGE:
        q->role = (struct role){&stage_role, &g->stage};
        member = &stage_member;
        self = &g->stage;
        break;
    default:
        break;
    }
    assembly_init(&g->assembly, b, member, self);
    leader_init(&g->leader, q, &g->assembly);
    stage_init(&g->stage, q, &g->assembly);
    edges_init(&g->edges, &g->assembly, &q->table, on_edge_up, g);
}

void stages_stop(struct stages *g, const char *why)
{
    if (g->assembly.state != ASSEMBLY_NONE) {
        end_assembly(g, why);
    }
    edges_fini(&g->edges, why);
}

void stages_fini(struct stages *g)
{
    stage_fini(&g->stage);
    leader_fini(&g->leader);
}
