/* sequence.h - The sequences of a worker: each has one prompt and the tokens
 * generated for it.
 *
 *   RECEIVING --all ids--> QUEUED --in a plan--> PREFILL --token--> DECODE
 *       |                    |                      |                 |
 *       |                    |                      +---- keep_ms ----+
 *       |                    |                      |      KEPT       |
 *       +--------------------+----------+-----------+-----------------+
 *                                       v   any ending
 *                                   RELEASING --its plans have returned, its
 *                                       |       memory is free-->
 *                                   FINISHED --acknowledged--> forgotten
 *
 * QUEUED, PREFILL and DECODE go to SUSPENDED and come back where others
 * outgrow their grants; a Submit that finds no room begins there
 * (worker/sequences/suspend.h).
 *
 * Positions of prompt ++ generated ids:
 *
 *   0          n_prompt            n_prompt + n_generated (known)
 *   |--prompt--|----generated------|
 *        n_planned: the next position to compute.  While sampled tokens are
 *        being computed, it exceeds the known ids by pending - 1.  A row with
 *        drafts may sample one token more than it has drafts; its result
 *        lowers n_planned by those that were refused.
 *
 * Threading: the core's.  Memory: sequence_table_init() allocates; no other
 * call does.  Limits: `capacity` sequences at once. */
#ifndef WORKER_CACHE_SEQUENCE_H
#define WORKER_CACHE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/base/timer.h"
#include "common/wire/prefix_hash.h"
#include "common/wire/request_id.h"
#include "proto/common.pb-c.h"
#include "worker/cache/host.h"
#include "worker/cache/logprobs.h"
#include "worker/cache/paged.h"
#include "worker/cache/pool.h"
#include "worker/cache/prefix.h"

enum sequence_state {
    SEQUENCE_RECEIVING,
    SEQUENCE_QUEUED,
    SEQUENCE_PREFILL,
    SEQUENCE_DECODE,
    SEQUENCE_KEPT,
    SEQUENCE_SUSPENDED,
    SEQUENCE_RELEASING,
    SEQUENCE_FINISHED,
    SEQUENCE_STATES
};

/* Reasons for an ending, numbered as proto's Finish. */
enum sequence_finish {
    FINISH_NONE,
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_CANCELLED,
    FINISH_FAILED
};

/* Whether it is computed again after a failed step:
 * worker/sequences/recompute.h. */
enum sequence_recompute { RECOMPUTE_NONE, RECOMPUTE_WAITS, RECOMPUTE_ALONE };

/* Reasons for positions that are computed twice. */
enum sequence_waste {
    WASTE_SUSPENDED, /* its memory was given to others */
    WASTE_FAILED,    /* its step failed */
    WASTE_MOVED,     /* another worker had computed them */
    SEQUENCE_WASTES
};

/* Bytes of the reason for a failure, with its NUL: the router accepts 300. */
#define SEQUENCE_FAILURE 301

/* Positions at which a prompt saves its state. */
#define SEQUENCE_WANTS_MAX 16

/* Returns whether the sequence ended by itself, with all its tokens. */
static inline bool finish_is_whole(enum sequence_finish f)
{
    return f == FINISH_STOP || f == FINISH_LENGTH;
}

/* (request_id, choice): the router's name for a sequence. */
struct sequence_key {
    uint8_t request_id[REQUEST_ID_BYTES];
    uint32_t choice;
};

/* Drafts of a sequence: worker/sequences/proposer.h. */
struct sequence_drafts {
    uint32_t most; /* in a row; 0: none */
    uint32_t k;    /* that its next row may have */
    uint32_t n;    /* ids[n] that follow the known ids */
    uint32_t ids[DRAFTS_MAX];
    uint32_t searched; /* the known ids that the text was searched with */
    uint32_t untried;  /* rows since the last one with drafts, */
    uint32_t idle;     /* and since the last one that was no probe */
    bool probe;        /* its next row is one */
    float accepts[DRAFTS_MAX]; /* worker/sequences/drafts.h */
    uint8_t proposer;          /* enum proposer: its own; */
    uint8_t source;            /* that of ids, or of the row in flight */
    bool urgent;               /* its call has a deadline */
    bool begun;                /* it had a row */
    bool mtp;                  /* its rows are computed by the MTP layer too */
    bool hole;                 /* some of its positions were not */
};

/* Lists of sequences; a sequence is in each at most once. */
enum sequence_in {
    LIST_ALL,  /* in order of arrival */
    LIST_PLAN, /* waits for rows: prefill or decode */
    LIST_OUT,  /* has rows to send in StepOutput */
    SEQUENCE_LISTS
};

struct sequence;
struct receipt_waiter; /* worker/sequences/receipts.h */

struct sequence_node {
    struct sequence *prev, *next;
    struct sequence_list *list; /* NULL: not in a list */
};

struct sequence_list {
    struct sequence *head, *tail;
    uint32_t n;
    enum sequence_in link;
};

/* The sliding windows of the model, and their tables in this shard. */
struct window_rules {
    uint32_t window; /* positions that a row sees, its own included; 0: none */
    uint32_t pages;  /* pages of a window block; 0: no window layer here */
    uint32_t block_tokens, chunk_tokens;
};

struct sequence {
    /* Identity. */
    struct sequence_key key;
    uint64_t number; /* unique in this process, for plans and logs */
    uint64_t grant;  /* 0: none; its session is over */
    enum sequence_state state;
    enum sequence_finish finish;

    /* The request. */
    uint32_t n_prompt, max_tokens, keep_ms;
    struct sampling sampling; /* its lists point into the table's memory */

    /* Memory: `need` is granted, taken or shared; n_blocks and slot are taken
     * or shared. */
    struct pool_need need;
    struct paged blocks; /* the block table, [n_blocks] in use: logical numbers,
                          * a reference for each */
    uint32_t n_blocks;
    /* Window blocks [window_first, window_first + n_windows), a ring of
     * window_room (worker/cache/windows.h): [window_room, pages] logical
     * numbers, a reference for each. */
    struct paged windows;
    uint32_t window_room, window_first, n_windows;
    uint32_t slot; /* SLOT_NONE: not taken */

    /* Ids: the prompt, then the generated tokens. */
    struct paged tokens;
    uint32_t n_received;  /* ids that have come */
    uint32_t n_announced; /* ids that the Submit announced */
    uint32_t n_generated;
    struct logprobs logprobs; /* the newest tokens', if requested */

    /* Reuse (worker/cache/prefix.h). */
    bool cache; /* it reuses, and may be reused */
    uint8_t n_scope;
    uint8_t scope[PREFIX_SCOPE_MAX]; /* [n_scope] tenant and salt */
    uint32_t reused;  /* first positions that were restored, not computed */
    uint32_t node;    /* that it was restored from; PREFIX_NONE: none */
    uint32_t n_spans; /* 0: all prompt positions were computed as prompt */
    uint32_t spans[SPANS_MAX]; /* [n_spans] alternating runs of prompt and
                                * generated positions, beginning with prompt;
                                * their sum is n_prompt */
    uint32_t n_computed; /* positions restored, or whose results have come */
    uint32_t n_wants, wants[SEQUENCE_WANTS_MAX]; /* positions to save at */
    /* Reserved checkpoints of decode: the newest one and its position, and the
     * one that a plan in flight saves.  SLOT_NONE: there is none. */
    uint32_t rolling, rolling_at, rolling_next;

    /* Plans. */
    uint32_t n_planned; /* positions computed or in flight, drafts included */
    uint32_t pending;   /* tokens being sampled by plans in flight, at most */
    uint32_t inflight;  /* plans in flight that name it */
    uint64_t last_step; /* the newest of these plans, */
    uint32_t last_row;  /* and the row there */
    enum sequence_recompute recompute;
    uint64_t anew_step; /* the newest plan with which it began anew; 0: none */
    bool spoilt; /* at a stage (worker/stages/stage.h): one of its steps failed
                  */

    uint32_t lost; /* first positions that were computed before, and are not
                    * there when its next row begins */
    enum sequence_waste waste; /* why */

    struct sequence_drafts drafts;

    /* Suspension (worker/sequences/suspend.h). */
    bool grows;                  /* need is what it is expected to use */
    bool waits;                  /* nothing is granted to it yet */
    bool resumed;                /* it was suspended once */
    uint32_t expected;           /* blocks that its Submit asked for */
    enum sequence_state resumes; /* with its pages: PREFILL or DECODE */
    uint32_t host;   /* first host page of its slot and blocks; HOST_NONE */
    uint32_t n_host; /* pages there: of the slot, then of the blocks, */
    uint32_t n_host_windows; /* then this many of the window blocks */
    uint32_t n_dropped;      /* blocks before those, which the index had */
    bool away; /* KEPT: all that it has is there (worker/sequences/kept.h) */
    uint64_t swap_step; /* the newest plan with its copies from there */

    /* Choices of one request (worker/sequences/twins.h). */
    struct sequence *leader; /* computes the prompt for this one; or NULL */
    uint32_t n_twins;        /* that wait for this one */

    /* Continuation (worker/sequences/continue.h). */
    struct sequence *from; /* KEPT: its memory will be taken over; or NULL */
    struct sequence *heir; /* takes this KEPT one over; or NULL */
    struct sequence_key from_key;
    bool continues;  /* from_key is set */
    uint32_t n_kept; /* KEPT: ids that remain */
    /* KEPT: RemoveSequence of [cut_begin, end), which waits for the last row;
     * 0: none. */
    uint64_t cut_call;
    uint32_t cut_begin;

    /* At a leader: the later stages. */
    bool staged;      /* they hold the sequence until its Remove returns */
    bool remove_sent; /* the Remove is on its way */

    /* The router's view. */
    uint32_t acked;        /* next index that the router expects */
    uint32_t sent_running; /* end of the longest row sent before its end */
    bool row_sent;         /* some row was sent */
    bool end_sent;         /* the row with its ending was sent */
    bool forgotten;        /* the router needs nothing more of it */
    char failure[SEQUENCE_FAILURE]; /* only with FINISH_FAILED */
    uint64_t call;                  /* the Submit that is still open, 0: none */

    /* Outlives its session (worker/sequences/orphans.h). */
    bool orphan;
    bool orphan_sent; /* a later session was sent a Live that names it */
    uint64_t
        ids_hash; /* hash of the first n_hashed ids, which may be dropped */
    uint32_t n_hashed;

    struct timer keep; /* end of the KEPT lease, or of an orphan's time */
    struct receipt_waiter *waiters, *last_waiter;

    struct sequence *key_next, *grant_next; /* hash chains */
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

/* Returns NULL if there is none. */
struct sequence *sequence_by_key(const struct sequence_table *t,
                                 const struct sequence_key *key);
struct sequence *sequence_by_grant(const struct sequence_table *t,
                                   uint64_t grant);

/* Reads the key in `ref`.  Returns false with e set if the id has a wrong
 * length or is all zero. */
MUST_CHECK bool sequence_key_read(struct sequence_key *out,
                                  const Sluice__V1__SequenceRef *ref,
                                  struct error *e);

/* Copies the sampling; its lists go into the table's memory.  n_generated and
 * max_tokens must be set, because the ring of logprobs covers the tokens
 * between them.  Returns false if the ring finds no room. */
MUST_CHECK bool sequence_set_sampling(struct sequence_table *t,
                                      struct sequence *s,
                                      const struct sampling *sampling);

const char *sequence_state_name(enum sequence_state s);

/* Changes the state; checked against the table of successors, and logged. */
void sequence_move(struct sequence_table *t, struct sequence *s,
                   enum sequence_state to);

/* Returns the number of proto's SequenceState. */
int sequence_public_state(const struct sequence *s);

/* Writes "0123..ef/2", the request id in hexadecimal and the choice, for logs.
 * Returns out. */
#define SEQUENCE_NAME 48
const char *sequence_name(const struct sequence_key *key,
                          char out[SEQUENCE_NAME]);

/* Returns the number of ids that are known: prompt and generated. */
static inline uint32_t sequence_known(const struct sequence *s)
{
    return s->n_prompt + s->n_generated;
}

/* Returns the kind of position `at`, and in *end the end of its run: at most
 * n_prompt, or UINT32_MAX behind the prompt. */
enum row_kind sequence_kind(const struct sequence *s, uint32_t at,
                            uint32_t *end);

/* Returns the end of the first run: positions below it have the bits of a
 * prompt that was computed alone. */
static inline uint32_t sequence_first_run(const struct sequence *s)
{
    return s->n_spans > 0 ? s->spans[0] : s->n_prompt;
}

/* Gives back everything that s has of the pool: its references of blocks and
 * window pages, its slot, and what was granted but not taken.  `need` is zero
 * afterwards. */
void sequence_give_back(struct sequence_table *t, struct sequence *s);

/* Gives back the host pages of s. */
void sequence_give_host(struct sequence_table *t, struct sequence *s);

/* Does both, and frees the block table and the window tables. */
void sequence_release(struct sequence_table *t, struct sequence *s);

/* Appends s to l; moves it to the tail if it is in l already. */
void sequence_push(struct sequence_list *l, struct sequence *s);
/* Inserts s, which is in no list of that kind, before `at`; NULL: at the tail.
 */
void sequence_insert(struct sequence_list *l, struct sequence *s,
                     struct sequence *at);
/* Removes s from its list of that kind, if it is in one. */
void sequence_unlink(struct sequence *s, enum sequence_in link);
/* Returns the sequence after s in its list, NULL at the tail. */
struct sequence *sequence_next(const struct sequence *s, enum sequence_in link);
bool sequence_is_linked(const struct sequence *s, enum sequence_in link);

#endif
