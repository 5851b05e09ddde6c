/* step_room.h - How many prompt tokens a step has, by its measured cost.
 *
 * A step delays the tokens of all sequences that decode in it, and the prompts
 * that come while it runs.  Long steps, on the other hand, divide the fixed
 * part of their cost by more prompt tokens.  With us() of step_cost.h, `rows`
 * generated tokens and at most `most` tokens for prompts:
 *
 *     plain    us(rows, 0)
 *     whole    the fewest tokens, in cuts, with which prompts lose no more than
 *              1/ROOM_LOSS of the speed that they have with `most`:
 *
 *                  (plain + prompt * n) / n <=
 *                      L * (plain + prompt * most) / most
 *                  L = ROOM_LOSS / (ROOM_LOSS - 1)
 *
 *     target   the most tokens with us(rows, n) <= --itl-target, where
 *              sequences decode
 *     room     min(most, whole, target), but one cut at least
 *
 * Sequences that decode therefore wait for a step of at most
 *
 *     max(--itl-target, us(rows, one cut))
 *
 * as far as the estimate is right.  While some draft, two plans lie between two
 * tokens, so each has half of it.
 *
 * A step in which a short prompt is computed whole leaves the others out, if it
 * may: the short one gets its token the sooner.  This costs the part of `plain`
 * that the missing tokens would have paid for, and is bounded by an account of
 * time.  It begins with ROOM_CREDIT plain steps, which is the most, and a plan
 * with prompts adds 1/ROOM_SPEND of its time.
 *
 * Until the cost is known, a step has all its tokens for prompts.
 *
 * Threading: none.  Memory: the caller's; no call allocates. */
#ifndef WORKER_PLAN_STEP_ROOM_H
#define WORKER_PLAN_STEP_ROOM_H

#include "worker/plan/step_cost.h"

#define ROOM_LOSS   16
#define ROOM_SPEND  32
#define ROOM_CREDIT 4

struct step_room {
    struct step_cost cost;
    bool on;            /* false: each step has all its tokens */
    uint32_t target_us; /* 0: none */
    double credit_us;
    uint32_t n_tokens; /* that the newest step had for prompts */
    /* Since the start: plans that had less than all tokens, and plans that left
     * prompts out. */
    uint64_t n_bounded, n_apart;
};

/* A step before its prompts. */
struct step_room_plan {
    uint32_t rows; /* generated tokens */
    uint32_t most; /* tokens left */
    uint32_t cut;  /* the fewest that prompts get */
    bool decodes;  /* some sequence decodes, here or in a plan in flight */
    bool halved;   /* two plans lie between its tokens */
};

/* Sets what is learnt to its beginning.  target_us 0: none. */
void step_room_init(struct step_room *r, bool on, uint32_t target_us);

/* Returns the prompt tokens of the step, at most p->most. */
uint32_t step_room_tokens(struct step_room *r, const struct step_room_plan *p);

/* Returns whether a step with n of `room` prompt tokens may leave the others
 * out, and charges that to the account. */
bool step_room_apart(struct step_room *r, const struct step_room_plan *p,
                     uint32_t n, uint32_t room);

/* Counts the plan, which got n prompt tokens. */
void step_room_note(struct step_room *r, const struct step_room_plan *p,
                    uint32_t n);

/* Returns whether the plan delays decode beyond the target although it could
 * have had fewer prompt tokens than n; for auditors. */
bool step_room_exceeds(const struct step_room *r,
                       const struct step_room_plan *p, uint32_t n);

#endif
