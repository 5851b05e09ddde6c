/* experts_launch.h - the tensors and kernels of layers with experts, and the
 * launches that generated and prompt tokens share.
 *
 * experts.h has the whole layer, experts_prompt.h the part of prompt tokens.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_EXPERTS_LAUNCH_H
#define KERNELS_OPENCL_EXPERTS_LAUNCH_H

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/opencl.h"

#define EXPERTS_TILE_INTS 3 /* expert, place in order, pairs */
/* Pairs per expert from which the portable kernels group them. */
#define EXPERTS_GROUP_FROM 2
#define EXPERTS_WAYS       4 /* sizes of a tile of pairs; the first is one pair */

#define EXPERTS_ROUTES 2 /* one token, or more */

/* NVIDIA's kernels for prompt tokens, of any number; all or none (NULL). */
struct experts_prompt {
    struct opencl_kernel *logits, *choose, *group, *gate_up, *down;
    struct opencl_variant nv[2]; /* those of gate_up, down */
};

/* The kernels of a layer. */
struct experts_kernels {
    struct opencl_kernel *logits, *choose, *group, *sum;
    struct opencl_kernel *route[EXPERTS_ROUTES]; /* NVIDIA's; NULL: logits and
                                                  * choose */
    uint32_t n_ways;
    struct opencl_kernel *gate_up[EXPERTS_WAYS], *down[EXPERTS_WAYS];
    struct opencl_variant nv[2][EXPERTS_WAYS]; /* NVIDIA's, of gate_up, down */
    struct experts_prompt prompt;
};

/* Some tokens of a step, all of one kind, or their pairs. */
struct experts_range {
    uint32_t first, n;
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
    struct opencl_tensor counts; /* [2 * (E + 1) + 1] u32, 0 between layers: see
                                  * nv_route_prefill.cl */
    bool zeroed;                 /* tickets and counts were set to 0 */
};

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

/* Returns the most tiles of n pairs, at most `tile` in each. */
size_t opencl_experts_tiles(const struct opencl *c, size_t n, uint32_t tile);

/* Sets tickets and counts to 0, once: kernels leave them so. */
void opencl_experts_zero(struct opencl *c);

/* Set arguments and launch; k is the kernel. */
void opencl_experts_logits(struct opencl *c, struct opencl_kernel *k,
                           uint32_t layer, struct experts_range tokens,
                           const size_t global[2]);
void opencl_experts_gate_up(struct opencl *c, struct opencl_kernel *k,
                            uint32_t layer, struct experts_range pairs);
void opencl_experts_down(struct opencl *c, struct opencl_kernel *k,
                         uint32_t layer, struct experts_range pairs);

/* Returns the pairs of a token. */
uint32_t opencl_experts_pairs(const struct opencl *c,
                              const struct opencl_layer *l);

#endif
