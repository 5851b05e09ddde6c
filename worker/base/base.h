/* base.h - The part of the worker's core that every room below it needs: the
 * options, the session with the router, the engine, the clock, the metrics.
 *
 * The core owns the struct and hands a pointer down.  Rooms report upward
 * through base_ops alone.
 *
 * Threading: the core's.  Memory: the core's; it outlives every room. */
#ifndef WORKER_BASE_BASE_H
#define WORKER_BASE_BASE_H

#include "common/wire/session.h"
#include "worker/base/engine.h"
#include "worker/base/metrics.h"
#include "worker/base/options.h"

/* Upward reports; `core` is the pointer of the same name below. */
struct base_ops {
    /* Stops the worker: ends the session and drops all sequences. */
    void (*stop)(void *core);
    /* The session broke; `why` is a literal.  Once for each session. */
    void (*broken)(void *core, const char *why);
};

struct worker_base {
    struct worker_options o; /* its strings belong to the core */
    struct node_io *io;
    struct engine *engine;
    struct arena arena;
    struct session session;
    struct worker_metrics metrics; /* all but ledger_violations */
    struct worker_steps steps;
    struct worker_drafts drafts[DRAFTS_MAX]; /* by depth */
    const struct base_ops *ops;
    void *core;

    const char *broken; /* reason for the next tick to end the session */
    bool stopping;
    bool failed; /* the engine is dead */
    bool lost;   /* the engine is dead because its device failed */
};

/* Returns the router's peer, or NULL unless the session is up and stays up. */
struct peer *base_peer(const struct worker_base *b);

/* Marks the session as broken: the next tick ends it with Goodbye.  why: a
 * literal.  Only the first reason of a session counts. */
void base_break(struct worker_base *b, const char *why);

/* Stops the worker, as worker_stop() does. */
void base_stop(struct worker_base *b);

int64_t base_now_us(const struct worker_base *b);

/* Answers Health/Check. */
void base_health(struct peer *p, uint64_t call);

#endif
