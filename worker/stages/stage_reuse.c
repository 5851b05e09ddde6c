/* The part of the leader's index at this stage, and the copies that the next
 * plan carries out. */
#include <inttypes.h>
#include <string.h>

#include "worker/stages/stage.h"

/* ---- copies ---- */

static enum status too_many(struct error *e, uint32_t n)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     "%u copies wait for the next step, at most %u may", n,
                     PLAN_COPIES_MAX);
}

/* Puts the moves that the pool has recorded behind the copies that wait. */
static enum status keep_moves(struct stage *g, struct error *e)
{
    struct pool *pool = &g->sequences->pool;

    if (pool->n_moves > PLAN_COPIES_MAX - g->n_copies) {
        return too_many(e, g->n_copies + pool->n_moves);
    }
    g->n_copies += pool_take_moves(pool, &g->copies[g->n_copies]);
    return ST_OK;
}

static enum status keep_copies(struct stage *g, const struct stage_copies *c,
                               struct error *e)
{
    if (keep_moves(g, e) != ST_OK) {
        return e->code;
    }
    if (c->n > PLAN_COPIES_MAX - g->n_copies) {
        return too_many(e, g->n_copies + c->n);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        g->copies[g->n_copies++] = c->of[i];
    }
    return ST_OK;
}

/* Writes copies[n] before those of a plan. */
static enum status put_first(struct plan *p, const struct plan_copy *copies,
                             uint32_t n, struct error *e)
{
    if (n > PLAN_COPIES_MAX - p->n_before) {
        return too_many(e, n + p->n_before);
    }
    memmove(p->before + n, p->before, p->n_before * sizeof *copies);
    if (n > 0) {
        memcpy(p->before, copies, n * sizeof *copies);
    }
    p->n_before += n;
    return ST_OK;
}

/* Adds replays to others, in any order: a slot has one at most. */
static enum status add_replays(struct plan_replay *to, uint32_t *n_to,
                               const struct plan_replay *r, uint32_t n,
                               struct error *e)
{
    if (n > PLAN_ROWS_MAX - *n_to) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%u replays wait for the next step, at most %u may",
                         n + *n_to, PLAN_ROWS_MAX);
    }
    if (n > 0) {
        memcpy(to + *n_to, r, n * sizeof *r);
    }
    *n_to += n;
    return ST_OK;
}

/* The plan poisons before it copies. */
enum status stage_copies_take(struct stage *g, struct batch *t, struct error *e)
{
    if (add_replays(t->plan.replays, &t->plan.n_replays, g->replays,
                    g->n_replays, e) != ST_OK) {
        return e->code;
    }
    g->n_replays = 0;
    for (uint32_t i = 0; i < g->n_copies; i++) {
        batch_unpoison(t, &g->copies[i]);
    }
    if (put_first(&t->plan, g->copies, g->n_copies, e) != ST_OK) {
        return e->code;
    }
    g->n_copies = 0;
    return ST_OK;
}

void stage_copies_keep(struct stage *g, const struct batch *t)
{
    g->n_copies = t->plan.n_before;
    if (g->n_copies > 0) {
        memcpy(g->copies, t->plan.before, g->n_copies * sizeof *g->copies);
    }
    g->n_replays = t->plan.n_replays;
    if (g->n_replays > 0) {
        memcpy(g->replays, t->plan.replays, g->n_replays * sizeof *g->replays);
    }
}

/* The plan after it was made with blocks where these copies put them. */
enum status stage_copies_refused(struct stage *g, const struct batch *t,
                                 struct error *e)
{
    const struct plan *p = &t->plan;

    for (uint32_t i = 1; i < g->n; i++) {
        struct batch *next = &g->line[i]->batch;

        if (g->line[i]->failed) {
            continue;
        }
        for (uint32_t k = 0; k < p->n_before; k++) {
            batch_unpoison(next, &p->before[k]);
        }
        if (add_replays(next->plan.replays, &next->plan.n_replays, p->replays,
                        p->n_replays, e) != ST_OK) {
            return e->code;
        }
        return put_first(&next->plan, p->before, p->n_before, e);
    }
    if (add_replays(g->replays, &g->n_replays, p->replays, p->n_replays, e) !=
        ST_OK) {
        return e->code;
    }
    if (p->n_before > PLAN_COPIES_MAX - g->n_copies) {
        return too_many(e, p->n_before + g->n_copies);
    }
    memmove(g->copies + p->n_before, g->copies,
            g->n_copies * sizeof *g->copies);
    if (p->n_before > 0) {
        memcpy(g->copies, p->before, p->n_before * sizeof *g->copies);
    }
    g->n_copies += p->n_before;
    return ST_OK;
}

/* ---- Geometry ---- */

/* Adds what drafts need.  A stage of an older version before this one has left
 * the column out; it stays so. */
static void add_keep_tokens(const struct stage *g, uint32_t *keep_tokens,
                            const Sluice__V1__StageGeometry *m,
                            Sluice__V1__StageGeometry *out)
{
    uint32_t at = g->assembly->stage - 1;

    if (m->n_keep_tokens == at) {
        for (uint32_t i = 0; i < at; i++) {
            keep_tokens[i] = m->keep_tokens[i];
        }
        keep_tokens[at] = g->base->o.drafting.keep_tokens;
        out->n_keep_tokens = at + 1;
        out->keep_tokens = keep_tokens;
    }
    out->has_proposes = out->proposes =
        stage_is_last(g) && g->base->o.drafting.has_mtp;
}

void stage_recv_geometry(struct stage *g, const Sluice__V1__StageGeometry *m)
{
    Sluice__V1__StageGeometry out = SLUICE__V1__STAGE_GEOMETRY__INIT;
    const struct worker_options *o = &g->base->o;
    uint32_t pages[STAGES_MAX], blocks[STAGES_MAX], slots[STAGES_MAX];
    uint32_t windows[STAGES_MAX], keep_tokens[STAGES_MAX];
    uint32_t at = g->assembly->stage - 1;

    if (m->n_n_pages != at || m->n_pages_per_block != at ||
        m->n_pages_per_slot != at || !stage_column(m->n_window_pages, at) ||
        g->opened) {
        assembly_break(g->assembly,
                       "Geometry of %zu, %zu and %zu stages, but it passed %u"
                       "%s",
                       m->n_n_pages, m->n_pages_per_block, m->n_pages_per_slot,
                       at, g->opened ? ", and an Open came first" : "");
        return;
    }
    for (uint32_t i = 0; i < at; i++) {
        pages[i] = m->n_pages[i];
        blocks[i] = m->pages_per_block[i];
        slots[i] = m->pages_per_slot[i];
        windows[i] = m->n_window_pages > 0 ? m->window_pages[i] : 0;
    }
    pages[at] = o->pool.n_pages;
    blocks[at] = o->pool.pages_per_block;
    slots[at] = o->pool.pages_per_slot;
    windows[at] = o->pool.window_pages;
    out.n_n_pages = out.n_pages_per_block = out.n_pages_per_slot = at + 1;
    out.n_pages = pages;
    out.pages_per_block = blocks;
    out.pages_per_slot = slots;
    out.n_window_pages = o->window > 0 ? at + 1 : 0;
    out.window_pages = windows;
    add_keep_tokens(g, keep_tokens, m, &out);
    relay_send(&g->relay, METHOD_STAGE_GEOMETRY, &out.base);
}

/* ---- Restore ---- */

struct sequence *stage_open_sequence(const struct stage *g, uint64_t grant,
                                     struct error *e)
{
    struct sequence *s =
        grant == 0 ? NULL : sequence_by_grant(&g->sequences->table, grant);

    if (s == NULL || s->state == SEQUENCE_RELEASING) {
        error_set(e, ST_NOT_FOUND, "the sequence is %s",
                  s == NULL ? "not open here" : "removed");
        return NULL;
    }
    return s;
}

/* The last known id is computed in any case, for its logits. */
static enum status check_position(const struct stage *g,
                                  const struct sequence *s,
                                  const Sluice__V1__StageRestore *m,
                                  struct error *e)
{
    uint32_t known = sequence_known(s);
    bool behind =
        m->cut ? m->position > s->plan.n_planned : m->position >= known;

    if (behind) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it goes on at %u, but %u ids are known and %u "
                         "positions computed",
                         m->position, known, s->plan.n_planned);
    }
    if (s->plan.inflight > 0 || stage_note(g, s)->n_kept > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u steps with it are here, and %u inputs are kept",
                         s->plan.inflight, stage_note(g, s)->n_kept);
    }
    return ST_OK;
}

/* Its state is that behind its last position, so it has no other one. */
static enum status check_from(const struct stage *g, const struct sequence *f,
                              uint32_t position, struct error *e)
{
    bool elsewhere = g->cache.has_states ? position != f->plan.n_planned
                                         : position > f->plan.n_planned;

    if (stage_is_spoilt(g, f) || f->plan.inflight > 0 ||
        stage_note(g, f)->n_kept > 0 || elsewhere) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "grant %" PRIu64 " is to be taken over at %u, but it "
                         "%s, has %u steps here and %u positions",
                         f->grant, position,
                         stage_is_spoilt(g, f) ? "is spoilt" : "is not spoilt",
                         f->plan.inflight, f->plan.n_planned);
    }
    return ST_OK;
}

/* A state that is neither copied, taken over nor zeroed is where it was. */
static enum status check_state(const struct stage *g, const struct sequence *s,
                               const Sluice__V1__StageRestore *m,
                               struct error *e)
{
    bool stays = !m->has_checkpoint && !m->has_from && m->position > 0;

    if (g->cache.has_states && stays &&
        (stage_is_spoilt(g, s) || m->position != s->plan.n_planned)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it goes on at %u without a checkpoint, but its state "
                         "is that at %u",
                         m->position, s->plan.n_planned);
    }
    return ST_OK;
}

/* Blocks that are neither a node's nor another sequence's are its own. */
static enum status check_blocks(const struct stage *g, const struct sequence *s,
                                const Sluice__V1__StageRestore *m,
                                struct error *e)
{
    uint64_t has = (uint64_t)s->memory.n_blocks * g->cache.block_tokens;

    if (g->cache.has_blocks && !m->has_node && !m->has_from &&
        has < m->position) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it goes on at %u in its own blocks, but has %u of %u "
                         "positions",
                         m->position, s->memory.n_blocks,
                         g->cache.block_tokens);
    }
    return ST_OK;
}

static enum status restore(struct stage *g, const Sluice__V1__StageRestore *m,
                           struct error *e)
{
    struct sequence *s = stage_open_sequence(g, m->grant, e);
    struct stage_restore r = {.position = m->position,
                              .node = m->has_node ? m->node : NAME_NONE,
                              .checkpoint =
                                  m->has_checkpoint ? m->checkpoint : NAME_NONE,
                              .cut = m->cut};
    struct stage_copies copies;

    if (s == NULL || check_position(g, s, m, e) != ST_OK ||
        check_state(g, s, m, e) != ST_OK || check_blocks(g, s, m, e) != ST_OK) {
        return e->code;
    }
    if (m->has_from) {
        r.from = stage_open_sequence(g, m->from, e);
        if (r.from == NULL || check_from(g, r.from, m->position, e) != ST_OK) {
            return e->code;
        }
    }
    /* Only a pool without recorded moves always gives a slot. */
    if (keep_moves(g, e) != ST_OK ||
        stage_cache_restore(&g->cache, s, &r, &copies, e) != ST_OK ||
        keep_copies(g, &copies, e) != ST_OK) {
        return e->code;
    }
    s->plan.n_planned = m->position;
    s->plan.pending = 0;
    stage_note(g, s)->restored = true;
    /* A kept sequence samples no more. */
    if (m->cut) {
        stage_note(g, s)->cut = true;
        paged_keep(&g->sequences->table.slab, &s->portable.tokens, 0, 0);
    }
    g->sequences->report.changed = true;
    return ST_OK;
}

void stage_recv_restore(struct stage *g, const Sluice__V1__StageRestore *m)
{
    struct error e;

    if (restore(g, m, &e) != ST_OK) {
        assembly_break(g->assembly, "Restore of grant %" PRIu64 ": %s",
                       m->grant, e.text);
    } else if (!stage_is_last(g)) {
        relay_send(&g->relay, METHOD_STAGE_RESTORE, &m->base);
    }
}

/* ---- Keep and Gone ---- */

/* A step may have failed here after the one whose Result the leader has. */
static enum status check_keep(const struct stage *g, const struct sequence *s,
                              const Sluice__V1__StageKeep *m, struct error *e)
{
    uint32_t spoilt_at = stage_note(g, s)->spoilt_at;

    if (m->n_node == 0 || m->n_parent != m->n_node || m->n_end != m->n_node) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "columns of %zu nodes, %zu parents, %zu ends",
                         m->n_node, m->n_parent, m->n_end);
    }
    for (size_t i = 0; i < m->n_node; i++) {
        if (m->end[i] > spoilt_at) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "node %u ends at %u, but a step failed that "
                             "computed from %u on",
                             m->node[i], m->end[i], spoilt_at);
        }
        if (m->end[i] > s->plan.n_planned) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "node %u ends at %u, but %u positions are "
                             "computed",
                             m->node[i], m->end[i], s->plan.n_planned);
        }
    }
    return ST_OK;
}

static enum status keep(struct stage *g, const Sluice__V1__StageKeep *m,
                        struct error *e)
{
    const struct sequence *s = stage_open_sequence(g, m->grant, e);

    if (s == NULL || check_keep(g, s, m, e) != ST_OK) {
        return e->code;
    }
    for (size_t i = 0; i < m->n_node; i++) {
        if (stage_cache_keep(&g->cache, s, m->node[i], m->parent[i], m->end[i],
                             e) != ST_OK) {
            return e->code;
        }
    }
    g->sequences->report.changed = true;
    return ST_OK;
}

void stage_recv_keep(struct stage *g, const Sluice__V1__StageKeep *m)
{
    struct error e;

    if (keep(g, m, &e) != ST_OK) {
        assembly_break(g->assembly, "Keep of grant %" PRIu64 ": %s", m->grant,
                       e.text);
    } else if (!stage_is_last(g)) {
        relay_send(&g->relay, METHOD_STAGE_KEEP, &m->base);
    }
}

static enum status gone(struct stage *g, const Sluice__V1__StageGone *m,
                        struct error *e)
{
    for (size_t i = 0; i < m->n_node; i++) {
        if (stage_cache_gone_node(&g->cache, m->node[i], e) != ST_OK) {
            return e->code;
        }
    }
    for (size_t i = 0; i < m->n_checkpoint; i++) {
        if (stage_cache_gone_checkpoint(&g->cache, m->checkpoint[i], e) !=
            ST_OK) {
            return e->code;
        }
    }
    g->sequences->report.changed = true;
    return ST_OK;
}

void stage_recv_gone(struct stage *g, const Sluice__V1__StageGone *m)
{
    struct error e;

    if (gone(g, m, &e) != ST_OK) {
        assembly_break(g->assembly, "Gone: %s", e.text);
    } else if (!stage_is_last(g)) {
        relay_send(&g->relay, METHOD_STAGE_GONE, &m->base);
    }
}
