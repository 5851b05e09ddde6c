/* supervisor.h - Start, restart and stop of a group of programs.
 *
 * A pure state machine.  Each child has a level of its start and one of its
 * stop. The children of a level start when all of the level below are ready.
 * Those of the highest level stop first.
 *
 *     IDLE --> STARTING --ready line--> READY
 *               ^   |                     |
 *          due  |   | exit                | exit
 *               |   v                     v
 *              BACKOFF <------------------+
 *
 *     from any state, on stop:  STOPPING --exit--> STOPPED
 *
 *   - A child that exits is started again after a backoff.  The backoff
 *     doubles with each exit, and starts anew after SUPERVISOR_CALM_MS ready.
 *   - A child that exits with SUPERVISOR_NO_START before it was ever ready
 *     cannot start: the whole group stops.  So it is after SUPERVISOR_TRIES
 *     other exits before it was ever ready, and if it has waited for another
 *     program for SUPERVISOR_WAIT_MS: a start has an end.
 *   - supervisor_stop() sends SIGTERM to the highest level, waits for its
 *     exits, and goes on with the level below.  A level that has not exited
 *     after SUPERVISOR_STOP_MS gets SIGKILL.  A second call sends SIGKILL to
 *     all children.
 *
 * The caller passes events and the time, starts processes and sends signals.
 *
 * Threading: none.  Memory: no pointers.  Limits: SUPERVISOR_CHILDREN_MAX. */
#ifndef CLIENT_FRONT_SUPERVISOR_H
#define CLIENT_FRONT_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#define SUPERVISOR_CHILDREN_MAX   66 /* 64 workers, a router, a gateway */
#define SUPERVISOR_BACKOFF_MS     500
#define SUPERVISOR_BACKOFF_MAX_MS 30000
#define SUPERVISOR_CALM_MS        60000
#define SUPERVISOR_STOP_MS        10000
#define SUPERVISOR_TRIES          6 /* takes 15 s and the starts */
#define SUPERVISOR_WAIT_MS        60000
#define SUPERVISOR_NO_START       2         /* exit code of a setup error */
#define SUPERVISOR_IDLE           INT64_MAX /* no time is due */

enum child_state {
    CHILD_IDLE,
    CHILD_STARTING,
    CHILD_READY,
    CHILD_BACKOFF,
    CHILD_STOPPING,
    CHILD_STOPPED,
    CHILD_STATES
};

struct supervisor_child {
    uint32_t start_level, stop_level;
    enum child_state state;
    bool was_ready;     /* at least once since the begin */
    uint32_t n_exits;   /* in a row, for the backoff */
    int64_t ready_ms;   /* start of READY */
    int64_t due_ms;     /* end of BACKOFF, or of a wait while STARTING */
    int64_t backoff_ms; /* the last one */
};

struct supervisor_ops {
    /* Starts the process of child i.  A process that cannot be made is
     * reported by supervisor_exited(), later. */
    void (*start)(void *arg, uint32_t i);
    /* Sends SIGTERM, or SIGKILL if kill is set, to child i, which runs. */
    void (*signal)(void *arg, uint32_t i, bool kill);
    /* Reports that child i is started again backoff_ms from now. */
    void (*restarts)(void *arg, uint32_t i, int64_t backoff_ms);
    /* Reports that child i cannot start.  The group stops. */
    void (*failed)(void *arg, uint32_t i);
    /* Reports that all children have been ready; runs once. */
    void (*up)(void *arg);
};

struct supervisor {
    const struct supervisor_ops *ops;
    void *arg;
    uint32_t n;
    bool up, stopping, killed, failed;
    uint32_t stop_level; /* the level that stops now */
    int64_t stop_due_ms; /* time of its SIGKILL */
    struct supervisor_child children[SUPERVISOR_CHILDREN_MAX]; /* [n] */
};

/* Initialises an empty group.  ops is borrowed. */
void supervisor_init(struct supervisor *s, const struct supervisor_ops *ops,
                     void *arg);

/* Adds a child and returns its index.  At most SUPERVISOR_CHILDREN_MAX; levels
 * of the start count from 0 without gaps. */
uint32_t supervisor_add(struct supervisor *s, uint32_t start_level,
                        uint32_t stop_level);

/* Starts level 0. */
void supervisor_begin(struct supervisor *s);

/* Records that child i waits for another program, as its line reports.  It has
 * SUPERVISOR_WAIT_MS from now. */
void supervisor_waits(struct supervisor *s, uint32_t i, int64_t now_ms);

/* Takes the ready line of child i. */
void supervisor_ready(struct supervisor *s, uint32_t i, int64_t now_ms);

/* Takes the exit of child i.  code: the exit code, or -1 after a signal. */
void supervisor_exited(struct supervisor *s, uint32_t i, int code,
                       int64_t now_ms);

/* Stops the group in order; the second call kills it. */
void supervisor_stop(struct supervisor *s, int64_t now_ms);

/* Runs what is due.  Returns the next time, or SUPERVISOR_IDLE. */
int64_t supervisor_tick(struct supervisor *s, int64_t now_ms);

/* Returns whether all children have stopped after supervisor_stop() or a
 * failed start. */
bool supervisor_ended(const struct supervisor *s);

#endif
