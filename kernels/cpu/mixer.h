/* mixer.h - One row per kind of mixer, and per kind of feed-forward: the
 * arithmetic and the memory of a kind on the CPU.
 *
 * common/model/mixer_list.h and ffn_list.h name the rows.  The rest of a kind
 * is in common/model/mixer.h and ffn.h.
 *
 * Threading: constant data; its functions are called as in kernels.h. */
#ifndef KERNELS_CPU_MIXER_H
#define KERNELS_CPU_MIXER_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cutter.h"

struct cpu_mixer {
    /* Cuts the scratch of a step of n tokens, which all kinds share; and what
     * layer l keeps, NULL in the pass that counts.  May be NULL. */
    void (*cut)(struct cutter *k, struct cpu *c, size_t n);
    void (*cut_layer)(struct cutter *k, const struct cpu *c,
                      struct cpu_layer *l);
    /* Fills what cut_layer() cut from the weights.  May be NULL. */
    void (*load)(struct cpu *c, uint32_t layer);
    /* Returns the greatest of cols and the columns of the quantised matrices;
     * NULL: there are none. */
    uint32_t (*widest)(uint32_t cols, const struct layer_weights *w);
    /* Computes x += mixer(n) of the step's tokens; n is norm(x). */
    void (*run)(struct cpu *c, uint32_t layer);

    /* A kind with a slot.  Either replays of kept inputs wait for the next row
     * (replay.c), or replay() runs one at once. */
    bool waits;
    void (*replay)(struct cpu *c, uint32_t layer,
                   const struct kernel_replay *r);
};

struct cpu_ffn {
    void (*cut)(struct cutter *k, struct cpu *c, size_t n);
    uint32_t (*widest)(uint32_t cols, const struct layer_weights *w);
    /* Computes x += ffn(n) of the step's tokens; n is norm(x). */
    void (*run)(struct cpu *c, const struct layer_weights *w);
    bool sums; /* in y, before the sum is added to x */
};

extern const struct cpu_mixer *const cpu_mixers[MIXER_KINDS];
extern const struct cpu_ffn *const cpu_ffns[FFN_KINDS];

#define MIXER(kind, row, memory) extern const struct cpu_mixer cpu_mixer_##row;
#include "common/model/mixer_list.h"
#undef MIXER

#define FFN(kind, row) extern const struct cpu_ffn cpu_ffn_##row;
#include "common/model/ffn_list.h"
#undef FFN

/* Returns the greater of cols and the columns of t if it is quantised. */
static inline uint32_t cpu_wider(uint32_t cols, const struct tensor *t)
{
    return t->bits > 0 && t->cols > cols ? t->cols : cols;
}

static inline uint32_t cpu_widest_mlp(uint32_t cols,
                                      const struct mlp_weights *m)
{
    return cpu_wider(cpu_wider(cpu_wider(cols, &m->gate), &m->up), &m->down);
}

#endif
