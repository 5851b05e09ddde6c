/* named_numbers.h - Options that give a number to each of some names:
 * --tenant-weight TENANT=N, --places MODEL=N.
 *
 * Threading: at the start.  Memory: the caller's; names are copied.  Limits:
 * OPTION_LIST_MAX names. */
#ifndef ROUTER_BASE_NAMED_NUMBERS_H
#define ROUTER_BASE_NAMED_NUMBERS_H

#include "common/base/option.h"
#include "common/base/status.h"
#include "router/base/router_options.h"

struct named_numbers {
    char name[OPTION_LIST_MAX][MODEL_NAME_MAX + 1];
    struct named_number of[OPTION_LIST_MAX]; /* [n] */
    uint32_t n;
};

struct named_numbers_rule {
    const char *option; /* with its dashes */
    const char *form;   /* "TENANT": what the name is called in the form */
    const char *what;   /* "tenant" */
    size_t name_max;    /* at most MODEL_NAME_MAX */
    uint32_t most;      /* numbers are 1..most */
};

extern const struct named_numbers_rule weight_rule, places_rule;

/* Parses items of the form NAME=N; a name may have equals signs.  Returns
 * ST_INVALID_ARGUMENT for another form, or a name that is there twice. */
MUST_CHECK enum status named_numbers_parse(struct named_numbers *out,
                                           const struct named_numbers_rule *r,
                                           const struct option_list *list,
                                           struct error *e);

/* Returns the number of a name, `unset` if none of[n] has it. */
uint32_t named_number(const struct named_number *of, uint32_t n,
                      const char *name, uint32_t unset);

#endif
