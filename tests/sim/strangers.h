/* strangers.h - Checks that refused workers have no side effects.
 *
 * One seed in eight has strangers.  An independent stream draws them, so that
 * other seeds do not change.  Now and then, a worker of another cluster sends
 * Hello to the router.  Its weights, vocabulary or tokenizer differ from those
 * of the cluster.  Its name is new, or that of a registered worker.
 *
 * Strangers come only if the router has to refuse them.  The router's state is
 * compared before and after, at a moment when nothing else is due. */
#ifndef SIM_STRANGERS_H
#define SIM_STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/rng.h"

struct sim;

#define STRANGER_CONN 0x7fffffffu /* not a connection of the network */

struct strangers {
    int64_t every_us; /* mean interval, 0: no strangers */
    struct rng chance;
};

/* Draws the strangers of a seed.  Called before a node starts, because such a
 * seed sets a tokenizer. */
void strangers_draw(struct sim *s);
void strangers_start(struct sim *s);

/* Returns the tokenizer digest of router and workers; NULL if there are no
 * strangers. */
const uint8_t *strangers_tokenizer(const struct sim *s);

#endif
