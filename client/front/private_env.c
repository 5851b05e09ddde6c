#include "client/front/private_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/affix.h"

static bool is_option(const char *name, size_t n)
{
    return starts_with_n(name, n, "SLUICE_ROUTER_") ||
           starts_with_n(name, n, "SLUICE_WORKER_") ||
           starts_with_n(name, n, "SLUICE_GATEWAY_");
}

bool private_env_drops(const char *name, size_t n)
{
    return is_option(name, n) || equals_n(name, n, "SLUICE_ROUTER") ||
           equals_n(name, n, "SLUICE_KEY") || equals_n(name, n, "SLUICE_TRUST");
}

/* The group reads no file anyway, so that this one is no surprise. */
static bool is_file(const char *name, size_t n)
{
    const char end[] = "_CONFIG";

    return n >= sizeof end - 1 &&
           memcmp(name + n - (sizeof end - 1), end, sizeof end - 1) == 0;
}

unsigned private_env_clean(char *name, size_t cap)
{
    unsigned n_options = 0;
    char **at = environ;

    name[0] = '\0';
    while (at != NULL && *at != NULL) {
        size_t n = strcspn(*at, "=");
        char one[128];

        /* A longer name is none of ours. */
        if (n >= sizeof one || !private_env_drops(*at, n)) {
            at++;
            continue;
        }
        memcpy(one, *at, n);
        one[n] = '\0';
        if (is_option(one, n) && !is_file(one, n) && n_options++ == 0) {
            snprintf(name, cap, "%s", one);
        }
        unsetenv(one); /* moves the later ones here */
        at = environ;
    }
    return n_options;
}
