#include "worker/base/advertise.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/endpoint.h"

/* A port for checks that are made before the worker listens. */
#define SOME_PORT "1"

static bool is_endpoint(const char *given)
{
    return strstr(given, "://") != NULL;
}

/* Writes the endpoint of HOST or HOST:PORT.  Two colons are an IPv6 address,
 * whose brackets may be left out if there is no port. */
static bool complete(char out[ENDPOINT_MAX], const char *given,
                     const char *port)
{
    const char *colon = strchr(given, ':');
    size_t n = strlen(given);
    int written;

    if (colon == NULL || (given[0] == '[' && given[n - 1] == ']')) {
        written = snprintf(out, ENDPOINT_MAX, "tcp://%s:%s", given, port);
    } else if (given[0] != '[' && strchr(colon + 1, ':') != NULL) {
        written = snprintf(out, ENDPOINT_MAX, "tcp://[%s]:%s", given, port);
    } else {
        written = snprintf(out, ENDPOINT_MAX, "tcp://%s", given);
    }
    return written > 0 && written < ENDPOINT_MAX;
}

static enum status check(const char *endpoint, const char *given, bool keyed,
                         struct error *e)
{
    if (endpoint_of_peer((const uint8_t *)endpoint, strlen(endpoint), NULL,
                         keyed, e) != ST_OK) {
        return error_wrap(e, "--advertise %.100s", given);
    }
    return ST_OK;
}

static enum status too_long(const char *given, struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--advertise %.100s: an endpoint has at most %d bytes",
                     given, ENDPOINT_MAX - 1);
}

enum status advertise_check(const char *given, bool keyed, struct error *e)
{
    char at[ENDPOINT_MAX];

    if (given[0] == '\0') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--advertise: give HOST, HOST:PORT or an endpoint");
    }
    if (is_endpoint(given)) {
        return check(given, given, keyed, e);
    }
    return complete(at, given, SOME_PORT) ? check(at, given, keyed, e)
                                          : too_long(given, e);
}

enum status advertise_endpoint(char out[ENDPOINT_MAX], const char *given,
                               const char *listening, bool keyed,
                               struct error *e)
{
    const char *port = strrchr(listening, ':') + 1;

    if (given == NULL || is_endpoint(given)) {
        snprintf(out, ENDPOINT_MAX, "%s", given != NULL ? given : listening);
        return given != NULL ? check(out, given, keyed, e) : ST_OK;
    }
    if (endpoint_is_ipc(listening)) {
        port = "0"; /* refused, unless --advertise has one */
    }
    return complete(out, given, port) ? check(out, given, keyed, e)
                                      : too_long(given, e);
}

const char *advertise_now(char out[ENDPOINT_MAX], const char *endpoint,
                          struct node_io *io)
{
    char host[ENDPOINT_MAX];
    struct endpoint at;

    return endpoint_split(&at, endpoint, NULL) == ST_OK && at.wildcard &&
                   io->local != NULL && io->local(io, host) &&
                   endpoint_join(out, host, at.port)
               ? out
               : endpoint;
}
