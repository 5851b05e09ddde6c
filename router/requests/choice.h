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
 * Threading: the core's thread only.  Memory: part of the request.
 * Its output (choice_parts.h) is freed when the choice owes nothing more.
 * Limits: options.max_requests. */
#ifndef ROUTER_REQUESTS_CHOICE_H
#define ROUTER_REQUESTS_CHOICE_H

#include "router/fleet/pending.h"
#include "router/requests/choice_parts.h"
#include "router/requests/choice_state.h"
#include "router/requests/requests.h"
#include "router/requests/worker_choices.h"

struct request;

struct choice {
    struct request *request;
    uint32_t index; /* index in its request, 0..n_choices - 1 */
    enum choice_state state;
    Sluice__V1__Finish finish; /* how it ended */
    struct queue_entry entry;  /* the part that the scheduler uses */
    struct list all; /* in requests.all_choices, by entry.turn.number */
    struct choice_output out;
    struct choice_text text;
    struct choice_grant grant;
    struct choice_submit submit;
    struct choice_removal removal;
    struct choice_row row;
    struct choice_progress progress;
    struct choice_kept kept;
    struct choice_figures figures;
};

/* Sets *ref to the name of choice, borrowed. */
void choice_ref(struct choice *choice, Sluice__V1__SequenceRef *ref);

/* Returns the name of s, for logs and listings. */
const char *choice_state_name(enum choice_state s);

/* Returns the name of its state for operators: that of choice_state_name(),
 * "kept", "lapsed", or "suspended". */
const char *choice_state_word(const struct choice *choice);

/* Moves choice to another state and logs the move.  Asserts that the transition
 * is allowed. */
void choice_move(struct choice *choice, enum choice_state to);

/* Initialises choice c of request in ENCODING, with the next number; and frees
 * what it holds. fini: no worker may hold the choice. */
void choice_init(struct requests *r, struct choice *choice,
                 struct request *request, uint32_t c);
void choice_fini(struct requests *r, struct choice *choice);

/* Returns the bytes of a choice with n generated tokens. */
size_t choice_bytes(uint32_t n);

/* Reserves room for n generated tokens in all.  Returns false without
 * memory. */
MUST_CHECK bool choice_reserve(struct choice *choice, uint32_t n);

/* Returns true if the worker of choice has taken all its ids from the link, so
 * that it may have run. */
bool choice_may_have_run(const struct choice *choice);

/* Frees what an ended choice no longer needs, and the request if nothing else
 * holds it.  The choice may be gone afterwards. */
void choice_settle(struct requests *r, struct choice *choice);

/* Returns true if its worker keeps choice after its end. */
static inline bool choice_is_kept(const struct choice *choice)
{
    return choice->grant.state == GRANT_KEPT;
}

/* Returns true if choice has a lease, with its memory or without. */
static inline bool lease_is_on(const struct choice *choice)
{
    return choice->kept.state != LEASE_NONE && choice->kept.state != LEASE_OVER;
}

/* Returns true if the memory of choice gives way, or has. */
static inline bool lease_lapses(const struct choice *choice)
{
    return choice->kept.state == LEASE_LAPSING ||
           choice->kept.state == LEASE_LAPSED;
}

/* Returns true if the worker of choice was asked to release it, so that it can
 * continue elsewhere. */
static inline bool choice_is_moving(const struct choice *choice)
{
    return choice->removal.state == REMOVAL_MOVES_UNSENT ||
           choice->removal.state == REMOVAL_MOVES_SENT;
}

/* Returns true if a stop string ended choice and its worker has not released it
 * yet. */
static inline bool choice_is_leaving(const struct choice *choice)
{
    return choice->state == CHOICE_ENDED && choice->grant.worker != NULL &&
           !choice_is_kept(choice);
}

/* Returns the ids of its sequence: of a kept one, those that are kept. */
uint32_t choice_n_ids(const struct choice *choice);

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
