/* cpu.h - the cpu backend's own state, shared by its operators.
 *
 * Storage of the pool: each group of the page layout is one mapping
 * [n_pages, page_bytes] (common/model/page_layout.h).  Within it, per layer:
 *
 *     attention  kv     k [nkv, hd, block_tokens],
 *                       v [nkv, block_tokens, hd] kv.dtype, in each page;
 *                       of a quantised layer as kv_format.h has it
 *     linear     its parts in each slot; of a Gated DeltaNet
 *                state  [Hv, Dk, Dv] float32
 *                tail   [K-1, C] kv.dtype
 *
 * Plain keys are stored transposed, with positions innermost, so that the
 * scores of sixteen positions fill a register.
 *
 * Threading: the caller of kernels.h, and the helpers of threads.h inside an
 * operator.  Memory: only cpu_new() and cpu_alloc() allocate. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include <stdatomic.h>

#include "common/model/page_layout.h"
#include "kernels/cpu/threads.h"
#include "kernels/isa/int8.h"
#include "kernels/isa/isa.h"
#include "kernels/kernels.h"
#include "kernels/kv_codec.h"

/* Work below this many multiply-adds stays on the caller's thread. */
#define CPU_SMALL_WORK 32768

/* Most tokens whose experts run together; a longer step streams the experts
 * once for each so many. */
#define CPU_EXPERT_TOKENS 512

/* Rows of a quantised matrix that are widened at a time: whole tiles of any
 * height, and at least QUANTISED_STRIP. */
#define CPU_PANEL_ROWS 12

/* Buckets into which the sampler sorts a row's logits to find the best ones. */
#define CPU_BUCKET_BITS 12
#define CPU_BUCKETS     (1u << CPU_BUCKET_BITS)

/* Inputs of a linear layer that rows keep, of k = keep_tokens tokens. */
struct cpu_kept {
    char *q;             /* [k, Hk*Dk] kv.dtype: the tail needs no more */
    float *kv;           /* [k, Hk*Dk + Hv*Dv] */
    float *beta, *decay; /* [k, Hv] */
};

/* A replay that a row of the step runs before its own tokens. */
struct cpu_early {
    uint32_t keep_at; /* in the kept inputs */
    uint32_t at;      /* in early_kv */
    uint32_t n;       /* tokens; 0: the row has none */
};

struct cpu_mixer;
struct cpu_ffn;

struct cpu_layer {
    const struct cpu_mixer *mixer; /* mixer.h */
    const struct cpu_ffn *ffn;
    struct mixer_slot slot; /* the bytes of its state's parts */
    float *conv;            /* [K, C] float32: the weights, transposed */
    struct cpu_kept kept;   /* a linear layer's */
    bool waits;             /* the waiting replays are to run in this layer */
    struct kv_format kv;    /* an attention layer's */
    struct kv_block block;
};

/* Angles of one kind of layer. */
struct cpu_rope {
    float *freq;          /* [R/2] */
    float *cosine, *sine; /* [T, R/2] of the step's positions */
};

/* Intermediate tensors of a mixer or feed-forward; they share one area. */
struct cpu_attention_scratch {
    float *q;     /* [T, nh*hd or 2*nh*hd] as projected */
    float *k;     /* [T, nkv*hd] */
    float *v;     /* [T, nkv*hd] */
    float *query; /* [T, nh, hd] */
    float *y;     /* [T, nh, hd] */
    float *gate;  /* [T, nh, hd], gated models */
};

struct cpu_delta_scratch {
    float *qkv;   /* [T, C] as projected */
    float *u;     /* [T, C] past the convolution */
    float *z;     /* [T, Hv*Dv] */
    float *b, *a; /* [T, Hv]: beta's and decay's logits, then they */
    float *y;     /* [T, Hv*Dv] */
};

struct cpu_mlp_scratch {
    float *gate, *up; /* [T, max(I, Is)] */
};

/* For N = min(T, CPU_EXPERT_TOKENS) tokens; k = top_k. */
struct cpu_expert_scratch {
    struct cpu_mlp_scratch shared; /* [N, Is] */
    float *out;                    /* [N, H] of the shared expert */
    float *share;                  /* [N] its weights */
    float *logits;                 /* [N, E] */
    float *weights;                /* [N, k] by rank */
    uint32_t *chosen;              /* [N, k] experts by rank */
    uint32_t *row_of;              /* [N, k] rows of the tensors below */
    uint32_t *token_of;            /* [N * k] */
    uint32_t *begin;               /* [E + 1] first row of each expert */
    float *x;                      /* [N * k, H] inputs, then outputs */
    float *both;                   /* [N * k, 2 Im] */
    struct tensor *views;          /* [E] rows of an expert */
    struct cpu_product *products;  /* [E + 1] */
};

/* Scratch of one thread for drafts; N = KERNELS_KEEP_MAX. */
struct cpu_draft_lane {
    float *k, *v; /* [N, Dk], [N, Dv] */
};

/* Scratch of one thread. */
struct cpu_lane {
    struct cpu_draft_lane draft;
    float *state;   /* [Dk, STATE_COLUMNS] columns of a linear layer */
    float *q, *y;   /* [ATTEND_QUERIES, hd] */
    float *s;       /* [ATTEND_QUERIES, ATTEND_SPAN] */
    uint32_t *last; /* [ATTEND_QUERIES] */
    float *sinks;   /* [ATTEND_QUERIES] */
    float *pair;    /* [2 Im] of an expert, gates then ups */
    float *l, *p;   /* [V] of the sampler: logits adjusted, weights */
    uint32_t *ids;  /* [V] of the sampler: counts, then ids */
    double *bucket; /* [CPU_BUCKETS] of the sampler */
    float *panel;   /* [CPU_PANEL_ROWS, widest] of quantised rows */
};

/* The MTP layer. */
struct cpu_mtp {
    float *h;    /* [T, H] what keep_hidden() kept */
    float *pair; /* [T, 2H] inputs of its fc */
    bool steps;  /* the step is one of this layer */
};

/* Integer products: rows of x as int8 (kernels/isa/int8.h). */
struct cpu_int8 {
    bool on;
    char *rows; /* [bytes] of the products that run */
    size_t bytes;
    struct int8_x *of; /* [most] of each of these products; rows NULL: its
                        * product is float32 */
    uint32_t most;
};

/* Rows with drafts whose inputs are kept: linear layers go back to a row by
 * computing the rows before it again. */
struct cpu_replays {
    uint32_t n_tokens;             /* room */
    struct kernel_replay *waiting; /* [n_waiting], at most max_rows, in the
                                    * layers that wait */
    uint32_t n_waiting;
    bool matched;               /* to the step's rows */
    struct cpu_early *early;    /* [n_rows] of the step, while a layer waits */
    float *early_kv;            /* [n_tokens, Hk*Dk + Hv*Dv] past the
                                 * convolution, keys normed */
    uint32_t *linear, n_linear; /* [n_linear] the linear layers */
};

/* The host tier. */
struct cpu_host {
    char *groups[PAGE_LAYERS_MAX]; /* [pages.n_groups] mappings */
    uint32_t n_pages;
};

struct cpu {
    struct kernels base;
    const struct shard_weights *w;
    struct kernels_sizes sizes;
    struct kv_format kv;      /* the whole model's */
    struct kv_turbo turbo[2]; /* with turboquant; by enum kv_half */
    uint32_t block_tokens;
    const struct cpu_isa *isa;
    struct threads *threads;
    atomic_uint_fast64_t ticks;

    char *scratch;            /* one allocation, cut up below */
    float *x;                 /* [T, H] the residual stream */
    float *n;                 /* [T, H] normed */
    float *y;                 /* [T, H] output of a mixer or feed-forward, with
                               * norms or factors of outputs, or experts */
    struct cpu_rope ropes[2]; /* full attention, window layers */
    float *logits;            /* [max_logits, V] */
    struct cpu_mtp mtp;
    struct cpu_replays replays;
    struct cpu_int8 int8;
    union {
        struct cpu_attention_scratch attention;
        struct cpu_delta_scratch delta;
        struct cpu_mlp_scratch mlp;
        struct cpu_expert_scratch experts;
    } of[4];                /* indexed by enum cpu_part */
    struct cpu_lane *lanes; /* [n_threads] */

    struct cpu_layer *layers; /* [shard_layers()] */
    struct page_layout pages;
    char *groups[PAGE_LAYERS_MAX]; /* [pages.n_groups] mappings */
    uint32_t n_pages;
    struct cpu_host host;
    const struct kernel_step *step;
    uint32_t *row_of; /* [T] the row of each token */
};

enum cpu_part { CPU_ATTENTION, CPU_DELTA, CPU_MLP, CPU_EXPERTS };

static inline struct cpu *cpu_of(struct kernels *k)
{
    return (struct cpu *)(void *)k;
}

static inline void cpu_tick(struct cpu *c)
{
    atomic_fetch_add_explicit(&c->ticks, 1, memory_order_relaxed);
}

static inline const struct layer_weights *cpu_weights(const struct cpu *c,
                                                      uint32_t layer)
{
    return &c->w->layers[layer];
}

/* Runs fn for each of n tasks, then ticks.  Work below CPU_SMALL_WORK stays on
 * the caller's thread.  A task of more than some 100 million multiply-adds must
 * tick itself on the way.  On a slow core that is a tenth of a second, and the
 * watchdog gives up a worker whose ticks stand still for 1.5 s. */
void cpu_run(struct cpu *c, threads_task_fn fn, void *arg, uint32_t n,
             size_t work);

/* out (+)= x W^T (+ bias) */
struct cpu_product {
    const struct tensor *w; /* [rows, cols] */
    const float *bias;      /* [rows] or NULL */
    const float *x;         /* [n_x, cols], rows ld_x apart */
    float *out;             /* [n_x, rows], rows ld apart */
    size_t ld_x, ld;
    uint32_t n_x;
    bool add;
    bool whole; /* float32, whatever the options */
};

/* Returns x W^T into out, rows of both one after another. */
static inline struct cpu_product cpu_product_of(const struct tensor *w,
                                                const float *bias,
                                                const float *x, uint32_t n_x,
                                                float *out)
{
    return (struct cpu_product){
        .w = w,
        .bias = bias,
        .x = x,
        .out = out,
        .ld_x = w->cols,
        .ld = w->rows,
        .n_x = n_x,
    };
}

/* Added to the squares of a head of q or k of a linear layer. */
#define CPU_L2_EPS 1e-6f

/* Computes n products, in any order.  Rows of one x share each read of the
 * weights. */
void cpu_matmul(struct cpu *c, const struct cpu_product *p, uint32_t n);

/* Cuts the rows of integer products: up to `rows` of `cols` columns. */
struct cutter;
void cpu_int8_cut(struct cutter *k, struct cpu *c, size_t rows, uint32_t cols);
/* Quantises the rows of x of the first of n products, as many as there is room
 * for, and fills c->int8.of.  Returns how many, at least 1. */
uint32_t cpu_int8_rows(struct cpu *c, const struct cpu_product *p, uint32_t n);
/* Computes n_w rows of product i from row `first` on, a multiple of PACK_ROWS,
 * with scratch `panel`; ticks on the way. */
void cpu_int8_product(struct cpu *c, const struct cpu_product *p, uint32_t i,
                      uint32_t first, uint32_t n_w, void *panel);
/* Returns a row of a quantised matrix as stored; scratch `panel`. */
struct quantised cpu_stored_row(const struct tensor *t, uint32_t row,
                                void *panel);

/* Computes out[t] = norm(x[t]) * gamma, or x[t] without gamma; x, out [n, H].
 */
void cpu_norm(struct cpu *c, float *out, const float *x, uint32_t n,
              const float *gamma);

/* Adds out [H] = W x (+ bias) of the step's tokens to the residual stream, or
 * with gamma norm(out), times the model's factor. */
void cpu_add_product(struct cpu *c, const struct tensor *w, const float *bias,
                     const float *x, const float *gamma);
/* Adds y [H] to the residual stream of token t, or with gamma norm(y), times
 * the model's factor; the addend replaces y. */
void cpu_add_row(const struct cpu *c, uint32_t t, float *y, const float *gamma);
/* Copies the embeddings of n tokens, rows ld apart. */
void cpu_embed_rows(struct cpu *c, const uint32_t *tokens, float *out,
                    size_t ld);
/* Returns the norm before the head in this kind of step. */
static inline const float *cpu_last_norm(const struct cpu *c)
{
    return c->mtp.steps ? c->w->mtp->norm : c->w->final_norm;
}
/* Applies the model's activation: gate [n], up [n]. */
void cpu_activate(const struct cpu *c, float *gate, const float *up, size_t n);

/* Rotates `n` heads x [n, hd] into the basis of the layer's keys, or back out
 * of that of its values; does nothing unless the layer has turboquant. */
void cpu_kv_rotate(const struct cpu *c, uint32_t layer, float *x, uint32_t n);
void cpu_kv_rotate_back(const struct cpu *c, uint32_t layer, float *x,
                        uint32_t n);
/* Stores k and v [nkv, hd] of position p of a row. */
void cpu_kv_store(const struct cpu *c, uint32_t layer,
                  const struct kernel_row *row, uint32_t p, const float *k,
                  const float *v);
/* Attends with the queries of t, whose blocks, window, dtype and storage it
 * sets, over one kv head of a row; ticks every few queries. */
void cpu_kv_attend(struct cpu *c, uint32_t layer, const struct kernel_row *row,
                   uint32_t kv_head, struct attend_task *t);

/* Computes the layout of the pool's pages from the shard's shape. */
void cpu_lay_out(struct cpu *c);
/* Returns k and v of a layer in page 0; those of the next page are
 * cpu_stride() bytes on. */
char *cpu_kv(const struct cpu *c, uint32_t layer);
size_t cpu_stride(const struct cpu *c, uint32_t layer);
/* Returns a part of a layer's state in the slot or checkpoint whose first page
 * is `slot`; NULL if the part has no bytes. */
char *cpu_part(const struct cpu *c, uint32_t layer, uint32_t slot,
               uint32_t part);
/* Return the parts of a Gated DeltaNet: state [Hv, Dk, Dv], and tail [K-1, C],
 * which is NULL if K is 1. */
float *cpu_state(const struct cpu *c, uint32_t layer, uint32_t slot);
char *cpu_tail(const struct cpu *c, uint32_t layer, uint32_t slot);
/* Returns the floats of the state of a Gated DeltaNet: Hv*Dk*Dv. */
size_t cpu_state_floats(const struct cpu *c);

/* Answer the calls of struct kernels_ops; some share a file. */
enum status cpu_alloc(struct kernels *k, uint32_t n_pages, struct error *e);
/* Frees the pool's storage. */
void cpu_release(struct cpu *c);
void cpu_zero_slot(struct kernels *k, uint32_t slot);
void cpu_copy_pages(struct kernels *k, uint32_t from, uint32_t to, uint32_t n);
void cpu_poison_pages(struct kernels *k, uint32_t first, uint32_t n);

/* host_tier.c: calls of kernels.h, and the end. */
enum status cpu_alloc_host(struct kernels *k, uint32_t n_pages,
                           struct error *e);
void cpu_page_out(struct kernels *k, uint32_t page, uint32_t host, uint32_t n);
void cpu_page_in(struct kernels *k, uint32_t host, uint32_t page, uint32_t n);
void cpu_release_host(struct cpu *c);
void cpu_block_copy(struct kernels *k, uint32_t layer, uint32_t block, void *kv,
                    bool write);
void cpu_slot_copy(struct kernels *k, uint32_t layer, uint32_t slot,
                   uint32_t part, void *data, bool write);
/* Runs the waiting replays at once.  Every call that reads or writes pages by
 * number begins with it. */
void cpu_settle(struct cpu *c);
/* Gives waiting replays to the step's rows, and runs those of other slots at
 * once.  The first mixer of a step calls it, before anything is written. */
void cpu_match_replays(struct cpu *c);
/* Ends a step: runs what its layers have left. */
void cpu_end_replays(struct cpu *c);
/* Run the replay that waits for a row of the step, if any, in one layer: the
 * convolution of n channels from `first` on, the norms of the keys, and then
 * some columns of a value head's state. */
void cpu_early_conv(const struct cpu *c, uint32_t layer, uint32_t row,
                    size_t first, size_t n);
void cpu_early_norm(const struct cpu *c, uint32_t layer, uint32_t row);
void cpu_early_state(const struct cpu *c, uint32_t layer, uint32_t row,
                     uint32_t head, uint32_t first, uint32_t n, float *block);
void cpu_replay(struct kernels *k, const struct kernel_replay *r, uint32_t n);
void cpu_draft_input(struct kernels *k, const uint32_t *tokens,
                     const uint32_t *from);
void cpu_keep_hidden(struct kernels *k);
void cpu_embed(struct kernels *k, const uint32_t *tokens);
void cpu_head(struct kernels *k, const uint32_t *tokens, uint32_t n);
enum status cpu_sample(struct kernels *k, const struct sample_row *rows,
                       uint32_t n, struct sample_result *out, struct error *e);

#endif
