/* rig_engine.h - Engines of fake workers in virtual time.
 *
 *     time of a step = base + row * rows + token * prompt tokens
 *
 * A step computes at most `chunk` prompt tokens, of the oldest prompts first,
 * and a token of each sequence past its prompt.  The prompts of all requests
 * share their first n_prefix tokens, which a worker can restore once it has
 * computed them, if the load allows reuse.
 *
 * Threading: none.  Memory: the caller's, and a rig.  Limits: ENGINES_MAX
 * workers, RIG_RECORDS requests, of which 255 are open at a time. */
#ifndef TESTS_UNIT_ROUTER_RIG_ENGINE_H
#define TESTS_UNIT_ROUTER_RIG_ENGINE_H

#include "tests/unit/router/rig.h"

#define ENGINES_MAX 4
#define SECOND_US   1000000

/* Requests and their cost. */
struct engine_load {
    uint32_t n_prefix, n_own; /* tokens of a prompt: shared, and its own */
    uint32_t length,
        max_tokens; /* mean output; it has half to one and a half */
    bool reuse;
    uint32_t slots, blocks;    /* at a worker; blocks 0: plenty */
    struct recorder *recorder; /* NULL: none */
    uint32_t base_us, row_us, token_us, chunk;
};

/* A request.  Its id is its number modulo 255, plus 1. */
struct engine_request {
    struct fake *at;
    uint32_t length, n_done; /* tokens; n_done: of the prompt */
    int64_t came_us;
    int64_t granted_us, first_us, end_us; /* since then; granted_us: -1: not */
};

struct engine {
    struct fake *w;
    bool warm, busy;
    int64_t due_us, reported_us; /* due: the end of its step */
    uint32_t n_rows, n_tokens;   /* in it */
    uint32_t n_granted;
};

struct engines {
    struct rig *rig;
    struct fake *c;
    struct engine_load load;
    struct engine of[ENGINES_MAX];
    struct engine_request all[RIG_RECORDS];
    uint32_t n_engines, n, oldest; /* oldest: the first that may be open */
    uint64_t random;
    /* called before each request; NULL: none */
    void (*before)(struct engines *s, struct engine_request *o);
};

/* Creates a rig with n workers and a client. */
void engines_bring(struct engines *s, const struct engine_load *l, uint32_t n);

/* Adds a worker. */
void engines_join(struct engines *s);

/* Sends requests at random times, `rate` in a second on average. */
void engines_load(struct engines *s, uint32_t rate, uint32_t seconds);

/* Runs until all requests have ended, and frees the rig. */
void engines_finish(struct engines *s);

#endif
