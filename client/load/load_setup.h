/* load_setup.h - From the command line to what a run needs.
 *
 * Threading: none.  Memory: strings point into argv, the environment and the
 * setup itself, which must not move. */
#ifndef CLIENT_LOAD_LOAD_SETUP_H
#define CLIENT_LOAD_LOAD_SETUP_H

#include "client/load/drive/crew.h"
#include "client/load/figures/result.h"
#include "client/load/load_options.h"

#define LOAD_SWEEP_MAX 32

enum load_series {
    SERIES_PLAIN, /* one load, maybe repeated */
    SERIES_SWEEP,
    SERIES_SEARCH_RATE,
    SERIES_SEARCH_CONCURRENCY
};

struct load_setup {
    struct load_options o;
    struct plan_options plan;
    struct prompt_options prompt;
    struct target_options target;
    struct generator_options generator;
    struct objectives objectives;
    struct target_facts facts;
    struct search_options search;
    enum load_series series;
    double sweep[LOAD_SWEEP_MAX]; /* [n_sweep] */
    uint32_t n_sweep, n_repeats;
    const char *cluster; /* endpoint of the router, or NULL */
    bool native;
};

/* Checks the options and fills the setup, all but the facts of the server.
 * Returns ST_INVALID_ARGUMENT and a sentence. */
MUST_CHECK enum status load_setup_make(struct load_setup *s, struct error *e);

/* Asks the server for its model, in a process of its own, and completes the
 * setup. */
MUST_CHECK enum status load_setup_ask(struct load_setup *s, struct error *e);

#endif
