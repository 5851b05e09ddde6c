/* rogue_node.h - A peer that follows the rules of the transport and sends the
 * messages of its case: a worker with a model of its own, a client, or
 * (rogue_routers.c) a router.  It uses the product's session, peer and
 * transport, so that messages are well formed except where a case breaks them.
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
#include "tests/patience.h"

#define ROGUE_CONTEXT 4096
#define ROGUE_VOCAB   1000
#define ROGUE_PAGES   64 /* each is a block or a slot */
#define ROGUE_SLOTS   8  /* at most */
#define ROGUE_TOKENS  64 /* tokens of a request that are kept */

/* A worker's shard and memory, as it reports them. */
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
    struct peer *peer; /* NULL without a session */
    struct rogue_shard shard;
    bool mute; /* a worker that sends no reports by itself */
    /* After rogue_go_raw(), which bypasses the link. */
    bool raw;
    uint64_t sent, got; /* numbers of ordered frames */
    int64_t reported_us;
    uint64_t step;

    /* Received. */
    unsigned n_up, n_down, n_refused;
    enum status refused;  /* status of the last Hello */
    char why[ERROR_TEXT]; /* last end of a session, or refusal */
    unsigned n_submits, n_removals, n_acks, n_snapshots; /* calls */
    uint64_t grant;                                      /* the last Submit's */
    uint32_t need[2]; /* granted blocks and slots */
    uint32_t n_tokens, n_chunks, n_ends;
    uint32_t tokens[ROGUE_TOKENS]; /* from chunks, as a client */
    uint32_t ack_index;            /* the last ack's */
    enum status status;            /* the last End's */
    char text[ERROR_TEXT];         /* and its text */
    unsigned n_unknown;            /* receipts of the state UNKNOWN */
    Sluice__V1__Receipt receipt;   /* the last one's numbers, as a client */
    uint32_t n_made; /* tokens of the sequence that it has reported */
    void (*spoil)(Sluice__V1__Receipt *r); /* for its receipts; NULL: none */
};

/* Creates a node and begins to connect.  A worker serves a model of its own
 * name. */
struct rogue_node *rogue_node_new(const char *endpoint, uint8_t role,
                                  const char *name);
/* Ends the session with a Goodbye and frees the node. */
void rogue_node_free(struct rogue_node **n);

typedef bool rogue_until_fn(const void *arg);

/* Runs n nodes until done(arg).  Returns false after patience_us(). */
MUST_CHECK bool rogue_run(struct rogue_node *const *nodes, unsigned n,
                          rogue_until_fn *done, const void *arg);
/* Runs a node until it has a session. */
MUST_CHECK bool rogue_run_up(struct rogue_node *n);
/* Runs n nodes for a time. */
void rogue_run_for(struct rogue_node *const *nodes, unsigned n, int64_t for_us);

/* Releases the memory of the sequence in the ledger. */
void rogue_release(struct rogue_node *n);

/* Sends a Report or a StepOutput with the next snapshot, as a worker. */
void rogue_report(struct rogue_node *n);
void rogue_step(struct rogue_node *n, Sluice__V1__StepOutputMessage *m);

/* Sends a Generate of three ids, as a client; only max_tokens ends it. */
enum status rogue_generate(struct rogue_node *n, const char *model,
                           const uint8_t id[16], uint32_t max_tokens);

/* Calls Cancel for a request, as a client. */
enum status rogue_cancel(struct rogue_node *n, const uint8_t id[16]);

/* Sends a frame with one state envelope, bypassing the peer's checks. */
void rogue_raw_state(struct rogue_node *n, const struct envelope *e);

/* Bypasses the link of a new session: from now on received frames are only
 * counted and acknowledged (except ends, and Goodbye, which ends the session),
 * and rogue_raw() sends ordered frames of one envelope. */
void rogue_go_raw(struct rogue_node *n);
void rogue_raw(struct rogue_node *n, const struct envelope *e);

#endif
