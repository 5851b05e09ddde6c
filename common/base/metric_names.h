/* metric_names.h - A bounded set of label values that come from requests, such
 * as the names of tenants, or from workers, such as the names of models.
 *
 * Each name gets a slot at its first use and keeps it.  Slot 0 is "default",
 * for requests without a name.  When METRIC_NAMES_MAX names have slots, all
 * further names share the slot "other".  The owner keeps an array of
 * METRIC_SLOTS figures beside the set.
 *
 * Threading: none.  Memory: the caller's storage; zeroed: empty.  Limits:
 * METRIC_NAMES_MAX names of METRIC_NAME_MAX bytes; a longer name counts as
 * "other". */
#ifndef COMMON_BASE_METRIC_NAMES_H
#define COMMON_BASE_METRIC_NAMES_H

#include <stddef.h>

#include "proto/limits.h"

#define METRIC_NAMES_MAX 64
#define METRIC_NAME_MAX  MODEL_NAME_MAX /* at least TENANT_NAME_MAX */
#define METRIC_SLOTS     (METRIC_NAMES_MAX + 2)
#define METRIC_DEFAULT   0
#define METRIC_OTHER     (METRIC_SLOTS - 1)

struct metric_names {
    char name[METRIC_NAMES_MAX][METRIC_NAME_MAX + 1];
    size_t n;
};

/* Returns the slot of name[0, n), which contains no NUL; of n == 0:
 * METRIC_DEFAULT. */
size_t metric_slot(struct metric_names *names, const char *name, size_t n);

/* As metric_slot(), but a name without a slot gets none and shares
 * METRIC_OTHER. */
size_t metric_slot_of(const struct metric_names *names, const char *name,
                      size_t n);

/* Returns the name of a slot; NULL if no name has it yet. */
const char *metric_slot_name(const struct metric_names *names, size_t slot);

#endif
