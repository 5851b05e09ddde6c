#include "worker/plan/prefill.h"

#include "common/base/minmax.h"
#include "worker/plan/first_row.h"
#include "worker/plan/take_over.h"

/* ---- a chunk ---- */

/* Adds a row of the next n positions of s, which does not decode. */
static void add_chunk(struct batcher *b, struct batch *t, struct sequence *s,
                      uint32_t n, const struct first_row *from)
{
    struct draft_row next = {.n_tokens = n};
    uint32_t propose;

    draft_rows_begin(&b->draft, s);
    propose = draft_rows_propose(&b->draft, s, n);
    if (propose > 0 && batch_has_room(&b->limits, b->table->pool, t, s,
                                      s->plan.n_planned + n + propose)) {
        next.propose = propose;
    }
    batcher_add_row(b, t, s, &next, from);
}

/* Returns how many positions of s fit into `room` tokens; 0: none now. */
static uint32_t chunk_length(const struct batcher *b, const struct sequence *s,
                             uint32_t room)
{
    uint32_t at = s->plan.n_planned, past = at % b->cut;
    uint32_t n = min_u32(room, b->limits.chunk_tokens);
    uint32_t end, stop;
    enum row_kind kind = sequence_kind(s, at, &end);

    end = min_u32(end, sequence_known(s));
    if (kind == ROW_GENERATED) {
        return min_u32(n, end - at);
    }
    if (past > 0) {
        end = min_u32(end, at - past + b->cut);
    }
    /* The last chunk may end anywhere: the run's end is the same under any
     * load. */
    if (n >= end - at) {
        return end - at;
    }
    stop = at + n;
    stop -= stop % b->cut;
    return stop > at ? stop - at : 0;
}

/* Decides where the first plan of s begins.  Returns false if s cannot begin
 * yet, because a plan still computes what it continues. */
static bool begin(struct batcher *b, struct sequence *s, struct first_row *from)
{
    if (s->plan.n_planned > 0) {
        return true;
    }
    if (continuation_pends(&s->continuation)) {
        if (take_over_waits(s)) {
            return false;
        }
        take_over_begin(b, s, &from->kept);
    }
    if (s->plan.n_planned == 0 && reuse_has(b->reuse, s)) {
        reuse_begin(b->reuse, s, &from->state);
    }
    return true;
}

/* Returns whether a first row of s fits, wherever it will begin: a cut of
 * tokens, or all of them. */
static bool can_begin(const struct batcher *b, const struct batch *t,
                      const struct sequence *s, uint32_t room)
{
    uint32_t known = sequence_known(s);

    return (room >= b->cut || known <= room) &&
           batch_has_room(&b->limits, b->table->pool, t, s, known);
}

/* Adds the next row of s, with at most `room` tokens.  Returns false if there
 * is no room for it. */
static bool add_prompt(struct batcher *b, struct batch *t, struct sequence *s,
                       uint32_t room)
{
    struct first_row from = first_row_none;
    uint32_t n;

    if (s->plan.n_planned == 0 && !can_begin(b, t, s, room)) {
        return false;
    }
    if (!begin(b, s, &from)) {
        return true;
    }
    n = chunk_length(b, s, room);
    if (n == 0 || !batch_has_room(&b->limits, b->table->pool, t, s,
                                  s->plan.n_planned + n)) {
        return false;
    }
    add_chunk(b, t, s, n, &from);
    return true;
}

/* ---- the prompts of a step ---- */

/* Returns the step as its decode rows leave it. */
static struct step_room_plan rest_of_step(const struct batcher *b,
                                          const struct batch *t)
{
    return (struct step_room_plan){
        .rows = t->n_decode_tokens,
        .most = b->limits.step_tokens - t->plan.n_tokens,
        .cut = b->cut,
        .decodes = b->decode.n > 0,
        .halved = b->draft.lockstep && b->limits.depth > 1};
}

/* The prompt rows of the plan that is made. */
struct prompt_rows {
    struct step_room_plan rest;
    uint32_t room;     /* tokens for them */
    uint32_t n_before; /* tokens of the plan before them */
    uint32_t n_oldest; /* tokens of the oldest prompt */
    bool short_one;    /* a prompt is computed whole: */
    bool asked, apart; /* the plan goes without those that do not end in it */
};

/* Returns whether the plan goes without s, for the sake of a short prompt. */
static bool leaves_out(struct batcher *b, const struct batch *t,
                       struct prompt_rows *x, const struct sequence *s)
{
    uint32_t n = t->plan.n_tokens - x->n_before;
    uint32_t left = sequence_known(s) - s->plan.n_planned;

    if (!x->short_one || left <= min_u32(x->room - n, b->limits.chunk_tokens)) {
        return false;
    }
    x->apart =
        x->asked ? x->apart : step_room_apart(&b->room, &x->rest, n, x->room);
    x->asked = true;
    return x->apart;
}

/* Adds a row of s, if it fits.  Returns false if others must not go ahead. */
static bool add_share(struct batcher *b, struct batch *t, struct prompt_rows *x,
                      struct sequence *s)
{
    uint32_t had = t->plan.n_tokens, row = t->plan.n_rows;
    bool fresh = s->plan.n_planned == 0;
    bool fits = add_prompt(b, t, s, x->n_before + x->room - had);

    if (t->plan.n_rows > row) {
        x->short_one = x->short_one || (fresh && t->plan.rows[row].sample);
    }
    if (s == b->share.oldest) {
        x->n_oldest = t->plan.n_tokens - had;
        return fits || !b->share.turn;
    }
    return true;
}

static bool has_room(const struct batcher *b, const struct batch *t,
                     const struct prompt_rows *x)
{
    return t->plan.n_rows < b->limits.max_rows &&
           t->plan.n_tokens < x->n_before + x->room;
}

static void note(struct batcher *b, const struct batch *t,
                 const struct prompt_rows *x)
{
    uint32_t n = t->plan.n_tokens - x->n_before;

    prompt_share_note(&b->share, n, x->n_oldest);
    step_room_note(&b->room, &x->rest, n);
    b->n_exceeded += step_room_exceeds(&b->room, &x->rest, n);
}

/* A prompt that does not fit lets others go ahead, but for the oldest one in
 * its turn. */
void prefill_plan(struct batcher *b, struct batch *t)
{
    struct prompt_rows x = {.rest = rest_of_step(b, t),
                            .n_before = t->plan.n_tokens};
    bool more = true;

    if (b->prefill.head == NULL || t->plan.n_rows >= b->limits.max_rows) {
        return;
    }
    x.room = step_room_tokens(&b->room, &x.rest);
    prompt_share_choose(&b->share, &b->prefill,
                        b->limits.max_rows - t->plan.n_rows);
    for (uint32_t i = 0; i < b->share.n && more && has_room(b, t, &x); i++) {
        struct sequence *s = b->share.order[i].s;

        /* Others behind it may end in this plan: work counts half where there
         * is a deadline. */
        if (!leaves_out(b, t, &x, s)) {
            more = add_share(b, t, &x, s) && b->stuck == NULL;
        }
    }
    note(b, t, &x);
}

/* ---- computed again ---- */

/* One plan of s at a time: it may write again to blocks that others have.  If
 * its step failed, a row behind would fill them with garbage. */
void prefill_again(struct batcher *b, struct batch *t)
{
    struct sequence *s = b->again.head;
    struct first_row from = first_row_none;

    while (s != NULL && (s->plan.inflight > 0 || !batcher_window_open(s))) {
        s = sequence_next(s, LIST_PLAN);
    }
    if (s == NULL || t->plan.n_rows > 0) {
        return;
    }
    if (s->plan.n_planned == 0) {
        s->plan.anew_step = t->plan.step;
    }
    if (!begin(b, s, &from)) {
        return;
    }
    add_chunk(b, t, s, chunk_length(b, s, b->limits.step_tokens), &from);
}
