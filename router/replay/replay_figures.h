/* replay_figures.h - Figures of a run of a recording, by tenant.
 *
 *     queue        from the arrival to the first grant
 *     first token  from the arrival to the first token
 *     good         finished, with a first token within a limit
 *
 * Rates are over the time from the first arrival to the last ending.  Waits of
 * requests that never got so far do not count.
 *
 * Threading: none.  Memory: one array for each tenant while figures are made.
 */
#ifndef ROUTER_REPLAY_REPLAY_FIGURES_H
#define ROUTER_REPLAY_REPLAY_FIGURES_H

#include "router/replay/replay.h"

#define REPLAY_TENANTS_MAX 64 /* the others count together, as the last one */

struct replay_waits {
    int64_t p50_us, p99_us; /* RECORDING_NEVER: nothing came so far */
};

struct replay_figures {
    const char *tenant; /* NULL: all of them */
    uint32_t n_requests, n_refused, n_finished, n_cancelled, n_failed, n_good;
    uint32_t n_suspended; /* choices that ever were */
    uint64_t n_suspensions, n_tokens, n_restored;
    int64_t us; /* for the rates */
    struct replay_waits queue, first;
};

/* Fills out[0] with the figures of all tenants, and the others with those of
 * each, in order of their first request.  Returns their number. */
uint32_t replay_figures(struct replay_figures out[1 + REPLAY_TENANTS_MAX],
                        const struct recording *r, const struct replay_run *run,
                        int64_t good_us);

#endif
