/* admission.h - Admission: which requests may wait, and which can ever run.
 *
 * Each model has one queue, in which tenants take turns (fair.h).  Choices go
 * ahead of one without room if they do not delay it (bypass.h), and of suspects
 * that wait for a trial (router/placement/trial.h), TRIALS_ASIDE_MAX of both in
 * a run.
 *
 * A choice needs, of every stage of its place:
 *
 *     blocks   ceil((prompt + max_tokens) / block_tokens) if the shard has
 *              attention layers, else 0
 *     slots    1 if the shard has linear layers, else 0
 *     windows  window_pages * min(ceil((prompt + max_tokens) / block_tokens),
 *              ceil((window_tokens + chunk_tokens) / block_tokens) + 1), if the
 *              shard has window layers, in pages
 *     pages    blocks * pages_per_block + slots * pages_per_slot + windows
 *
 * The router grants the whole need before prefill, or the choice waits.  With
 * --admission expected it grants what the choice needs now (claims.h).
 * The other choices of the request make no difference.  A request that can
 * never fit is refused at once, with the figures of the tightest stage.  A
 * sequence that lives at a worker already (router/placement/adoption.h) needs
 * no new room and waits for none.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_SCHEDULE_ADMISSION_H
#define ROUTER_SCHEDULE_ADMISSION_H

#include "router/schedule/schedule.h"

/* The demand of a request on a pool, for one choice. */
struct demand {
    const struct model *model;
    uint32_t n_prompt, max_tokens;
};

static inline uint64_t demand_tokens(const struct demand *d)
{
    return (uint64_t)d->n_prompt + d->max_tokens;
}

/* Checks whether any place could ever hold d and does not drain.  Returns
 * ST_RESOURCE_EXHAUSTED with the figures of the tightest stage if no place
 * could, and ST_UNAVAILABLE if only drained places could or the model is gone.
 * Returns ST_OK for a model without any place, whose pools are unknown: the
 * request may wait for as long as the model is absent
 * (router/fleet/models.h). */
MUST_CHECK enum status admission_possible(const struct fleet *fleet,
                                          const struct demand *d,
                                          struct error *e);

/* Returns true if an open place of m other than w could hold a sequence of
 * n_tokens tokens when empty. */
bool admission_elsewhere(const struct fleet *fleet, const struct model *m,
                         uint64_t n_tokens, const struct worker *w);

/* Sets e to ST_UNAVAILABLE and the reason why no worker of m accepts work, and
 * returns that status. */
enum status admission_absent(const struct model *m, struct error *e);

/* Returns the milliseconds after which a request refused with e may be retried;
 * 0: a retry would not help. */
uint32_t admission_retry_ms(const struct error *e);

/* Checks that n choices of a tenant fit into the queue of m: no model takes the
 * places of another.  Past options.max_waiting they still fit if the tenant has
 * no more than its share of these places with them (fair.h): none takes those
 * of another.  At most twice as many thus wait.  Returns ST_RESOURCE_EXHAUSTED
 * if they do not fit, and sets *retry_after_ms to the time after which to
 * retry; 0: never. */
MUST_CHECK enum status admission_queue(const struct schedule *s,
                                       const struct model *m, uint32_t tenant,
                                       uint32_t n, uint32_t *retry_after_ms,
                                       struct error *e);

#endif
