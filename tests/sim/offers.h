/* offers.h - Workers without layers, in the simulator.
 *
 *     offers --Assign--> loads --> a worker of a shard
 *       ^  |               |               |
 *       +--+---------------+---------------+  killed, stopped, load failed:
 *                                             its next life
 *
 * Each life begins without layers, as does a process with --stages.  The
 * options hold the layers of such a worker in the same fields as those of a
 * stage with fixed layers.  While the worker waits, these fields describe an
 * empty shard.
 *
 * Rules:
 *
 * - once: a worker receives layers at most once per session, unless it refused
 *   them.  The layers never exceed its budget.
 * - whole: the stages of a replica are contiguous, from the first layer to the
 *   last.
 * - at once: after a change of the leftover shards, the router has no deal
 * left.
 * - the end: all live workers have a session.  No replica can be made from
 *   leftover shards, nor from these and waiting workers, nor from as many
 *   waiting workers as they want stages.  Without faults, each worker with
 *   assigned layers is in a replica.
 *
 * The last rule is checked by trying every combination of workers and layers.
 */
#ifndef SIM_OFFERS_H
#define SIM_OFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/frame.h"
#include "proto/worker.pb-c.h"
#include "tests/sim/options.h"

struct sim;
struct sim_node;

/* State of one worker. */
struct offer_seen {
    bool waits; /* its core is a struct offer */
    bool loads; /* it has no core yet, and loads its layers */
    /* Last Assign received, unless it was refused; 0: none. */
    uint32_t given_conn;
    uint64_t given_call;
    char model[8], endpoint[16];
};

/* Begins a life without layers. */
void offers_begin(struct sim *s, struct sim_node *n);

/* Takes over the result of an offer that has ended, before the offer is freed.
 * Stores the assigned layers.  Returns true if the worker now loads them. */
bool offers_end(struct sim *s, struct sim_node *n);
void offers_load(struct sim *s, uint32_t node);

/* Kills a worker that loads. */
void offers_kill(struct sim *s, uint32_t node);

/* Returns whether any worker loads. */
bool offers_loading(const struct sim *s);

/* Takes a frame on its way to a worker.  An Assign may be replaced by one that
 * the worker must refuse. */
void offers_spoil(struct sim *s, uint32_t node, struct frame **f);

/* Inspect an Assign before its delivery, or its refusal before delivery to the
 * router. */
void offers_assigned(struct sim *s, uint32_t conn, uint64_t call,
                     const Sluice__V1__AssignRequest *m);
void offers_refused(struct sim *s, uint32_t conn, uint64_t call);

/* Checks the replicas after each tick of the router. */
void offers_watch(struct sim *s);

/* Returns whether nothing is left to do.  Otherwise, writes what remains to
 * why. */
bool offers_quiet(const struct sim *s, char *why, size_t cap);

/* Returns the same before any request is sent; also requires that all workers
 * have registered. */
bool offers_ready(const struct sim *s);

#endif
