/* loop.h - The one place where a node waits.
 *
 * Each turn handles messages of the transport (at most TRANSPORT_BUDGET per
 * socket), then other sources (an engine's eventfd, a signalfd), then calls
 * tick. tick does all work that is due and returns when it must run next.
 * Late ticks are not replayed.
 *
 * The turn also feeds the service manager's watchdog (loop_notify), so a node
 * that hangs in a handler or in its tick stops feeding.
 *
 * Threading: one thread.  Memory: the caller's storage; a turn allocates
 * nothing. */
#ifndef COMMON_WIRE_LOOP_H
#define COMMON_WIRE_LOOP_H

#include "common/base/monotonic.h"
#include "common/base/notify.h"
#include "common/wire/transport.h"

#define LOOP_SOURCES 4
#define LOOP_FOREVER (INT64_MAX / 2)
#define LOOP_WAIT_US 1000000 /* bounds a clock that jumps */

struct loop_source {
    int fd;
    void (*ready)(void *arg, int fd); /* must read what made fd readable */
    void *arg;
};

struct loop {
    struct transport *transport;
    const struct node_ops *ops;
    void *node;
    struct notify *notify; /* NULL: none */
    struct loop_source sources[LOOP_SOURCES];
    unsigned n_sources;
    int64_t due_us;
};

void loop_init(struct loop *l, struct transport *t, const struct node_ops *ops,
               void *node);

/* Adds a source.  n_sources < LOOP_SOURCES. */
void loop_add(struct loop *l, int fd, void (*ready)(void *arg, int fd),
              void *arg);

/* Calls notify_turn() after each turn; no turn waits longer than that needs.
 * The notify is borrowed. */
void loop_notify(struct loop *l, struct notify *n);

/* Runs one turn, which waits at most max_wait_us.  Returns false when tick
 * answered NODE_STOP. */
bool loop_turn(struct loop *l, int64_t max_wait_us);

/* Runs turns until NODE_STOP. */
void loop_run(struct loop *l);

/* Why loop_until() has returned. */
enum loop_end { LOOP_DONE, LOOP_LATE, LOOP_STOPPED };

/* Runs turns until done(arg), or for max_us, or until NODE_STOP. */
enum loop_end loop_until(struct loop *l, bool (*done)(const void *arg),
                         const void *arg, int64_t max_us);

/* Takes over SIGINT, SIGTERM and SIGHUP by blocking them in this thread, and
 * ignores SIGPIPE, SIGUSR1 and SIGUSR2; call before any other thread starts.
 * Returns a descriptor that reads the first three, -1 on failure. */
int loop_signals(void);

/* Returns the signal that made fd readable. */
int loop_signal_read(int fd);

static inline int64_t loop_now_us(void)
{
    return monotonic_us();
}

#endif
