#include "router/fleet/quarantine.h"

#include <string.h>

#include "router/fleet/fleet.h"

/* Expired entries are not removed: an expired one ends first, so it is the
 * first to be replaced. */
void quarantine_add(struct fleet *fleet, const char *name)
{
    struct quarantine *k = &fleet->quarantine[0];

    for (uint32_t i = 0; i < fleet->n_quarantine; i++) {
        struct quarantine *at = &fleet->quarantine[i];
        if (strcmp(at->name, name) == 0) {
            k = at;
            break;
        }
        if (at->until_us < k->until_us) {
            k = at;
        }
    }
    if (strcmp(k->name, name) != 0 && fleet->n_quarantine < QUARANTINE_MAX) {
        k = &fleet->quarantine[fleet->n_quarantine++];
    }
    memcpy(k->name, name, strlen(name) + 1);
    k->until_us = fleet->base->now_us + WORKER_QUARANTINE_US;
}

int64_t quarantine_left_us(const struct fleet *fleet, const char *name)
{
    for (uint32_t i = 0; i < fleet->n_quarantine; i++) {
        const struct quarantine *k = &fleet->quarantine[i];
        int64_t left_us = k->until_us - fleet->base->now_us;

        if (strcmp(k->name, name) == 0 && left_us > 0) {
            return left_us;
        }
    }
    return 0;
}
