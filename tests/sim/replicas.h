/* replicas.h - Checks of workers that run a model together.
 *
 *     in flight   at most n_stages microbatches, counted when they pass from
 *                 the leader and back to it
 *     held        a stage outside an assembly holds nothing, except for
 *                 sequences that a plan in flight names
 *     the stream  no stage rejects a message: leader and stages agree,
 *                 whatever is lost, cut or killed around them, except in
 *                 seeds with garbage between stages
 *     receipts    list every stage, none with more than a sequence needs
 *                 there, and the counts are their sums
 *     edges       come up only within the assembly that was ordered last
 *     breaks      without a fault, no assembly breaks
 *     the end     as many replicas are up as workers allow, and each of their
 *                 workers agrees with the router on its place
 *
 * Also counts events: cells of (state of a sequence, event that hits its
 * replica), and assembly events. */
#ifndef SIM_REPLICAS_H
#define SIM_REPLICAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/common.pb-c.h"
#include "tests/sim/network.h"
#include "tests/sim/options.h"
#include "tests/sim/oracle.h"

struct frame;
struct router_worker_view;
struct sim_request;

/* State of each worker. */
struct replicas_seen {
    uint64_t assembly; /* assembly that it was in at the last look */
    uint32_t n_assemblies;
    uint64_t ordered;   /* assembly in the newest Assemble received */
    uint64_t led;       /* assembly whose microbatches are counted */
    uint32_t under_way; /* microbatches in flight */
};

/* Finds the worker that holds the sequences of this worker's replica: itself
 * or its leader.  Returns false if the router has none. */
bool replicas_place(const struct sim *s, uint32_t node,
                    struct router_worker_view *out);

/* Finds the router's view of a worker.  Returns false if it has none. */
bool replicas_find(const struct sim *s, uint32_t node,
                   struct router_worker_view *out);

/* Inspects a frame between stages before its delivery. */
void replicas_sniff(struct sim *s, uint32_t conn, enum conn_end to,
                    const struct frame *f);

/* Inspect an Assemble before its delivery to a worker; a Broken before its
 * delivery to the router. */
void replicas_ordered(struct sim *s, uint32_t node, uint64_t assembly);
void replicas_broken(struct sim *s, uint32_t node, const char *why, size_t n);

/* Checks a worker's receipt of a request before its delivery to the router. */
void replicas_receipt(struct sim *s, uint32_t node,
                      const struct sim_request *request,
                      const Sluice__V1__Receipt *r);

/* Checks worker w after each tick. */
void replicas_worker(struct sim *s, uint32_t w);

/* Count an event before a worker dies, an edge is cut, or an engine stalls. */
void replicas_killed(struct sim *s, uint32_t node);
void replicas_cut(struct sim *s, uint32_t conn);
void replicas_stands(struct sim *s, uint32_t node);

/* Returns whether all possible replicas are up.  Otherwise, writes the reason
 * to why. */
bool replicas_quiet(const struct sim *s, char *why, size_t cap);

#endif
