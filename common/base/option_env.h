/* option_env.h - Environment variables that set options.
 *
 * The option max_rows of the role "router" is SLUICE_ROUTER_MAX_ROWS.  The
 * items of a LIST are separated by ';'.  An empty variable counts as unset.
 *
 * Threading: none.  Memory: borrowed. */
#ifndef COMMON_BASE_OPTION_ENV_H
#define COMMON_BASE_OPTION_ENV_H

#include "common/base/option.h"

enum option_env_kind {
    OPTION_ENV_OTHER,  /* another role, or empty */
    OPTION_ENV_OPTION, /* sets an option */
    OPTION_ENV_NEAR,   /* a mistyped option */
    OPTION_ENV_UNKNOWN /* the role fits, and no option is near */
};

struct option_env {
    enum option_env_kind kind;
    const struct option_row *row; /* the option, or the nearest one */
    const char *value;
};

/* Writes the variable of an option: "SLUICE_ROUTER_MAX_ROWS".  Returns out. */
const char *option_env_name(const char *role, const char *field, char *out,
                            size_t cap);

/* Matches one "NAME=VALUE" of the environment with the rows.
 *
 * Kubernetes sets SLUICE_ROUTER_SERVICE_HOST, SLUICE_ROUTER_PORT and others in
 * every pod beside a service sluice-router.  Those are OPTION_ENV_OTHER. */
struct option_env option_env_match(const char *role,
                                   const struct option_row *rows, size_t n,
                                   const char *pair);

/* Returns the option, else the variable; NULL if neither has a value. */
const char *option_or_variable(const char *option, const char *variable);

#endif
