/* recipe.h - The lengths of a plan's sessions, from the options.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef CLIENT_LOAD_PLAN_RECIPE_H
#define CLIENT_LOAD_PLAN_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/load/plan/plan_types.h"
#include "client/load/plan/spread.h"
#include "common/base/status.h"

struct recipe {
    uint64_t seed;
    struct spread prompt, output, turn_prompt; /* tokens */
    struct spread turns;
    struct spread turn_think, think; /* microseconds */
    bool has_turns;
    uint32_t prefix, n_prefixes; /* tokens; 0: none */
    double branch;               /* share of turns that branch */
    uint32_t n_branches;
    uint32_t context; /* 0: unknown */
    double scale;     /* factor for tokens */
};

/* Parses the options.  Returns ST_INVALID_ARGUMENT and a sentence that names
 * the option, the fault and a valid value. */
MUST_CHECK enum status
recipe_parse(struct recipe *out, const struct plan_options *o, struct error *e);

/* Sets scale so that the longest session of drawn lengths fits the context.
 * Lengths without an end count as 999 of 1000 draws: longer ones are cut. */
void recipe_fit(struct recipe *r);

#endif
