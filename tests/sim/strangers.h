/* strangers.h - who is refused is no event to anybody else.
 *
 * One seed of eight has strangers, by a chance of its own, so that the others
 * are as they were before there were any: now and then a worker that is not of
 * this cluster says Hello to the router, with other weights, another
 * vocabulary or another tokenizer than those that are here, under a name of
 * its own or under that of a worker.  Only where the router has to refuse it;
 * what the router has is compared before and after, in a moment when nothing
 * else is due. */
#ifndef SIM_STRANGERS_H
#define SIM_STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/rng.h"

struct sim;

struct strangers {
    int64_t every_us; /* 0: there are none */
    struct rng chance;
};

/* Before a node is started: those of such a seed have a tokenizer. */
void strangers_draw(struct sim *s);
void strangers_start(struct sim *s);

/* That of router and workers; NULL: there are no strangers. */
const uint8_t *strangers_tokenizer(const struct sim *s);

#endif
