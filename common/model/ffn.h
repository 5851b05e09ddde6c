/* ffn.h - One row per kind of feed-forward: all that differs between kinds but
 * the arithmetic, as mixer.h has it for mixers.
 *
 * Threading: constant data. */
#ifndef COMMON_MODEL_FFN_H
#define COMMON_MODEL_FFN_H

#include "common/model/maker.h"
#include "common/model/tally.h"

#define FFN_CHOSEN_MAX 2 /* matrices of which a step reads a part */

struct ffn {
    const char *name;  /* in listings of models that have another kind */
    const char *a_ffn; /* in errors: "an MLP" */

    /* Lays the weights out, and counts them as laid out, with n experts of each
     * layer. */
    void (*tensors)(struct maker *m, struct layer_weights *w);
    void (*tally)(struct tally *t, const struct model_config *c, uint64_t n);

    /* Count and return the weights of which a step reads only what its tokens
     * choose.  chosen() sets out[0..] to the matrices, and returns how many
     * there are.  NULL: the kind has none. */
    void (*tally_chosen)(struct tally *t, const struct model_config *c);
    uint32_t (*chosen)(const struct layer_weights *w,
                       const struct tensor *out[FFN_CHOSEN_MAX]);
};

extern const struct ffn *const ffn_rows[FFN_KINDS];

#define FFN(kind, row) extern const struct ffn ffn_##row;
#include "common/model/ffn_list.h"
#undef FFN

#endif
