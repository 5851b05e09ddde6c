/* rogue.h - Attacks of faulty peers on real daemons: one table of cases.
 *
 * A case acts as a worker, a client, a router or a stranger, breaks one rule of
 * proto/README.md, and checks the daemon's reaction.  The caller checks that
 * the daemon keeps serving others.
 *
 * Threading: one thread.  Memory: the process's. */
#ifndef TESTS_FAULTS_ROGUE_H
#define TESTS_FAULTS_ROGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct rogue_at {
    const char *workers; /* endpoints of the router */
    const char *clients;
    const char *listen; /* endpoint to act as a router for a worker, or */
    const char *ctl;    /* for this sluicectl */
    const char *model;  /* model that correct workers serve */
    char saw[ERROR_TEXT + 256]; /* observation of the case, one line */
};

enum rogue_needs {
    ROGUE_ROUTER, /* needs workers and clients */
    ROGUE_WORKER, /* needs listen: a worker connects to it */
    ROGUE_CTL     /* needs listen and ctl, which it runs */
};

struct rogue_case {
    const char *name;
    enum rogue_needs needs;
    const char *rule; /* the required reaction */
    /* Returns whether the daemon reacted as required. */
    bool (*run)(struct rogue_at *at, const struct rogue_case *c);
    const void *arg; /* argument of the case */
};

struct rogue_table {
    const struct rogue_case *cases;
    size_t n;
};

extern const struct rogue_table rogue_lies, rogue_hellos, rogue_clients,
    rogue_raws, rogue_routers, rogue_lists;

/* Writes at->saw and returns as_wanted, for the return of a case. */
bool rogue_saw(struct rogue_at *at, bool as_wanted, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a name unique to this process, for peers, models and lineages. */
const char *rogue_name(const char *what);

/* Writes a new id: 16 random bytes. */
void rogue_id(uint8_t id[16]);

#endif
