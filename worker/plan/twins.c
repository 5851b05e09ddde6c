#include "worker/plan/twins.h"

#include <string.h>

#include "common/base/plant.h"
#include "worker/sequence/windows.h"

#define COMPARE_STEP 256 /* ids compared at once */

/* ---- siblings ---- */

/* The name of a request is no proof: nothing keeps a router from submitting
 * other ids under it. */
static bool same_ids(const struct slab *slab, const struct sequence *a,
                     const struct sequence *s)
{
    uint32_t x[COMPARE_STEP], y[COMPARE_STEP];

    for (uint32_t at = 0, n; at < s->portable.n_prompt; at += n) {
        n = s->portable.n_prompt - at < COMPARE_STEP ? s->portable.n_prompt - at
                                                     : COMPARE_STEP;
        paged_read(slab, &a->portable.tokens, at, x, n);
        paged_read(slab, &s->portable.tokens, at, y, n);
        if (memcmp(x, y, n * sizeof *x) != 0) {
            return false;
        }
    }
    return true;
}

static bool same_spans(const struct sequence *a, const struct sequence *s)
{
    return a->portable.n_spans == s->portable.n_spans &&
           memcmp(a->portable.spans, s->portable.spans,
                  s->portable.n_spans * sizeof *s->portable.spans) == 0;
}

/* Returns whether s can get its first token beside that of `a`, which is in
 * the prefill queue or samples its first token now. */
static bool can_lead(const struct batcher *b, const struct sequence *a,
                     const struct sequence *s)
{
    return memcmp(a->key.request_id, s->key.request_id,
                  sizeof s->key.request_id) == 0 &&
           a->portable.n_generated == 0 &&
           a->plan.recompute == RECOMPUTE_NONE &&
           a->portable.n_prompt == s->portable.n_prompt &&
           reuse_has(b->reuse, a) &&
           a->portable.n_scope == s->portable.n_scope &&
           memcmp(a->portable.scope, s->portable.scope, s->portable.n_scope) ==
               0 &&
           same_spans(a, s) && same_ids(&b->table->slab, a, s);
}

/* From the tail, because choices come one after the other. */
static struct sequence *find_leader(const struct batcher *b,
                                    const struct sequence_list *l,
                                    const struct sequence *s)
{
    struct sequence *a = l->tail;

    while (a != NULL && !can_lead(b, a, s)) {
        a = a->links[LIST_PLAN].prev;
    }
    return a;
}

bool twins_join(struct batcher *b, struct sequence *s)
{
    struct sequence *leader;

    if (s->portable.n_generated > 0 || continuation_pends(&s->continuation) ||
        !reuse_has(b->reuse, s)) {
        return false;
    }
    leader = find_leader(b, &b->prefill, s);
    if (leader == NULL) {
        leader = find_leader(b, &b->decode, s);
    }
    if (leader == NULL) {
        return false;
    }
    s->twins.leader = leader;
    leader->twins.n_waiting++;
    sequence_push(&b->twins, s);
    return true;
}

/* ---- rows ---- */

/* Gives f the full blocks of the leader's prompt. */
static void share_prompt(struct batcher *b, const struct sequence *leader,
                         struct sequence *f)
{
    uint32_t n = leader->portable.n_prompt / b->limits.block_tokens;

    if (PLANT(TWIN_SHARES_LAST) && n < leader->memory.n_blocks) {
        n++;
    }
    if (PLANT(TWIN_COPIES) && n > 0) {
        n--;
    }
    for (f->memory.n_blocks = 0; b->limits.has_blocks && f->memory.n_blocks < n;
         f->memory.n_blocks++) {
        uint32_t block = paged_get(&b->table->slab, &leader->memory.blocks,
                                   f->memory.n_blocks);

        pool_share(b->table->pool, block, true);
        paged_write(&b->table->slab, &f->memory.blocks, f->memory.n_blocks,
                    &block, 1);
    }
    windows_share(b->table, leader, f, f->portable.n_prompt, false);
    /* It counts as computed as far as its leader: the result of this plan moves
     * both. */
    f->plan.n_planned = f->portable.n_prompt;
    reuse_given(&f->reuse, f->portable.n_prompt);
    f->plan.n_computed = leader->plan.n_computed;
    drafts_copy_hole(&f->drafts, &leader->drafts);
}

static void add_twin(struct batcher *b, struct batch *t,
                     struct sequence *leader, struct sequence *f, uint32_t i)
{
    f->twins.leader = NULL;
    leader->twins.n_waiting--;
    share_prompt(b, leader, f);
    if (!batch_take_memory(&b->limits, b->table, t, f, f->portable.n_prompt,
                           f->portable.n_prompt)) {
        sequence_unlink(f, LIST_PLAN);
        b->stuck = f;
        return;
    }
    t->plan.rows[t->plan.n_rows] =
        (struct plan_row){.sequence = f->number,
                          .kind = t->plan.rows[i].kind,
                          .position = f->portable.n_prompt,
                          .token = t->plan.n_tokens,
                          .source = i,
                          .save = t->plan.n_saves,
                          .sample = true,
                          .choice = f->key.choice,
                          .sampling = &f->portable.sampling,
                          .history = batch_history(b->table, f)};
    batcher_own_row(b, t, f);
    b->n_twins++;
}

void twins_add(struct batcher *b, struct batch *t, struct sequence *leader,
               uint32_t i)
{
    struct sequence *f = leader->twins.n_waiting > 0 ? b->twins.head : NULL,
                    *next;

    for (; f != NULL && b->stuck == NULL; f = next) {
        next = sequence_next(f, LIST_PLAN);
        if (f->twins.leader != leader) {
            continue;
        }
        if (t->plan.n_rows == b->limits.max_rows ||
            !batch_has_room(&b->limits, b->table->pool, t, f,
                            f->portable.n_prompt)) {
            return;
        }
        add_twin(b, t, leader, f, i);
    }
}

/* ---- without the leader ---- */

void twins_release(struct batcher *b, struct sequence *s)
{
    struct sequence *first = NULL, *next, *at = b->prefill.head;

    if (s->twins.n_waiting == 0) {
        return;
    }
    /* The next leader gets the place of the old one in the queue: it has waited
     * as long. */
    if (s->links[LIST_PLAN].list == &b->prefill) {
        at = s;
    }
    for (struct sequence *f = b->twins.head; f != NULL; f = next) {
        next = sequence_next(f, LIST_PLAN);
        if (f->twins.leader != s) {
            continue;
        }
        f->twins.leader = first;
        if (first == NULL) {
            first = f;
        } else {
            first->twins.n_waiting++;
        }
    }
    s->twins.n_waiting = 0;
    if (first != NULL) {
        sequence_unlink(first, LIST_PLAN);
        sequence_insert(&b->prefill, first, at);
    }
}

void twins_leave(struct sequence *s)
{
    if (s->twins.leader != NULL) {
        s->twins.leader->twins.n_waiting--;
        s->twins.leader = NULL;
    }
}
