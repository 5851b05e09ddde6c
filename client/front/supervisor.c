#include "client/front/supervisor.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "common/base/state_machine.h"

static const struct sm_row rows[CHILD_STATES] = {
    [CHILD_IDLE] = {"idle", SM_TO(CHILD_STARTING) | SM_TO(CHILD_STOPPED)},
    [CHILD_STARTING] = {"starting", SM_TO(CHILD_READY) | SM_TO(CHILD_BACKOFF) |
                                        SM_TO(CHILD_STOPPING) |
                                        SM_TO(CHILD_STOPPED)},
    [CHILD_READY] = {"ready", SM_TO(CHILD_BACKOFF) | SM_TO(CHILD_STOPPING) |
                                  SM_TO(CHILD_STOPPED)},
    [CHILD_BACKOFF] = {"backoff", SM_TO(CHILD_STARTING) | SM_TO(CHILD_STOPPED)},
    [CHILD_STOPPING] = {"stopping", SM_TO(CHILD_STOPPED)},
    [CHILD_STOPPED] = {"stopped", 0},
};

static void move(struct supervisor_child *c, enum child_state to)
{
    sm_check(rows, c->state, to, "child", rows[to].name);
    c->state = to;
}

static bool runs(const struct supervisor_child *c)
{
    return c->state == CHILD_STARTING || c->state == CHILD_READY ||
           c->state == CHILD_STOPPING;
}

void supervisor_init(struct supervisor *s, const struct supervisor_ops *ops,
                     void *arg)
{
    memset(s, 0, sizeof *s);
    s->ops = ops;
    s->arg = arg;
}

uint32_t supervisor_add(struct supervisor *s, uint32_t start_level,
                        uint32_t stop_level)
{
    assert(s->n < SUPERVISOR_CHILDREN_MAX);
    s->children[s->n] = (struct supervisor_child){.start_level = start_level,
                                                  .stop_level = stop_level};
    return s->n++;
}

/* ---- starting ---- */

static void start(struct supervisor *s, uint32_t i)
{
    move(&s->children[i], CHILD_STARTING);
    s->children[i].due_ms = SUPERVISOR_IDLE;
    s->ops->start(s->arg, i);
}

static void start_level(struct supervisor *s, uint32_t level)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->children[i].start_level == level &&
            s->children[i].state == CHILD_IDLE) {
            start(s, i);
        }
    }
}

void supervisor_begin(struct supervisor *s)
{
    start_level(s, 0);
}

/* Returns the lowest level with a child that was never ready, or UINT32_MAX. */
static uint32_t level_unready(const struct supervisor *s)
{
    uint32_t level = UINT32_MAX;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct supervisor_child *c = &s->children[i];

        if (!c->was_ready && c->start_level < level) {
            level = c->start_level;
        }
    }
    return level;
}

void supervisor_ready(struct supervisor *s, uint32_t i, int64_t now_ms)
{
    struct supervisor_child *c = &s->children[i];
    uint32_t level;

    if (c->state != CHILD_STARTING) {
        return; /* a ready line that crossed a stop */
    }
    move(c, CHILD_READY);
    c->ready_ms = now_ms;
    c->was_ready = true;
    level = level_unready(s);
    if (level != UINT32_MAX) {
        start_level(s, level);
    } else if (!s->up) {
        s->up = true;
        s->ops->up(s->arg);
    }
}

void supervisor_waits(struct supervisor *s, uint32_t i, int64_t now_ms)
{
    struct supervisor_child *c = &s->children[i];

    if (c->state == CHILD_STARTING && !c->was_ready) {
        c->due_ms = now_ms + SUPERVISOR_WAIT_MS;
    }
}

/* ---- stopping ---- */

/* Children below the level that stops have no state of their own for this:
 * their exits take them from READY to STOPPED. */
static void kill_all(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (runs(&s->children[i])) {
            s->ops->signal(s->arg, i, true);
        }
    }
}

/* Asks the highest level that runs to stop. */
static void stop_next_level(struct supervisor *s, int64_t now_ms)
{
    s->stop_level = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct supervisor_child *c = &s->children[i];

        if (runs(c) && c->stop_level > s->stop_level) {
            s->stop_level = c->stop_level;
        }
    }
    s->stop_due_ms = now_ms + SUPERVISOR_STOP_MS;
    for (uint32_t i = 0; i < s->n; i++) {
        struct supervisor_child *c = &s->children[i];

        if (c->stop_level == s->stop_level && runs(c)) {
            move(c, CHILD_STOPPING);
            s->ops->signal(s->arg, i, false);
        }
    }
}

/* Begins the stop; a child that failed is STOPPED already. */
static void stop_begin(struct supervisor *s, int64_t now_ms)
{
    s->stopping = true;
    for (uint32_t i = 0; i < s->n; i++) {
        struct supervisor_child *c = &s->children[i];

        if (!runs(c) && c->state != CHILD_STOPPED) {
            move(c, CHILD_STOPPED);
        }
    }
    stop_next_level(s, now_ms);
}

void supervisor_stop(struct supervisor *s, int64_t now_ms)
{
    if (!s->stopping) {
        stop_begin(s, now_ms);
        return;
    }
    s->killed = true;
    kill_all(s);
}

static bool level_stops(const struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->children[i].state == CHILD_STOPPING) {
            return true;
        }
    }
    return false;
}

bool supervisor_ended(const struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->children[i].state != CHILD_STOPPED) {
            return false;
        }
    }
    return s->stopping;
}

/* ---- exits ---- */

static void restart_later(struct supervisor *s, uint32_t i, int64_t now_ms)
{
    struct supervisor_child *c = &s->children[i];

    if (c->state == CHILD_READY && now_ms - c->ready_ms >= SUPERVISOR_CALM_MS) {
        c->n_exits = 0;
    }
    c->backoff_ms = c->n_exits == 0 ? SUPERVISOR_BACKOFF_MS : 2 * c->backoff_ms;
    if (c->backoff_ms > SUPERVISOR_BACKOFF_MAX_MS) {
        c->backoff_ms = SUPERVISOR_BACKOFF_MAX_MS;
    }
    c->n_exits++;
    c->due_ms = now_ms + c->backoff_ms;
    move(c, CHILD_BACKOFF);
    s->ops->restarts(s->arg, i, c->backoff_ms);
}

static void fail(struct supervisor *s, uint32_t i, int64_t now_ms)
{
    s->failed = true;
    s->ops->failed(s->arg, i);
    stop_begin(s, now_ms);
}

void supervisor_exited(struct supervisor *s, uint32_t i, int code,
                       int64_t now_ms)
{
    struct supervisor_child *c = &s->children[i];

    assert(runs(c));
    if (s->stopping) {
        move(c, CHILD_STOPPED);
        if (!level_stops(s) && !s->killed) {
            stop_next_level(s, now_ms);
        }
        return;
    }
    if (!c->was_ready &&
        (code == SUPERVISOR_NO_START || c->n_exits + 1 == SUPERVISOR_TRIES)) {
        move(c, CHILD_STOPPED);
        fail(s, i, now_ms);
        return;
    }
    restart_later(s, i, now_ms);
}

/* ---- time ---- */

static int64_t tick_stop(struct supervisor *s, int64_t now_ms)
{
    if (s->killed || now_ms < s->stop_due_ms) {
        return s->killed ? SUPERVISOR_IDLE : s->stop_due_ms;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->children[i].state == CHILD_STOPPING) {
            s->ops->signal(s->arg, i, true);
        }
    }
    s->stop_due_ms = SUPERVISOR_IDLE;
    return SUPERVISOR_IDLE;
}

int64_t supervisor_tick(struct supervisor *s, int64_t now_ms)
{
    int64_t next = SUPERVISOR_IDLE;

    if (s->stopping) {
        return tick_stop(s, now_ms);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        struct supervisor_child *c = &s->children[i];

        if (c->state == CHILD_STARTING && c->due_ms <= now_ms) {
            fail(s, i, now_ms);
            return s->stop_due_ms;
        }
        if (c->state == CHILD_BACKOFF && c->due_ms <= now_ms) {
            start(s, i);
        } else if ((c->state == CHILD_BACKOFF || c->state == CHILD_STARTING) &&
                   c->due_ms < next) {
            next = c->due_ms;
        }
    }
    return next;
}
