#include "common/base/metric_names.h"

#include <assert.h>
#include <string.h>

size_t metric_slot(struct metric_names *names, const char *name, size_t n)
{
    size_t i;

    if (n == 0) {
        return METRIC_DEFAULT;
    }
    /* A request may spell the two names that every set has. */
    if (n == strlen("default") && memcmp(name, "default", n) == 0) {
        return METRIC_DEFAULT;
    }
    if (n > TENANT_NAME_MAX ||
        (n == strlen("other") && memcmp(name, "other", n) == 0)) {
        return METRIC_OTHER;
    }
    for (i = 0; i < names->n; i++) {
        if (strlen(names->name[i]) == n &&
            memcmp(names->name[i], name, n) == 0) {
            return 1 + i;
        }
    }
    if (names->n == METRIC_NAMES_MAX) {
        return METRIC_OTHER;
    }
    memcpy(names->name[i], name, n);
    names->name[i][n] = '\0';
    return 1 + names->n++;
}

const char *metric_slot_name(const struct metric_names *names, size_t slot)
{
    assert(slot < METRIC_SLOTS);
    if (slot == METRIC_DEFAULT) {
        return "default";
    }
    if (slot == METRIC_OTHER) {
        return "other";
    }
    return slot <= names->n ? names->name[slot - 1] : NULL;
}
