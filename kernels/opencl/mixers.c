/* mixers.c - the rows of the opencl backend by kind. */
#include "common/model/mixer.h"
#include "kernels/opencl/mixer.h"

const struct opencl_mixer *const opencl_mixers[MIXER_KINDS] = {
    [MIXER_ATTENTION] = &opencl_mixer_attention,
    [MIXER_DELTANET] = &opencl_mixer_deltanet,
    [MIXER_WINDOW] = &opencl_mixer_attention,
    [MIXER_NOPE] = &opencl_mixer_attention,
};

enum status opencl_mixers_check(const struct shard_weights *w, struct error *e)
{
    for (uint32_t i = 0; i < shard_layers(w); i++) {
        enum mixer_kind kind = w->layers[i].kind;

        if (opencl_mixers[kind] == NULL) {
            return error_set(e, ST_UNIMPLEMENTED,
                             "layer %u is %s, which the opencl backend does "
                             "not compute; use --device cpu",
                             w->begin + i, mixer_rows[kind]->a_layer);
        }
    }
    return ST_OK;
}
