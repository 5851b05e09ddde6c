/* place.h - what is asked of a place is asked of all its stages.
 *
 * A place is where sequences run: a worker of all layers, or the leader of a
 * replica that is up (router/replicas/replica.h).  A sequence has one place: it
 * is granted there, its tokens and receipts come from there.  The stages past
 * the first hold their share of it: the same blocks and slots, of the kinds
 * that their shard has.
 *
 *     open           if all of them are
 *     room, context  the least of them
 *     drained        if any of them is
 *
 * What is counted of a place (sequences, those that went elsewhere, tokens) is
 * counted at each of its stages.  A worker of all layers is asked itself, at
 * the cost of a branch; stages_*() are of replicas alone.  A stage may be
 * closed already where its replica ends; it is passed by then.
 *
 * Threading: the core's.  Memory: none of its own. */
#ifndef ROUTER_REPLICAS_PLACE_H
#define ROUTER_REPLICAS_PLACE_H

#include "router/replicas/replica.h"

struct replicas;

/* w becomes a place: sequences may be granted to it.  What waits for its model
 * is looked at again.  And: w is a place no longer; no-op if it was none. */
void place_begin(struct replicas *r, struct worker *w);
void place_end(struct replicas *r, struct worker *w);

/* w has only some of the layers: its model is known, and absent until a
 * replica forms. */
void place_await(struct replicas *r, struct worker *w);

/* The places of m have changed: is m present?  Drops m's last reference if its
 * absence is over and nothing else holds it. */
void place_look(struct replicas *r, struct model *m);

/* Does w take one more Submit now: its state and that of its stages, its
 * link, its limits? */
bool place_takes(const struct worker *w);

/* Do the lineages of all its stages let a sequence be granted now? */
bool place_readmitted(const struct worker *w);

/* Its tokens, and a sequence that ended well, speak for all its stages. */
void place_proved(struct replicas *r, struct worker *w);
void place_ended_well(struct replicas *r, struct worker *w);

/* The worst state of its stages. */
enum worker_state place_state(const struct worker *w);

/* Is the session of one over; does one drain, or leave? */
bool place_ended(const struct worker *w);
bool place_drained(const struct worker *w);
bool place_leaves(const struct worker *w);

/* What n_tokens tokens need of a stage that has all kinds which the place has,
 * and the share of it that a stage has to give. */
struct need stages_need(const struct worker *w, uint64_t n_tokens);
static inline struct need place_need(const struct worker *w, uint64_t n_tokens)
{
    return w->replica == NULL ? worker_need(w, n_tokens)
                              : stages_need(w, n_tokens);
}

static inline struct need place_share(const struct worker *stage,
                                      const struct need *need)
{
    return stage->replica == NULL
               ? *need
               : worker_share(stage, need->of[BLOCKS], need->of[SLOTS]);
}

/* The sum of the shares. */
struct need place_sum(const struct worker *w, const struct need *need);

/* Could it ever run there, were the pools empty; does it fit now? */
bool stages_fit_ever(const struct worker *w, uint64_t n_tokens);
static inline bool place_fits_ever(const struct worker *w, uint64_t n_tokens)
{
    return w->replica == NULL ? worker_fits_ever(w, n_tokens)
                              : stages_fit_ever(w, n_tokens);
}

bool stages_have_room(const struct worker *w, const struct need *need);
static inline bool place_has_room(const struct worker *w,
                                  const struct need *need)
{
    return w->replica == NULL ? worker_has_room(w, need)
                              : stages_have_room(w, need);
}

/* What there is of a class where there is least of it, and what is left of it
 * where least is left, of the stages that have any; 0 if none has. */
uint64_t place_total(const struct worker *w, enum fleet_class c);
uint64_t place_room(const struct worker *w, enum fleet_class c);

/* Of the stages that could never hold n_tokens the one with the fewest blocks;
 * w itself if all could. */
const struct worker *place_tightest(const struct worker *w, uint64_t n_tokens);

/* Charge each stage its share, in the same turn: the number at w. */
uint64_t stages_grant(struct worker *w, const struct need *need);
static inline uint64_t place_grant(struct worker *w, const struct need *need)
{
    return w->replica == NULL ? worker_grant(w, need) : stages_grant(w, need);
}

/* Of a grant of w: its number at one of its stages.  Their orders agree, and
 * each Submit takes one number of each. */
uint64_t place_grant_at(const struct worker *w, const struct worker *stage,
                        uint64_t grant);

/* It has one sequence more, or less; one went elsewhere; n tokens came. */
void place_more(struct worker *w);
void place_less(struct replicas *r, struct worker *w);
void place_moved(struct worker *w);
static inline void place_made(struct worker *w, uint32_t n)
{
    w->n_tokens += n;
    for (uint32_t i = 1; i < worker_n_stages(w); i++) {
        worker_stage(w, i)->n_tokens += n;
    }
}

#endif
