/* script.h - A short run whose requests and faults are written down.
 *
 * Some events, in order, each a while after the one before it.  They begin when
 * all workers are up.  What a request is made of is drawn, with one seed; the
 * options of a script leave only one kind to draw.  Faults of the cluster are
 * events too.
 *
 * sim_memory_test fails each allocation of a script in turn.  A script is
 * therefore short: what happens in a second place is left out. */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_options;

struct script_event {
    uint32_t after_ms; /* the event before it */
    void (*run)(struct sim *s);
};

struct script {
    const char *name;
    uint64_t seed;
    void (*options)(struct sim_options *o);
    const struct script_event *events; /* [n_events] */
    uint32_t n_events;
    uint32_t step; /* sim_memory_test tries one allocation in so many */
    /* Returns NULL, or what did not happen although nothing failed. */
    const char *(*missed)(const struct sim *s);
};

extern const struct script *const scripts[]; /* [SCRIPTS] */
#define SCRIPTS 3

/* Starts the script of the run, if it has one. */
void script_start(struct sim *s);

#endif
