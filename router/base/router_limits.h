/* router_limits.h - what the router takes from a peer, at most.
 *
 * Public limits are in router/router_core.h.  Everything a peer says is
 * compared with one of these, or with the options, before it sizes or indexes
 * anything. */
#ifndef ROUTER_BASE_ROUTER_LIMITS_H
#define ROUTER_BASE_ROUTER_LIMITS_H

#include "proto/limits.h"

#define ASSEMBLE_US           10000000
#define ASSEMBLE_RETRY_US     250000
#define ASSEMBLE_RETRY_US_MAX 16000000
#define BROKEN_US             100000
#define ASSIGN_US             600000000
#define ASSIGN_RETRY_US       10000000
#define RETURN_US             3000000
#define OFFERS_MAX            64
#define EXPECTED_MAX          64
#define OFFER_ORDER_LAYERS    128
#define WORKER_LIVE_MAX       3072
#define LIVE_MS_MAX           60000
#define GRANTS_UNSETTLED_MAX  4096
#define GAP_ROWS_MAX          64
#define CLIENT_UNREAD_BYTES   65536
#define RECEIPT_WAITERS_MAX   64
#define REFUSALS_MAX          16
#define IDLE_MOVES_MAX        16
#define TRIAL_TOKENS          2
#define TRIAL_DEATHS          2
#define TRIAL_MERCY_MAX       6
#define TRIAL_WINDOW_US       30000000
#define TRIALS_ASIDE_MAX      64
#define LIFE_TOKENS           64
#define LINEAGES_MAX          128
#define LINEAGE_QUIET_US      600000000
#define READMIT_US_MAX        60000000
#define QUARANTINE_MAX        64
#define DRAIN_CALLS_MAX       64
#define EARLY_BYTES_MAX       16777216
#define GATHER_MS_MAX         100
#define WORKER_SILENT_US      1000000
#define WORKER_LOST_US        1500000
#define WORKER_HUNG_US        1500000
#define HUNG_GAP_US           500000
#define LISTEN_US             100000
#define SLOW_FACTOR           5
#define SLOW_MIN_US           250000
#define SLOW_STEPS            128
#define SLOW_STEPS_MIN        32
#define WORKER_QUARANTINE_US  10000000
#define NAME_BUSY_US          300000
#define TEXT_POLL_US          2000
#define AUDIT_MS              2000
#define WATCH_MS_MIN          100
#define WATCH_MS_MAX          60000
#define RETRY_MS_MIN          100
#define RESUME_RETRY_MS       50
#define RETRY_MS_ABSENT       1000
#define RETRY_MS_MAX          60000

/* name, unit, what it bounds: printed by sluice-router --limits */
#define ROUTER_LIMIT_MAP(X)                                                  \
    X(ASSEMBLE_US, "us", "that its workers have to connect")                 \
    X(ASSEMBLE_RETRY_US, "us", "after one that failed, doubled each time")   \
    X(ASSEMBLE_RETRY_US_MAX, "us", "after one that failed, at most")         \
    X(BROKEN_US, "us", "a broken replica waits: has a worker died?")         \
    X(ASSIGN_US, "us", "to load the layers it was given")                    \
    X(ASSIGN_RETRY_US, "us", "after it refused layers")                      \
    X(RETURN_US, "us", "to come back with its layers")                       \
    X(OFFERS_MAX, "", "workers that wait for layers")                        \
    X(EXPECTED_MAX, "", "that load theirs, or may come back")                \
    X(OFFER_ORDER_LAYERS, "layers", "of a model, divided in every order")    \
    X(WORKER_LIVE_MAX, "", "sequences granted to one worker")                \
    X(LIVE_MS_MAX, "ms", "that they are waited for at most")                 \
    X(GRANTS_UNSETTLED_MAX, "", "grants that no ledger includes yet")        \
    X(GAP_ROWS_MAX, "", "rows in a run that start past the next index")      \
    X(CLIENT_UNREAD_BYTES, "bytes", "wait in a client's outbox")             \
    X(RECEIPT_WAITERS_MAX, "", "callers that wait for one receipt")          \
    X(REFUSALS_MAX, "", "times a sequence is refused by workers")            \
    X(IDLE_MOVES_MAX, "", "moves in a run that bring no token")              \
    X(TRIAL_TOKENS, "tokens", "of a worker, that clear a suspect")           \
    X(TRIAL_DEATHS, "", "of workers while it was on trial: not tried again") \
    X(TRIAL_MERCY_MAX, "", "more, as workers die without it beside")         \
    X(TRIAL_WINDOW_US, "us", "that those deaths count")                      \
    X(TRIALS_ASIDE_MAX, "", "suspects that are overtaken at a time")         \
    X(LIFE_TOKENS, "tokens", "after which a worker's life is not barren")    \
    X(LINEAGES_MAX, "", "lineages of workers that died lately")              \
    X(LINEAGE_QUIET_US, "us", "without a death: a lineage is forgotten")     \
    X(READMIT_US_MAX, "us", "until a worker's first sequence")               \
    X(QUARANTINE_MAX, "", "names of workers that are kept out")              \
    X(DRAIN_CALLS_MAX, "", "callers that wait for one worker to drain")      \
    X(EARLY_BYTES_MAX, "bytes", "of calls held for a first worker")          \
    X(GATHER_MS_MAX, "ms", "of --gather")                                    \
    X(WORKER_SILENT_US, "us", "without a word: no new sequences")            \
    X(WORKER_LOST_US, "us", "without a word: its session is over")           \
    X(WORKER_HUNG_US, "us", "plans and no tick: its session is over")        \
    X(HUNG_GAP_US, "us", "between two reports count as standing, at most")   \
    X(LISTEN_US, "us", "that a timer is late excuse a silence, once")        \
    X(SLOW_FACTOR, "", "times the p99 of its steps: a worker is slow")       \
    X(SLOW_MIN_US, "us", "a plan is not slow before that")                   \
    X(SLOW_STEPS, "steps", "of a worker whose times are remembered")         \
    X(SLOW_STEPS_MIN, "steps", "before a worker can be slow")                \
    X(WORKER_QUARANTINE_US, "us", "a lying worker is kept out")              \
    X(NAME_BUSY_US, "us", "silence before a name may be taken over")         \
    X(TEXT_POLL_US, "us", "between looks for finished text jobs")            \
    X(AUDIT_MS, "ms", "Audit waits for a worker")                            \
    X(WATCH_MS_MIN, "ms", "between messages of Watch, at least")             \
    X(WATCH_MS_MAX, "ms", "between messages of Watch, at most")              \
    X(RETRY_MS_ABSENT, "ms", "retry_after_ms where no worker is up")         \
    X(RETRY_MS_MIN, "ms", "retry_after_ms, at least")                        \
    X(RESUME_RETRY_MS, "ms", "retry_after_ms while an old call is ended")    \
    X(RETRY_MS_MAX, "ms", "retry_after_ms, at most")

#endif
