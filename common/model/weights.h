/* weights.h - Shape and tensors of a model, as kernels use them.
 *
 * Dimension letters (docs/model.md): H hidden, I intermediate, V vocabulary,
 * nh query heads, nkv key/value heads, hd head size, R rotated dimensions of
 * a head, Hk/Hv key/value heads of a Gated DeltaNet, Dk/Dv their sizes, K
 * convolution kernel, C = 2*Hk*Dk + Hv*Dv convolution channels.
 *
 * Memory: all structs borrow; worker/model/shard.h owns the data. */
#ifndef COMMON_MODEL_WEIGHTS_H
#define COMMON_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

static inline size_t dtype_bytes(enum dtype t)
{
    return t == DTYPE_F32 ? 4 : 2;
}

enum mixer_kind { MIXER_ATTENTION, MIXER_DELTANET };

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

struct rope_shape {
    enum rope_kind kind;
    double theta;
    uint32_t dim;      /* R: rotated dimensions of a head, even */
    double factor;     /* linear, llama3 */
    double low_freq;   /* llama3 */
    double high_freq;  /* llama3 */
    uint32_t original; /* llama3: original_max_position_embeddings */
};

/* Dimensions shared by all layers of a model. */
struct model_shape {
    uint32_t n_layers;
    uint32_t hidden;       /* H */
    uint32_t intermediate; /* I */
    uint32_t vocab;        /* V */
    uint32_t context;      /* longest sequence */
    float norm_eps;
    enum dtype dtype; /* dtype of the checkpoint's matrices, or of scales if
                         quantised; also of KV under `auto` */

    uint32_t n_heads;    /* nh; 0 if no layer is attention */
    uint32_t n_kv_heads; /* nkv, divides nh */
    uint32_t head_dim;   /* hd */
    bool attn_gated;     /* q rows are nh * (hd query, hd gate) */
    struct rope_shape rope;

    uint32_t n_k_heads; /* Hk; 0 if no layer is linear */
    uint32_t n_v_heads; /* Hv, a multiple of Hk */
    uint32_t k_dim;     /* Dk */
    uint32_t v_dim;     /* Dv */
    uint32_t conv;      /* K */
};

/* A matrix as stored: out = x * W^T, W [rows, cols] row-major.
 *
 * Quantised if bits is 4 or 8: a row has cols / group groups, group divides
 * cols.  For the values q < 2^bits of group g
 *
 *     w = scales[g] * q + biases[g]       float32, rounded once
 *
 * data is [rows, cols * bits / 8] bytes, each row's values one after another;
 * with 4 bits, the lower half of a byte first. */
struct tensor {
    const void *data; /* NULL: absent */
    enum dtype
        dtype; /* dtype of the elements; if quantised, of scales and biases */
    uint32_t rows, cols;
    uint32_t bits;      /* 0: not quantised, and the fields below are unused */
    uint32_t group;     /* 32, 64 or 128 */
    const void *scales; /* [rows, cols / group] dtype */
    const void *biases; /* [rows, cols / group] dtype */
};

/* Returns the bytes of a row of data; tensor_scale_bytes() of a row of scales
 * or of biases. */
static inline uint64_t tensor_row_bytes(const struct tensor *t)
{
    return t->bits > 0 ? (uint64_t)t->cols * t->bits / 8
                       : (uint64_t)t->cols * dtype_bytes(t->dtype);
}

static inline uint64_t tensor_scale_bytes(const struct tensor *t)
{
    return t->bits > 0 ? (uint64_t)(t->cols / t->group) * dtype_bytes(t->dtype)
                       : 0;
}

/* Returns the bytes of the whole matrix, with scales and biases. */
static inline uint64_t tensor_bytes(const struct tensor *t)
{
    return t->rows * (tensor_row_bytes(t) + 2 * tensor_scale_bytes(t));
}

/* Norm weights are gamma in float32.  gamma - 1 of a checkpoint is converted
 * when the file is read. */
struct attention_weights {
    struct tensor q;     /* [nh*hd or nh*2*hd, H] */
    struct tensor k, v;  /* [nkv*hd, H] */
    struct tensor o;     /* [H, nh*hd] */
    const float *q_bias; /* [q.rows] or NULL */
    const float *k_bias; /* [nkv*hd] or NULL */
    const float *v_bias; /* [nkv*hd] or NULL */
    const float *o_bias; /* [H] or NULL */
    const float *q_norm; /* [hd] or NULL */
    const float *k_norm; /* [hd] or NULL */
};

struct deltanet_weights {
    struct tensor qkv;    /* [C, H], rows q (Hk*Dk), k (Hk*Dk), v (Hv*Dv) */
    struct tensor z;      /* [Hv*Dv, H] */
    struct tensor b, a;   /* [Hv, H] */
    struct tensor out;    /* [H, Hv*Dv] */
    const float *conv;    /* [C, K]; conv[c][K-1] meets the current token */
    const float *a_log;   /* [Hv] */
    const float *dt_bias; /* [Hv] */
    const float *norm;    /* [Dv], plain */
};

struct mlp_weights {
    struct tensor gate, up; /* [I, H] */
    struct tensor down;     /* [H, I] */
};

struct layer_weights {
    enum mixer_kind kind;
    const float *input_norm; /* [H] */
    const float *post_norm;  /* [H] */
    union {
        struct attention_weights attention;
        struct deltanet_weights deltanet;
    } mixer;
    struct mlp_weights mlp;
};

/* Weights of layers [begin, end).  embed exists if begin = 0, final_norm and
 * head if end = n_layers; a tied head shares embed's data. */
struct shard_weights {
    struct model_shape shape;
    uint32_t begin, end;
    struct tensor embed;                /* [V, H] */
    const float *final_norm;            /* [H] */
    struct tensor head;                 /* [V, H] */
    const struct layer_weights *layers; /* [end - begin] */
};

#endif
