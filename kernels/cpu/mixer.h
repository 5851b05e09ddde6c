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

/* Takes a matrix, perhaps absent, and the matrices that it is, one after the
 * other: those of experts are many. */
typedef void (*cpu_matrix_fn)(void *arg, const struct tensor *t, uint32_t n);

#define CPU_FLOAT_ONLY 0 /* a matrix without integer products */

struct cpu_mixer {
    /* Cuts the scratch of a step of n tokens, which all kinds share; and what
     * layer l keeps, NULL in the pass that counts.  May be NULL. */
    void (*cut)(struct cutter *k, struct cpu *c, size_t n);
    void (*cut_layer)(struct cutter *k, const struct cpu *c,
                      struct cpu_layer *l);
    /* Fills what cut_layer() cut from the weights.  May be NULL. */
    void (*load)(struct cpu *c, uint32_t layer);
    /* Calls fn for each matrix of a product; NULL: there are none. */
    void (*matrices)(const struct layer_weights *w, cpu_matrix_fn fn,
                     void *arg);
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
    void (*matrices)(const struct layer_weights *w, cpu_matrix_fn fn,
                     void *arg);
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

static inline void cpu_mlp_matrices(const struct mlp_weights *m,
                                    cpu_matrix_fn fn, void *arg)
{
    fn(arg, &m->gate, 1);
    fn(arg, &m->up, 1);
    fn(arg, &m->down, 1);
}

/* Calls fn for each matrix of a product of the shard, the head and the MTP
 * layer's included. */
void cpu_matrices(const struct shard_weights *w, cpu_matrix_fn fn, void *arg);

#endif
