/* backend.c - assembles the opencl backend and takes it apart. */
#include "kernels/opencl/backend.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/attention.h"
#include "kernels/opencl/chain.h"
#include "kernels/opencl/deltanet.h"
#include "kernels/opencl/draft.h"
#include "kernels/opencl/experts.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/profile.h"
#include "kernels/opencl/host/program.h"
#include "kernels/opencl/host/queue.h"
#include "kernels/opencl/host_tier.h"
#include "kernels/opencl/matmul.h"
#include "kernels/opencl/mixer.h"
#include "kernels/opencl/operators.h"
#include "kernels/opencl/pool.h"
#include "kernels/opencl/rows.h"
#include "kernels/opencl/sample.h"
#include "kernels/opencl/step.h"
#include "kernels/opencl/upload.h"

#define OPTIONS_MAX 1024

extern const struct embedded opencl_files[];

/* How an operator is set up and freed. */
struct operator
{
    enum status (*setup)(struct opencl * c, struct error * e);
    void (*free)(struct opencl * c);
};

/* In the order of setup; they are freed in reverse. */
static const struct operator operators[] = {
    {opencl_matmul_setup, opencl_matmul_free},
    {opencl_rows_setup, opencl_rows_free},
    {opencl_experts_setup, opencl_experts_free},
    {opencl_attention_setup, opencl_attention_free},
    {opencl_deltanet_setup, opencl_deltanet_free},
    {opencl_chain_setup, opencl_chain_free},
    {opencl_sample_setup, opencl_sample_free},
    {opencl_draft_setup, opencl_draft_free},
};

#define OPERATORS (sizeof operators / sizeof operators[0])

static void backend_free(struct kernels *k)
{
    struct opencl *c = opencl_of(k);

    /* Commands in flight still use the memory that is freed below. */
    if (c->queue != NULL && c->memory != NULL) {
        opencl_settle(c);
    }
    /* Arenas write to their owners' tensors, so they are freed before the
     * owners. */
    opencl_tier_free(c);
    opencl_arena_free(&c->cache.arena);
    opencl_arena_free(&c->model.weights);
    opencl_memory_free(c);
    for (size_t i = OPERATORS; i-- > 0;) {
        operators[i].free(c);
    }
    opencl_queue_free(c);
    opencl_programs_free(&c->programs);
    if (c->context != NULL) {
        clReleaseContext(c->context);
    }
    free(c->step.room);
    free(c->step.places);
    free(c->cache.block);
    free(c->model.layers);
    free(c);
}

static void backend_sizes(const struct kernels *k, struct kernels_sizes *out)
{
    *out = ((const struct opencl *)(const void *)k)->sizes;
}

static uint64_t backend_progress(const struct kernels *k)
{
    const struct opencl *c = (const struct opencl *)(const void *)k;

    return atomic_load_explicit(&c->ticks, memory_order_relaxed);
}

static bool backend_lost(const struct kernels *k)
{
    return ((const struct opencl *)(const void *)k)->health.lost;
}

static void backend_profile(struct kernels *k, FILE *out)
{
    opencl_profile_print(opencl_of(k), out);
}

static void backend_mixer(struct kernels *k, uint32_t layer)
{
    opencl_mixers[opencl_of(k)->w->layers[layer].kind]->run(k, layer);
}

static const struct kernels_ops backend_ops = {
    .name = "opencl",
    .free = backend_free,
    .sizes = backend_sizes,
    .alloc = opencl_alloc,
    .zero_slot = opencl_zero_slot,
    .copy_pages = opencl_copy_pages,
    .alloc_host = opencl_alloc_host,
    .page_out = opencl_page_out,
    .page_in = opencl_page_in,
    .poison_pages = opencl_poison_pages,
    .begin = opencl_begin,
    .end = opencl_end,
    .replay = opencl_replay,
    .embed = opencl_embed,
    .draft_input = opencl_draft_input,
    .keep_hidden = opencl_keep_hidden,
    .mixer = backend_mixer,
    .ffn = opencl_ffn,
    .head = opencl_head,
    .sample = opencl_sample_rows,
    .hidden_read = opencl_hidden_read,
    .hidden_write = opencl_hidden_write,
    .logits_read = opencl_logits_read,
    .logits_write = opencl_logits_write,
    .block_copy = opencl_block_copy,
    .slot_copy = opencl_slot_copy,
    .progress = backend_progress,
    .lost = backend_lost,
    .profile = backend_profile,
};

/* NVIDIA's driver states a quarter of the memory as the largest allocation, but
 * allocates and addresses more.  A driver that enforces its limit refuses the
 * attempt; one that accepts it allocates nothing before the first use. */
static void find_largest(struct opencl *c)
{
    cl_mem all;
    cl_int code;

    if (c->device.nvidia == 0) {
        return;
    }
    all = clCreateBuffer(c->context, CL_MEM_READ_WRITE,
                         (size_t)c->device.memory, NULL, &code);
    if (all != NULL) {
        c->device.largest = c->device.memory;
        clReleaseMemObject(all);
    }
}

static enum status open_context(struct opencl *c, struct error *e)
{
    cl_context_properties of[] = {CL_CONTEXT_PLATFORM,
                                  (cl_context_properties)c->device.platform, 0};
    char name[64];
    cl_int code;

    c->context = clCreateContext(of, 1, &c->device.id, NULL, NULL, &code);
    if (c->context == NULL) {
        return error_set(e, ST_UNAVAILABLE, "device %u (%s): %s",
                         c->device.index, c->device.name,
                         opencl_error_name(code, name, sizeof name));
    }
    find_largest(c);
    return ST_OK;
}

static uint32_t or_default(uint32_t value, uint32_t other)
{
    return value > 0 ? value : other;
}

static enum status count_sizes(struct opencl *c,
                               const struct kernels_options *o, struct error *e)
{
    struct kernels_sizes *s = &c->sizes;

    s->max_tokens = or_default(o->max_tokens, KERNELS_STEP_TOKENS);
    s->max_rows = or_default(o->max_rows, KERNELS_STEP_ROWS);
    s->max_logits = or_default(o->max_logits, KERNELS_LOGIT_ROWS);
    s->isa = c->device.name;
    /* 0 makes the caller count the host's memory instead. */
    s->device_bytes = c->device.host_memory ? 0 : c->device.memory;
    opencl_pool_layout(c);
    s->page_bytes = c->cache.pages.page_bytes;
    s->pages_max = opencl_pool_most(c);
    s->pages_per_block = c->cache.pages.pages_per_block;
    s->pages_per_slot = c->cache.pages.pages_per_slot;
    s->window_pages = c->cache.pages.window_pages;
    s->one_arithmetic = false;
    s->drafts = true;
    if (!opencl_step_layout(c)) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "block tables for %u rows of %u tokens in blocks of %u "
            "exceed 1 GiB per step; use fewer rows or larger "
            "blocks",
            s->max_rows, c->w->shape.context, c->block_tokens);
    }
    return ST_OK;
}

static void options_write(const struct opencl *c, char out[OPTIONS_MAX])
{
    const struct model_shape *s = &c->w->shape;
    uint32_t channels = 2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim;

    /* Shapes are defines, so that the compiler can unroll loops over them. */
    snprintf(out, OPTIONS_MAX,
             "-cl-std=CL1.2 -DH=%u -DI=%u -DV=%u -DNH=%u -DNKV=%u -DHD=%u "
             "-DR=%u -DHK=%u -DHV=%u -DDK=%u -DDV=%u -DC=%u -DCONV=%u "
             "-DGATED=%d -DEPS=%.8ef -DBLOCK_TOKENS=%u -DKV_DTYPE=%d "
             "-DMETA_ROWS=0 -DMETA_TOKENS=%u -DMETA_IDS=%u -DMETA_HEADS=%u "
             "-DMETA_BLOCKS=%u -DNVIDIA=%u -DACTIVATION=%d "
             "-DCLAMP_ALPHA=%.9ef -DCLAMP_LIMIT=%.9ef",
             s->hidden, s->intermediate, s->vocab, s->n_heads, s->n_kv_heads,
             s->head_dim, s->n_heads > 0 ? s->rope.dim : 0, s->n_k_heads,
             s->n_v_heads, s->k_dim, s->v_dim, channels, s->conv,
             s->attn_gated ? 1 : 0, (double)s->norm_eps, c->block_tokens,
             (int)c->kv_dtype, c->meta.tokens, c->meta.ids, c->meta.heads,
             c->meta.blocks, c->device.nvidia, (int)s->activation.kind,
             (double)s->activation.alpha, (double)s->activation.limit);
}

static enum status allocate_host(struct opencl *c, struct error *e)
{
    c->step.room = calloc(c->sizes.max_rows, sizeof *c->step.room);
    c->step.places = calloc(c->sizes.max_tokens, sizeof *c->step.places);
    /* Plus one, since malloc(0) may return NULL for a shard without
     * attention. */
    c->cache.block = malloc(opencl_kv_bytes(c) + 1);
    return c->step.room && c->step.places && c->cache.block
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

/* Requests the scratch that belongs to no operator. */
static void ask_scratch(struct opencl *c)
{
    const struct model_shape *s = &c->w->shape;

    c->has_logits = c->w->head.data != NULL;
    opencl_scratch(c, OPENCL_KEEP, &c->meta.tensor, 1, c->meta.ints,
                   sizeof(int32_t));
    opencl_scratch(c, OPENCL_KEEP, &c->x, c->sizes.max_tokens, s->hidden,
                   sizeof(float));
    opencl_scratch(c, OPENCL_KEEP, &c->logits,
                   c->has_logits ? c->sizes.max_logits : 0, s->vocab,
                   sizeof(float));
}

static enum status set_up_operators(struct opencl *c, struct error *e)
{
    enum status st = ST_OK;

    ask_scratch(c);
    for (size_t i = 0; i < OPERATORS && st == ST_OK; i++) {
        st = operators[i].setup(c, e);
    }
    return st == ST_OK ? opencl_scratch_make(c, e) : st;
}

/* The order matters: programs need the defines of the sizes, memory needs
 * programs for its fill kernels, and weights need memory. */
static enum status set_up(struct opencl *c, const struct kernels_options *o,
                          struct error *e)
{
    char options[OPTIONS_MAX];
    enum status st = open_context(c, e);

    st = st == ST_OK ? count_sizes(c, o, e) : st;
    st = st == ST_OK ? allocate_host(c, e) : st;
    st = st == ST_OK ? opencl_queue_new(c, o->profile, e) : st;
    if (st == ST_OK) {
        options_write(c, options);
        st = opencl_programs_new(&c->programs, c->context, &c->device,
                                 opencl_files, options, o->kernel_cache, e);
    }
    st = st == ST_OK ? opencl_memory_new(c, e) : st;
    /* The bandwidth is measured while the memory is still free. */
    st = st == ST_OK && o->profile ? opencl_profile_new(c, e) : st;
    st = st == ST_OK ? opencl_weights_new(c, &c->model.weights, e) : st;
    st = st == ST_OK ? set_up_operators(c, e) : st;
    if (st == ST_OK) {
        c->sizes.weight_bytes = opencl_arena_bytes(c->model.weights);
        c->sizes.scratch_bytes = opencl_scratch_bytes(c);
    }
    return st;
}

enum status opencl_new(struct kernels **out, const struct shard_weights *w,
                       const struct kernels_options *o, struct error *e)
{
    struct opencl *c = calloc(1, sizeof(struct opencl_operators));
    struct error unseen;
    enum status st;

    *out = NULL;
    /* Set-up code reads e->code, so it needs an error even if the caller does
     * not. */
    e = e ? e : &unseen;
    if (c == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    /* backend_free() must work from here on, whatever set-up has reached. */
    c->base.ops = &backend_ops;
    c->w = w;
    c->kv = o->kv;
    c->kv_dtype = o->kv.dtype;
    c->block_tokens = o->block_tokens;
    c->keep_tokens = o->keep_tokens;
    c->portable = o->portable;
    st = opencl_mixers_check(w, e);
    st = st == ST_OK ? opencl_device_find(&c->device, o->device, e) : st;
    st = st == ST_OK ? set_up(c, o, e) : st;
    if (st != ST_OK) {
        backend_free(&c->base);
        return st;
    }
    *out = &c->base;
    return ST_OK;
}
