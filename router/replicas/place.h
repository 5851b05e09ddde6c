/* place.h - Places: a worker with all layers, or all stages of a replica.
 *
 * A place is where sequences run: a worker with all layers, or the leader of a
 * replica that is UP (router/replicas/replica.h).  A sequence has one place.
 * It is granted there, and its tokens and receipts come from there.  The other
 * stages hold their share of the sequence: the same blocks, window blocks and
 * slots, in the classes that their shard has.
 *
 *     property       place
 *     -------------  ------------------------------
 *     open           if all stages are open
 *     room, context  the smallest of all stages
 *     draining       if any stage is
 *
 * Counts of a place (sequences, moved sequences, tokens) are kept at each of
 * its stages.  For a worker with all layers, the functions cost one branch
 * more than those of workers.h; stages_*() are for replicas only.  While a
 * replica ends, some of its stages may be closed; they are skipped.
 *
 * Threading: the core's.  Memory: none of its own; no call allocates, except
 * for a grant (workers.h). */
#ifndef ROUTER_REPLICAS_PLACE_H
#define ROUTER_REPLICAS_PLACE_H

#include "router/replicas/replica.h"

/* Makes w a place: sequences may be granted to it, and the queue of its model
 * is tried again. */
void place_begin(struct replicas *r, struct worker *w);

/* Ends w as a place.  A no-op if w is none.  Updates the context of its model,
 * but not its presence: place_update_presence(). */
void place_end(struct replicas *r, struct worker *w);

/* Adds the staged worker w to the workers that wait for a replica.  Its model
 * is absent until a replica forms. */
void place_await(struct replicas *r, struct worker *w);

/* Updates the presence of m after its places have changed.  May release the
 * last reference to m. */
void place_update_presence(struct replicas *r, struct model *m);

/* Returns why w cannot be sent one more Submit now, as a sentence; NULL if it
 * can: w is a place, and the state of all stages, w's limits and its send queue
 * allow it. */
const char *place_refuses(const struct worker *w);

static inline bool place_takes(const struct worker *w)
{
    return place_refuses(w) == NULL;
}

/* Returns true if the sessions of all stages of w have this minor version or a
 * later one. */
bool place_speaks(const struct worker *w, uint32_t minor);

/* Returns true if the lineages of all stages of w allow a grant now. */
bool place_readmitted(const struct worker *w);

/* Reports the tokens of w so far to the lineages of all its stages. */
void place_proved(struct replicas *r, struct worker *w);

/* Reports a sequence of w that ended well to the lineages of all its stages. */
void place_ended_well(struct replicas *r, struct worker *w);

/* Returns the worst state of w's stages, in the order of enum worker_state. */
enum worker_state place_state(const struct worker *w);

/* Returns true if the session of any stage of w has ended. */
bool place_ended(const struct worker *w);

/* Returns true if any stage of w is draining. */
bool place_drained(const struct worker *w);

/* Returns true if any stage of w has asked to drain because it is stopping. */
bool place_leaves(const struct worker *w);

/* Returns the need of a sequence of n_tokens tokens at a stage that has all
 * classes of the place: the maximum over the stages.  For replicas only. */
struct need stages_need(const struct worker *w, uint64_t n_tokens);

/* Returns the need of a sequence of n_tokens tokens at the place w. */
static inline struct need place_need(const struct worker *w, uint64_t n_tokens)
{
    return member_of(w)->replica == NULL ? worker_need(w, n_tokens)
                                         : stages_need(w, n_tokens);
}

/* Returns the part of a place's need that a stage must hold. */
static inline struct need place_share(const struct worker *stage,
                                      const struct need *need)
{
    return member_of(stage)->replica == NULL ? *need
                                             : worker_share(stage, need);
}

/* Returns the sum of the shares of all stages of w. */
struct need place_sum(const struct worker *w, const struct need *need);

/* Returns true if n_tokens tokens fit the context and the empty pool of every
 * stage.  For replicas only. */
bool stages_fit_ever(const struct worker *w, uint64_t n_tokens);

/* Returns true if a sequence of n_tokens tokens could ever run at w. */
static inline bool place_fits_ever(const struct worker *w, uint64_t n_tokens)
{
    return member_of(w)->replica == NULL ? worker_fits_ever(w, n_tokens)
                                         : stages_fit_ever(w, n_tokens);
}

/* Returns true if every stage has room for its share.  For replicas only. */
bool stages_have_room(const struct worker *w, const struct need *need);

/* Returns true if the place w has room for need now. */
static inline bool place_has_room(const struct worker *w,
                                  const struct need *need)
{
    return member_of(w)->replica == NULL ? worker_has_room(w, need)
                                         : stages_have_room(w, need);
}

/* Returns the smallest total of a class, in units, among the stages that have
 * the class; 0 if none has. */
uint64_t place_total(const struct worker *w, enum fleet_class c);

/* Returns the smallest room of a class, in units, among the stages that have
 * the class; 0 if none has. */
uint64_t place_room(const struct worker *w, enum fleet_class c);

/* Returns the same of the units that are left, if pages allow them. */
uint64_t place_units(const struct worker *w, enum fleet_class c);

/* Returns the stage to name in an error: among those that can never hold
 * n_tokens tokens, the one whose pages they exceed most, in proportion; w
 * itself if all can hold them. */
const struct worker *place_tightest(const struct worker *w, uint64_t n_tokens);

/* Charges each stage its share and returns the grant number at w.  For replicas
 * only. */
uint64_t stages_grant(struct worker *w, const struct need *need);

/* Charges need to all stages of w in the same turn, so that their grants have
 * the same order.  Returns the grant number at w. */
static inline uint64_t place_grant(struct worker *w, const struct need *need)
{
    return member_of(w)->replica == NULL ? worker_grant(w, need)
                                         : stages_grant(w, need);
}

/* Returns the number that a grant of w has at one of its stages.  Each Submit
 * takes one number at each stage, in the same order. */
uint64_t place_grant_at(const struct worker *w, const struct worker *stage,
                        uint64_t grant);

/* Counts one more sequence at w. */
void place_more(struct worker *w);

/* Counts one sequence less at w.  A draining stage that has none left ends its
 * drain. */
void place_less(struct replicas *r, struct worker *w);

/* Counts a sequence of w that moved to another place. */
void place_moved(struct worker *w);

/* Counts n tokens that w has generated. */
static inline void place_made(struct worker *w, uint32_t n)
{
    w->counts.n_tokens += n;
    for (uint32_t i = 1; i < worker_n_stages(w); i++) {
        worker_stage(w, i)->counts.n_tokens += n;
    }
}

#endif
