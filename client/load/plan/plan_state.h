/* plan_state.h - The parts of a plan, and its text.
 *
 * Threading: none. */
#ifndef CLIENT_LOAD_PLAN_PLAN_STATE_H
#define CLIENT_LOAD_PLAN_PLAN_STATE_H

#include "client/load/plan/arrivals.h"
#include "client/load/plan/dataset.h"
#include "client/load/plan/recipe.h"
#include "client/load/plan/trace.h"

#define PLAN_TEXT_MAX 1024

struct plan {
    /* Loaded once. */
    struct trace *trace;
    struct dataset *dataset;
    char *trace_path, *dataset_path; /* NULL: none */

    /* Set by each start. */
    struct recipe recipe;
    struct arrivals arrivals; /* open loop, unless a trace is replayed */
    bool closed;
    bool replay;        /* the trace's own times */
    double speed;       /* replay, so many times as fast */
    double asked_scale; /* tokens, before they must fit the context */
    uint32_t *fits;     /* [n_fits], rows of the dataset that fit */
    size_t n_fits;
    uint32_t concurrency, share, n_shares, n_variants;
    uint64_t n_requests;
    int64_t duration_us;
    uint64_t number; /* next session */
    char text[PLAN_TEXT_MAX];
};

/* Writes p->text. */
void plan_write_text(struct plan *p, const struct plan_options *o);

#endif
