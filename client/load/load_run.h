/* load_run.h - One run: generators, the cluster beside them, faults, progress.
 *
 * Threading: one thread, without a ZeroMQ context between runs. */
#ifndef CLIENT_LOAD_LOAD_RUN_H
#define CLIENT_LOAD_LOAD_RUN_H

#include <signal.h>
#include <stdio.h>

#include "client/load/drive/outputs.h"
#include "client/load/load_setup.h"

#define LOAD_AUDIT_US 20000000 /* until no sequence is held */

struct load_job {
    struct load_setup *setup;
    struct plan *plan;       /* loaded */
    struct outputs *outputs; /* with --check-outputs, else NULL */
    FILE *samples;           /* or NULL */
    int signals;             /* signalfd of SIGINT and SIGTERM */
    bool interrupted;        /* a signal ended a run */
};

/* Properties in which runs of a series differ. */
struct load_kind {
    double load; /* rate or slots; 0: by the options */
    bool closed; /* load is slots */
    bool learn;  /* alone: fills `outputs`, and counts nowhere */
    const char *title;
};

/* Runs once and fills *r.  Returns the error of a process or of the plan;
 * ST_CANCELLED if it was interrupted before anything was measured. */
MUST_CHECK enum status load_run_once(struct load_job *j,
                                     const struct load_kind *k, struct run *r,
                                     struct error *e);

#endif
