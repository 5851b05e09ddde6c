/* mixer.h - One row per kind of mixer: all that differs between kinds but the
 * arithmetic, which is in the tables of the backends (kernels/cpu/mixer.h,
 * kernels/opencl/mixer.h).
 *
 * A new kind is a line in mixer_list.h, a row here and a row of a backend.  A
 * kind with sizes or weights of its own adds them to struct model_shape and
 * struct layer_weights.
 *
 * Threading: constant data. */
#ifndef COMMON_MODEL_MIXER_H
#define COMMON_MODEL_MIXER_H

#include "common/model/config_types.h"
#include "common/model/family.h"
#include "common/model/kv_format.h"
#include "common/model/maker.h"
#include "common/model/tally.h"

/* Parts of a step's scratch (costs.c), each an upper bound; NULL: 0. */
struct mixer_costs {
    /* Memory of the operator for a step of so many tokens: bytes on the CPU,
     * floats on a device. */
    uint64_t (*cpu)(const struct model_shape *s, uint64_t tokens);
    uint64_t (*opencl)(const struct model_shape *s, uint64_t tokens);
    /* Bytes that each layer keeps on the CPU beside its weights. */
    uint64_t (*cpu_layer)(const struct model_shape *s);
    /* Columns of the widest matrix; rows of the widest fused one. */
    uint64_t (*columns)(const struct model_shape *s);
    uint64_t (*rows)(const struct model_shape *s);
};

struct mixer {
    const char *type;    /* in layer_types of config.json; NULL: families set
                          * the kind by other keys */
    const char *name;    /* in listings, before "layers": "linear" */
    const char *a_layer; /* in errors: "a linear layer" */
    bool always;         /* listings name the kind with a count of 0, too */

    /* Faults if layer i cannot be of the kind in this family; may be NULL. */
    void (*check)(const struct model_config *c, struct fields *f,
                  const struct family *family, uint32_t i);
    /* Reads the sizes of the kind; called once if a layer is of it, or of
     * another kind with the same function.  May be NULL. */
    void (*parse)(struct model_config *c, struct fields *f,
                  const struct family *family);

    /* Returns the rotary positions; NULL: there are none. */
    const struct rope_shape *(*rope)(const struct model_shape *s);

    /* Lays the weights out, and counts them as laid out.  May be NULL and
     * empty. */
    void (*tensors)(struct maker *m, struct layer_weights *w);
    void (*tally)(struct tally *t, const struct model_config *c);

    /* Blocks, windows: the bytes of one position in a format; 0 unless the
     * shape has the sizes of the kind. */
    uint64_t (*kv)(const struct model_shape *s, const struct kv_format *f);
    /* Slot: sets the bytes of the parts of a state, with the dtype of KV.  All
     * are 0 unless the shape has the sizes of the kind. */
    void (*slot)(const struct model_shape *s, enum dtype dtype,
                 struct mixer_slot *out);
    /* Slot: the bytes of a token's inputs that are kept while drafts are
     * verified; NULL: none. */
    uint64_t (*kept)(const struct model_shape *s, enum dtype dtype);

    struct mixer_costs costs;
};

extern const struct mixer *const mixer_rows[MIXER_KINDS];

#define MIXER(kind, row, memory) extern const struct mixer mixer_##row;
#include "common/model/mixer_list.h"
#undef MIXER

/* Returns the kind with this name in layer_types, or MIXER_KINDS. */
enum mixer_kind mixer_find(const char *type);

#define MIXER_TEXT_MAX 256

/* Writes the types of all kinds, as "a, b and c".  Returns out. */
const char *mixer_types(char out[MIXER_TEXT_MAX]);

/* Writes how many layers of [begin, end) are of each kind, without the MTP
 * layer: those with slots first, as "18 linear, 6 attention".  Returns out. */
const char *mixer_counts(const struct model_config *c, uint32_t begin,
                         uint32_t end, char out[MIXER_TEXT_MAX]);

#endif
