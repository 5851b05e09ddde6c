/* fake_hidden.h - Hidden state of a token, as one fake stage sends it to the
 * next.
 *
 *     lane   0      token, and the marks below
 *            1      position << 1 | kind
 *            2..4   A of the previous stages (tests/sim/oracle.h)
 *            5..7   S
 *            8..10  W
 *            11     a check of all of these, of the model and of the layer
 *
 * A lane is a float32 that carries 22 bits, in [1, 1.5).  No lane is ever used
 * in arithmetic, and no bit may change in transit.  Only the last token of a
 * row has A, S and W, because a token is chosen only after it.  Each stage adds
 * the contents of its own memory.  If they agree, the digest does not change.
 * A difference stays in the digest from that stage on, and in the resulting
 * token. */
#ifndef SIM_FAKE_HIDDEN_H
#define SIM_FAKE_HIDDEN_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_HIDDEN 12 /* H */

struct fake_hidden {
    uint32_t token, where; /* below 1 << 18, position << 1 | kind */
    bool tainted; /* a previous stage failed with part of this sequence */
    bool again;   /* its sequence begins anew at this row */
    bool has_a, has_s, has_w;
    uint64_t a, s, w;
};

/* Stores in x[FAKE_HIDDEN] the hidden state behind layer `layer` - 1 of the
 * model with this salt. */
void fake_hidden_put(float *x, const struct fake_hidden *h, uint64_t salt,
                     uint32_t layer);

/* Reads a hidden state; false if no stage produced x for this salt and layer.
 */
bool fake_hidden_get(struct fake_hidden *h, const float *x, uint64_t salt,
                     uint32_t layer);

/* Returns the digest of a stage with digest `own`, where previous stages (if
 * `has`) produced `before`. */
uint64_t fake_hidden_join(bool has, uint64_t before, uint64_t own);

#endif
