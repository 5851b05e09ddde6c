/* replicas.h - what must hold of workers that run a model together.
 *
 *     under way   at most n_stages microbatches, as counted where they pass
 *                 from the leader, and come back to it
 *     held        nothing by a stage that is in no assembly, but by sequences
 *                 that a plan in flight names
 *     the stream  no stage finds a message wrong: leader and stages agree,
 *                 whatever is lost, cut and killed around them, but where one
 *                 of them talks nonsense
 *     receipts    list every stage, none with more than a sequence needs
 *                 there, and the counts are their sums
 *     edges       come up only within the assembly that was ordered last
 *     breaks      no assembly does by itself, where nothing befalls it
 *     the end     as many replicas stand as workers allow, and each of their
 *                 workers knows its place as the router does
 *
 * And what has happened: cells of (where a sequence stands, what befalls its
 * replica), deeds of assemblies. */
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

/* Of each worker. */
struct replicas_seen {
    uint64_t assembly; /* that it was in when it was last looked at */
    uint32_t n_assemblies;
    uint64_t ordered;   /* by the newest Assemble that came */
    uint64_t led;       /* the assembly whose microbatches are counted */
    uint32_t under_way; /* of them, as they pass */
};

/* The worker at whose connection sequences of this one's replica are: itself,
 * or its leader.  False: the router has none for it. */
bool replicas_place(const struct sim *s, uint32_t node,
                    struct router_worker_view *out);

/* A frame of an edge is about to be delivered. */
void replicas_sniff(struct sim *s, uint32_t conn, enum conn_end to,
                    const struct frame *f);

/* Assemble is about to be delivered to a worker; Broken to the router. */
void replicas_ordered(struct sim *s, uint32_t node, uint64_t assembly);
void replicas_broken(struct sim *s, uint32_t node, const char *why, size_t n);

/* A worker's receipt of g is about to be delivered to the router. */
void replicas_receipt(struct sim *s, uint32_t node, const struct sim_request *g,
                      const Sluice__V1__Receipt *r);

/* After each tick of worker w. */
void replicas_worker(struct sim *s, uint32_t w);

/* A worker is about to die, an edge to be cut, an engine to stand still. */
void replicas_killed(struct sim *s, uint32_t node);
void replicas_cut(struct sim *s, uint32_t conn);
void replicas_stands(struct sim *s, uint32_t node);

/* Do all stand that can?  Why not is written to why. */
bool replicas_quiet(const struct sim *s, char *why, size_t cap);

#endif
