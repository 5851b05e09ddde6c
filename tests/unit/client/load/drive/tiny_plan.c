#include "tests/unit/client/load/drive/tiny_plan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct plan {
    struct tiny t;
    uint64_t next;
    double at_us;
};

struct plan *tiny_plan(const struct tiny *t)
{
    struct plan *p = calloc(1, sizeof *p);

    assert(p != NULL);
    p->t = *t;
    return p;
}

void plan_free(struct plan **p)
{
    free(*p);
    *p = NULL;
}

enum status plan_restart(struct plan *p, const struct plan_options *o,
                         struct error *e)
{
    if (o->duration_us == 13) {
        return error_set(e, ST_INVALID_ARGUMENT, "a duration of 13 us");
    }
    p->next = 0;
    p->at_us = 0;
    p->t.share = o->share;
    p->t.n_shares = o->n_shares;
    return ST_OK;
}

bool plan_is_closed(const struct plan *p, uint32_t *n_slots)
{
    *n_slots = p->t.n_slots;
    return p->t.n_slots > 0;
}

void tiny_session(const struct tiny *t, uint64_t number,
                  struct plan_session *out)
{
    uint32_t n =
        1 + (uint32_t)(tiny_draw(t->seed, number, 1) * (double)t->turns_max);

    out->number = out->content = number;
    out->n_turns = t->turns_max > 1 ? n : 1;
    out->n_pieces = out->n_turns;
    out->think_us =
        (int64_t)(tiny_draw(t->seed, number, 2) * (double)t->think_us);
    for (uint32_t i = 0; i < out->n_turns; i++) {
        double u = tiny_draw(t->seed, number, 100 + i);
        double v = tiny_draw(t->seed, number, 200 + i);
        double w = tiny_draw(t->seed, number, 300 + i);

        /* Now and then a second root. */
        out->turns[i] = (struct plan_turn){
            .parent = i == 0 || u < 0.05 ? -1 : (int32_t)(u * i),
            .think_us = (int64_t)(v * (double)t->think_us),
            .first_piece = i,
            .n_pieces = 1,
            .n_new = 1 + (uint32_t)(w * t->tokens_max),
            .max_tokens = 8,
        };
        out->pieces[i] = (struct plan_piece){number * 100 + i, 1};
    }
}

bool plan_next(struct plan *p, struct plan_session *s)
{
    for (; p->next < p->t.n_sessions; p->next++) {
        uint32_t n_shares = p->t.n_shares > 0 ? p->t.n_shares : 1;
        double u = tiny_draw(p->t.seed, p->next, 3);

        p->at_us += -log(1 - u) * (double)p->t.gap_us;
        if (p->next % n_shares == p->t.share) {
            tiny_session(&p->t, p->next, s);
            s->due_us = p->t.n_slots > 0 ? PLAN_CLOSED : (int64_t)p->at_us;
            p->next++;
            return true;
        }
    }
    return false;
}
