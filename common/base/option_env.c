#include "common/base/option_env.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/affix.h"
#include "common/base/option_value.h"

#define PREFIX         "SLUICE_"
#define VARIABLE_BYTES 64

const char *option_env_name(const char *role, const char *field, char *out,
                            size_t cap)
{
    snprintf(out, cap, PREFIX "%s_%s", role, field);
    for (char *c = out; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    return out;
}

/* Returns the text after SLUICE_ROLE_, or NULL. */
static const char *after_prefix(const char *role, const char *pair)
{
    char prefix[VARIABLE_BYTES];

    option_env_name(role, "", prefix, sizeof prefix);
    return strncmp(pair, prefix, strlen(prefix)) == 0 ? pair + strlen(prefix)
                                                      : NULL;
}

/* Returns whether Kubernetes sets variables of that name for a service, such
 * as sluice-router or sluice-router-workers. */
static bool is_service_link(const char *name)
{
    char text[VARIABLE_BYTES + 1];
    const char *port;

    snprintf(text, sizeof text, "_%s", name);
    port = strstr(text, "_port_");
    return strstr(text, "_service_port") != NULL ||
           ends_with(text, "_service_host") || ends_with(text, "_port") ||
           (port != NULL && isdigit((unsigned char)port[strlen("_port_")]));
}

struct option_env option_env_match(const char *role,
                                   const struct option_row *rows, size_t n,
                                   const char *pair)
{
    struct option_env found = {.kind = OPTION_ENV_OTHER};
    const char *word = after_prefix(role, pair), *equals, *near;
    char name[VARIABLE_BYTES] = "";
    size_t length;

    equals = word != NULL ? strchr(word, '=') : NULL;
    if (equals == NULL || equals[1] == '\0') {
        return found;
    }
    found.value = equals + 1;
    length = (size_t)(equals - word);
    if (length >= sizeof name) {
        found.kind = OPTION_ENV_UNKNOWN;
        return found;
    }
    for (size_t i = 0; i < length; i++) {
        name[i] = (char)tolower((unsigned char)word[i]);
        found.kind =
            islower((unsigned char)word[i]) ? OPTION_ENV_NEAR : found.kind;
    }
    found.row = option_find(rows, n, name, length);
    if (found.row != NULL) {
        /* Variables are upper case: otherwise two could set one option. */
        found.kind =
            found.kind == OPTION_ENV_NEAR ? OPTION_ENV_NEAR : OPTION_ENV_OPTION;
        return found;
    }
    if (is_service_link(name)) {
        found.kind = OPTION_ENV_OTHER;
        return found;
    }
    near = option_nearest(rows, n, name, length);
    found.kind = near != NULL ? OPTION_ENV_NEAR : OPTION_ENV_UNKNOWN;
    found.row = near != NULL ? option_find(rows, n, near, strlen(near)) : NULL;
    return found;
}

const char *option_or_variable(const char *option, const char *variable)
{
    const char *value = option != NULL ? option : getenv(variable);

    return value != NULL && value[0] != '\0' ? value : NULL;
}
