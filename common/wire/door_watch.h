/* door_watch.h - The doors of a transport's listening ports.
 *
 * Opens a door for each port, ends connections that are due, and logs what
 * the doors refused, cut or denied: at most one line of each kind per port and
 * second, with counts.
 *
 * Threading: the transport's.  Memory: the caller's storage. */
#ifndef COMMON_WIRE_DOOR_WATCH_H
#define COMMON_WIRE_DOOR_WATCH_H

#include "common/wire/door.h"
#include "common/wire/node_io.h"
#include "common/wire/port.h"

#define DOOR_WATCH_US 1000000

struct door_watched {
    unsigned door; /* 0: none */
    const struct port *port;
    struct door_counts logged;
    /* With keys only. */
    uint64_t denied[DENIED_NR], denied_logged[DENIED_NR];
    char last[80]; /* the last key that was denied, or its name */
};

struct door_watch {
    struct door_watched ports[DOOR_PORTS_MAX];
    unsigned n;
    int64_t due_us;
};

/* Opens a door for the socket that this thread binds next, that of p, which
 * outlives w.  Returns ST_RESOURCE_EXHAUSTED if too many ports of the process
 * listen. */
MUST_CHECK enum status door_watch_open(struct door_watch *w,
                                       const struct port *p, struct error *e);
/* Checks, after the bind, that the socket has the door.  Returns ST_INTERNAL
 * if libzmq does not use the functions of door.c. */
MUST_CHECK enum status door_watch_bound(const struct door_watch *w,
                                        struct error *e);

/* Checks that one connection came by a door, spoke and left by it; the door is
 * closed.  Returns ST_INTERNAL if not. */
MUST_CHECK enum status door_watch_passed(unsigned door, struct error *e);

/* Counts a denial of UNKNOWN_KEY or WRONG_ROLE at port i.  who: the key or its
 * name. */
void door_watch_deny(struct door_watch *w, unsigned i, enum node_denial why,
                     const char *who);

/* Ends connections and logs, if a second has passed. */
void door_watch_turn(struct door_watch *w, int64_t now_us);

/* Ends connections that are due now. */
void door_watch_sweep(struct door_watch *w, int64_t now_us);

/* Adds up the counts of all doors. */
void door_watch_counts(struct door_watch *w, struct node_counts *out);

/* Closes the doors.  The sockets are closed, and their context has ended. */
void door_watch_close(struct door_watch *w);

#endif
