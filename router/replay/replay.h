/* replay.h - Runs the arrivals of a recording through the router's core, in
 * virtual time.
 *
 *     recording --> clients ----frames---- router_core ----frames---- workers
 *                   Generate, give up                                 steps
 *
 * The core is that of sluice-router, with its queues, admission and routing.
 * Clients and workers exchange real frames with it; nothing waits.  A worker
 * computes in steps, whose costs are those that the recorded router had
 * measured at that time:
 *
 *     time of a step = base + row * rows + token * prompt tokens
 *
 *     rows             every sequence past its prompt, oldest first, up to the
 *                      recorded rows of a step
 *     prompt tokens    of the oldest prompts first, up to `chunk` together
 *
 * Pages are counted as workers do: a sequence holds its blocks and a slot, and
 * those of a restored prefix are shared.  A sequence that grows into a full
 * pool suspends the one with the fewest tokens, which is computed again later.
 * What is computed stays restorable until its pages are needed, the least
 * recently used first.
 *
 * A choice has its recorded length.  One that has none, because it was refused
 * or ran at the end of the recording, has the length of another of its model,
 * in turn.  A request whose client gave up before any token is given up after
 * the same time.  Not modelled: host memory, drafts, checkpoints of recurrent
 * layers, kept sequences, failures of workers other than their departure, and
 * the time to convert text.  At most 32 times PEER_CALLS_MAX calls are open;
 * those past it count as refused.
 *
 * Threading: none.  Memory: the core's, and a frame or record of each event
 * that is pending.  Equal inputs give equal results. */
#ifndef ROUTER_REPLAY_REPLAY_H
#define ROUTER_REPLAY_REPLAY_H

#include "router/base/router_options.h"
#include "router/replay/recording.h"

#define REPLAY_WORKERS_MAX 64

enum replay_policy { REPLAY_FAIR, REPLAY_FIFO };

struct replay_options {
    struct record_options router;
    enum replay_policy policy;          /* FIFO: all tenants are one */
    const struct named_number *weights; /* [n_weights], borrowed */
    uint32_t n_weights;
    uint32_t n_workers; /* for each model, from the begin on, like the recorded
                         * ones in turn; 0: the recorded places */
    uint32_t pages;     /* for each place; 0: the recorded ones */
    struct recorder *recorder; /* records the replay; NULL: nothing */
};

/* Fate of a request.  A recording has the same of its own run. */
struct replay_fate {
    bool refused;
    int64_t refused_us;
};

struct replay_run {
    struct replay_fate *fates;       /* [recording.n_requests] */
    struct recorded_choice *choices; /* [recording.n_choices] */
};

/* Returns the options of the recording itself. */
struct replay_options replay_as_recorded(const struct recording *r);

/* Runs a recording.  Returns ST_INVALID_ARGUMENT if it has no place or the
 * options do not fit it; *out is empty then.  Ends the program without
 * memory. */
MUST_CHECK enum status replay_run(struct replay_run *out,
                                  const struct recording *r,
                                  const struct replay_options *o,
                                  struct error *e);

/* Copies what the recording itself has to the same form. */
void replay_recorded(struct replay_run *out, const struct recording *r);

void replay_run_fini(struct replay_run *run);

#endif
