/* tiny_plan.h - A plan in place of client/load/plan, for tests that choose
 * every session.
 *
 * Defines plan_next() and its kin; tiny_prompt.c makes prompts of no bytes. */
#ifndef TESTS_UNIT_CLIENT_LOAD_DRIVE_TINY_PLAN_H
#define TESTS_UNIT_CLIENT_LOAD_DRIVE_TINY_PLAN_H

#include "client/load/plan/plan.h"
#include "client/load/plan/prompt.h"

struct tiny {
    uint64_t seed;
    uint64_t n_sessions;
    int64_t gap_us;      /* mean of exponential gaps between sessions */
    uint32_t n_slots;    /* closed loop; 0: open */
    uint32_t turns_max;  /* turns of a session: uniform, 1.. */
    int64_t think_us;    /* pauses are uniform below it; 0: none */
    uint32_t tokens_max; /* prompt tokens of a turn: uniform, 1.. */
    uint32_t share, n_shares;
};

struct plan *tiny_plan(const struct tiny *t);

/* Fills session `number` of a plan without regard to shares. */
void tiny_session(const struct tiny *t, uint64_t number,
                  struct plan_session *out);

/* Draws from 0..1 by three numbers. */
double tiny_draw(uint64_t seed, uint64_t number, uint64_t what);

#endif
