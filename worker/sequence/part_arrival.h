/* part_arrival.h - The ids of a sequence that are on their way, and the
 * Submit that waits for them.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_ARRIVAL_H
#define WORKER_SEQUENCE_PART_ARRIVAL_H

#include <stdint.h>

struct sequence_arrival {
    uint32_t n_received;  /* ids that have come */
    uint32_t n_announced; /* ids that the Submit announced */
    uint64_t call;        /* the Submit that is still open, 0: none */
};

#endif
