/* weights.h - Shape and tensors of a model, as kernels use them.
 *
 * Dimension letters (docs/model.md): H hidden, I intermediate, V vocabulary,
 * nh query heads, nkv key/value heads, hd head size, R rotated dimensions of
 * a head, Hk/Hv key/value heads of a Gated DeltaNet, Dk/Dv their sizes, K
 * convolution kernel, C = 2*Hk*Dk + Hv*Dv convolution channels, E experts, Im
 * intermediate size of an expert, Is of the shared expert.
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

enum mixer_kind {
#define MIXER(kind, row, memory) MIXER_##kind,
#include "common/model/mixer_list.h"
#undef MIXER
    MIXER_KINDS
};

/* The memory in which a layer holds a sequence. */
enum mixer_memory {
    MIXER_IN_BLOCKS,  /* keys and values of all positions */
    MIXER_IN_WINDOWS, /* those of the last `window` positions */
    MIXER_IN_SLOT /* a state of fixed size, in up to MIXER_PARTS_MAX parts */
};

#define MIXER_PARTS_MAX 4

/* The bytes of a state's parts; those that a mixer lacks are 0. */
struct mixer_slot {
    uint64_t parts[MIXER_PARTS_MAX];
};

static inline enum mixer_memory mixer_memory(enum mixer_kind k)
{
    static const enum mixer_memory memories[MIXER_KINDS] = {
#define MIXER(kind, row, memory) [MIXER_##kind] = MIXER_IN_##memory,
#include "common/model/mixer_list.h"
#undef MIXER
    };

    return memories[k];
}

enum ffn_kind {
#define FFN(kind, row) FFN_##kind,
#include "common/model/ffn_list.h"
#undef FFN
    FFN_KINDS
};

/* With gate g and up u: silu(g) * u; gelu(g) * u, gelu by tanh; and that of
 * gpt-oss: g' = min(g, limit), u' = clamp(u, -limit, limit),
 * g' * sigmoid(alpha * g') * (u' + 1). */
enum activation { ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_CLAMPED };

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

struct rope_shape {
    enum rope_kind kind;
    double theta;
    uint32_t dim;      /* R: rotated dimensions of a head, even */
    double factor;     /* linear, llama3, yarn */
    double low_freq;   /* llama3 */
    double high_freq;  /* llama3 */
    double beta_fast;  /* yarn */
    double beta_slow;  /* yarn */
    double attention;  /* yarn: factor of cosine and sine */
    bool truncate;     /* yarn: the ramp's ends are whole numbers */
    uint32_t original; /* llama3, yarn: original_max_position_embeddings */
};

struct activation_shape {
    enum activation kind;
    float alpha, limit; /* ACTIVATION_CLAMPED */
};

/* Details of attention; a zero is what most models have. */
struct attention_shape {
    bool late_norm;  /* q and k are normed behind the rotation */
    bool whole_norm; /* all heads of q, and of k, share a norm */
    /* q of position p is multiplied by 1 + beta log(1 + floor(p / original)) */
    double query_beta;
    uint32_t query_original; /* 0: q is not */
};

/* Factors between the layers, each 0: 1. */
struct stream_shape {
    float embed;    /* embeddings */
    float residual; /* outputs of mixers and feed-forwards */
    float logits;   /* logits, before the cap */
    float cap;      /* l = cap * tanh(l / cap) of logits; 0: none */
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
    float attn_scale;    /* factor of q * k; 0: 1 / sqrt(hd) */
    float attn_cap;      /* s = cap * tanh(s / cap); 0: none */
    uint32_t window;     /* positions that a window layer sees, the query's own
                          * included; 0: no layer is one */
    struct rope_shape rope;        /* layers that see all positions */
    struct rope_shape window_rope; /* window layers */

    uint32_t n_k_heads; /* Hk; 0 if no layer is linear */
    uint32_t n_v_heads; /* Hv, a multiple of Hk */
    uint32_t k_dim;     /* Dk */
    uint32_t v_dim;     /* Dv */
    uint32_t conv;      /* K */

    struct activation_shape activation; /* MLPs and experts */
    uint32_t n_experts;                 /* E; 0 if no layer has experts */
    uint32_t top_k;                     /* experts of a token */
    uint32_t expert_dim;                /* Im */
    uint32_t shared_dim;                /* Is; 0: no shared expert */
    bool top_k_normed; /* the weights of a token's experts have the sum 1 */
    bool gate_up_alternate; /* gate and up rows of an expert alternate */

    struct stream_shape stream;
    struct attention_shape attention;
};

/* How a matrix is stored.  q is a code of `bits` bits, s the scale of its
 * group; each w is rounded to float32 once.
 *
 *     format  bits  group    scales of a row            w
 *     plain   -     -        none                       the element, dtype
 *     affine  8, 4  32..128  [cols/group] dtype, and    s q + b
 *                            biases b [cols/group]
 *     fp8     8     128      [ceil(cols/128)] float32   s E4M3(q)
 *     mxfp4   4     32       [cols/32] E8M0             2^(s-127) E2M1(q)
 *     q8      8     32       [cols/32] f16              s (q - 128)
 *     q4      4     32       [cols/32] f16              s (q - 8)
 *     k4      4     32       [cols/256] records         (d s) q - (m b)
 *     k6      6     16       [cols/256] records         (d s) (q - 32)
 *
 * fp8 is stored in blocks of 128 x 128: a row has the scales of its block.
 * q8, q4, k4 and k6 are GGUF's Q8_0, Q4_0, Q4_K and Q6_K, their codes put in
 * order.  A record of k4: 8 pairs of bytes (s, b), then d and m, f16: 20
 * bytes.  A record of k6: 16 signed bytes s, then d, f16: 18 bytes.
 * common/model/weight_format.h has the rest. */
enum weight_format {
    WEIGHT_PLAIN,
    WEIGHT_AFFINE,
    WEIGHT_FP8,
    WEIGHT_MXFP4,
    WEIGHT_Q8,
    WEIGHT_Q4,
    WEIGHT_K4,
    WEIGHT_K6,
    WEIGHT_FORMATS
};

/* A matrix as stored: out = x * W^T, W [rows, cols] row-major.  Quantised if
 * bits is not 0.  data is then [rows, cols * bits / 8] bytes, each row's codes
 * one after another, as a bit stream: the lower half of a byte first. */
struct tensor {
    const void *data; /* NULL: absent */
    enum weight_format format;
    enum dtype dtype; /* plain: elements; affine: scales and biases */
    uint32_t rows, cols;
    uint32_t bits;      /* 0: plain, and the fields below are unused */
    uint32_t group;     /* codes that share a scale */
    const void *scales; /* [rows, tensor_scale_bytes()] */
    const void *biases; /* affine: as scales; else NULL */
    bool packed; /* groups of eight rows are interleaved (kernels/isa/pack.h) */
};

/* Returns the bytes of a row of data. */
static inline uint64_t tensor_row_bytes(const struct tensor *t)
{
    return t->bits > 0 ? (uint64_t)t->cols * t->bits / 8
                       : (uint64_t)t->cols * dtype_bytes(t->dtype);
}

/* Returns the bytes of a row of scales; a row of biases has as many. */
static inline uint64_t tensor_scale_bytes(const struct tensor *t)
{
    switch (t->format) {
    case WEIGHT_AFFINE:
        return (uint64_t)(t->cols / t->group) * dtype_bytes(t->dtype);
    case WEIGHT_FP8:
        return (uint64_t)(t->cols + 127) / 128 * 4;
    case WEIGHT_MXFP4:
        return t->cols / 32;
    case WEIGHT_Q8:
    case WEIGHT_Q4:
        return (uint64_t)t->cols / 32 * 2;
    case WEIGHT_K4:
        return (uint64_t)t->cols / 256 * 20;
    case WEIGHT_K6:
        return (uint64_t)t->cols / 256 * 18;
    default:
        return 0;
    }
}

/* Returns the bytes of the whole matrix, with scales and biases. */
static inline uint64_t tensor_bytes(const struct tensor *t)
{
    uint64_t planes = t->format == WEIGHT_AFFINE ? 2 : 1;

    return t->rows * (tensor_row_bytes(t) + planes * tensor_scale_bytes(t));
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
    const float *q_norm; /* [hd] or NULL; [nh*hd] of whole_norm */
    const float *k_norm; /* [hd] or NULL; [nkv*hd] of whole_norm */
    const float *sinks;  /* [nh] or NULL: a score of each head without a value,
                          * which takes part in the softmax */
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

/* Experts, one after the other: rows [e * n, (e + 1) * n) of a matrix of E * n
 * rows are those of expert e. */
struct expert_weights {
    struct tensor router;      /* [E, H]; its products are float32 */
    const float *router_bias;  /* [E] or NULL */
    struct tensor gate_up;     /* [E * 2*Im, H]: of an expert gate [Im], then up
                                * [Im]; or gate and up row by row
                                * (gate_up_alternate) */
    struct tensor down;        /* [E * H, Im] */
    const float *gate_up_bias; /* [E * 2*Im] or NULL */
    const float *down_bias;    /* [E * H] or NULL */
    struct mlp_weights shared; /* [Is, H], [H, Is]; absent without Is */
    struct tensor shared_gate; /* [1, H]: the shared expert's weight is
                                * sigmoid(shared_gate n); absent: 1 */
};

struct layer_weights {
    enum mixer_kind kind;
    enum ffn_kind ffn;
    const float *input_norm; /* [H], or NULL: the mixer takes x as it is */
    const float *mixer_norm; /* [H] of the mixer's output, or NULL */
    const float *post_norm;  /* [H] before the feed-forward, or NULL likewise */
    const float *ffn_norm;   /* [H] of the feed-forward's output, or NULL */
    union {
        struct attention_weights attention; /* window layers too */
        struct deltanet_weights deltanet;
    } mixer;
    union {
        struct mlp_weights mlp;        /* FFN_DENSE */
        struct expert_weights experts; /* FFN_EXPERTS */
    };
};

/* The layer of multi-token prediction (MTP).  It drafts the token after the
 * next: x = fc (embed_norm(E[t]), hidden_norm(h)), with the normed output h of
 * the model at a position and the token t that follows it; then the layer, norm
 * and the model's head. */
struct mtp_weights {
    const float *embed_norm;  /* [H] */
    const float *hidden_norm; /* [H] */
    struct tensor fc;         /* [H, 2H] */
    const float *norm;        /* [H] before the head */
};

/* Returns whether a layer has keys and values: whether it is attention. */
static inline bool mixer_attends(enum mixer_kind k)
{
    return mixer_memory(k) != MIXER_IN_SLOT;
}

/* Returns the positions that an attention layer sees; 0: all. */
static inline uint32_t shape_window(const struct model_shape *s,
                                    enum mixer_kind k)
{
    return mixer_memory(k) == MIXER_IN_WINDOWS ? s->window : 0;
}

/* Returns the rotary positions of an attention layer, whose dim may be 0
 * (mixers.c). */
const struct rope_shape *shape_rope(const struct model_shape *s,
                                    enum mixer_kind k);

/* Weights of layers [begin, end).  embed exists if begin = 0 or there is an MTP
 * layer, final_norm and head if end = n_layers; a tied head shares embed's
 * data.  The MTP layer, only of a shard with the last layer, is
 * layers[end - begin]: full attention, with an MLP or experts. */
struct shard_weights {
    struct model_shape shape;
    uint32_t begin, end;
    struct tensor embed;                /* [V, H] */
    const float *final_norm;            /* [H] */
    struct tensor head;                 /* [V, H] */
    const struct layer_weights *layers; /* [shard_layers()] */
    const struct mtp_weights *mtp;      /* NULL: there is no MTP layer */
};

/* Returns the layers of a shard, the MTP layer included. */
static inline uint32_t shard_layers(const struct shard_weights *w)
{
    return w->end - w->begin + (w->mtp != NULL ? 1 : 0);
}

#endif
