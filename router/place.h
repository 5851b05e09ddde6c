/* place.h - what is asked of a place is asked of all its stages.
 *
 * A place is where sequences run: a worker of all layers, or the leader of a
 * replica that is up (router/replica.h).  A sequence has one place: it is
 * granted there, its tokens and receipts come from there.  The stages past
 * the first hold their share of it: the same blocks and slots, of the kinds
 * that their shard has.
 *
 *     open           if all of them are
 *     room, context  the least of them
 *     drained        if any of them is
 *
 * What is counted of a place (sequences, those that went elsewhere, tokens) is
 * counted at each of its stages.  For a worker of all layers each of these
 * costs a branch more than to ask the worker itself.
 *
 * A stage may be closed already where the replica ends; it is passed by then.
 *
 * Threading: the core's.  Memory: none of its own. */
#ifndef ROUTER_PLACE_H
#define ROUTER_PLACE_H

#include "router/replica.h"

/* Are all its stages UP; is the session of one over; does one drain, or
 * leave? */
bool place_up(const struct worker *w);
bool place_ended(const struct worker *w);
bool place_drained(const struct worker *w);
bool place_leaves(const struct worker *w);

/* What n_tokens tokens need of a stage that has all kinds which the place has,
 * and the share of it that a stage has to give. */
struct need place_need(const struct worker *w, uint64_t n_tokens);
struct need place_share(const struct worker *stage, const struct need *need);

/* The sum of the shares. */
struct need place_sum(const struct worker *w, const struct need *need);

/* Could it ever run there, were the pools empty; does it fit now? */
bool place_fits_ever(const struct worker *w, uint64_t n_tokens);
bool place_has_room(const struct worker *w, const struct need *need);

/* What there is of a class where there is least of it, and what is left of it
 * where least is left, of the stages that have any; 0 if none has. */
uint64_t place_total(const struct worker *w, enum pool_class c);
uint64_t place_room(const struct worker *w, enum pool_class c);

/* Of the stages that could never hold n_tokens the one with the fewest blocks;
 * w itself if all could. */
const struct worker *place_tightest(const struct worker *w, uint64_t n_tokens);

/* Charge each stage its share, in the same turn: the number at w. */
uint64_t place_grant(struct worker *w, const struct need *need);

/* Of a grant of w: its number at one of its stages.  Their orders agree, and
 * each Submit takes one number of each. */
uint64_t place_grant_at(const struct worker *w, const struct worker *stage,
                        uint64_t grant);

/* It has one sequence more, or less; one went elsewhere; n tokens came. */
void place_more(struct worker *w);
void place_less(struct router_core *r, struct worker *w);
void place_moved(struct worker *w);
void place_made(struct worker *w, uint32_t n);

#endif
