/* prompt_share.h - Which prompts have rows in a step, and in which order.
 *
 * The prompt with the least work left goes first, so that a short prompt never
 * waits for a long one; equal ones go in the order of the queue.
 *
 *     work = positions left, or 1/PROMPT_URGENT of them if the call of the
 *            sequence has a deadline
 *
 * The oldest prompt, the head of the queue, has a share: it goes first in a
 * plan if it had less than 1/PROMPT_SHARES of the prompt tokens in each of the
 * last PROMPT_SHARES - 1 plans in which others had some.  In its turn it takes
 * all tokens that the step has for prompts, at most one chunk.
 *
 * No prompt starves.  Of any PROMPT_SHARES consecutive plans with prompt rows,
 * the oldest has a row in one at least, because plans in which it has none are
 * counted, and the count never exceeds PROMPT_SHARES - 1: at that number it
 * goes first, and while there is no room for its row no other prompt has one.
 * A row has at least one cut, or ends at a multiple of it or at the end of a
 * run.  Let W be the positions left of a prompt and of the k ahead of it in the
 * queue, with r runs.  Each row of an oldest one, but for at most two a run,
 * takes one cut of W.  The prompt is therefore computed after at most
 *
 *     PROMPT_SHARES * (W / cut + 2 * r)
 *
 * plans with prompt rows, whatever joins the queue behind it.
 *
 * A prompt that waits for a plan in flight (take_over.h) is no candidate.
 *
 * Threading: the core's.  Memory: the batcher's; no call allocates. */
#ifndef WORKER_PLAN_PROMPT_SHARE_H
#define WORKER_PLAN_PROMPT_SHARE_H

#include "worker/base/engine.h"
#include "worker/sequence/sequence.h"

#define PROMPT_SHARES 4 /* the oldest gets one part in this many */
#define PROMPT_URGENT 2 /* with a deadline, work counts 1 / this */

struct prompt_candidate {
    struct sequence *s;
    uint32_t work;
};

struct prompt_share {
    uint32_t n_passed;       /* plans since the oldest had its share */
    struct sequence *oldest; /* in this plan; NULL: no prompt */
    bool turn;               /* the oldest goes first */
    /* [n] in the order of their rows */
    struct prompt_candidate order[PLAN_ROWS_MAX];
    uint32_t n;
};

/* Chooses at most n_rows prompts, 1..PLAN_ROWS_MAX, of the queue for a plan.
 */
void prompt_share_choose(struct prompt_share *p,
                         const struct sequence_list *queue, uint32_t n_rows);

/* Counts the plan: the tokens of all its prompt rows, and those of the oldest.
 */
void prompt_share_note(struct prompt_share *p, uint32_t n_tokens,
                       uint32_t n_oldest);

#endif
