#include "worker/plan/prompt_share.h"

#include <assert.h>

#include "common/base/plant.h"
#include "worker/plan/take_over.h"

/* Returns the positions of s that are left.  What the index has of s shows only
 * when it begins. */
static uint32_t work_of(const struct sequence *s)
{
    uint32_t at = s->plan.n_planned, left;

    if (continuation_pends(&s->continuation)) {
        at = take_over_position(s);
    }
    left = sequence_known(s) > at ? sequence_known(s) - at : 0;
    return drafts_are_urgent(&s->drafts) ? left / PROMPT_URGENT : left;
}

static bool waits(const struct sequence *s)
{
    return s->plan.n_planned == 0 && continuation_pends(&s->continuation) &&
           take_over_waits(s);
}

/* Inserts s by its work, behind equal ones, if it is among the first `most`. */
static void insert(struct prompt_share *p, struct sequence *s, uint32_t work,
                   uint32_t most)
{
    uint32_t i = p->n < most ? p->n++ : most;

    if (i == most && p->order[--i].work <= work) {
        return;
    }
    for (; i > 0 && p->order[i - 1].work > work; i--) {
        p->order[i] = p->order[i - 1];
    }
    p->order[i] = (struct prompt_candidate){s, work};
}

void prompt_share_choose(struct prompt_share *p,
                         const struct sequence_list *queue, uint32_t n_rows)
{
    p->n = 0;
    p->oldest = NULL;
    p->turn = p->n_passed >= PROMPT_SHARES - 1 && !PLANT(PROMPT_STARVED);
    for (struct sequence *s = queue->head; s != NULL;
         s = sequence_next(s, LIST_PLAN)) {
        if (waits(s)) {
            continue;
        }
        p->oldest = p->oldest == NULL ? s : p->oldest;
        insert(p, s, s == p->oldest && p->turn ? 0 : work_of(s), n_rows);
    }
}

void prompt_share_note(struct prompt_share *p, uint32_t n_tokens,
                       uint32_t n_oldest)
{
    if (n_tokens == 0) {
        return;
    }
    if (n_oldest > 0 && (p->turn || n_oldest >= n_tokens / PROMPT_SHARES)) {
        p->n_passed = 0;
        return;
    }
    p->n_passed++;
    assert(p->n_passed < PROMPT_SHARES || PLANT(PROMPT_STARVED));
}
