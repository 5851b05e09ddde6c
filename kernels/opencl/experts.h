/* experts.h - the feed-forward with experts.
 *
 * The router's choice stays on the device: the kernels read it there, and no
 * launch depends on it.  A pair is a token and one of its experts, t * P + i.
 *
 *     logits  choose  [group]  gate_up  down  sum
 *
 * Few pairs are products of their own; many are grouped by expert first.  Both
 * give the same bits.  P is top_k, or one more for a shared expert that is
 * stored as the others are.  Otherwise the shared expert is an MLP (matmul.h),
 * whose output the last kernel adds.
 *
 * NVIDIA's kernels are those of nv_matmul_decode.cl; nv_route.cl computes
 * logits and choice of generated tokens in one launch.  In a step of one token
 * the layer may be part of a chain (chain.h).
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_EXPERTS_H
#define KERNELS_OPENCL_EXPERTS_H

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/opencl.h"

#define EXPERTS_TILE_INTS 3 /* expert, place in order, pairs */
/* Pairs per expert from which the portable kernels group them. */
#define EXPERTS_GROUP_FROM 2
#define EXPERTS_WAYS       4 /* sizes of a tile of pairs; the first is one pair */

#define EXPERTS_ROUTES 2 /* one token, or more */

/* The kernels of a layer. */
struct experts_kernels {
    struct opencl_kernel *logits, *choose, *group, *sum;
    struct opencl_kernel *route[EXPERTS_ROUTES]; /* NVIDIA's; NULL: logits and
                                                  * choose */
    uint32_t n_ways;
    struct opencl_kernel *gate_up[EXPERTS_WAYS], *down[EXPERTS_WAYS];
    struct opencl_variant nv[2][EXPERTS_WAYS]; /* NVIDIA's, of gate_up, down */
};

struct opencl_experts {
    struct experts_kernels *layers; /* [end - begin] */
    struct opencl_tensor logits; /* [T, E or E + 1] f32: as the router's rows */
    struct opencl_tensor ids;    /* [T, P] u32, in order of rank */
    struct opencl_tensor weights; /* [T, top_k + 1] f32: of ids; the shared
                                   * expert's */
    struct opencl_tensor gated;   /* [T * P, Im] operand dtype */
    struct opencl_tensor y;       /* [T * P, H] f32: outputs, not weighted */
    struct opencl_tensor order;   /* [T * P] u32: pairs, by expert */
    struct opencl_tensor tiles; /* [.., EXPERTS_TILE_INTS] u32, see route.cl */
    struct opencl_tensor tickets; /* [T] u32, 0 between launches */
    bool zeroed;                  /* tickets were set to 0 */
};

/* Chooses the kernels and requests scratch, if a layer has experts. */
MUST_CHECK enum status opencl_experts_setup(struct opencl *c, struct error *e);
void opencl_experts_free(struct opencl *c);

/* Writes the defines of a program that reads w, a matrix of the layer's
 * experts, and uses their figures. */
#define EXPERTS_DEFINES 320
void opencl_experts_defines(const struct opencl *c,
                            const struct opencl_layer *l,
                            const struct opencl_tensor *w,
                            char out[EXPERTS_DEFINES]);

/* Returns the matrices of a layer with experts, the shared one's included. */
static inline uint32_t opencl_experts_all(const struct opencl *c,
                                          const struct opencl_layer *l)
{
    return l->experts.down.rows / c->w->shape.hidden;
}

/* Returns the pairs of a token. */
uint32_t opencl_experts_pairs(const struct opencl *c,
                              const struct opencl_layer *l);

/* Returns whether NVIDIA's kernels compute a layer's experts for generated
 * tokens. */
bool opencl_experts_decode_nv(const struct opencl *c, uint32_t layer);

/* Computes x += ffn(norm(x)) of a layer with experts, see kernels.h, and the
 * operand of the norm behind it. */
void opencl_experts_run(struct opencl *c, uint32_t layer);

#endif
