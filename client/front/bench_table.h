/* bench_table.h - The loads of `sluice bench`, and its table.
 *
 * A load is one run of sluice-load, or several with --sweep.  Each run is a row
 * of the table.
 *
 * Threading: none.  Memory: words are borrowed.  Pure.
 * Limits: BENCH_ROWS_MAX. */
#ifndef CLIENT_FRONT_BENCH_TABLE_H
#define CLIENT_FRONT_BENCH_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "client/load/figures/result.h"

#define BENCH_WORDS    40 /* words of a command line for sluice-load */
#define BENCH_ROWS_MAX 64

/* A load: its words for sluice-load, ended by NULL. */
struct bench_load {
    const char *name; /* NULL: it warms the server up, and has no row */
    const char *words[12];
};

/* The standard loads, ended by one without words. */
extern const struct bench_load bench_standard[];

/* The words that all loads share. */
struct bench_common {
    const char *program, *target, *model; /* model: NULL, the only one */
    const char *profile;                  /* NULL: the words of the load */
    const char *duration, *json;
};

/* Fills the command line of a load, ended by NULL. */
void bench_command(const struct bench_common *c, const struct bench_load *load,
                   const char *argv[BENCH_WORDS]);

/* Prints one row per run, then a line for each run that is no measurement or
 * whose memory check failed.  names [r->n_runs]. */
void bench_table(FILE *to, const struct result *r, const char *const *names);

#endif
