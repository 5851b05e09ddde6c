/* choice.h - A choice: one sequence of a client's request
 * (router/requests/request.h).
 *
 * The states are in choice_state.h, the allowed transitions in choice.c.  A
 * choice that has ENDED may still
 *
 *   - owe its client tokens (n_sent < n_generated) or the last chunk;
 *   - be held by its worker: because it is kept, or because a stop string was
 *     found in its tokens and the worker's receipt has not arrived.
 *
 * A choice lives as long as its request.
 *
 * Threading: the core's thread only.  Memory: part of the request. tokens grows
 * by doubling up to max_tokens.  It is freed when the choice owes nothing more,
 * together with the text, the stop strings (stops.h) and the logprobs
 * (logprob_columns.h).  Limits: options.max_requests. */
#ifndef ROUTER_REQUESTS_CHOICE_H
#define ROUTER_REQUESTS_CHOICE_H

#include "proto/inference.pb-c.h"
#include "router/fleet/pending.h"
#include "router/requests/choice_state.h"
#include "router/requests/requests.h"

struct detokenizer;
struct range;
struct logprob_columns;
struct request;
struct stops;

/* The state of a Cancel or Remove for the grant of a choice. */
enum removal { REMOVAL_NONE, REMOVAL_UNSENT, REMOVAL_SENT };

struct choice {
    struct request *request;
    uint32_t index; /* index in its request, 0..n_choices - 1 */
    enum choice_state state;
    struct queue_entry entry; /* the part that the scheduler uses */
    struct list all;          /* in requests.all_choices, by entry.number */
    struct list ready;        /* in the ready list of its client */

    uint32_t *tokens; /* [tokens_size] generated ids */
    uint32_t tokens_size, n_generated, n_sent;
    uint32_t n_client_has;  /* tokens that its client resumed with */
    uint32_t n_detokenized; /* tokens already converted to text */
    uint32_t skip_bytes;    /* leading bytes of text that the client has */
    bool last_sent, kept;
    struct detokenizer *detok;        /* NULL: no text is wanted or possible */
    struct stops *stops;              /* NULL: no stop strings */
    struct logprob_columns *logprobs; /* NULL: not requested */

    /* The grant that it has; worker is NULL if it has none. */
    struct worker *worker;
    struct table_node by_grant;
    struct list running, parts, removals;
    uint64_t grant;
    struct need need; /* the most it may hold, at a stage with all kinds of
                       * layers (place.h); entry.claim has its grant */
    struct need held; /* sum over all stages; kept after the grant ends */
    uint32_t n_ids, n_ids_sent; /* ids in its Submit and parts */
    uint64_t n_before;          /* envelopes in the lane up to its last part */
    uint32_t n_gaps; /* consecutive rows that start past n_generated */
    enum removal removal;
    bool remove;       /* remove by RemoveSequence, not Cancel */
    bool moving;       /* continues elsewhere if it is still open then */
    bool adopting;     /* its Submit adopts an orphan */
    bool continuing;   /* its Submit continues a kept sequence */
    bool suspended;    /* its newest row shows it suspended */
    bool released;     /* held has the blocks of its receipt: it grew */
    uint32_t n_reused; /* positions restored at its last worker */
    bool row_holds;    /* the row of held_check.h shows it running, */
    bool row_tokens;   /* and has tokens */
    uint64_t row_at;   /* has a row in that output of its worker */
    int64_t asked_us;  /* when its worker got the Cancel or Remove */
    Sluice__V1__CancelReason reason;
    struct event lease; /* end of the lease of a kept sequence */
    /* A kept sequence also has: */
    struct request *continued_by; /* has claimed it; NULL: none */
    struct range *range;          /* removal under way (ranges.h) */
    uint32_t n_kept_ids;          /* ids left after a range; 0: all */
    uint32_t n_state;             /* position of its state, if so */

    /* How it ended, and figures of its run. */
    Sluice__V1__Finish finish;
    int64_t granted_us, first_us, ended_us;
    int64_t ready_us; /* has had output for its client since then */
    uint32_t n_moves, n_idle_moves, n_refusals;
    char worker_name[PEER_NAME_MAX + 1];
};

/* Sets *ref to the name of choice, borrowed. */
void choice_ref(struct choice *choice, Sluice__V1__SequenceRef *ref);

/* Returns the name of s, for logs and listings. */
const char *choice_state_name(enum choice_state s);

/* Returns the name of its state for operators: that of choice_state_name(),
 * "kept", or "suspended". */
const char *choice_state_word(const struct choice *choice);

/* Moves choice to another state and logs the move.  Asserts that the transition
 * is allowed. */
void choice_move(struct choice *choice, enum choice_state to);

/* Initialises choice c of request in ENCODING, with the next number; and frees
 * what it holds. fini: no worker may hold the choice. */
void choice_init(struct requests *r, struct choice *choice,
                 struct request *request, uint32_t c);
void choice_fini(struct requests *r, struct choice *choice);

/* Reserves room for n generated tokens in all. */
void choice_reserve(struct choice *choice, uint32_t n);

/* Returns true if the worker of choice has taken all its ids from the link, so
 * that it may have run. */
bool choice_may_have_run(const struct choice *choice);

/* Frees what an ended choice no longer needs, and the request if nothing else
 * holds it.  The choice may be gone afterwards. */
void choice_settle(struct requests *r, struct choice *choice);

/* Returns true if a stop string ended choice and its worker has not released it
 * yet. */
static inline bool choice_is_leaving(const struct choice *choice)
{
    return choice->state == CHOICE_ENDED && choice->worker != NULL &&
           !choice->kept;
}

/* Returns the tokens of its prompt that its last worker restored. */
uint32_t choice_n_cached(const struct choice *choice);

/* Returns the blocks of its newest grant, summed over all stages, or those that
 * it has grown to. */
uint32_t choice_n_blocks(const struct choice *choice);

/* Returns the same for the pages of its window blocks. */
uint32_t choice_n_windows(const struct choice *choice);

/* Returns the choice of a grant at w; NULL: unknown or released. */
struct choice *choice_of_grant(const struct worker *w, uint64_t grant);

#endif
