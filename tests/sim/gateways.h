/* gateways.h - The gateway's core as a node: its models, its prompt seam and
 * its faults.
 *
 * A gateway is a client of the router.  On its other side, tests/sim/web.h is
 * its struct http_io.  Prompt jobs take drawn times, finish in any order, and
 * wait in a bounded queue; their work is the product's. */
#ifndef SIM_GATEWAYS_H
#define SIM_GATEWAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/http/http.h"
#include "gateway/text/prompt_job.h"
#include "tests/sim/options.h"

struct sim;
struct sim_node;
struct keys;

#define GATEWAY_JOBS 32 /* limit on the queue */

struct sim_gateway {
    struct prompt_seam seam; /* first */
    struct sim *sim;
    uint32_t number;
    struct {
        struct prompt_job *job; /* NULL: free */
        int64_t done_us;
    } jobs[GATEWAY_JOBS];
    uint32_t n_jobs;
    int64_t full_us; /* when it last refused a job */
    struct keys *keys;
};

struct gateways {
    struct served_models models;
    struct sim_gateway of[SIM_GATEWAYS];
};

/* Creates the core of a node; frees it, as if killed. */
void gateways_begin(struct sim *s, struct sim_node *n);
void gateways_free(struct sim *s, uint32_t number);

/* Lets a node drain and stop. */
void gateways_stop(struct sim *s, uint32_t number);

/* Starts the faults of the gateways, and their clients. */
void gateways_start(struct sim *s);

/* Checks the bounds of a gateway after its tick. */
void gateways_watch(struct sim *s, uint32_t number);

/* Checks that an idle gateway holds nothing.  Returns false and why while one
 * does. */
bool gateways_quiet(struct sim *s, char *why, size_t cap);

/* Counts what the gateways did, at the end of a run. */
void gateways_end(struct sim *s);

/* Returns the HTTP server of a node, NULL if it is dead. */
struct http_server *gateways_http(const struct sim *s, uint32_t number);

#endif
