/* client.c - The connection: open, turn, interrupt, close. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/lib/client_impl.h"
#include "client/lib/resumable.h"
#include "common/base/utf8.h"
#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"
#include "common/wire/transport.h"

/* Bytes of a default name and its NUL, and of the program's name in it, before
 * a dash and seven digits. */
#define DEFAULT_NAME    (PEER_NAME_MAX - KEY_NAME_MAX)
#define DEFAULT_PROGRAM (DEFAULT_NAME - 1 - 8)

const struct limit_row client_limits[] = {
    LIMIT_ROW(CLIENT_CALLS_MAX, "", "open calls of one connection"),
    LIMIT_ROW(CLIENT_WAITING_BYTES, "bytes", "requests not yet sent"),
    LIMIT_ROW(CLIENT_TIMEOUT_MS, "ms", "default time limit to connect"),
    LIMIT_ROW(CLIENT_RECEIPT_MS, "ms", "default time limit for a receipt"),
    LIMIT_ROW(CLIENT_RESUME_MS, "ms", "default time limit to find a router"),
    LIMIT_ROW(RESUMABLE_BACKOFF_MAX_US, "us", "pause before a resumption"),
    LIMIT_ROW(RESUMABLE_RETRY_MAX_US, "us", "pause requested by a router"),
    LIMIT_ROW(RESUMABLE_FIRST_MS, "ms",
              "time to find a router, with --no-resume"),
};
const size_t client_limits_n = sizeof client_limits / sizeof client_limits[0];

struct client {
    struct curve_keys *keys; /* NULL: none */
    struct transport *transport;
    struct client_core *core;
    struct loop loop;
    uint32_t timeout_ms;
    bool admin;
    atomic_bool interrupted; /* written by other threads and by signals */
};

/* The clock of the event loop, so that all times of a result agree. */
int64_t client_now_us(void)
{
    return loop_now_us();
}

void client_draw_id(uint8_t out[16])
{
    ssize_t n = getrandom(out, 16, 0);

    assert(n == 16); /* up to 256 bytes are never cut short: getrandom(2) */
    (void)n;
}

struct client_core *client_core_of(struct client *c)
{
    return c->core;
}

struct node_io *client_io(struct client *c)
{
    return transport_io(c->transport);
}

void client_soon(struct client *c)
{
    /* A time in the past makes the next turn run the core's tick first. */
    c->loop.due_us = 0;
}

uint32_t client_timeout_ms(const struct client *c)
{
    return c->timeout_ms;
}

bool client_is_admin(const struct client *c)
{
    return c->admin;
}

/* Async-signal-safe: a lock-free atomic store and nothing else.  c may be NULL
 * in a handler that runs between two clients. */
void client_interrupt(struct client *c)
{
    if (c != NULL) {
        atomic_store(&c->interrupted, true);
    }
}

bool client_take_interrupt(struct client *c)
{
    return atomic_exchange(&c->interrupted, false);
}

/* The trouble of the last attempt, if any, explains the timeout. */
static enum status no_router(const struct client *c, const char *endpoint,
                             struct error *e)
{
    const char *why = transport_trouble(c->transport);

    if (*why != '\0' && c->keys != NULL) {
        return error_set(e, ST_UNAVAILABLE,
                         "no session with the router at %s within %u ms: %s",
                         endpoint, c->timeout_ms, why);
    }
    why = *why != '\0' ? why : client_core_trouble(c->core);
    return error_set(e, ST_UNAVAILABLE,
                     "no router answered at %s within %u ms%s%s; start "
                     "sluice-router, or give the endpoint of its --clients",
                     endpoint, c->timeout_ms, *why != '\0' ? ": " : "", why);
}

/* Turns until the router accepts or rejects the Hello. */
static enum status wait_up(struct client *c, const char *endpoint,
                           struct error *e)
{
    int64_t end_us = loop_now_us() + (int64_t)c->timeout_ms * 1000;

    while (!client_core_up(c->core)) {
        if (client_core_refused(c->core) != ST_OK) {
            return error_set(e, client_core_refused(c->core), "%s",
                             client_core_trouble(c->core));
        }
        if (client_take_interrupt(c)) {
            return error_set(e, ST_CANCELLED, "interrupted");
        }
        if (loop_now_us() >= end_us) {
            return no_router(c, endpoint, e);
        }
        client_turn(c, CLIENT_TURN_MS);
    }
    return ST_OK;
}

/* Writes the name of the program and its process id, so that an operator finds
 * the process.  It fits beside the name of any key (common/wire/identity.h). */
static void default_name(char out[DEFAULT_NAME])
{
    const char *program = program_invocation_short_name;
    size_t n = strnlen(program, DEFAULT_PROGRAM), cut;

    n = utf8_valid(program, n, &cut) ? n : cut;
    snprintf(out, DEFAULT_NAME, "%.*s-%ld", (int)n, program, (long)getpid());
}

/* The router refuses a session whose role the key does not have. */
static bool may_be_admin(const struct curve_keys *keys)
{
    uint8_t roles = keys != NULL ? curve_keys_roles(keys) : 0;

    return roles == 0 || (roles & BY_ADMIN) != 0;
}

enum status client_open(struct client **out, const struct client_config *config,
                        struct error *e)
{
    struct client *c = calloc(1, sizeof *c);
    struct client_options options = {config->name, config->admin};
    char name[DEFAULT_NAME];
    enum status s;

    *out = NULL;
    if (c == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    c->timeout_ms =
        config->timeout_ms == 0 ? CLIENT_TIMEOUT_MS : config->timeout_ms;
    if (options.name == NULL) {
        default_name(name);
        options.name = name;
    }
    s = curve_keys_load(&c->keys, config->key, config->trust, e);
    if (s == ST_OK) {
        options.admin = c->admin = config->admin && may_be_admin(c->keys);
        s = transport_connect(&c->transport, config->endpoint, c->keys, e);
    }
    if (s == ST_OK) {
        c->core = client_core_new(&options, transport_io(c->transport));
        s = c->core != NULL
                ? s
                : error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (s == ST_OK) {
        loop_init(&c->loop, c->transport, &client_node_ops, c->core);
        s = wait_up(c, config->endpoint, e);
    }
    if (s != ST_OK) {
        client_close(&c);
        return s;
    }
    *out = c;
    return ST_OK;
}

void client_close(struct client **cp)
{
    struct client *c = *cp;

    *cp = NULL;
    if (c == NULL) {
        return;
    }
    if (c->core != NULL) {
        client_core_free(&c->core);
    }
    transport_free(&c->transport);
    curve_keys_free(&c->keys);
    free(c);
}

void client_turn(struct client *c, uint32_t wait_ms)
{
    (void)loop_turn(&c->loop, (int64_t)wait_ms * 1000);
}

void client_drop(struct client *c)
{
    client_core_drop(c->core, "dropped by the client");
    client_turn(c, 0); /* the core drops in its next tick */
}

enum status client_begin(struct client *c, enum method m,
                         const ProtobufCMessage *request, uint32_t deadline_ms,
                         const struct client_call_ops *ops, void *arg,
                         uint64_t *id)
{
    client_soon(c);
    return client_core_call(c->core, m, request, deadline_ms, ops, arg, id);
}

void client_give_up(struct client *c, uint64_t id)
{
    client_soon(c);
    client_core_cancel(c->core, id);
}
