/* rig_drain.h - Drain, Undrain and Leave, as an operator and a worker call
 * them, and a sequence that they meet. */
#ifndef TESTS_UNIT_ROUTER_RIG_DRAIN_H
#define TESTS_UNIT_ROUTER_RIG_DRAIN_H

#include "tests/unit/router/rig.h"

/* A router whose requests wait so long for a worker. */
struct rig *rig_waiting(int64_t wait_us);

/* The calls of a, an operator, and of w itself; all is quiet then. */
struct record *drain_within(struct fake *a, const char *worker,
                            uint32_t grace_ms, uint32_t deadline_ms);
struct record *drain(struct fake *a, const char *worker, uint32_t grace_ms);
struct record *undrain(struct fake *a, const char *worker);
struct record *leave(struct fake *w, uint32_t grace_ms);

/* The call has ended well, and said so. */
void told(const struct record *x, uint32_t running, uint32_t finished,
          uint32_t moved);

/* The state of the i-th worker that is listed. */
void state_is(struct fake *a, uint32_t i, const char *state);

/* Sequence 1 at w1 with two tokens, and w2 beside it. */
struct drain_scene {
    struct rig *rig;
    struct fake *w1, *w2, *c, *a;
    struct record *x;
};

void drain_bring(struct drain_scene *s);
/* Without w2. */
void drain_bring_alone(struct drain_scene *s, int64_t wait_us);

/* It goes on at w with the tokens it had, to its end. */
void drain_goes_on(struct drain_scene *s, struct fake *w, uint32_t had);

#endif
