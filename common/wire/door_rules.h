/* door_rules.h - The rules by which a listening port accepts connections: a
 * limit on all, a limit per source address, and a rate.
 *
 * An address is 64 bits: an IPv4 address, the first half of an IPv6 address,
 * or DOOR_LOCAL.  One machine has all of 127.0.0.0/8 and may have a whole
 * IPv6 network of 64 bits, so each of the two counts as one address.  The
 * limit per address does not apply to DOOR_LOCAL, which is all of a port.
 *
 * Threading: none.  Memory: one allocation per address with connections. */
#ifndef COMMON_WIRE_DOOR_RULES_H
#define COMMON_WIRE_DOOR_RULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/table.h"

#define DOOR_CONNECTIONS  8192 /* at once, unless the program sets it */
#define DOOR_ACCEPT_RATE  1000 /* connections a second, in the long run */
#define DOOR_ACCEPT_BURST 4096 /* connections at once, after a pause */
#define DOOR_HANDSHAKES   1024 /* unfinished at a port with keys */
#define DOOR_LOCAL        UINT64_MAX

/* Returns the share of a port's connections that one address may have: the
 * rest is left to others. */
static inline uint32_t door_share(uint32_t connections)
{
    return connections - connections / 4;
}

struct door_limits {
    uint32_t connections, per_address; /* at once */
    uint32_t rate, burst;
    uint32_t handshakes; /* unfinished, at once; door_share() of one address */
};

/* X(name, why a connection was refused) */
#define DOOR_VERDICTS(X)                              \
    X(OPEN, "accepted")                               \
    X(FULL, "too many connections")                   \
    X(ADDRESS, "too many connections of one address") \
    X(RATE, "too many connections within a second")   \
    X(SHAKING, "too many unfinished handshakes")      \
    X(DESCRIPTORS, "too few file descriptors (ulimit -n)")

enum door_verdict {
#define X(name, why) DOOR_##name,
    DOOR_VERDICTS(X)
#undef X
        DOOR_VERDICT_NR
};

struct door_rules {
    struct door_limits limits;
    struct table addresses; /* struct door_address */
    uint32_t n;             /* connections */
    uint32_t n_shaking;     /* connections that have not spoken yet */
    int64_t credit_us;      /* for accepts; each costs 1 s / rate */
    int64_t now_us;
};

void door_rules_init(struct door_rules *r, const struct door_limits *limits,
                     int64_t now_us);
void door_rules_fini(struct door_rules *r);

/* Returns the address of a peer as 64 bits. */
uint64_t door_address(const struct sockaddr *from);

/* Judges a connection from an address at now_us, and counts it if it is
 * accepted.  Never returns DOOR_DESCRIPTORS. */
enum door_verdict door_rules_enter(struct door_rules *r, uint64_t address,
                                   int64_t now_us);
/* Records that an accepted connection has spoken. */
void door_rules_spoke(struct door_rules *r, uint64_t address);
/* Ends a connection that was accepted; spoke: door_rules_spoke() was called. */
void door_rules_leave(struct door_rules *r, uint64_t address, bool spoke);

/* Returns why a connection was refused, for logs. */
const char *door_verdict_text(enum door_verdict v);

#endif
