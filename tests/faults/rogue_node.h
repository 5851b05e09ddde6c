/* rogue_node.h - a peer that keeps the rules of the transport and says over
 * it what its case wants: a worker of a model of its own, a client, or
 * (rogue_router.c) a router.  It is made of the product's own session, peer
 * and transport, so that what reaches the daemons is well formed as far as
 * the case wants it to be.
 *
 * Threading: one thread runs all nodes, in turn.  Memory: on the heap. */
#ifndef TESTS_FAULTS_ROGUE_NODE_H
#define TESTS_FAULTS_ROGUE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/loop.h"
#include "common/wire/session.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"

#define ROGUE_PATIENCE_US 60000000 /* of a machine that is busy */
#define ROGUE_CONTEXT     4096
#define ROGUE_VOCAB       1000
#define ROGUE_BLOCKS      64
#define ROGUE_SLOTS       8
#define ROGUE_TOKENS      64 /* of a generation, that are kept */

/* What a worker says of itself and of its memory. */
struct rogue_shard {
    Sluice__V1__WorkerShard m;
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger classes[4]; /* blocks, slots, checkpoints, pages */
    char model[64];
    uint8_t fingerprint[16];
};

struct rogue_node {
    uint8_t role; /* BY_WORKER, BY_CLIENT or BY_ADMIN */
    char name[65];
    struct transport *transport;
    struct loop loop;
    struct session session;
    struct arena arena;
    struct peer *peer; /* NULL: no session */
    struct rogue_shard shard;
    bool mute; /* a worker that does not report by itself */
    /* After rogue_go_raw(): its link is out of the game. */
    bool raw;
    uint64_t sent, got; /* numbers of ordered frames */
    int64_t reported_us;
    uint64_t step;

    /* What came. */
    unsigned n_up, n_down, n_refused;
    enum status refused;  /* the last Hello */
    char why[ERROR_TEXT]; /* of the last end of a session, or refusal */
    unsigned n_submits, n_removals, n_acks;
    uint64_t grant; /* of the last Submit */
    uint32_t need[2], n_tokens, n_chunks, n_ends;
    uint32_t tokens[ROGUE_TOKENS]; /* of chunks, as a client */
    uint32_t ack_index;            /* the last one */
    enum status status;            /* of the last End */
    char text[ERROR_TEXT];         /* its sentence */
    unsigned n_unknown;            /* Receipts that say so */
};

/* Begins to connect; a worker serves a model named as itself. */
struct rogue_node *rogue_node_new(const char *endpoint, uint8_t role,
                                  const char *name);
/* Says Goodbye. */
void rogue_node_free(struct rogue_node **n);

typedef bool rogue_until_fn(const void *arg);

/* Run n nodes until done(arg); false: not in ROGUE_PATIENCE_US. */
MUST_CHECK bool rogue_run(struct rogue_node *const *nodes, unsigned n,
                          rogue_until_fn *done, const void *arg);
/* The same until one has a session. */
MUST_CHECK bool rogue_run_up(struct rogue_node *n);
/* For so long, whatever happens. */
void rogue_run_for(struct rogue_node *const *nodes, unsigned n, int64_t for_us);

/* As a worker: a Report or a StepOutput with the next snapshot. */
void rogue_report(struct rogue_node *n);
void rogue_step(struct rogue_node *n, Sluice__V1__StepOutputMessage *m);

/* As a client: a Generate of three ids, which only max_tokens ends. */
enum status rogue_generate(struct rogue_node *n, const char *model,
                           const uint8_t id[16], uint32_t max_tokens);

/* A frame of one envelope of state traffic, past all that the peer would
 * check. */
void rogue_raw_state(struct rogue_node *n, const struct envelope *e);

/* From now on, of a session that is new, what comes is counted and
 * acknowledged only (ends, and Goodbye as the end of the session), and
 * rogue_raw() sends ordered frames of one envelope. */
void rogue_go_raw(struct rogue_node *n);
void rogue_raw(struct rogue_node *n, const struct envelope *e);

#endif
