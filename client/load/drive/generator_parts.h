/* generator_parts.h - The state of a generator, for its two halves: ahead.c,
 * up to the start of a request, and generator.c, from there on.
 *
 *   PLANNED -> PREPARED -> OPEN -> GIVEN_UP -> LOST
 *      |                     '--------'---> its sample
 *      '-> BROKEN (cannot be prepared) --> its sample, when it is due
 *
 * Times are relative to the start of the run.
 *
 * Threading: as generator.h.  Memory: requests and sessions are pooled. */
#ifndef CLIENT_LOAD_DRIVE_GENERATOR_PARTS_H
#define CLIENT_LOAD_DRIVE_GENERATOR_PARTS_H

#include "client/load/drive/flight.h"
#include "client/load/drive/generator.h"
#include "client/load/drive/inject.h"
#include "client/load/drive/tree.h"
#include "common/base/timer.h"

enum request_state {
    REQUEST_PLANNED,
    REQUEST_PREPARED,
    REQUEST_BROKEN,
    REQUEST_OPEN,
    REQUEST_GIVEN_UP,
    REQUEST_LOST /* its sample is made, its call has not ended */
};

struct request {
    struct timer timer; /* its start; once open, its next limit */
    struct timer prep;  /* armed while it is to be prepared */
    struct list link;   /* in the open ones, or in the pool */
    struct generator *generator;
    struct tree *session;
    uint32_t turn;
    enum request_state state;
    enum give_up how;
    bool has_children;
    enum inject_kind kind;
    struct inject_moment moment;
    int64_t timeout_us, cut_us; /* moments; INT64_MAX: none */
    struct call *call;
    size_t bytes; /* the prepared call's */
    struct flight flight;
};

/* Sessions read from the plan ahead of their start. */
struct ahead {
    bool closed, plan_ended;
    int64_t horizon_us; /* due time of the last session read */
    uint32_t n_slots;   /* in a closed loop */
    uint32_t n_unused;  /* ... that have had no session */
    uint32_t n_coming;  /* sessions without a start */
    uint32_t n_live;    /* sessions with turns left */
    struct list spare;  /* ... without a slot, in a closed loop */
    struct list live;   /* ... all others */
    uint32_t n_spare;
    struct plan_session scratch;
};

/* Requests made ready before they are due. */
struct preparation {
    struct timers due;
    uint64_t n_spares_read; /* orders their preparation */
    size_t bytes, peak;     /* prepared calls */
    uint32_t n;
    double token_bytes;   /* most bytes for a token of a prepared request */
    double token_us;      /* time to prepare a token, a running mean */
    uint64_t turn_tokens; /* prepared in this turn of the loop */
};

struct generator {
    struct generator_options o;
    bool begun, stopped;
    int64_t start_us; /* monotonic */
    struct inject inject;

    struct ahead ahead;
    struct timers planned; /* by due time: not due */
    struct timers waiting; /* ... due */
    struct preparation prepared;
    struct prompt prompt;

    /* From the start on. */
    struct list open, lost;
    uint32_t n_open;
    struct timers limits;
    int64_t last_start_us, stopped_us, next_pulse_us;
    bool graced;
    struct pulse pulse;
    struct flight unsent; /* for samples of turns without a request */

    struct list sessions, requests; /* the pools */
};

/* ---- ahead.c ---- */

/* Plans a turn of a session, due at due_us. */
void ahead_plan(struct generator *g, struct tree *s, uint32_t turn,
                int64_t due_us);

/* Reads sessions that are due at until_us, at most n_max.  Returns whether
 * there may be more. */
bool ahead_read(struct generator *g, int64_t until_us, uint32_t n_max);

/* Prepares requests for some time, but not into the next start.  Returns
 * whether there is more to do. */
bool ahead_prepare(struct generator *g, int64_t now_us);

/* Prepares one request, however long it takes.  The memory must have room,
 * unless it starts at once. */
void ahead_prepare_now(struct generator *g, struct request *r);

/* Takes a request out of preparation, for its start or its end. */
void ahead_leave(struct generator *g, struct request *r);

/* Fills a slot that became free. */
void ahead_refill(struct generator *g, int64_t free_us);

/* Reads nothing more and forgets sessions without a slot. */
void ahead_end(struct generator *g);

/* Drops the call of a request that will not start, and the request. */
void ahead_forget(struct generator *g, struct request *r);

/* Put records back into their pools. */
void ahead_drop_request(struct generator *g, struct request *r);
void ahead_drop_session(struct generator *g, struct tree *s);
void ahead_free(struct generator *g);

/* Begins a sample: who it is and whether it is of the warm-up. */
void ahead_sample(const struct generator *g, struct flight *f,
                  const struct tree *s, uint32_t turn, int64_t due_us);

/* ---- generator.c ---- */

extern const struct call_ops generator_call_ops;

#endif
