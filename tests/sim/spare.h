/* spare.h - does the router's head-room keep what it promises?
 *
 * Of a model with two places, each a worker of all layers or a replica, in a
 * seed with --headroom: what one has fits every worker of the other beside that
 * one's own, so whichever is lost, nothing waits for room.  What has ended at
 * its worker takes no room there any more, but the router may not know: if it
 * is lost first, the sequence runs its last steps at the other, and so counts
 * there.
 *
 * That holds from when both were empty until something is granted that the
 * rule does not hold back: what moves or is resumed, what only one could hold;
 * or one of them goes, or drains. */
#ifndef SIM_SPARE_H
#define SIM_SPARE_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_choice;

/* Of a model. */
struct spare {
    bool promised;
    /* Of its two places' leaders, 0: they are not two. */
    uint64_t session[2], assembly[2];
};

/* After a tick of the router. */
void spare_watch(struct sim *s);
/* A Submit of c arrives, with so many generated ids. */
void spare_submitted(const struct sim_choice *c, uint32_t n_generated);
/* The router has lost this connection: the promise is kept, and is over. */
void spare_lost(struct sim *s, uint32_t conn);

#endif
