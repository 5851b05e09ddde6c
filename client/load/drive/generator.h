/* generator.h - One generator: takes sessions from a plan, starts their turns
 * on time, and makes samples.
 *
 * A pure core: its caller passes the time, its target the events; it never
 * waits.  The loop (drive/edge.h) waits for it; a test drives it with a
 * target in virtual time.
 *
 *   planned --prepare, GENERATOR_AHEAD_US before--> prepared --due--> started
 *        --end--> its children are planned, think_us later
 *
 * An intended start never moves.  A request whose time has passed is started
 * at once, and its latency counts from the intended start.
 *
 * Injection: by the number of a request, a share of the requests is cancelled,
 * disconnected, or read slowly.  The moment is drawn uniformly over the time
 * until the end that similar requests had, or after a random number of chunks.
 *
 * Every planned turn makes one sample.  A turn whose parent did not end OK is
 * OUTCOME_UNSENT, or OUTCOME_SKIPPED if injection ended the parent; it is due
 * when it would have been.  After generator_stop(), a turn that was due or
 * whose session had begun is OUTCOME_SKIPPED; sessions that were not due make
 * no samples.
 *
 * Threading: one thread.  Memory: at most `memory_max` bytes of prepared
 * requests (one is always prepared, and one more to measure or to start it),
 * GENERATOR_AHEAD_MAX sessions that wait for their start, and what is open.
 * Records are reused: the steady state allocates only where an answer, a prompt
 * or a gap list exceeds earlier ones. */
#ifndef CLIENT_LOAD_DRIVE_GENERATOR_H
#define CLIENT_LOAD_DRIVE_GENERATOR_H

#include "client/load/drive/target.h"
#include "client/load/plan/plan.h"

#define GENERATOR_AHEAD_US  2000000
#define GENERATOR_AHEAD_MAX 65536  /* sessions read, not started */
#define GENERATOR_SPARE_MAX 256    /* closed loop: read, without a slot */
#define GENERATOR_PULSE_US  100000 /* between pulses */
/* The time that a target has to end a request that was given up. */
#define GENERATOR_GIVE_UP_US 10000000

struct generator_options {
    struct plan *plan; /* its share is set */
    struct prompt_maker *prompts;
    const struct target_ops *ops;
    struct target *target;
    uint32_t process;
    int64_t warm_us;     /* intended starts before it are warm-up */
    uint32_t n_warm;     /* ... and the first so many sessions of the run */
    int64_t duration_us; /* closed loop: no session starts from then on; 0:
                            until the plan ends */
    int64_t timeout_us;  /* from a request's send; 0: none */
    int64_t grace_us;    /* after the last start, until what is open is given
                            up as a timeout; 0: no limit */
    double cancel, disconnect, slow; /* shares of the requests */
    uint32_t in_flight_max; /* 0: none.  A request above it waits and is late */
    size_t memory_max;
    uint64_t seed;
    void (*on_sample)(void *arg, const struct sample *s, const uint32_t *gaps);
    void (*on_pulse)(void *arg, const struct pulse *p);
    void *arg;
};

struct generator;

struct generator *generator_new(const struct generator_options *o);

/* Drops what is prepared.  Open calls must make no more events. */
void generator_free(struct generator **g);

/* Prepares a request before the run begins.  Returns false when nothing more
 * can be prepared. */
bool generator_prepare(struct generator *g);

/* Sets the monotonic time of the run's time 0. */
void generator_begin(struct generator *g, int64_t start_us);

/* Does what is due; generator_begin() comes first.  Returns the monotonic time
 * of the next call, or GENERATOR_DONE when every request has ended. */
#define GENERATOR_DONE INT64_MAX
int64_t generator_tick(struct generator *g, int64_t now_us);

/* Starts nothing more.  What is open ends by itself within grace_us, or is
 * cancelled at once. */
void generator_stop(struct generator *g, int64_t now_us, bool at_once);

/* Notes how long a turn of the loop took, without its wait. */
void generator_turned(struct generator *g, int64_t took_us);

/* Sets the bytes of prepared requests now, and the most there were. */
void generator_memory(const struct generator *g, size_t *now, size_t *peak);

#endif
