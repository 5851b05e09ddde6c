/* edge.h - The loop of a generator process: waits for the next start, the
 * target's descriptors and the caller's.
 *
 * Waits end within microseconds of their time: ppoll() with the least timer
 * slack.
 *
 * Threading: one thread.  Memory: none. */
#ifndef CLIENT_LOAD_DRIVE_EDGE_H
#define CLIENT_LOAD_DRIVE_EDGE_H

#include "client/load/drive/generator.h"

#define EDGE_ITEMS 4 /* the caller's */

struct edge {
    struct generator *generator;
    const struct target_ops *ops;
    struct target *target;
    /* Fills the caller's descriptors, at most EDGE_ITEMS. */
    int (*items)(void *arg, struct pollfd *items);
    /* Runs after each wait. */
    void (*turn)(void *arg, const struct pollfd *items, int n, int64_t now_us);
    void *arg;
};

/* Runs until every request has ended. */
void edge_run(const struct edge *l);

#endif
