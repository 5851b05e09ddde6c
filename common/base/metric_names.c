#include "common/base/metric_names.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/log.h"

/* Returns true if a name can have no slot of its own. */
static bool is_other(const char *name, size_t n)
{
    return n > METRIC_NAME_MAX ||
           (n == strlen("other") && memcmp(name, "other", n) == 0);
}

size_t metric_slot_of(const struct metric_names *names, const char *name,
                      size_t n)
{
    if (n == 0) {
        return METRIC_DEFAULT;
    }
    /* A request may spell the two names that every set has. */
    if (n == strlen(TENANT_DEFAULT) && memcmp(name, TENANT_DEFAULT, n) == 0) {
        return METRIC_DEFAULT;
    }
    if (is_other(name, n)) {
        return METRIC_OTHER;
    }
    for (size_t i = 0; i < names->n; i++) {
        if (strlen(names->name[i]) == n &&
            memcmp(names->name[i], name, n) == 0) {
            return 1 + i;
        }
    }
    return METRIC_OTHER;
}

size_t metric_slot(struct metric_names *names, const char *name, size_t n)
{
    size_t slot = metric_slot_of(names, name, n);

    if (slot != METRIC_OTHER || is_other(name, n) ||
        names->n == METRIC_NAMES_MAX) {
        return slot;
    }
    memcpy(names->name[names->n], name, n);
    names->name[names->n][n] = '\0';
    return 1 + names->n++;
}

const char *metric_slot_name(const struct metric_names *names, size_t slot)
{
    assert(slot < METRIC_SLOTS);
    if (slot == METRIC_DEFAULT) {
        return TENANT_DEFAULT;
    }
    if (slot == METRIC_OTHER) {
        return "other";
    }
    return slot <= names->n ? names->name[slot - 1] : NULL;
}
