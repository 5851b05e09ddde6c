/* routing.h - Chooses the place for an entry of the queue.
 *
 * The place is the one at which the sequence is expected to end earliest, with
 * the time that it costs others there, among the places that have room for the
 * entry now and may take it (predict.h):
 *
 *     end(w) = prompts before it at w + tokens to compute at w
 *              + tokens to generate * time of a step with the rows of w and it
 *              + time that its rows add to the steps of the others at w
 *
 *     tokens to compute   prompt and generated tokens of the entry, less those
 *                         that w can restore (prefixes.h)
 *
 * It is the end and not the first token: rows that a place has are load for all
 * tokens of a sequence, not only for the first.  Ends are compared in grains,
 * the time of PREFIX_UNIT prompt tokens.  Ties go to the place that computes
 * fewer tokens, then to the one with the most free pages in its tightest stage,
 * then to the oldest session.  Consequences:
 *
 *   - Without reusable prefixes, sequences go where fewer prompts and fewer
 * rows are, and single ones to the most free pages.
 *   - A place that can restore the prompt is chosen while its prompts and rows
 *     cost less than computing the prompt elsewhere.  A prefix that is asked
 *     for more often is then computed once at a second place, and both have it.
 *   - A place without sequences is chosen soon, also one that has just come: it
 *     is expected to be as fast as its siblings (costs.h).
 *   - A place without room loses to any place with room, whatever it could
 *     restore.
 *   - Choices of one request follow the first one: its place computes their
 *     prompt once.
 *
 * A sequence that continues a kept one (router/requests/continuation.h) has one
 * place only, its keeper.
 *
 * Threading: the core's thread only.  Memory: one record for each entry that
 * was granted, on the heap.  Cost: O(workers), and for the first place of a
 * prompt after the index has changed, O(units of the prompt). */
#ifndef ROUTER_SCHEDULE_ROUTING_H
#define ROUTER_SCHEDULE_ROUTING_H

#include "router/schedule/predict.h"
#include "router/schedule/schedule.h"

/* One place as it was for an entry. */
struct routing_place {
    char name[PEER_NAME_MAX + 1];
    const char *why_not; /* NULL: possible; else a constant sentence */
    uint32_t restorable;
    uint32_t n_running;
    uint64_t room_pages, need_pages; /* its tightest stage's */
    uint64_t most_pages;             /* 0: need_pages is all it can need */
    uint64_t n_wait;                 /* tokens to compute until its first one */
    struct prediction expected;      /* as if granted now */
};

/* The places at the grant of an entry: the chosen one first, then others in
 * order of their sessions. */
struct routing_record {
    uint32_t n;
    struct routing_place places[]; /* [n], at most EXPLAIN_PLACES_MAX */
};

/* Returns the place for e by the rules above; NULL if there is none now. Stores
 * the places in e->record if there is one. */
struct worker *routing_pick(struct schedule *s, struct queue_entry *e);

/* Returns true if e, which is in no queue, would have a place now if no other
 * entry waited. */
bool routing_possible(struct schedule *s, const struct queue_entry *e);

/* Writes how w looks now for e, which waits. */
void routing_describe(struct schedule *s, const struct queue_entry *e,
                      const struct worker *w, struct routing_place *out);

/* Counts the tokens of e as tokens before others at w, where it is granted; and
 * takes that back, when its first token has come or it has left.  Idempotent.
 */
void routing_charge(struct schedule *s, struct queue_entry *e,
                    struct worker *w);
void routing_release(struct queue_entry *e);

#endif
