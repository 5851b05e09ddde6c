/* fake_hidden.h - what a stage of the fake model tells the next of a token, in
 * the lanes of its hidden state.
 *
 *     lane   0      token, and the marks below
 *            1      position << 1 | kind
 *            2..4   A, as the stages passed have it (tests/sim/oracle.h)
 *            5..7   S
 *            8      a check of all of these, of the model and of the layer
 *
 * A lane is a float32 of 22 bits of it, [1, 1.5): nobody calculates with it,
 * and no bit of it may be lost on the way.  Only the last token of a row has A
 * and S, as only after it a token is chosen.  Each stage adds what its own
 * memory holds: agreement changes nothing, a difference is in the digest from
 * there on, and in the token that it becomes. */
#ifndef SIM_FAKE_HIDDEN_H
#define SIM_FAKE_HIDDEN_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_HIDDEN 9 /* H */

struct fake_hidden {
    uint32_t token, where; /* below 1 << 18, position << 1 | kind */
    bool tainted;          /* a stage passed failed with some of its sequence */
    bool has_a, has_s;
    uint64_t a, s;
};

/* Behind layer `layer` - 1 of the model with this salt: x [FAKE_HIDDEN]. */
void fake_hidden_put(float *x, const struct fake_hidden *h, uint64_t salt,
                     uint32_t layer);

/* False: no stage has said this there. */
bool fake_hidden_get(struct fake_hidden *h, const float *x, uint64_t salt,
                     uint32_t layer);

/* What a stage says that has `own` where those before said `said`. */
uint64_t fake_hidden_join(bool has, uint64_t said, uint64_t own);

#endif
