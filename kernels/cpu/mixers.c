/* mixers.c - the rows of the cpu backend by kind. */
#include "kernels/cpu/mixer.h"

const struct cpu_mixer *const cpu_mixers[MIXER_KINDS] = {
#define MIXER(kind, row, memory) [MIXER_##kind] = &cpu_mixer_##row,
#include "common/model/mixer_list.h"
#undef MIXER
};

const struct cpu_ffn *const cpu_ffns[FFN_KINDS] = {
#define FFN(kind, row) [FFN_##kind] = &cpu_ffn_##row,
#include "common/model/ffn_list.h"
#undef FFN
};
