/* rig_drain.h - Helpers for tests of Drain, Undrain and Leave: the calls of an
 * operator and of a worker, and a scene with a running sequence. */
#ifndef TESTS_UNIT_ROUTER_RIG_DRAIN_H
#define TESTS_UNIT_ROUTER_RIG_DRAIN_H

#include "tests/unit/router/rig.h"

/* Creates a rig whose requests wait wait_us for a worker. */
struct rig *rig_waiting(int64_t wait_us);

/* Call Drain or Undrain as operator a, or Leave as worker w, and run the rig.
 */
struct record *drain_within(struct fake *a, const char *worker,
                            uint32_t grace_ms, uint32_t deadline_ms);
struct record *drain(struct fake *a, const char *worker, uint32_t grace_ms);
struct record *undrain(struct fake *a, const char *worker);
struct record *leave(struct fake *w, uint32_t grace_ms);

/* Asserts that the call has ended with OK and these figures. */
void told(const struct record *x, uint32_t running, uint32_t finished,
          uint32_t moved);

/* Asserts the state of the i-th worker in the list. */
void state_is(struct fake *a, uint32_t i, const char *state);

/* Sequence 1 runs at w1 and has two tokens; w2 is idle. */
struct drain_scene {
    struct rig *rig;
    struct fake *w1, *w2, *c, *a;
    struct record *x;
};

/* Sets up the scene. */
void drain_bring(struct drain_scene *s);
/* Sets up the scene without w2. */
void drain_bring_alone(struct drain_scene *s, int64_t wait_us);

/* Asserts that sequence 1 has moved to w with its tokens, and lets it finish.
 */
void drain_goes_on(struct drain_scene *s, struct fake *w, uint32_t n_before);

#endif
