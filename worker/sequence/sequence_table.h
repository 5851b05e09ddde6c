/* sequence_table.h - The sequences of a worker, and the memory that they share.
 *
 * Threading: the core's.  Memory: sequence_table_init() allocates; no other
 * call does.  Limits: `capacity` sequences at once. */
#ifndef WORKER_SEQUENCE_SEQUENCE_TABLE_H
#define WORKER_SEQUENCE_SEQUENCE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "worker/cache/host.h"
#include "worker/cache/pool.h"
#include "worker/cache/prefix.h"
#include "worker/sequence/sequence.h"

/* The sliding windows of the model, and their tables in this shard. */
struct window_rules {
    uint32_t window; /* positions that a row sees, its own included; 0: none */
    uint32_t pages;  /* pages of a window block; 0: no window layer here */
    uint32_t block_tokens, chunk_tokens;
};

struct sequence_table {
    struct sequence *memory; /* [capacity] */
    uint32_t capacity, n_fresh, n_live;
    struct sequence *free_list;       /* through key_next */
    struct sequence **keys, **grants; /* [buckets] */
    uint32_t mask;                    /* buckets - 1 */
    uint64_t hash_seed;
    uint64_t next_number;
    uint32_t *lists; /* [capacity, SAMPLING_LISTS] of each sampling */
    uint32_t in_state[SEQUENCE_STATES];
    struct slab slab;  /* tokens and block tables */
    struct slab rings; /* logprobs */
    struct sequence_list all;
    struct window_rules windows;
    struct prefix *index; /* borrowed; NULL: none */
    uint32_t n_growing;   /* live sequences that grow */
    uint32_t n_away;      /* kept sequences in the host tier */
    uint32_t away_max;    /* so many at most */
    struct pool *pool;    /* borrowed */
    struct host *host;    /* borrowed; NULL: no host tier */
};

struct sequence_limits {
    uint32_t capacity;  /* sequences that are not yet forgotten, */
    uint32_t away;      /* the most of them in the host tier */
    uint32_t longest;   /* values in one array */
    uint64_t values;    /* in all arrays together */
    uint32_t n_rings;   /* sequences with logprobs */
    uint64_t hash_seed; /* random, so that no peer can cause collisions */
    struct window_rules windows;
};

/* Returns false if memory runs out.  The pool is borrowed.  There is no host
 * tier; the caller may set one. */
MUST_CHECK bool sequence_table_init(struct sequence_table *t,
                                    const struct sequence_limits *l,
                                    struct pool *pool);
void sequence_table_fini(struct sequence_table *t);

/* Makes a sequence in RECEIVING, in LIST_ALL and no hash, with arrays for
 * n_tokens and n_blocks, and no window tables.  Returns NULL, with nothing
 * taken, if the table or the slab is full. */
struct sequence *sequence_new(struct sequence_table *t, uint32_t n_tokens,
                              uint32_t n_blocks);

/* Forgets a sequence: removes it from all lists and hashes, and gives its
 * arrays back.  It must hold nothing of the pool.  Nulls *s. */
void sequence_free(struct sequence_table *t, struct sequence **s);

/* Set or clear the names under which a sequence is found.  A key or grant that
 * another sequence has is the caller's mistake. */
void sequence_set_key(struct sequence_table *t, struct sequence *s,
                      const struct sequence_key *key);
void sequence_clear_key(struct sequence_table *t, struct sequence *s);
void sequence_set_grant(struct sequence_table *t, struct sequence *s,
                        uint64_t grant); /* 0: none */

/* Returns whether two keys name one sequence. */
bool sequence_key_equal(const struct sequence_key *a,
                        const struct sequence_key *b);

/* Returns NULL if there is none. */
struct sequence *sequence_by_key(const struct sequence_table *t,
                                 const struct sequence_key *key);
struct sequence *sequence_by_grant(const struct sequence_table *t,
                                   uint64_t grant);

/* Copies the sampling; its lists go into the table's memory.  n_generated and
 * max_tokens must be set, because the ring of logprobs covers the tokens
 * between them.  Returns false if the ring finds no room. */
MUST_CHECK bool sequence_set_sampling(struct sequence_table *t,
                                      struct sequence *s,
                                      const struct sampling *sampling);

/* Gives back everything that s has of the pool: its references of blocks and
 * window pages, its slot, and what was granted but not taken.  `need` is zero
 * afterwards. */
void sequence_give_back(struct sequence_table *t, struct sequence *s);

/* Gives back the host pages of s. */
void sequence_give_host(struct sequence_table *t, struct sequence *s);

/* Does both, and frees the block table and the window tables. */
void sequence_release(struct sequence_table *t, struct sequence *s);

#endif
