#include "worker/sequences/kept.h"

#include "common/base/log.h"

/* Returns whether there is room enough. */
static bool has_room(const struct sequences *q)
{
    struct pool_account a = pool_pages(&q->pool);

    return (uint64_t)a.free + a.cached >= a.total / KEPT_ROOM;
}

/* A state that the next plan loads is not in the slot yet. */
static bool may_go(const struct sequences *q, const struct sequence *s)
{
    return s->state == SEQUENCE_KEPT && s->kept.state == KEPT_HERE &&
           !continuation_has_heir(&s->continuation) && s->plan.inflight == 0 &&
           s->kept.cut_call == 0 && !stages_hold(&s->stages) &&
           s->memory.slot != SLOT_NONE && q->batcher.n_loads == 0;
}

static void put_away(struct sequences *q, struct sequence *s)
{
    char name[SEQUENCE_NAME];

    sequence_give_back(&q->table, s);
    kept_move(&q->table, s, KEPT_AWAY);
    q->base->metrics.kept_out++;
    q->report.changed = true;
    log_info("sequence-away", "request=%s positions=%u pages=%u",
             sequence_name(&s->key, name), s->plan.n_planned, s->memory.n_host);
}

void kept_begin(struct sequence *s)
{
    s->kept.n_ids = sequence_known(s);
}

void kept_turn(struct sequences *q)
{
    struct sequence *s = q->table.all.head;

    if (q->host.n_pages == 0 ||
        q->table.in_state[SEQUENCE_KEPT] == q->table.n_away) {
        return;
    }
    for (; s != NULL && !has_room(q) && q->table.n_away < q->table.away_max;
         s = sequence_next(s, LIST_ALL)) {
        if (may_go(q, s) && suspend_store(q, s)) {
            put_away(q, s);
        }
    }
}
