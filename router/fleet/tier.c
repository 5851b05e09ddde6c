#include "router/fleet/tier.h"

#include <inttypes.h>

/* Rows of struct router_host, and their fields of the message. */
#define TIER_COUNTS(X)                           \
    X(host_bytes_out, bytes_out)                 \
    X(host_bytes_in, bytes_in)                   \
    X(host_restored_tokens, restored_tokens)     \
    X(sequences_suspended, n_suspended)          \
    X(sequences_swapped, n_swapped)              \
    X(sequences_recomputed, n_recomputed)        \
    X(wasted_suspended_tokens, wasted_suspended) \
    X(wasted_failed_tokens, wasted_failed)       \
    X(wasted_moved_tokens, wasted_moved)

struct tier tier_read(const Sluice__V1__HostTier *m)
{
    struct tier t = {.reported = m != NULL};

    if (m == NULL) {
        return t;
    }
    t.waiting = m->waiting;
    t.kept = m->kept;
    t.cached = m->cached;
#define X(row, field) t.counts.row = m->field;
    TIER_COUNTS(X)
#undef X
    return t;
}

void tier_write(const struct tier *t, Sluice__V1__HostTier *out)
{
    sluice__v1__host_tier__init(out);
    out->waiting = t->waiting;
    out->kept = t->kept;
    out->cached = t->cached;
#define X(row, field) out->field = t->counts.row;
    TIER_COUNTS(X)
#undef X
}

enum status tier_pages_check(const Sluice__V1__Ledger *l, enum status code,
                             struct error *e)
{
    const Sluice__V1__HostTier *m = l->host;
    uint64_t sum;

    if (m == NULL) {
        return ST_OK;
    }
    sum = (uint64_t)m->waiting + m->kept + m->cached;
    if (sum == l->host_used) {
        return ST_OK;
    }
    return error_set(
        e, code,
        "its ledger shows %" PRIu32 " host pages in use, but waiting %" PRIu32
        ", kept %" PRIu32 " and cached %" PRIu32 " sum to %" PRIu64,
        l->host_used, m->waiting, m->kept, m->cached, sum);
}

static enum status count_check(const char *name, uint64_t had, uint64_t now,
                               struct error *e)
{
    if (now >= had) {
        return ST_OK;
    }
    return error_set(e, ST_DATA_LOSS,
                     "its ledger counts %s %" PRIu64
                     ", but the one before counted %" PRIu64,
                     name, now, had);
}

enum status tier_counts_check(const struct tier *had,
                              const Sluice__V1__HostTier *m, struct error *e)
{
    enum status st = ST_OK;

    if (m == NULL) {
        return ST_OK;
    }
#define X(row, field)                                           \
    if (st == ST_OK) {                                          \
        st = count_check(#field, had->counts.row, m->field, e); \
    }
    TIER_COUNTS(X)
#undef X
    return st;
}

void tier_follow(struct tier *now, const struct tier *had,
                 struct router_host *sum)
{
    if (sum != NULL) {
#define X(row, field) sum->row += now->counts.row - had->counts.row;
        TIER_COUNTS(X)
#undef X
    }
}
