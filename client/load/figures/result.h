/* result.h - Everything that a report needs: runs, and what they were of.
 *
 * Memory: strings and tallies belong to the result and are freed with it. */
#ifndef CLIENT_LOAD_FIGURES_RESULT_H
#define CLIENT_LOAD_FIGURES_RESULT_H

#include "client/load/figures/draft_sum.h"
#include "client/load/figures/search.h"
#include "client/load/figures/tally.h"

#define RESULT_POINTS 600 /* points of the cluster; thinned */
#define RESULT_EVENTS 64

enum run_role { RUN_PLAIN, RUN_REPEAT, RUN_TRIAL, RUN_CONFIRM, RUN_BEYOND };

struct run {
    enum run_role role;
    double load;   /* requests per second, or slots; 0: a trace */
    bool closed;   /* load is slots */
    char *plan;    /* plan_text() */
    char *started; /* ISO 8601, UTC */
    struct tally *tally;
    bool invalid, stopped; /* by lag; by Ctrl-C */
    char why_invalid[200];
    struct cluster_point points[RESULT_POINTS]; /* [n_points] */
    uint32_t n_points;
    uint64_t n_offered; /* points given to run_point() */
    uint32_t stride;    /* each stride-th point is kept; 0: 1 */
    struct load_event events[RESULT_EVENTS]; /* [n_events] */
    uint32_t n_events;
    /* The check of memory after the run; audited is false if the target has
     * none. */
    bool audited, audit_ok;
    char audit[200]; /* a sentence */
    /* Counts of the router during the run, for all its requests: rows of a step
     * with drafts, drafts in them, drafts that became tokens. */
    uint64_t draft_rows, drafts_verified, drafts_accepted;
};

struct result {
    char *title, *target, *model, *command; /* command: the command line */
    char *host;                             /* CPU, cores, kernel */
    struct objectives objectives;
    int64_t lag_max_us;
    struct run *runs; /* [n_runs] */
    uint32_t n_runs;
    bool searched;
    struct search search;
};

void result_fini(struct result *r);

/* Returns a new run, zeroed, with no tally.  Runs returned before have moved.
 */
struct run *result_add(struct result *r);

/* Returns the counts of drafts. */
struct draft_counts run_drafts(const struct run *r);

/* Adds a point.  Thins points to every second one when they are full, and adds
 * only each second one from then on. */
void run_point(struct run *r, const struct cluster_point *p);

/* Adds an event; drops it if there are RESULT_EVENTS. */

/* Adds an event.  One with an exit code replaces the start of that command. */
void run_event(struct run *r, const struct load_event *e);

#endif
