/* forecast.h - The pages that the sequences of a place will need.
 *
 * Sequences of a place generate about one token a step, all of them together.
 * In h steps one that has n tokens still runs with the probability S(n + h) /
 * S(n) of its model's lengths (lengths.h), and holds the pages of n + h tokens;
 * otherwise it has returned what it holds now.  Over the sequences i of a place
 *
 *     mean(h)     = sum of p_i(h) * pages_i(h) - held_i
 *     variance(h) = sum of p_i(h) * (1 - p_i(h)) * pages_i(h)^2
 *
 * is the change of what they hold.  A place takes one more sequence if, with it
 * and at every horizon,
 *
 *     mean(h) + margin * sqrt(variance(h)) <= room of the place now
 *
 * or if all could have all of their max_tokens, as in strict admission.  A
 * sequence thus waits until others are expected to end in time, and one that
 * has outlived the usual length is expected to be a long one.
 *
 * The margin follows the target, options.suspensions: the share of sequences
 * that are ever suspended.  It grows by FORECAST_STEP with each sequence that
 * is suspended, and shrinks by FORECAST_STEP * target / (1 - target) with each
 * that ends and was not.  It stands still when the share is the target (Robbins
 * and Monro, 1951).
 *
 *     horizons: 8, 12, 16, 24, 32, ... steps, up to FORECAST_HORIZONS of them
 *
 * A sequence that comes or goes is added to the forecast of its place, or taken
 * out.  The forecast is made anew when its sequences got FORECAST_STALE tokens
 * each since: pages that they have taken meanwhile count twice, as room that is
 * gone and as growth, which is the safe side.
 *
 * Threading: the core's thread only.  Memory: part of the place.  Cost: that of
 * a sequence, O(horizons), once for all equal places; to make a forecast anew,
 * O(sequences * horizons). */
#ifndef ROUTER_SCHEDULE_FORECAST_H
#define ROUTER_SCHEDULE_FORECAST_H

#include "router/schedule/schedule.h"

#define FORECAST_STALE 4
#define FORECAST_ONE   ((uint32_t)1 << 16) /* the margin 1 */
#define FORECAST_STEP  (FORECAST_ONE / 4)
#define FORECAST_FIRST (FORECAST_ONE * 5 / 2)
#define FORECAST_LEAST FORECAST_ONE
#define FORECAST_MOST  (FORECAST_ONE * 4)

/* Adds e, which was granted e->claim at w; forecast_remove() takes it out, and
 * is idempotent. */
void forecast_add(struct queue_entry *e, struct worker *w);
void forecast_remove(struct queue_entry *e);

/* Takes in that e has n_made tokens now. */
void forecast_made(struct queue_entry *e, uint32_t n_made);

/* Returns what the sequences of w are expected to take of its room by growing:
 * the expected needs of their claims, without what they hold already. */
struct need forecast_growth(const struct worker *w);

/* Returns true if w, which has room for the grant c, may take e by the rules
 * above. */
bool forecast_fits(const struct queue_entry *e, const struct worker *w,
                   const struct claim *c);

/* Returns the first horizon from which on w holds e too, with one standard
 * deviation; FORECAST_HORIZONS: none. */
uint32_t forecast_start(const struct queue_entry *e, const struct worker *w,
                        const struct claim *c);

/* Returns the steps until a horizon. */
uint32_t forecast_steps(uint32_t k);

/* Returns true if w, granted e with c now, still holds `first` from horizon k
 * on. */
bool forecast_leaves(const struct queue_entry *e, const struct claim *c,
                     const struct worker *w, const struct queue_entry *first,
                     const struct claim *claim_of_first, uint32_t k);

/* Adapt the margin of the model of e: e is suspended, or has ended. */
void forecast_suspended(struct queue_entry *e);
void forecast_ended(const struct schedule *s, const struct queue_entry *e);

#endif
