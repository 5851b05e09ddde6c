/* mixer_identity.c - The row of a made-up mixer: x += norm(x), and its state is
 * the number of its sequence's positions, one float. */
#include "common/model/mixer.h"

static void slot(const struct model_shape *s, enum dtype dtype,
                 struct mixer_slot *out)
{
    (void)s;
    (void)dtype;
    out->parts[0] = sizeof(float);
}

const struct mixer mixer_identity = {
    .type = "identity",
    .name = "identity",
    .a_layer = "an identity layer",
    .slot = slot,
};
