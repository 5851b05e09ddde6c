/* opencl.h - the opencl backend's own state, shared by its operators.
 *
 * The host runtime, in kernels/opencl/host:
 *
 *     device.h    selects a device        memory.h   arenas, transfers
 *     program.h   .cl files to programs   launch.h   arguments and launches
 *     profile.h   time of each kernel     queue.h    waiting, ticks
 *     copies.h    the copy queue
 *
 * Above it, in kernels/opencl:
 *
 *     upload.h    weights to the device   pool.h     pages
 *     step.h      begin, end, rows to meta
 *
 *     rows.h (embed, ffn, head)  matmul.h  experts.h  attention.h  deltanet.h
 *     sample.h  draft.h (draft_input, keep_hidden)
 *     chain.h (products of two operators in one launch): the operators
 *
 * Each operator has a _setup, which requests its kernels and scratch, a _free,
 * and the calls of struct kernels_ops.
 *
 * Tokens.  begin permutes a step's rows and tokens: generated rows first, each
 * kind in the caller's order.  x and every other [T, ..] tensor is in this
 * order: tokens [0, n_gen) are generated, [n_gen, n_tokens) are prompt tokens.
 * A generated row may have several tokens; the decode kernels compute each as
 * if it came alone.
 *
 * Meta.  One int32 buffer describes the step.  Kernels read it at offsets that
 * are defines, the same in every step:
 *
 *     META_ROWS    [max_rows][8]    first, n_tokens, position, slot,
 *                                   first_block, keep, n_saves, first_save;
 *                                   keep: 1 + keep_at, or 0
 *     META_TOKENS  [max_tokens][2]  row, position
 *     META_IDS     [max_tokens]     token id
 *     META_FROM    [max_tokens]     row of the kept hidden states, in shards
 *                                   with an MTP layer only
 *     META_HEADS   [max_logits]     token (a row of x) of each row of logits
 *     META_BLOCKS  [..]             block tables; a row's begins at
 *                                   META_BLOCKS + first_block, its saves [2]
 *                                   at META_BLOCKS + first_save: tokens of the
 *                                   row before the save, page
 *
 * Behind a row's saves, if the shard has window layers: window_first,
 * n_window, then window_pages tables of n_window pages each.  Entry i of a
 * table has positions from (window_first + i) * block_tokens on.
 *
 * Storage of the pool: a tensor [n_pages, page_bytes] for each group of layers
 * (common/model/page_layout.h).  A layer's tensors are views of its group's: a
 * row is a page, and element 0 is the layer's first in page 0.
 *
 *     attention  kv     row `block`: k [nkv, block_tokens, hd],
 *                                    v [nkv, block_tokens, hd] kv_dtype; of a
 *                                    quantised layer the bytes of struct
 *                                    kv_block (common/model/kv_format.h)
 *     linear     state  row `slot`: [Hv, Dk, Dv] float32
 *                tail   row `slot`: [K-1, C] kv_dtype
 *
 * State and tail may be longer than a row.  Kernels take the elements of a page
 * as an argument, because groups may differ.
 *
 * No tensor crosses a cl_mem: a kernel takes the cl_mem and an offset.
 *
 * Failure.  Operators return nothing.  The first failure is kept in `failed`.
 * From then on launches and transfers do nothing, and end, sample and alloc
 * report it.
 *
 * Threading: the caller of kernels.h; any thread may read ticks.
 * Memory: only opencl_new() and alloc allocate. */
#ifndef KERNELS_OPENCL_HOST_OPENCL_H
#define KERNELS_OPENCL_HOST_OPENCL_H

#include <stdatomic.h>

#include "common/model/page_layout.h"
#include "kernels/kernels.h"
#include "kernels/opencl/host/device.h"

#define OPENCL_ROW_INTS    8 /* ints of a row in META_ROWS */
#define OPENCL_TOKEN_INTS  2
#define OPENCL_SAVE_INTS   2
#define OPENCL_REST_MAX    3 /* matrices beside one that is fused */
#define OPENCL_WINDOW_INTS 2 /* ahead of a row's window tables */

/* Most launches per layer, in a step without prompt rows: with an MLP; with
 * experts; and besides, if there is a shared expert, if pairs are grouped
 * (experts.h), or if both outputs have norms. */
#define OPENCL_LAUNCHES_MAX    6
#define OPENCL_LAUNCHES_EXPERT 9
#define OPENCL_LAUNCHES_SHARED 2
#define OPENCL_LAUNCHES_GROUP  1
#define OPENCL_LAUNCHES_NORMS  2

/* A tensor [rows, cols], row-major; vectors have one row.  mem NULL: absent.
 *
 * A quantised matrix (weights.h) is its data, followed at a multiple of
 * OPENCL_SCALES_ALIGN bytes by its scales; item is 1.  Affine: a scale and a
 * bias side by side for each group of each row, of dtype.  In other formats
 * dtype is bf16, without a meaning. */
#define OPENCL_SCALES_ALIGN 16

struct opencl_tensor {
    cl_mem mem;
    size_t at;   /* bytes from the start of mem, a multiple of 256, or of
                  * PAGE_ALIGN for a layer's part of the pool */
    size_t item; /* bytes of an element */
    enum dtype dtype;
    uint32_t rows, cols;
    enum weight_format format;
    uint32_t bits, group; /* 0: not quantised */
};

/* Describes t's form as weights.h does. */
static inline struct tensor opencl_tensor_form(const struct opencl_tensor *t)
{
    /* A quantised matrix without a format is affine. */
    return (struct tensor){.format = t->bits > 0 && t->format == WEIGHT_PLAIN
                                         ? WEIGHT_AFFINE
                                         : t->format,
                           .dtype = t->dtype,
                           .rows = t->rows,
                           .cols = t->cols,
                           .bits = t->bits,
                           .group = t->group};
}

/* Returns the bytes from a quantised matrix's begin to its scales. */
static inline uint64_t opencl_scales_at(const struct opencl_tensor *t)
{
    const struct tensor as = opencl_tensor_form(t);
    const uint64_t data = t->rows * tensor_row_bytes(&as);

    return (data + OPENCL_SCALES_ALIGN - 1) / OPENCL_SCALES_ALIGN *
           OPENCL_SCALES_ALIGN;
}

static inline uint64_t opencl_tensor_bytes(const struct opencl_tensor *t)
{
    const struct tensor as = opencl_tensor_form(t);
    const uint64_t planes = as.format == WEIGHT_AFFINE ? 2 : 1;

    return t->bits > 0 ? opencl_scales_at(t) +
                             planes * t->rows * tensor_scale_bytes(&as)
                       : tensor_bytes(&as);
}

/* Returns the rows of a matrix before a mixer, with those of `rest`. */
static inline uint32_t
opencl_rows_of(const struct opencl_tensor *in,
               const struct opencl_tensor rest[OPENCL_REST_MAX])
{
    uint32_t n = in->rows;

    for (int i = 0; i < OPENCL_REST_MAX; i++) {
        n += rest[i].mem ? rest[i].rows : 0;
    }
    return n;
}

static inline bool opencl_tensors_alike(const struct opencl_tensor *a,
                                        const struct opencl_tensor *b)
{
    return a->dtype == b->dtype && a->format == b->format &&
           a->bits == b->bits && a->group == b->group;
}

/* Fused matrices hold the rows of their parts one after the other.  In the
 * matrix before a mixer, a part that is stored otherwise than the one before
 * begins another matrix: `in` is the first, `rest` the others, as far as
 * present.  Gate and up, and router and shared gate, become float32 if they
 * differ.  Vectors are float32. */
struct opencl_attention_weights {
    /* [q.rows + 2*nkv*hd, H]: q (with the gates, as stored), k, v */
    struct opencl_tensor in, rest[OPENCL_REST_MAX];
    struct opencl_tensor in_bias; /* [q.rows + 2*nkv*hd], zeros for parts
                                   * without one; absent if no part has one */
    struct opencl_tensor o;       /* [H, nh*hd] */
    struct opencl_tensor o_bias, q_norm, k_norm; /* each may be absent */
    struct opencl_tensor sinks;                  /* [nh], or absent */
};

struct opencl_deltanet_weights {
    /* [C + Hv*Dv + 2*Hv, H]: qkv, z, b, a */
    struct opencl_tensor in, rest[OPENCL_REST_MAX];
    struct opencl_tensor out;                  /* [H, Hv*Dv] */
    struct opencl_tensor conv;                 /* [C, K], as in weights.h */
    struct opencl_tensor a_log, dt_bias, norm; /* [Hv], [Hv], [Dv] */
};

/* As in weights.h. */
struct opencl_expert_weights {
    struct opencl_tensor router;      /* [E or E + 1, H]: the gate of the shared
                                       * expert is last, if it has one */
    struct opencl_tensor router_bias; /* [E], or absent */
    /* The shared expert is last in these, if it has the same form; otherwise
     * it is the layer's gate_up and down. */
    struct opencl_tensor gate_up; /* [E * 2*Im, H], or [(E + 1) * 2*Im, H] */
    struct opencl_tensor down;    /* [E * H, Im], or [(E + 1) * H, Im] */
    struct opencl_tensor gate_up_bias; /* [E * 2*Im], or absent */
    struct opencl_tensor down_bias;    /* [E * H], or absent */
};

/* As in weights.h; absent if there is no MTP layer. */
struct opencl_mtp_weights {
    struct opencl_tensor embed_norm, hidden_norm, norm; /* [H] */
    struct opencl_tensor fc;                            /* [H, 2*H] */
};

/* Matrices of the other kinds of mixer and feed-forward are absent. */
struct opencl_layer {
    enum mixer_kind kind;
    enum ffn_kind ffn;
    struct opencl_tensor input_norm, post_norm; /* [H], or absent */
    struct opencl_tensor mixer_norm, ffn_norm;  /* [H], or absent */
    struct opencl_attention_weights attention;
    struct opencl_deltanet_weights deltanet;
    struct opencl_expert_weights experts;
    /* The MLP's, or those of a shared expert of another form, or absent. */
    struct opencl_tensor gate_up; /* [2*I or 2*Is, H]: gate, then up */
    struct opencl_tensor down;    /* [H, I or Is] */
    struct opencl_tensor kv;      /* views of the pool, see above; of bytes
                                   * if quantised */
    struct opencl_tensor state, tail;
};

/* The current step, permuted. */
struct opencl_step {
    uint32_t n_rows, n_tokens;
    uint32_t n_gen_rows, n_gen; /* rows and tokens of the generated kind */
    bool gen_saves;             /* a generated row has a save */
    bool keeps;                 /* a row keeps its inputs */
    uint32_t longest; /* largest position + n_tokens of a generated row */
    uint32_t longest_prompt;       /* the same of a prompt row */
    const struct kernel_row *rows; /* [n_rows] permuted, with new `first` */
    const uint32_t *place;   /* [n_tokens] place of the caller's token t */
    struct kernel_row *room; /* [max_rows] rows */
    uint32_t *places;        /* [max_tokens] place */
};

struct opencl_arena;
struct opencl_kernel;
struct opencl_memory;
struct opencl_programs;
struct opencl_copies;
struct opencl_queue;

/* The state of the device and of its queue. */
struct opencl_health {
    struct error failed; /* first failure; code ST_OK: none */
    cl_int refusal;      /* driver's code, if a call failed */
    bool lost;           /* the device computes no more */
    bool idle;           /* no command was enqueued since the last wait */
    bool marked;         /* .. or since the last opencl_mark() */
    uint32_t unwatched;  /* launches since the last one with an event */
};

/* The weights on the device. */
struct opencl_model {
    struct opencl_arena *weights;
    struct opencl_layer *layers; /* [shard_layers()] */
    struct opencl_mtp_weights mtp;
    struct opencl_tensor embed; /* [V, H]; absent past the first stage, unless
                                 * it has an MTP layer */
    struct opencl_tensor head;  /* [V, H]; embed's if tied */
    struct opencl_tensor final_norm;
    /* [context, R/2, 2] f32: cosine, sine; of layers that see all positions,
     * and of window layers */
    struct opencl_tensor rope, window_rope;
    struct opencl_tensor query_scale; /* [context] f32 by position, or absent */
};

/* The pool's pages. */
struct opencl_cache {
    uint32_t n_pages;
    bool moved; /* the pool was allocated; deltanet.c clears it */
    struct page_layout pages;
    struct opencl_tensor groups[PAGE_LAYERS_MAX]; /* [pages.n_groups] */
    struct opencl_arena *arena;
    char *block; /* [a layer's plain block] on the host, to transpose it */
};

/* The step's ints: offsets of META_TOKENS and so on, see above. */
struct opencl_meta {
    struct opencl_tensor tensor; /* int32 */
    int32_t *host; /* in pinned memory: begin writes it, embed adds ids; the
                    * next launch uploads it */
    uint32_t tokens, ids, from, heads;
    uint32_t blocks, ints; /* META_BLOCKS, size */
    uint32_t used;         /* ints of this step; 0: already uploaded */
};

struct opencl {
    struct kernels base;
    const struct shard_weights *w;
    struct kernels_sizes sizes;
    struct kv_format kv;
    enum dtype kv_dtype; /* kv.dtype: of plain layers and tails */
    uint32_t block_tokens;
    uint32_t keep_tokens;
    bool portable;   /* skips kernels tuned for one vendor */
    bool has_logits; /* the shard includes the head */

    struct opencl_device device;
    cl_context context;
    double read_rate; /* device's GB/s, measured if the profile is on */
    atomic_uint_fast64_t ticks;
    struct opencl_health health;
    struct opencl_memory *memory;     /* memory.h */
    struct opencl_programs *programs; /* program.h */
    struct opencl_queue *queue;       /* queue.h */
    struct opencl_copies *copies;     /* copies.h; NULL: no host tier */

    struct opencl_model model;
    struct opencl_tensor x;      /* [max_tokens, H] f32 */
    struct opencl_tensor logits; /* [max_logits, V] f32 */
    struct opencl_cache cache;
    struct opencl_kernel *fill, *fill16; /* fill.cl */
    struct opencl_step step;
    struct opencl_meta meta;
};

static inline struct opencl *opencl_of(struct kernels *k)
{
    return (struct opencl *)(void *)k;
}

/* Records a failure; later ones are dropped. */
void opencl_fail(struct opencl *c, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
