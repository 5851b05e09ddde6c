/* retries.h - Requests that come back before the time that a refusal named.
 *
 * A refusal names the time after which to retry.  Clients that ignore it send
 * the same requests again and again: a storm, which costs judgements and takes
 * what opens from clients that wait.  Until that time, a request of the same
 * model and tenant that asks for no less is a retry:
 *
 *     tokens >= those of the refused one, its tier is not before, and its time
 *     limit is not later
 *
 *     first request ---- refused, "retry in 8 s" ------------------> 8 s
 *                          |  r  r  r  r  r  r  r  r  r  r  r  r  r |  any
 *                          |  judged: by credit, or every half second
 *                          |  refused at once: the others           |
 *
 *   - Each request of the tenant that joins the queue adds options.retry_budget
 *     percent of a retry to the credit of the tenant, up to RETRY_CREDIT_MAX
 *     retries, with which it begins.  A retry takes one, and is judged as any
 *     other request.
 *   - Without credit, one is judged for each RETRY_PROBES-th part of the time:
 *     room that opens early is thus used.
 *   - The others are refused at once, with the rest of the time.
 *   - A request that joins the queue ends the refusal.  While none waits for
 *     room after a run of the queue, all are judged.
 *   - What clients resume, or continue, is no retry.
 *
 * Refusals of one tenant change nothing for others, and nothing for its
 * requests that ask for less.  Only the newest refusal counts.
 *
 * Threading: the core's thread only.  Memory: part of the model.  Cost: O(1).
 */
#ifndef ROUTER_SCHEDULE_RETRIES_H
#define ROUTER_SCHEDULE_RETRIES_H

#include "router/schedule/overload.h"

/* Checks a, which comes.  Returns ST_RESOURCE_EXHAUSTED with the figures if it
 * is a retry past the budget, and sets *retry_ms to the rest of the time. */
MUST_CHECK enum status retries_check(struct schedule *s,
                                     const struct arrival *a,
                                     uint32_t *retry_ms, struct error *e);

/* Take in that a was refused, to be retried after retry_ms, or has joined the
 * queue. */
void retries_refused(struct schedule *s, const struct arrival *a,
                     uint32_t retry_ms);
void retries_joined(struct schedule *s, const struct arrival *a);

#endif
