/* keeps.h - Regions in which the inputs of rows with drafts are kept.
 *
 * A row with drafts keeps the inputs of its n tokens at [at, at + n) of
 * keep_tokens, from the plan that computes them to the plan that replays them.
 * A plan replays before it computes, so its rows may use the regions of its
 * replays.
 *
 * The leader gives regions out within the least keep_tokens of all stages.
 * Each stage takes the region that the leader names, and frees it when Accept
 * or Remove comes; both precede the Forward that uses it again.
 *
 * Threading: none.  Memory: the struct.  Limits: KEEPS_MAX regions at once. */
#ifndef WORKER_STAGES_KEEPS_H
#define WORKER_STAGES_KEEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "worker/base/engine.h"

/* The replays of all regions, and of as many that were freed since the last
 * plan, fit into one plan. */
#define KEEPS_MAX (PLAN_ROWS_MAX / 2)

struct keeps {
    uint32_t capacity; /* tokens */
    uint32_t n;
    struct {
        uint32_t at, n;
    } of[KEEPS_MAX]; /* in order of `at`, without overlaps */
};

/* Makes it empty. */
void keeps_init(struct keeps *k, uint32_t capacity);

/* Takes the first region of n tokens, n >= 1.  Returns false if there is none.
 */
MUST_CHECK bool keeps_take(struct keeps *k, uint32_t n, uint32_t *at);

/* Returns the most tokens that keeps_take() finds a region for. */
uint32_t keeps_room(const struct keeps *k);

/* Takes [at, at + n), n >= 1.  Returns false if it is not within the capacity,
 * a part of it is taken, or there are KEEPS_MAX regions. */
MUST_CHECK bool keeps_put(struct keeps *k, uint32_t at, uint32_t n);

/* Frees the region that begins there, if there is one. */
void keeps_free(struct keeps *k, uint32_t at);

#endif
