/* router_options.h - Options of the router's core, and its public limits.
 *
 * Threading: constant after router_new().  Memory: the caller's; the core
 * copies the struct and the name, and borrows text. */
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
    uint32_t max_peers;     /* sessions of clients */
    uint32_t max_admins;    /* sessions of administrators */
    uint32_t max_requests;  /* open choices, waiting and running */
    uint32_t max_waiting;   /* choices queued for room; more are refused */
    int64_t worker_wait_us; /* how long requests wait for a worker of their
                             * model, after the last one left and after the
                             * router's start; 0: they fail at once */
    int64_t gather_us;      /* minimum interval between chunk frames to one
                             * client (stream.h); 0: chunks never wait */
    bool headroom;          /* keep room to absorb the loss of any one worker
                             * (headroom.h) */
    uint32_t overcommit;    /* 2..OVERCOMMIT_MAX: the greatest needs of a
                             * place's sequences, in pools (overcommit.h);
                             * 0 or 1: strict admission */
    bool keyed;             /* refuse connections without an identity */
    struct text_seam *text; /* borrowed; NULL: token ids only */
};

#endif
