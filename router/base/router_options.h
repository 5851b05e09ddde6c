/* router_options.h - the options of the router's core, and its public limits.
 *
 * Threading: constant after router_new(). */
#ifndef ROUTER_BASE_ROUTER_OPTIONS_H
#define ROUTER_BASE_ROUTER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "router/text/text_seam.h"

#define ROUTER_WORKERS_MAX 64
#define ROUTER_MODELS_MAX  64
#define SLOW_READER_MS     30000

struct router_options {
    const char *name;
    uint32_t max_peers;     /* sessions of all kinds */
    uint32_t max_requests;  /* open choices, waiting and running */
    uint32_t max_waiting;   /* in the queue for room; one more is refused */
    int64_t worker_wait_us; /* for the next worker of a model, after the last
                             * has gone, and for the first after the start;
                             * 0: what it had, and comes, fails at once */
    int64_t gather_us;      /* stream.h; 0: chunks never wait */
    bool headroom;          /* what any one worker has fits the others */
    struct text_seam *text; /* borrowed; NULL: ids only */
};

#endif
