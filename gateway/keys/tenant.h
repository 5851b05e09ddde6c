/* tenant.h - One customer of the gateway: limits, and use in this minute.
 *
 * Three limits, each optional:
 *
 *   requests=N/min   a token bucket of N requests, refilled over a minute
 *   tokens=N/min     a token bucket of N tokens, refilled over a minute
 *   streams=N        requests that run at once
 *
 * And one permission:
 *
 *   guaranteed=N     choices at once that are never suspended; none without it
 *
 * Tokens are charged at admission: prompt plus max_tokens.  The end of the
 * request refunds the unused part.  Charging on use would admit any number of
 * long requests before the first one has cost anything.
 *
 * A request that asks for more than the whole bucket waits for a full bucket
 * and leaves the bucket in debt.  Hence each request fits at some time, and
 * the average over minutes still equals the limit.
 *
 * A reload (keys.h) changes the limits of a tenant and keeps its use.
 *
 * Threading: none.  Memory: owned by struct keys.  Pure: the caller passes the
 * time.  Limits: keys_limits. */
#ifndef GATEWAY_KEYS_TENANT_H
#define GATEWAY_KEYS_TENANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tenant;

enum tenant_limit {
    TENANT_REQUESTS,
    TENANT_TOKENS,
    TENANT_STREAMS,
    TENANT_LIMITS_NR, /* the limits on all requests */
    TENANT_GUARANTEED = TENANT_LIMITS_NR
};

/* Limits of a tenant; 0: none. */
struct tenant_limits {
    uint64_t max[TENANT_LIMITS_NR];
    uint64_t guaranteed; /* choices that may have a guarantee at once */
};

/* Use of one limit.  After a refusal: the reason. */
struct tenant_refusal {
    enum tenant_limit limit;
    uint64_t max;            /* the limit; 0: none */
    uint64_t used;           /* more than max while the bucket is in debt */
    uint32_t retry_after_ms; /* refusal: time until the request fits, if no
                              * other one comes; tenant_use(): until used is
                              * 0.  At least 1 if used > 0. */
};

/* Pause before a retry if too many streams run.  Ends of streams cannot be
 * predicted. */
#define TENANT_STREAMS_RETRY_MS 1000

/* Begins a request that may use n_tokens, prompt and output.  Charges all
 * limits or none.  Returns false and fills *r if a limit refuses the request.
 * After true, tenant_end() is due. */
bool tenant_begin(struct tenant *t, int64_t now_us, uint64_t n_tokens,
                  struct tenant_refusal *r);

/* Ends a request that was admitted with n_asked tokens and used n_used.  Frees
 * a tenant that the file no longer lists if this was its last request. */
void tenant_end(struct tenant *t, int64_t now_us, uint64_t n_asked,
                uint64_t n_used);

/* Takes guarantees for n choices of a request that tenant_begin() admitted.
 * Returns false and fills *r, whose max is 0 if the tenant may have none. After
 * true, tenant_release() is due before tenant_end(). */
bool tenant_guarantee(struct tenant *t, uint32_t n, struct tenant_refusal *r);
void tenant_release(struct tenant *t, uint32_t n);

/* Fills *use for the headers of a response: x-ratelimit-limit-*, -remaining-*
 * (max - used, or 0) and -reset-*.  Returns false if the tenant has no such
 * limit. */
bool tenant_use(struct tenant *t, int64_t now_us, enum tenant_limit limit,
                struct tenant_refusal *use);

/* Writes a sentence for the client into text[0..size), with its NUL. */
void tenant_refusal_text(const struct tenant_refusal *r, char *text,
                         size_t size);

/* Returns the name, 1..TENANT_NAME_MAX of a-z 0-9 _ -; lives as long as the
 * tenant. */
const char *tenant_name(const struct tenant *t);

/* Returns the number of requests that run. */
uint64_t tenant_streams(const struct tenant *t);

/* Returns "requests", "tokens" or "streams". */
const char *tenant_limit_name(enum tenant_limit limit);

#endif
