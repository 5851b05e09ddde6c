/* rogue.h - attacks of peers on real daemons: one table of cases.
 *
 * A case takes the part of a worker, a client, a router or of nobody at all,
 * breaks one rule of proto/README.md, and looks at what the daemon does.
 * Whether the daemon goes on serving others is for the caller to see.
 *
 * Threading: one thread.  Memory: the process's. */
#ifndef TESTS_FAULTS_ROGUE_H
#define TESTS_FAULTS_ROGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct rogue_at {
    const char *workers; /* the router's ports */
    const char *clients;
    const char *listen;         /* where to be a router, for a worker */
    const char *model;          /* that honest workers serve */
    char saw[ERROR_TEXT + 256]; /* one line, by the case */
};

enum rogue_needs {
    ROGUE_ROUTER, /* workers and clients */
    ROGUE_WORKER  /* listen: a worker connects there */
};

struct rogue_case {
    const char *name;
    enum rogue_needs needs;
    const char *rule; /* what must happen */
    /* True: it has. */
    bool (*run)(struct rogue_at *at, const struct rogue_case *c);
    const void *arg; /* the case's own */
};

struct rogue_table {
    const struct rogue_case *cases;
    size_t n;
};

extern const struct rogue_table rogue_lies, rogue_hellos, rogue_clients,
    rogue_raws, rogue_routers;

/* at->saw, and its value for a case's return. */
bool rogue_saw(struct rogue_at *at, bool as_wanted, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A name of this process, for peers, models and lineages. */
const char *rogue_name(const char *what);

/* 16 random bytes. */
void rogue_id(uint8_t id[16]);

#endif
