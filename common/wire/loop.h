/* loop.h - the one place a node waits.
 *
 * Each turn: what the transport has (at most TRANSPORT_BUDGET messages a
 * socket), what other sources have (an engine's eventfd, a signalfd), then
 * tick, which does all work that is due and says when it next wants to run.
 * Late ticks are not replayed.
 *
 * Threading: one thread.  Memory: the caller's storage; a turn allocates
 * nothing of its own. */
#ifndef COMMON_WIRE_LOOP_H
#define COMMON_WIRE_LOOP_H

#include "common/wire/transport.h"

#define LOOP_SOURCES 4
#define LOOP_WAIT_US 1000000 /* at most: a clock that jumps does no harm */

struct loop_source {
    int fd;
    void (*ready)(void *arg, int fd); /* must read what made it readable */
    void *arg;
};

struct loop {
    struct transport *transport;
    const struct node_ops *ops;
    void *node;
    struct loop_source sources[LOOP_SOURCES];
    unsigned n_sources;
    int64_t due_us;
};

void loop_init(struct loop *l, struct transport *t, const struct node_ops *ops,
               void *node);

/* n_sources < LOOP_SOURCES. */
void loop_add(struct loop *l, int fd, void (*ready)(void *arg, int fd),
              void *arg);

/* One turn, waiting at most max_wait_us for something to do; false when tick
 * answered NODE_STOP. */
bool loop_turn(struct loop *l, int64_t max_wait_us);

/* Turns until NODE_STOP. */
void loop_run(struct loop *l);

/* Block SIGINT and SIGTERM in this thread (call before any other is made)
 * and return a descriptor that reads them; -1 on failure. */
int loop_signals(void);

/* The signal that made fd readable. */
int loop_signal_read(int fd);

int64_t loop_now_us(void);

#endif
