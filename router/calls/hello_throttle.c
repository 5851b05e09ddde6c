#include "router/calls/hello_throttle.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "router/base/router_limits.h"

#define ROLE_SETS 16 /* values of a set of BY_* */
#define HELLO_US  (HELLO_SECOND_US / HELLO_ROLE_RATE)

struct counted {
    uint32_t id, n; /* the connection, and its Hellos since begin_us */
    int64_t begin_us;
};

struct hello_throttle {
    struct counted connections[HELLO_CONNECTIONS];
    /* When the role has caught up with its rate.  The generic cell rate
     * algorithm of ITU-T I.371: one number for each role, and no timer. */
    int64_t even_us[ROLE_SETS];
};

struct hello_throttle *hello_throttle_new(void)
{
    struct hello_throttle *t = memory_must(calloc(1, sizeof *t));

    return t;
}

void hello_throttle_free(struct hello_throttle **pt)
{
    free(*pt);
    *pt = NULL;
}

bool hello_throttle_connection(struct hello_throttle *t, struct peer_id who,
                               int64_t now_us)
{
    /* Connections are numbered in order, so the newest have places of their
     * own. */
    struct counted *c = &t->connections[who.v % HELLO_CONNECTIONS];

    if (c->id != who.v || now_us - c->begin_us >= HELLO_SECOND_US) {
        *c = (struct counted){.id = who.v, .begin_us = now_us};
    }
    if (c->n == HELLO_BURST) {
        return false;
    }
    c->n++;
    return true;
}

bool hello_throttle_role(struct hello_throttle *t, uint8_t role, int64_t now_us)
{
    int64_t *even_us = &t->even_us[role % ROLE_SETS];

    if (*even_us < now_us) {
        *even_us = now_us;
    }
    if (*even_us - now_us >= (int64_t)HELLO_ROLE_BURST * HELLO_US) {
        return false;
    }
    *even_us += HELLO_US;
    return true;
}
