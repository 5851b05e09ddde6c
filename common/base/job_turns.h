/* job_turns.h - The order of jobs: clients in turn, and the jobs of each client
 * in turn.
 *
 *     client a:  a1 a2 a3 ..
 *     client b:  b1              turns: a1 b1 a2 b1 a3 b1 ..
 *
 * A job that is not finished after its slice is put back.  A client with one
 * short job therefore waits for one slice of each other client, however many
 * jobs they have.
 *
 * Threading: none.  Memory: the caller's, in the jobs; nothing is allocated but
 * the table of clients, in job_turns_init().  Limits: none. */
#ifndef COMMON_BASE_JOB_TURNS_H
#define COMMON_BASE_JOB_TURNS_H

#include <stdint.h>

#include "common/base/list.h"
#include "common/base/table.h"

/* A job that waits for its turn.  The first job of each client is in the ring
 * and in the table, the others follow it in `same`. */
struct job_turn {
    uint64_t client; /* set by the owner before job_turns_put() */
    struct list same, ring;
    struct table_node by_client;
};

struct job_turns {
    struct list ring;
    struct table clients;
};

/* Makes room for about `expected` clients. */
void job_turns_init(struct job_turns *t, uint32_t expected);
/* Frees the table.  The jobs are the caller's. */
void job_turns_fini(struct job_turns *t);

/* Puts a job behind the others of its client.  A client without a job becomes
 * the last one. */
void job_turns_put(struct job_turns *t, struct job_turn *j);

/* Takes the first job of the next client, which becomes the last one.  Returns
 * NULL if no job waits. */
struct job_turn *job_turns_take(struct job_turns *t);

#endif
