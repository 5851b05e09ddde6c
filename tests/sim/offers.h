/* offers.h - workers that have no layers yet, in the simulator.
 *
 *     offers --Assign--> loads --> a worker of a shard
 *       ^  |               |               |
 *       +--+---------------+---------------+  killed, stopped, a load that
 *                                             failed: its next life
 *
 * Each life begins without layers, as that of a process with --stages.  What
 * it is given, and while it waits that it has none, stands in the options: at
 * the place where a stage that knows its layers has them.
 *
 * What must hold:
 *
 *     once      nobody is given layers who has been given some in this session
 *               and did not refuse them; none are given that cannot be held
 *     whole     the stages of a replica stand end to end, from the first layer
 *               to the last
 *     the end   all who are there have a session; no shards that are left over
 *               make a replica, neither alone nor with those who wait, nor
 *               do as many of these as they want to be; where nothing befalls
 *               anybody, who was given layers is in a replica
 *
 * The last is found by trying all there is: who stands where, up to which
 * layer. */
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

/* Of a worker. */
struct offer_seen {
    bool waits; /* its core is a struct offer */
    bool loads; /* it has no core, and will have one */
    /* The Assign that came last, unless it was refused; 0: none. */
    uint32_t given_conn;
    uint64_t given_call;
    char model[8], endpoint[16];
};

/* It begins a life without layers. */
void offers_begin(struct sim *s, struct sim_node *n);

/* Its offer has ended, and is freed next: what it was given is put down.
 * True: it loads it from now on. */
bool offers_end(struct sim *s, struct sim_node *n);
void offers_load(struct sim *s, uint32_t node);

/* It is killed while it loads. */
void offers_kill(struct sim *s, uint32_t node);

/* Are there any that load? */
bool offers_loading(const struct sim *s);

/* A frame is on its way to a worker: if it is an Assign, it may be made one
 * that the worker must refuse. */
void offers_spoil(struct sim *s, uint32_t node, struct frame **f);

/* Assign is about to be delivered, or a refusal of it to the router. */
void offers_assigned(struct sim *s, uint32_t conn, uint64_t call,
                     const Sluice__V1__AssignRequest *m);
void offers_refused(struct sim *s, uint32_t conn, uint64_t call);

/* After each tick of the router. */
void offers_watch(struct sim *s);

/* Is nothing left to be done?  What is, is written to why. */
bool offers_quiet(const struct sim *s, char *why, size_t cap);

/* The same before anybody asks for anything: all have come in, too. */
bool offers_ready(const struct sim *s);

#endif
