/* spare.h - Checks of the router's --headroom reservation.
 *
 * Applies to a model with two places, each a worker with all layers or a
 * replica, in seeds with --headroom.  The sequences of one place must fit on
 * every worker of the other, in addition to that place's own sequences.
 * Whichever place is lost, no sequence then waits for room.
 *
 * A sequence that has ended on its worker holds no room there, but the router
 * may not have the result yet.  If its worker is lost first, the sequence runs
 * its last steps on the other place, and is charged there.
 *
 * The rule holds from the time when both places are empty, at the router and at
 * their workers, once a sequence was
 * granted beside the first, which needs no headroom.  It ends when a
 * grant is exempt from the reservation: a sequence that moves or is resumed,
 * or one that only one place could hold.  It also ends when a place leaves or
 * drains.  With optimistic admission the room is that of expected needs, which
 * sequences outgrow, and is not checked. */
#ifndef SIM_SPARE_H
#define SIM_SPARE_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_choice;

/* State of a model. */
struct spare {
    bool promised;
    /* Leaders of its two places, 0: there are not two places. */
    uint64_t session[2], assembly[2];
};

/* Checks the reservation after a tick of the router. */
void spare_watch(struct sim *s);
/* Handles the arrival of a Submit of c, with this many generated ids. */
void spare_submitted(const struct sim_choice *c, uint32_t n_generated);
/* Ends the rule because the router has lost this connection; counts the
 * sequences for which room was reserved. */
void spare_lost(struct sim *s, uint32_t conn);

#endif
