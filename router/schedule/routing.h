/* routing.h - Chooses the place for an entry of the queue.
 *
 * The place is the one that is expected to give the first token earliest. Among
 * the places that have room for the entry now and may take it,
 *
 *     wait(w) = tokens to compute at w + tokens before it at w
 *
 *     tokens to compute   prompt and generated tokens of the entry, less those
 *                         that w can restore (prefixes.h)
 *     tokens before it    the same sum over the sequences that were granted at
 *                         w and have no token from there yet
 *
 * is least, counted in units of PREFIX_UNIT tokens.  Ties go to the place that
 * computes fewer tokens, then to the one with the most free pages in its
 * tightest stage, then to the oldest session.  Consequences:
 *
 *   - Without reusable prefixes, prompts go where fewer wait, and single ones
 * to the most free pages.
 *   - A place that can restore the prompt is chosen until the prompts that wait
 *     there cost more than computing it elsewhere.  No place starves.
 *   - A place without room loses to any place with room, whatever it could
 *     restore.
 *   - Choices of one request follow the first one: its place computes their
 *     prompt once.
 *
 * A token counts alike on all places.  A sequence that continues a kept one
 * (router/requests/continuation.h) has one place only, its keeper.
 *
 * Threading: the core's thread only.  Memory: one record for each entry that
 * was granted, on the heap.  Cost: O(workers), and for the first place of a
 * prompt after the index has changed, O(units of the prompt). */
#ifndef ROUTER_SCHEDULE_ROUTING_H
#define ROUTER_SCHEDULE_ROUTING_H

#include "router/schedule/schedule.h"

/* One place as it was for an entry. */
struct routing_place {
    char name[PEER_NAME_MAX + 1];
    const char *why_not; /* NULL: possible; else a constant sentence */
    uint32_t restorable;
    uint32_t n_running;
    uint64_t room_pages, need_pages; /* its tightest stage's */
    uint64_t most_pages;             /* 0: need_pages is all it can need */
    uint64_t n_wait;                 /* tokens: the formula above */
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
