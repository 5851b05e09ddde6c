#include "gateway/keys/tenant.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/keys/tenant_state.h"

const char *tenant_limit_name(enum tenant_limit limit)
{
    switch (limit) {
    case TENANT_REQUESTS:
        return "requests";
    case TENANT_TOKENS:
        return "tokens";
    case TENANT_GUARANTEED:
        return "guaranteed choices";
    case TENANT_STREAMS:
        break;
    }
    return "streams";
}

/* ---- buckets ---- */

static void bucket_drain(uint64_t *used, uint64_t max, uint64_t elapsed_us)
{
    /* A division first, as the product may overflow. */
    if (max == 0 || elapsed_us > *used / max) {
        *used = 0;
    } else {
        *used -= elapsed_us * max;
    }
}

static void bucket_charge(uint64_t *used, uint64_t n)
{
    if (n > BUCKET_UNIT_MAX / BUCKET_UNIT) {
        n = BUCKET_UNIT_MAX / BUCKET_UNIT;
    }
    *used += n * BUCKET_UNIT;
    if (*used > BUCKET_UNIT_MAX) {
        *used = BUCKET_UNIT_MAX;
    }
}

static void bucket_refund(uint64_t *used, uint64_t n)
{
    if (n > *used / BUCKET_UNIT) {
        *used = 0;
    } else {
        *used -= n * BUCKET_UNIT;
    }
}

static uint64_t bucket_used(uint64_t used)
{
    return used / BUCKET_UNIT + (used % BUCKET_UNIT != 0);
}

/* Returns the time until `used` has drained to `target`; at least 1 ms. */
static uint32_t bucket_wait_ms(uint64_t used, uint64_t target, uint64_t max)
{
    uint64_t per_ms = max * 1000;
    uint64_t ms = (used - target) / per_ms + ((used - target) % per_ms != 0);

    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* Returns true if n more fit, and otherwise the time until they do. */
static bool bucket_fits(uint64_t used, uint64_t max, uint64_t n,
                        uint32_t *wait_ms)
{
    /* More than a whole bucket waits for a full one. */
    uint64_t target = n < max ? (max - n) * BUCKET_UNIT : 0;

    if (max == 0 || used <= target) {
        return true;
    }
    *wait_ms = bucket_wait_ms(used, target, max);
    return false;
}

static void drain(struct tenant *t, int64_t now_us)
{
    if (now_us <= t->drained_us) {
        return;
    }
    for (int i = 0; i < TENANT_STREAMS; i++) {
        bucket_drain(&t->used[i], t->limits.max[i],
                     (uint64_t)(now_us - t->drained_us));
    }
    t->drained_us = now_us;
}

/* ---- requests ---- */

static uint64_t used_of(const struct tenant *t, enum tenant_limit limit)
{
    return limit == TENANT_STREAMS ? t->n_streams : bucket_used(t->used[limit]);
}

static bool fits(const struct tenant *t, enum tenant_limit limit, uint64_t n,
                 uint32_t *wait_ms)
{
    if (limit != TENANT_STREAMS) {
        return bucket_fits(t->used[limit], t->limits.max[limit], n, wait_ms);
    }
    *wait_ms = TENANT_STREAMS_RETRY_MS;
    return t->limits.max[limit] == 0 || t->n_streams < t->limits.max[limit];
}

bool tenant_begin(struct tenant *t, int64_t now_us, uint64_t n_tokens,
                  struct tenant_refusal *r)
{
    const uint64_t cost[TENANT_LIMITS_NR] = {1, n_tokens, 1};

    drain(t, now_us);
    for (int i = 0; i < TENANT_LIMITS_NR; i++) {
        enum tenant_limit limit = (enum tenant_limit)i;
        uint32_t wait_ms;

        if (!fits(t, limit, cost[i], &wait_ms)) {
            *r = (struct tenant_refusal){limit, t->limits.max[i],
                                         used_of(t, limit), wait_ms};
            return false;
        }
    }
    for (int i = 0; i < TENANT_STREAMS; i++) {
        if (t->limits.max[i] != 0) {
            bucket_charge(&t->used[i], cost[i]);
        }
    }
    t->n_streams++;
    return true;
}

void tenant_end(struct tenant *t, int64_t now_us, uint64_t n_asked,
                uint64_t n_used)
{
    assert(t->n_streams > 0);
    drain(t, now_us);
    /* A request that began before a reload set the limit was not charged, and
     * its refund is too much once.  Streams do not carry what they paid. */
    if (n_used < n_asked) {
        bucket_refund(&t->used[TENANT_TOKENS], n_asked - n_used);
    } else if (t->limits.max[TENANT_TOKENS] != 0) {
        bucket_charge(&t->used[TENANT_TOKENS], n_used - n_asked);
    }
    t->n_streams--;
    if (!t->listed && t->n_streams == 0) {
        list_remove(&t->node);
        free(t);
    }
}

bool tenant_guarantee(struct tenant *t, uint32_t n, struct tenant_refusal *r)
{
    uint64_t max = t->limits.guaranteed;

    if (t->n_guaranteed > max || n > max - t->n_guaranteed) {
        *r = (struct tenant_refusal){TENANT_GUARANTEED, max, t->n_guaranteed,
                                     TENANT_STREAMS_RETRY_MS};
        return false;
    }
    t->n_guaranteed += n;
    return true;
}

void tenant_release(struct tenant *t, uint32_t n)
{
    assert(t->n_guaranteed >= n);
    t->n_guaranteed -= n;
}

bool tenant_use(struct tenant *t, int64_t now_us, enum tenant_limit limit,
                struct tenant_refusal *use)
{
    uint64_t max = t->limits.max[limit];

    drain(t, now_us);
    *use = (struct tenant_refusal){
        .limit = limit, .max = max, .used = used_of(t, limit)};
    if (max == 0) {
        return false;
    }
    if (limit != TENANT_STREAMS) {
        use->retry_after_ms = bucket_wait_ms(t->used[limit], 0, max);
    } else if (use->used > 0) {
        use->retry_after_ms = TENANT_STREAMS_RETRY_MS;
    }
    return true;
}

void tenant_refusal_text(const struct tenant_refusal *r, char *text,
                         size_t size)
{
    const char *name = tenant_limit_name(r->limit);
    /* Rounded up: a retry after the printed time succeeds. */
    uint64_t tenths = ((uint64_t)r->retry_after_ms + 99) / 100;

    if (r->limit == TENANT_GUARANTEED && r->max == 0) {
        snprintf(text, size,
                 "this key may not ask for a guarantee; its line in the key "
                 "file needs guaranteed=N");
        return;
    }
    if (r->limit == TENANT_GUARANTEED) {
        snprintf(text, size,
                 "%" PRIu64 " guaranteed choices run, and this key allows "
                 "%" PRIu64 " at once; retry after one has ended, or without "
                 "guaranteed",
                 r->used, r->max);
        return;
    }
    if (r->limit == TENANT_STREAMS) {
        snprintf(text, size,
                 "%" PRIu64 " requests run, and this key allows %" PRIu64
                 " at once; retry after one has ended",
                 r->used, r->max);
        return;
    }
    snprintf(text, size,
             "%" PRIu64 " of %" PRIu64 " %s a minute are used%s; "
             "retry in %" PRIu64 ".%" PRIu64 " s",
             r->used, r->max, name,
             r->limit == TENANT_TOKENS
                 ? ", and prompt plus max_tokens do not fit"
                 : "",
             tenths / 10, tenths % 10);
}

const char *tenant_name(const struct tenant *t)
{
    return t->name;
}

uint64_t tenant_streams(const struct tenant *t)
{
    return t->n_streams;
}
