/* sequence.h - the sequences of a worker: one prompt each and what is
 * generated for it.
 *
 *   RECEIVING --all ids--> QUEUED --in a plan--> PREFILL --token--> DECODE
 *       |                    |                      |                 |
 *       |                    |                      +---- keep_ms ----+
 *       |                    |                      |      KEPT       |
 *       +--------------------+----------+-----------+-----------------+
 *                                       v   an ending, of any kind
 *                                   RELEASING --plans that name it are back,
 *                                       |       its memory is free-->
 *                                   FINISHED --acknowledged--> forgotten
 *
 * Positions of prompt ++ generated ids:
 *
 *   0          n_prompt            n_prompt + n_generated (known)
 *   |--prompt--|----generated------|
 *        n_planned: the next position to compute; it runs ahead of what is
 *        known by pending - 1 while sampled tokens are on their way
 *
 * Threading: the core's.  Memory: sequence_table_init(); no other call
 * allocates.  Limits: `capacity` sequences at once. */
#ifndef WORKER_CACHE_SEQUENCE_H
#define WORKER_CACHE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/base/timer.h"
#include "common/wire/request_id.h"
#include "worker/cache/logprobs.h"
#include "worker/cache/paged.h"
#include "worker/cache/pool.h"
#include "worker/engine/engine.h"

enum sequence_state {
    SEQUENCE_RECEIVING,
    SEQUENCE_QUEUED,
    SEQUENCE_PREFILL,
    SEQUENCE_DECODE,
    SEQUENCE_KEPT,
    SEQUENCE_RELEASING,
    SEQUENCE_FINISHED,
    SEQUENCE_STATES
};

/* Why it ended; numbers as proto's Finish. */
enum sequence_finish {
    FINISH_NONE,
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_CANCELLED,
    FINISH_FAILED
};

/* It came to its end by itself, with all its tokens. */
static inline bool finish_is_whole(enum sequence_finish f)
{
    return f == FINISH_STOP || f == FINISH_LENGTH;
}

/* (request_id, choice): what the router calls it. */
struct sequence_key {
    uint8_t request_id[REQUEST_ID_BYTES];
    uint32_t choice;
};

/* Lists that a sequence can be in, each at most once. */
enum sequence_in {
    LIST_ALL,  /* in the order of arrival */
    LIST_PLAN, /* wants rows: of prefill, or of decode */
    LIST_OUT,  /* has something to say in StepOutput */
    SEQUENCE_LISTS
};

struct sequence;
struct waiter;

struct sequence_node {
    struct sequence *prev, *next;
    struct sequence_list *list; /* NULL: in none */
};

struct sequence_list {
    struct sequence *head, *tail;
    uint32_t n;
    enum sequence_in link;
};

struct sequence {
    /* Who it is. */
    struct sequence_key key;
    uint64_t number; /* of this worker's life: for plans and logs */
    uint64_t grant;  /* 0: its session is over */
    enum sequence_state state;
    enum sequence_finish finish;

    /* What was asked for. */
    uint32_t n_prompt, max_tokens, keep_ms;
    struct sampling sampling; /* its lists point into the table's memory */

    /* What it holds: need is granted or taken, n_blocks and slot taken. */
    struct pool_need need;
    struct paged blocks; /* its table, [n_blocks] in use */
    uint32_t n_blocks;
    uint32_t slot; /* SLOT_NONE: not taken */

    /* Ids: the prompt, then the generated ones. */
    struct paged tokens;
    uint32_t n_received; /* of what the Submit announced */
    uint32_t n_announced;
    uint32_t n_generated;
    struct logprobs logprobs; /* of the newest, where asked for */

    /* Plans. */
    uint32_t n_planned; /* positions computed or in flight */
    uint32_t pending;   /* tokens asked for and not back */
    uint32_t inflight;  /* plans in flight that name it */
    uint64_t last_step; /* the newest of them, */
    uint32_t last_row;  /* and its row there */
    bool spoilt; /* of a stage (worker/stages/stage.h): a step of it failed */

    /* The stages after this one, of a leader. */
    bool staged;      /* they have it: its Remove is not back */
    bool remove_sent; /* that is under way */

    /* What the router has of it. */
    uint32_t acked;        /* next index it wants */
    uint32_t sent_running; /* end of the longest row sent before its end */
    bool row_sent;         /* any row at all was */
    bool told;             /* its end was sent */
    bool forgotten;        /* its end is acknowledged */
    uint64_t call;         /* the Submit still open, 0: none */

    /* Its session is over, and it lives on (worker/sequences/orphans.h). */
    bool orphan, orphan_told;
    uint64_t ids_hash; /* of the first n_hashed ids, when those may be gone */
    uint32_t n_hashed;

    struct timer keep; /* of KEPT, or of an orphan */
    struct waiter *waiters, *last_waiter;

    struct sequence *key_next, *grant_next; /* in their hash chains */
    bool in_keys, in_grants;
    struct sequence_node links[SEQUENCE_LISTS];
};

struct sequence_table {
    struct sequence *memory; /* [capacity] */
    uint32_t capacity, n_fresh, n_live;
    struct sequence *free_list;       /* through key_next */
    struct sequence **keys, **grants; /* [buckets] */
    uint32_t mask;                    /* buckets - 1 */
    uint64_t hash_seed;
    uint64_t next_number;
    uint32_t *lists; /* [capacity, SAMPLING_LISTS] of each one's sampling */
    uint32_t in_state[SEQUENCE_STATES];
    struct slab slab;  /* of tokens and block tables */
    struct slab rings; /* of logprobs */
    struct sequence_list all;
    struct pool *pool; /* borrowed, for violations */
};

struct sequence_limits {
    uint32_t capacity;  /* sequences, forgotten ones not counted */
    uint32_t longest;   /* values in one array */
    uint64_t values;    /* in all arrays together */
    uint32_t n_rings;   /* sequences with logprobs */
    uint64_t hash_seed; /* so that no peer can choose collisions */
};

/* False if memory is out. */
MUST_CHECK bool sequence_table_init(struct sequence_table *t,
                                    const struct sequence_limits *l,
                                    struct pool *pool);
void sequence_table_fini(struct sequence_table *t);

/* A new one, RECEIVING, in no hash and no list but LIST_ALL; arrays for
 * n_tokens and n_blocks.  NULL if the table or the slab is full (nothing
 * taken then). */
struct sequence *sequence_new(struct sequence_table *t, uint32_t n_tokens,
                              uint32_t n_blocks);

/* Forget it: out of all lists and hashes, arrays given back.  It must hold
 * nothing of the pool.  Nulls *s. */
void sequence_free(struct sequence_table *t, struct sequence **s);

/* Name it.  A key or grant that is taken is the caller's mistake. */
void sequence_set_key(struct sequence_table *t, struct sequence *s,
                      const struct sequence_key *key);
void sequence_clear_key(struct sequence_table *t, struct sequence *s);
void sequence_set_grant(struct sequence_table *t, struct sequence *s,
                        uint64_t grant); /* 0: none */

/* NULL if there is none. */
struct sequence *sequence_by_key(const struct sequence_table *t,
                                 const struct sequence_key *key);
struct sequence *sequence_by_grant(const struct sequence_table *t,
                                   uint64_t grant);

/* What was asked for; the lists are copied into the table's memory.  Of a
 * sequence whose n_generated and max_tokens are known: it has logprobs from
 * there on.  False if there is no room for those. */
MUST_CHECK bool sequence_set_sampling(struct sequence_table *t,
                                      struct sequence *s,
                                      const struct sampling *sampling);

const char *sequence_state_name(enum sequence_state s);

/* The one way from state to state; checked against the table, logged. */
void sequence_move(struct sequence_table *t, struct sequence *s,
                   enum sequence_state to);

/* The number of proto's SequenceState. */
int sequence_public_state(const struct sequence *s);

/* "0123..ef/2": request id in hexadecimal and choice, for logs. */
#define SEQUENCE_NAME 48
const char *sequence_name(const struct sequence_key *key,
                          char out[SEQUENCE_NAME]);

static inline uint32_t sequence_known(const struct sequence *s)
{
    return s->n_prompt + s->n_generated;
}

/* Give back all that it holds of the pool: blocks, slot, and what was
 * promised and not taken.  That is `need`, which is none afterwards. */
void sequence_release(struct sequence_table *t, struct sequence *s);

/* Lists. */
void list_push(struct sequence_list *l, struct sequence *s);
void list_remove(struct sequence *s, enum sequence_in link);
struct sequence *list_next(const struct sequence *s, enum sequence_in link);
bool list_has(const struct sequence *s, enum sequence_in link);

#endif
