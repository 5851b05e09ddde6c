#include "worker/sequences/ranges.h"

#include "common/base/minmax.h"
#include "worker/sequence/windows.h"
#include "worker/sequences/receipts.h"

/* ---- the range ---- */

static enum status check_range(const struct sequence *s,
                               const Sluice__V1__RemoveRequest *m,
                               struct error *e)
{
    char name[SEQUENCE_NAME];

    sequence_name(&s->key, name);
    if (s->state != SEQUENCE_KEPT) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "sequence %s is %s; a range can be removed from a "
                         "kept one only",
                         name, sequence_state_name(s->state));
    }
    if (continuation_has_heir(&s->continuation) || s->kept.cut_call != 0) {
        return error_set(e, ST_FAILED_PRECONDITION, "%s sequence %s",
                         continuation_has_heir(&s->continuation)
                             ? "another request continues"
                             : "another call removes a range of",
                         name);
    }
    if (!m->has_begin) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "end is set without begin: set both, or neither to "
                         "remove the whole sequence");
    }
    if (m->begin > s->kept.n_ids) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "begin is %u, but sequence %s ends at %u", m->begin,
                         name, s->kept.n_ids);
    }
    if (m->has_end && m->end != s->kept.n_ids) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "end is %u, but sequence %s ends at %u; only its end "
                         "can be removed",
                         m->end, name, s->kept.n_ids);
    }
    return ST_OK;
}

/* Gives back the blocks that hold no position below `position`. */
static uint32_t release_blocks(struct sequences *q, struct sequence *s,
                               uint32_t position)
{
    uint32_t bt = q->base->o.block_tokens;
    uint32_t keep = position / bt + (position % bt != 0), n = 0;

    while (s->memory.n_blocks > keep) {
        s->memory.n_blocks--;
        s->memory.need.n[POOL_BLOCKS]--;
        pool_release(
            &q->pool, POOL_BLOCKS,
            paged_get(&q->table.slab, &s->memory.blocks, s->memory.n_blocks));
        n++;
    }
    return n;
}

static void give_slot(struct sequences *q, struct sequence *s,
                      struct pool_need *freed)
{
    if (s->memory.slot != SLOT_NONE) {
        pool_release(&q->pool, POOL_SLOTS, s->memory.slot);
        s->memory.slot = SLOT_NONE;
        s->memory.need.n[POOL_SLOTS]--;
        freed->n[POOL_SLOTS] = 1;
    }
}

/* Takes the state of s back to the deepest checkpoint at most at `begin`.  If
 * there is none, or it is in the host tier, or the next plan loads no more,
 * gives the slot back: no plan may come for long, and an heir finds the same
 * checkpoint in the index.
 * Without a slot here, other stages have states. */
static void restore_state(struct sequences *q, struct sequence *s,
                          struct role_restore *to, struct pool_need *freed)
{
    struct prefix_hit hit = reuse_find(&q->reuse, s, to->position);

    if (hit.n_tokens > 0 && s->memory.slot != SLOT_NONE &&
        (hit.checkpoint == SLOT_NONE ||
         !batcher_load(&q->batcher, hit.checkpoint, s->memory.slot))) {
        hit = (struct prefix_hit){.node = PREFIX_NONE, .checkpoint = SLOT_NONE};
    }
    if (hit.n_tokens == 0) {
        give_slot(q, s, freed);
    }
    to->position = hit.n_tokens;
    to->checkpoint = hit.checkpoint;
}

/* Goes back to the first position. */
static void restore_none(struct sequences *q, struct sequence *s,
                         struct role_restore *to, struct pool_need *freed)
{
    give_slot(q, s, freed);
    sequence_give_host(&q->table, s);
    to->position = 0;
    to->checkpoint = SLOT_NONE;
}

/* Moves s to `begin`, or to where its state can go back to. */
static uint32_t cut(struct sequences *q, struct sequence *s, uint32_t begin,
                    struct pool_need *freed)
{
    struct role_restore to = {.position = min_u32(begin, s->plan.n_planned),
                              .node = PREFIX_NONE,
                              .checkpoint = SLOT_NONE,
                              .cut = true};

    /* What is behind the window is gone, so an heir computes all of it. */
    if (to.position < s->plan.n_planned && kept_is_away(&s->kept)) {
        restore_none(q, s, &to, freed);
    } else if (!kept_is_away(&s->kept) &&
               !windows_reach(&q->table, s, to.position)) {
        restore_none(q, s, &to, freed);
    } else if (to.position < s->plan.n_planned &&
               prefix_has_states(q->reuse.index)) {
        restore_state(q, s, &to, freed);
    }
    s->kept.n_ids = begin;
    s->plan.n_planned = to.position;
    s->plan.n_computed = min_u32(s->plan.n_computed, to.position);
    freed->n[POOL_BLOCKS] = release_blocks(q, s, to.position);
    freed->n[POOL_WINDOWS] = windows_cut(&q->table, s, to.position);
    if (q->role.ops->restore != NULL) {
        q->role.ops->restore(q->role.self, s, &to);
    }
    q->report.changed = true;
    return to.position;
}

/* ---- early ends ---- */

/* Returns whether s may end early: nobody goes on from it, and no plan names
 * it. */
static bool may_end(const struct sequence *s)
{
    return s->state == SEQUENCE_KEPT &&
           !continuation_has_heir(&s->continuation) && s->plan.inflight == 0;
}

/* Returns the first sequence at position 0 if there are too many; the pool
 * bounds the others.  newest: went there just now, maybe. */
static struct sequence *surplus(const struct sequences *q,
                                const struct sequence *newest)
{
    struct sequence *first = NULL;
    uint32_t n = 0;

    for (struct sequence *s = q->table.all.tail; s != NULL;
         s = s->links[LIST_ALL].prev) {
        if (s->plan.n_planned == 0 && may_end(s)) {
            first = s != newest ? s : first;
            n++;
        }
    }
    return n > EMPTY_KEPT_MAX ? first : NULL;
}

struct sequence *ranges_to_end(const struct sequences *q,
                               const Sluice__V1__SubmitRequest *m)
{
    struct sequence *s = q->table.all.head;
    struct sequence_key key;
    struct error e;
    const struct sequence *except =
        m->continue_from != NULL &&
                sequence_key_read(&key, m->continue_from, &e)
            ? sequence_by_key(&q->table, &key)
            : NULL;

    /* One that was not cut has computed all of its ids, or all but the last. */
    while (s != NULL && (!may_end(s) || s == except ||
                         s->plan.n_planned + 1 >= sequence_known(s))) {
        s = sequence_next(s, LIST_ALL);
    }
    return s;
}

/* ---- the call ---- */

void ranges_refuse(struct sequences *q, struct sequence *s)
{
    struct peer *p = base_peer(q->base);
    char name[SEQUENCE_NAME];
    struct error e;

    if (p != NULL && s->kept.cut_call != 0) {
        error_set(&e, ST_FAILED_PRECONDITION,
                  continuation_has_heir(&s->continuation)
                      ? "another request continues sequence %s"
                      : "sequence %s has ended",
                  sequence_name(&s->key, name));
        peer_fail(p, s->kept.cut_call, &e, 0);
    }
    s->kept.cut_call = 0;
}

struct sequence *ranges_row_back(struct sequences *q, struct sequence *s)
{
    struct peer *p = base_peer(q->base);
    struct pool_need freed = {{0, 0, 0}};
    uint64_t call = s->kept.cut_call;
    uint32_t position;

    if (call == 0 || s->plan.inflight > 0) {
        return NULL;
    }
    if (continuation_has_heir(&s->continuation)) {
        ranges_refuse(q, s);
        return NULL;
    }
    s->kept.cut_call = 0;
    position = cut(q, s, s->kept.cut_begin, &freed);
    q->base->metrics.ranges_removed++;
    if (p != NULL) {
        receipts_cut(q, p, call, s, &freed, position);
    }
    return surplus(q, s);
}

struct sequence *ranges_remove(struct sequences *q, struct peer *p,
                               uint64_t call, struct sequence *s,
                               const Sluice__V1__RemoveRequest *m)
{
    struct error e;

    if (check_range(s, m, &e) != ST_OK) {
        peer_fail(p, call, &e, 0);
        return NULL;
    }
    s->kept.cut_call = call;
    s->kept.cut_begin = m->begin;
    return ranges_row_back(q, s);
}
