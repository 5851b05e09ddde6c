/* overload.h - Requests that are refused at once, because they would wait for
 * longer than they may.
 *
 *     limit    time until the deadline of the call, else options.queue_timeout
 *     first    predicted time to the first token (predict.h)
 *     wait     the part of it that is spent in the queue
 *     spread   3 * sqrt(wait * mean interval between two ends of the model)
 *
 *     refused  if first + spread > limit
 *
 * Ends come one by one, so that a wait of k of them varies by sqrt(k)
 * intervals: what is queued is served in time but for some of a hundred.  To
 * wait in vain would be worse than a refusal, which the client gets within a
 * round trip.  The prediction is also the time after which to retry.
 *
 * While a place of the model is idle nothing is refused, nor before ENDS_LEAST
 * sequences of the model have ended: costs and lengths are learned from what
 * runs.
 *
 * A request is judged when it comes, before its text is encoded, by its bytes
 * and the usual bytes of a token; and once more when it joins the queue.  What
 * its client resumes, and what continues a kept sequence, is not judged: it has
 * a place.
 *
 * Threading: the core's thread only.  Memory: none of its own.  Cost: that of
 * predict_arrival(). */
#ifndef ROUTER_SCHEDULE_OVERLOAD_H
#define ROUTER_SCHEDULE_OVERLOAD_H

#include "router/schedule/admission.h"

/* A request that comes. */
struct arrival {
    struct demand demand; /* max_tokens = 0: the default */
    uint32_t tenant;      /* slot of base.tenant_names */
    uint32_t route;       /* slot of base.route_names */
    enum fair_tier tier;
    bool guaranteed;
    int64_t deadline_us; /* NODE_IDLE: none */
};

/* Returns the most tokens that a request with d may generate. */
uint32_t overload_most_tokens(const struct demand *d);

/* Returns ST_RESOURCE_EXHAUSTED, with the figures, if a would wait for too
 * long, and sets *retry_ms to the predicted time to its first token. */
MUST_CHECK enum status overload_check(struct schedule *s,
                                      const struct arrival *a,
                                      uint32_t *retry_ms, struct error *e);

/* Returns the predicted time to the first token of a, as a retry_after_ms. */
uint32_t overload_retry_ms(struct schedule *s, const struct arrival *a);

/* Returns the tokens that a text of m with n bytes probably has; learns that
 * one had n_tokens. */
uint32_t overload_tokens(const struct model *m, size_t n);
void overload_learn(const struct model *m, size_t n, uint32_t n_tokens);

#endif
