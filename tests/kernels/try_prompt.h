/* try_prompt.h - a layer with experts for prompt tokens: what the cases of
 * try_prompt_experts.c and the checks of try_prompt_route.c share.
 *
 * Threading: none.  Memory: buffers and kernels live until the case ends. */
#ifndef TESTS_KERNELS_TRY_PROMPT_H
#define TESTS_KERNELS_TRY_PROMPT_H

#include "kernels/opencl/nv/experts_nv.h"
#include "tests/kernels/opencl_try.h"

#define TRY_NONE UINT64_MAX /* the place of an absent tensor */
#define TRY_EPS  1e-6

struct try_layer {
    const char *name;
    uint32_t h, dim, experts, top_k, shared; /* shared: SHARED of route.cl */
    uint32_t alternate, activation;
    uint32_t bits, group, format; /* a weight; bits 0: bf16 */
    uint32_t tokens;
};

enum { SEED_X = 1, SEED_NEXT, SEED_GAMMA, SEED_ROUTER, SEED_W, SEED_SS };
enum try_product { GATE_UP, DOWN, PRODUCTS };

/* Tokens first .. first + n of `most` run. */
struct try_prompt {
    struct try *t;
    const struct try_layer *l;
    uint32_t pairs, all, logit_rows, most; /* most: tokens */
    struct matmul_nv_product of[PRODUCTS];
    const struct experts_nv_tile *tile;
    struct try_launch logits_of, choose, group, one[PRODUCTS], sum;
    cl_mem x, next, ss, gamma, router, w[PRODUCTS], bias;
    cl_mem logits, ids, weights, counts, order, tiles, gated, y;
    size_t bytes[PRODUCTS];
    uint8_t *golden[PRODUCTS], *got;
    uint32_t *chosen; /* [most, pairs] */
    uint32_t first, n;
};

/* Builds a kernel; of_experts: it reads the experts' weights. */
cl_kernel try_prompt_build(struct try_prompt *r, const char *file,
                           const char *kernel, bool of_experts,
                           const char *defines);
/* Builds the kernels but for the products. */
bool try_prompt_route(struct try_prompt *r);

/* Returns the most tiles of the pairs of n tokens. */
uint32_t try_prompt_tiles(const struct try_prompt *r);

/* 1 / sqrt(mean of squares + eps) of a token. */
double try_prompt_scale(uint32_t t);

/* Runs and checks logits and choice of all tokens. */
void try_prompt_choice(struct try_prompt *r);
/* Sorts the pairs of n tokens from `first` on, and checks their tiles. */
void try_prompt_group(struct try_prompt *r);
/* Compares logits with those of other launches. */
void try_prompt_alone(struct try_prompt *r);
/* Compares the sum's bits with those of the portable kernel. */
void try_prompt_sum(struct try_prompt *r);
void try_prompt_times(struct try_prompt *r);

#endif
