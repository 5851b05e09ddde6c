/* tenant_state.h - The fields of a tenant, for keys.c and tenant.c alone.
 *
 * Threading: none.  Memory: struct keys owns the tenants in its list. */
#ifndef GATEWAY_KEYS_TENANT_STATE_H
#define GATEWAY_KEYS_TENANT_STATE_H

#include "common/base/list.h"
#include "gateway/keys/keys.h"

/* A bucket holds what is used instead of what is left, so that a new limit
 * needs no conversion.  The unit is 1/60,000,000 of a request or token: a
 * limit of N a minute drains N units each microsecond, without rounding. */
#define BUCKET_UNIT     UINT64_C(60000000)
#define BUCKET_UNIT_MAX (UINT64_MAX / 4)

struct tenant {
    struct list node; /* in keys.tenants */
    char name[TENANT_NAME_MAX + 1];
    struct tenant_limits limits;
    uint64_t used[TENANT_STREAMS]; /* in BUCKET_UNITs, at drained_us */
    int64_t drained_us;
    uint64_t n_streams, n_guaranteed;
    bool listed; /* false: freed at the end of its last request */
};

#endif
