/* isa.h - the inner loops of the cpu backend, one table per instruction set.
 *
 * The bodies are the isa_*.inc files, written once over simd_*.h.
 * isa_generic.c, isa_avx2.c and isa_avx512.c compile them with their own target
 * flags.  All three give the same bits: this header fixes the order of every
 * sum, and no sum depends on the width of a register or the shape of a tile.
 *
 * The opencl backend uses the loops that widen weights, too.
 *
 * Threading: pure functions of their arguments. */
#ifndef KERNELS_ISA_ISA_H
#define KERNELS_ISA_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa/quantised.h"
#include "kernels/kernels.h"

#define CONV_CHANNELS  256 /* channels of one task */
#define STATE_COLUMNS  32  /* columns of one task */
#define ATTEND_QUERIES 32  /* queries of one task */
#define ATTEND_SPAN    64  /* positions per turn of online softmax */

/* out[m, n] (+)= sum_k x[m, k] w[n, k] (+ bias[n]).
 *
 * Lane j of sixteen sums k = j, j+16, ... in that order; then v16_sum. */
struct matmul_block {
    const float *x;    /* [n_x, k], rows ld_x apart */
    const void *w;     /* [n_w, k] dtype, rows k apart */
    const float *bias; /* [n_w] or NULL */
    float *out;        /* [n_x, n_w], rows ld_out apart */
    size_t ld_x, ld_out;
    uint32_t n_x, n_w, k;
    enum dtype dtype;
    bool add; /* adds to the contents of out */
};

/* Computes the same sums over a few rows of x, bit for bit those of the rows
 * that dequantise() gives. */
struct quantised_block {
    struct quantised w;
    struct matmul_block b; /* its w and dtype are unused */
    float *turned;         /* [QUANTISED_STRIP, k] scratch */
};

#define QUANTISED_STRIP 8 /* most rows of x that share a read of W */

#define QUANTISED_X 32 /* with more rows of x, this is slower */

/* Causal attention of n_q queries that share a block table and a kv head, turn
 * by turn over absolute spans of ATTEND_SPAN positions, from that of the first
 * position that a query sees:
 *
 *       s_p = scale * sum_d q_d k_pd, in order of d; with a cap,
 *       s_p = cap * tanh(s_p / cap)
 *       M = -infinity, l = 0, y = 0; with a sink M = sink, l = 1
 *       M' = max(M, max s), l = l e^(M-M') + sum e^(s-M'), y = y e^(M-M') +
 *       sum_p e^(s_p-M') v_p in order of p; at the end y / l. */
struct attend_task {
    const float *q;         /* [n_q, hd] */
    float *y;               /* [n_q, hd] */
    const uint32_t *last;   /* [n_q] each query's own position */
    const float *sinks;     /* [n_q] or NULL */
    const uint32_t *blocks; /* position p is in blocks[p / block_tokens -
                             * first_block] */
    uint32_t first_block;
    uint32_t window; /* positions that a query sees; 0: all */
    const char *k;   /* block b at b * stride: [hd, block_tokens] dtype */
    const char *v;   /* block b at b * stride: [block_tokens, hd] dtype */
    size_t stride;
    enum dtype dtype;
    uint32_t n_q, hd, block_tokens;
    float scale, cap; /* cap: 0: none */
    float *s;         /* [ATTEND_QUERIES, ATTEND_SPAN] scratch */
};

/* Keys or values of one kv head in blocks of a quantised layer
 * (common/model/kv_format.h). */
struct attend_codes {
    const char *codes;  /* block b at b * stride: [block_tokens, code_bytes] */
    const char *params; /* block b at b * stride: [block_tokens, param_bytes] */
    uint32_t bits, code_bytes;
    const float *centroids; /* [1 << bits] of turboquant; NULL: affine */
};

/* The same over quantised keys and values, but for the order of a score: lane j
 * of sixteen sums d = j, j+16, ...; then v16_sum.
 *
 *     affine      k_pd and v_pd are scale * q + bias, rounded once
 *     turboquant  k_pd = c[q]; s_p is multiplied by the key's norm before
 *                 `scale`, and the weight of v_p by the value's norm.  Queries
 *                 and results are in the rotated basis. */
struct attend_quantised {
    struct attend_task t; /* its k and v are unused, its window is 0; dtype: of
                           * parameters */
    struct attend_codes k, v;
    uint32_t group; /* affine: 32, 64 or 128, divides hd */
};

/* u[t, c] = silu(sum_j w[j, c] in[t-K+1+j, c]), j in order.  Inputs before t =
 * 0 come from the tail.  All past inputs, inside the chunk too, are rounded to
 * the tail's dtype.  The last K-1 rows become the new tail. */
struct conv_task {
    const float *in; /* [n_tokens, n], rows ld apart */
    float *out;      /* [n_tokens, n], rows ld_out apart */
    const float *w;  /* [K, n], rows ld_w apart */
    void *tail;      /* [K-1, n] dtype, rows ld_w apart */
    size_t ld, ld_out, ld_w;
    uint32_t n_tokens, n, k;
    enum dtype dtype;
    bool hold; /* the tail stays as it is */
};

/* The gated delta rule on n <= STATE_COLUMNS columns of one state, token by
 * token:
 *
 *       S = g S; m_j = sum_i k_i S_ij; d_j = beta (v_j - m_j);
 *       S_ij += k_i d_j; o_j = sum_i q_i S_ij
 *
 * Sums over i: four partial sums by i mod 4, then (0+1) + (2+3). */
struct delta_task {
    float *state;       /* [Dk, n], rows ld_state apart */
    float *block;       /* [Dk, STATE_COLUMNS] scratch: the columns between the
                         * tokens, close together, so that they stay in L1 */
    const float *q, *k; /* [n_tokens, Dk], rows ld_qk apart; q NULL: no o */
    const float *v;     /* [n_tokens, n], rows ld_v apart */
    const float *decay; /* [n_tokens], ld_gate apart: g */
    const float *beta;  /* [n_tokens], ld_gate apart */
    float *o;           /* [n_tokens, n], rows ld_o apart */
    size_t ld_state, ld_qk, ld_v, ld_gate, ld_o;
    uint32_t n_tokens, dk, n; /* at least one token */
    bool hold;                /* the state is not written */
};

/* gate[i] = what enum activation gives of gate[i] and up[i]. */
struct activation_task {
    float *gate;     /* [n] */
    const float *up; /* [n] */
    size_t n;
    enum activation kind;
    float alpha, limit; /* ACTIVATION_CLAMPED */
};

struct int8_isa;

struct cpu_isa {
    const char *name;
    const struct int8_isa *int8; /* integer products, int8.h */
    void (*matmul)(const struct matmul_block *b);
    void (*matmul_quantised)(const struct quantised_block *b);
    /* out[n_w, k]: the values of weights.h, each rounded once; fp8 with scales
     * below 2^120. */
    void (*dequantise)(float *out, const struct quantised *w, uint32_t n_w);
    void (*attend)(const struct attend_task *t);
    void (*attend_quantised)(const struct attend_quantised *a);
    void (*conv)(const struct conv_task *t);
    void (*delta)(const struct delta_task *t);
    /* out[i] = in[i] / sqrt(mean(in^2) + eps) * gamma[i], n values. */
    void (*rms_norm)(float *out, const float *in, const float *gamma,
                     uint32_t n, float eps);
    /* x[i] = x[i] / sqrt(sum(x^2) + eps) * scale. */
    void (*l2_norm)(float *x, uint32_t n, float eps, float scale);
    void (*activate)(const struct activation_task *t);
    /* y[i] += weight * x[i], rounded once. */
    void (*accumulate)(float *y, const float *x, float weight, size_t n);
    /* x[i] = cap * tanh(x[i] / cap). */
    void (*soft_cap)(float *x, float cap, size_t n);
    void (*sigmoid_mul)(float *y, const float *gate, size_t n);
    /* p[i] = exp((l[i] - top) * factor). */
    void (*weigh)(float *p, const float *l, float top, float factor, size_t n);
    /* The greatest of n >= 1 values; NaN if any is not finite. */
    float (*highest)(const float *l, size_t n);
    /* sum exp(l[i] - top) in turns of 256.  In a turn, lane j of sixteen sums
     * j, j+16, ...; then v16_sum.  The turns are added in double, in order. */
    double (*exp_sum)(const float *l, float top, size_t n);
    /* The first i in [from, n) with l[i] > bar; n if there is none. */
    size_t (*above)(const float *l, size_t from, size_t n, float bar);
    void (*widen)(float *out, const void *in, enum dtype t, size_t n);
    void (*narrow)(void *out, const float *in, enum dtype t, size_t n);
};

extern const struct cpu_isa isa_generic;
#ifdef SLUICE_X86
extern const struct cpu_isa isa_avx2;
extern const struct cpu_isa isa_avx512, isa_avx512_vnni;
#endif

/* Returns the table with that name, or the best one for NULL.  Returns NULL if
 * there is no such table or this processor lacks its instructions. */
const struct cpu_isa *isa_find(const char *name);

#endif
