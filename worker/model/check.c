#include "worker/model/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "common/model/arithmetic.h"
#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/model/costs.h"
#include "common/model/directory.h"
#include "common/model/ffn.h"
#include "common/model/gguf_model.h"
#include "common/model/layout.h"
#include "common/model/mixer.h"
#include "common/model/mtp.h"
#include "common/model/sizes.h"
#include "common/model/weight_format.h"

#define MIB 1048576.0

struct check {
    FILE *out;
    struct check_options options; /* with defaults filled in */
    struct model_config config;
    struct kv_format kv;
    struct mtp_found mtp;
    struct error mtp_error;    /* of the search for it; ST_OK: none */
    struct sizes sizes, whole; /* the requested layers; all layers */
    struct split_model costs;  /* each layer */
    struct pool_budget budget; /* of the requested layers */
};

static const char *dtype_name(enum dtype t)
{
    static const char *const names[] = {
        [DTYPE_F32] = "float32",
        [DTYPE_BF16] = "bfloat16",
        [DTYPE_F16] = "float16",
    };

    return names[t];
}

static void print_bytes(const struct check *c, const char *what, uint64_t n)
{
    fprintf(c->out, "%-12s %15" PRIu64 " bytes  (%.1f MiB)\n", what, n,
            (double)n / MIB);
}

static void print_quantised(const struct check *c)
{
    const struct quantisation *q = &c->config.quant;

    if (q->format == WEIGHT_AFFINE) {
        fprintf(c->out, "quantised    %u bits, a scale and a bias each %u\n",
                q->bits, q->group);
    } else if (q->format == WEIGHT_FP8) {
        fprintf(c->out, "quantised    fp8, a scale each 128 x 128\n");
    } else if (q->format != WEIGHT_PLAIN) {
        fprintf(c->out, "quantised    experts: %s, a scale each %u\n",
                weight_format_name(q->format), weight_format_group(q->format));
    }
}

/* Prints the layers of [begin, end), and ends the line. */
static void print_kinds(const struct check *c, uint32_t begin, uint32_t end)
{
    char counts[MIXER_TEXT_MAX];

    fprintf(c->out, "%s%s\n", mixer_counts(&c->config, begin, end, counts),
            config_drafts_at(&c->config, end) ? ", 1 MTP" : "");
}

/* Returns whether a layer reads only what its tokens choose. */
static bool chooses(const struct check *c, uint32_t layer)
{
    return ffn_rows[c->config.ffns[layer]]->chosen != NULL;
}

static void print_experts(const struct check *c)
{
    const struct model_shape *s = &c->config.shape;
    uint32_t n = 0;

    if (s->n_experts == 0) {
        return;
    }
    for (uint32_t i = c->options.begin; i < c->options.end; i++) {
        n += chooses(c, i);
    }
    fprintf(c->out, "experts      %u of %u a token, each of %u", s->top_k,
            s->n_experts, s->expert_dim);
    if (s->shared_dim > 0) {
        fprintf(c->out, ", and a shared one of %u", s->shared_dim);
    }
    fprintf(c->out, "; in %u of %u layers\n", n,
            c->options.end - c->options.begin);
}

static bool wants_mtp(const struct check *c)
{
    return c->options.drafts > 0 && !c->options.from_text;
}

static void print_mtp(const struct check *c)
{
    if (c->mtp_error.code != ST_OK ||
        (c->options.drafts == 0 && c->config.n_mtp == 0)) {
        return;
    }
    fprintf(c->out, "MTP layer    %s%s\n", c->mtp.text,
            !c->mtp.usable || wants_mtp(c) ? ""
            : c->options.from_text         ? "; not loaded with --drafter ngram"
                                           : "; not loaded without --drafts");
}

static void print_model(const struct check *c)
{
    const struct model_config *m = &c->config;
    const struct model_shape *s = &m->shape;

    fprintf(c->out, "model        %s, family %s, %s\n", quote(m->name).text,
            m->family, dtype_name(s->dtype));
    print_quantised(c);
    fprintf(c->out, "layers       [%u, %u) of %u: ", c->options.begin,
            c->options.end, s->n_layers);
    print_kinds(c, c->options.begin, c->options.end);
    fprintf(c->out, "shape        hidden %u, ", s->hidden);
    if (s->intermediate > 0) {
        fprintf(c->out, "intermediate %u, ", s->intermediate);
    }
    fprintf(c->out, "vocabulary %u%s, context %u\n", s->vocab,
            m->tied ? " (tied)" : "", s->context);
    if (s->n_heads > 0) {
        fprintf(c->out,
                "attention    %u heads of %u, %u for keys and values, %u "
                "dimensions rotated%s\n",
                s->n_heads, s->head_dim, s->n_kv_heads, s->rope.dim,
                s->attn_gated ? ", gated" : "");
    }
    if (s->window > 0) {
        fprintf(c->out, "window       %u positions, in %u of the layers\n",
                s->window, c->whole.n_window);
    }
    if (s->n_k_heads > 0) {
        fprintf(c->out,
                "linear       %u key heads of %u, %u value heads of %u, "
                "convolution of %u\n",
                s->n_k_heads, s->k_dim, s->n_v_heads, s->v_dim, s->conv);
    }
    print_experts(c);
    print_mtp(c);
}

/* Returns whether two layers are of one kind and have as many bytes. */
static bool is_like(const struct check *c, uint32_t i, uint32_t j)
{
    return c->config.mixers[i] == c->config.mixers[j] &&
           c->config.ffns[i] == c->config.ffns[j] &&
           c->costs.layers[i].weight_bytes == c->costs.layers[j].weight_bytes;
}

/* Counts the layers of [begin, end) that are like layer i. */
static uint32_t n_like(const struct check *c, uint32_t i, uint32_t begin,
                       uint32_t end)
{
    uint32_t n = 0;

    for (uint32_t j = begin; j < end; j++) {
        n += is_like(c, i, j);
    }
    return n;
}

static void print_layer(const struct check *c, uint32_t i)
{
    const struct split_layer *l = &c->costs.layers[i];

    fprintf(c->out, "layer        %15" PRIu64 " bytes  each of %u %s",
            l->weight_bytes, n_like(c, i, i, c->options.end),
            mixer_rows[c->config.mixers[i]]->name);
    if (chooses(c, i)) {
        fprintf(c->out, ", %s: a step of %d rows reads %.1f %%",
                ffn_rows[c->config.ffns[i]]->name, COSTS_STEP_ROWS,
                100 * (double)l->step_bytes / (double)l->weight_bytes);
    } else if (c->config.shape.n_experts > 0) {
        fprintf(c->out, ", %s", ffn_rows[c->config.ffns[i]]->name);
    }
    fputc('\n', c->out);
}

/* Prints the MTP layer with fc and norms, and without the embedding. */
static void print_mtp_layer(const struct check *c)
{
    if (config_drafts_at(&c->config, c->options.end)) {
        fprintf(c->out, "layer        %15" PRIu64 " bytes  the MTP layer\n",
                c->costs.mtp.weight_bytes);
    }
}

/* Prints one line for each kind of layer, and another where files store some
 * layers in other dtypes. */
static void print_layers(const struct check *c)
{
    uint32_t begin = c->options.begin, end = c->options.end;

    for (int kind = 0; kind < MIXER_KINDS; kind++) {
        for (uint32_t i = begin; i < end; i++) {
            if ((int)c->config.mixers[i] == kind &&
                n_like(c, i, begin, i) == 0) {
                print_layer(c, i);
            }
        }
    }
}

/* Prints what a slot's pages do not use. */
static void print_rounding(const struct check *c)
{
    const struct sizes *z = &c->sizes;
    uint64_t bytes = z->pages_per_slot * z->page_bytes;

    fprintf(c->out, "rounding     %15" PRIu64 " bytes  a slot (%.2f %%)\n",
            bytes - z->slot_bytes,
            100 * (double)(bytes - z->slot_bytes) / (double)bytes);
}

/* A sequence's window blocks are those of a sequence of the whole context. */
static void print_pages(const struct check *c)
{
    const struct sizes *z = &c->sizes;

    fprintf(c->out,
            "pages        %u a block of %u tokens, %u a slot or checkpoint",
            z->pages_per_block, c->options.block_tokens, z->pages_per_slot);
    if (z->n_window > 0) {
        fprintf(
            c->out, ", %u a window block; a sequence has %u at most",
            z->window_pages,
            sizes_window_blocks(c->config.shape.window, c->options.chunk_tokens,
                                c->options.block_tokens, c->options.context));
    }
    fputc('\n', c->out);
}

/* Prints what a token keeps in all linear layers, and how many do. */
static void print_kept(const struct check *c)
{
    uint64_t bytes = c->sizes.kept_bytes;

    fprintf(c->out,
            "kept         %15" PRIu64 " bytes  a token (%.2f %% of a slot), "
            "with drafts; %u tokens in scratch\n",
            bytes, 100 * (double)bytes / (double)c->sizes.slot_bytes,
            c->options.step.keep_tokens);
}

static void print_arithmetic(const struct check *c)
{
    char id[ARITHMETIC_SIZE];
    const char *name = c->options.device;

    if (name == NULL) {
        name = arithmetic_cpu(id, c->config.quant.format, c->options.step.int8);
    }
    if (name[0] != '\0') {
        fprintf(c->out, "arithmetic   %s\n", name);
    }
}

static void print_sizes(const struct check *c)
{
    const struct sizes *z = &c->sizes;
    char name[KV_NAME_MAX];

    fprintf(c->out, "parameters   %15" PRIu64 "\n", z->parameters);
    if (c->config.shape.n_experts > 0) {
        fprintf(c->out, "active       %15" PRIu64 " of the whole model\n",
                sizes_active(&c->config));
    }
    print_bytes(c, "weights", z->weight_bytes);
    print_layers(c);
    print_mtp_layer(c);
    print_arithmetic(c);
    if (z->n_attention > 0) {
        fprintf(c->out, "KV cache     %s\n", kv_format_name(&c->kv, name));
        print_bytes(c, "token", z->token_bytes);
        print_bytes(c, "block", z->block_bytes);
    }
    if (z->n_window > 0) {
        print_bytes(c, "window block", z->window_bytes);
    }
    if (z->n_linear > 0) {
        print_bytes(c, "slot", z->slot_bytes);
    }
    if (z->n_linear > 0 && c->options.drafts > 0) {
        print_kept(c);
    }
    print_bytes(c, "page", z->page_bytes);
    print_pages(c);
    if (z->n_linear > 0) {
        print_rounding(c);
    }
}

/* Prints the sizes of the whole model, if only a part was requested. */
static void print_whole(const struct check *c)
{
    const struct sizes *z = &c->whole;
    uint32_t n = c->config.shape.n_layers;

    if (c->options.end - c->options.begin == n) {
        return;
    }
    fprintf(c->out, "whole        [0, %u): ", n);
    print_kinds(c, 0, n);
    print_bytes(c, "  weights", z->weight_bytes);
    if (z->n_attention > 0) {
        print_bytes(c, "  block", z->block_bytes);
    }
    if (z->n_window > 0) {
        print_bytes(c, "  window", z->window_bytes);
    }
    if (z->n_linear > 0) {
        print_bytes(c, "  slot", z->slot_bytes);
    }
}

/* Prints the sequences of a length that the pool holds, and the share of the
 * pool that they leave to nobody. */
static void print_sequences(const struct check *c, const struct pool_split *s,
                            uint32_t n_tokens)
{
    const struct pool_split_need *n = &c->budget.pool;
    uint64_t useful =
        sizes_sequence(&c->sizes, &c->config.shape, c->options.block_tokens,
                       c->options.chunk_tokens, n_tokens);

    fprintf(c->out, "sequences    %15" PRIu64 " of %u tokens, %.2f %% unused\n",
            pool_split_sequences(n, s, n_tokens), n_tokens,
            100 * pool_split_waste(n, s, n_tokens, useful));
}

/* Prints the pool of a worker with this budget. */
static enum status print_budget(struct check *c, struct error *e)
{
    uint32_t context = c->options.context;
    uint64_t bytes = c->options.budget_bytes;
    struct pool_split s;

    /* Without --memory there is no budget to check. */
    if (bytes == 0) {
        return ST_OK;
    }
    c->budget.weight_bytes = c->sizes.weight_bytes;
    print_bytes(c, "budget", bytes);
    print_bytes(c, "scratch", c->budget.scratch_bytes);
    if (pool_split_budget(&s, &c->budget, bytes, e) != ST_OK) {
        return e->code;
    }
    print_bytes(c, "pool", s.bytes);
    fprintf(c->out, "pool pages   %15u\n", s.n_pages);
    if (c->sizes.n_linear > 0) {
        fprintf(c->out, "slots        %15u at most\n", s.slot_cap);
    }
    /* Short sequences as well: the pool holds many more of those. */
    for (uint32_t n = 1024; n < context; n *= 4) {
        print_sequences(c, &s, n);
    }
    print_sequences(c, &s, context);
    return ST_OK;
}

static void print_layout(const struct check *c, const struct layout *l,
                         const struct checkpoint *files)
{
    fprintf(c->out,
            "files        %15" PRIu64 " bytes to read, %u tensors in %u "
            "files\n",
            l->file_bytes, l->n_tensors, files->n_files);
    if (l->n_aside > 0) {
        fprintf(c->out, "set aside    %u tensors (vision, MTP)\n", l->n_aside);
    }
    if (l->n_unknown > 0) {
        fprintf(c->out, "unknown      %u tensors, the first is %s\n",
                l->n_unknown, quote(l->unknown).text);
    }
}

/* Lays the whole model out too, because a shard reads all of it for the
 * fingerprint (fingerprint.h). */
static enum status try_model(struct check *c, const struct checkpoint *files,
                             struct error *e)
{
    struct layout l;
    enum status st = layout_of_model(&l, &c->config, files, e);

    if (st == ST_OK) {
        st = costs_of_files(&c->costs, &c->config, files, e);
    }
    if (st == ST_OK) {
        c->whole.weight_bytes = l.bytes;
    }
    layout_fini(&l);
    return st;
}

/* Takes the weights from the files, because config.json need not be right about
 * dtypes and bits. */
static enum status try_layout(struct check *c, const struct checkpoint *files,
                              struct error *e)
{
    uint32_t begin = c->options.begin, end = c->options.end;
    struct shard_weights w = {
        .shape = c->config.shape, .begin = begin, .end = end};
    struct layout_parts parts = {
        .layers = calloc(end - begin + (size_t)1, sizeof *parts.layers)};
    struct layout l;
    enum status st;

    if (parts.layers == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = layout_make(&l, &w, &parts, &c->config, files, e);
    if (st == ST_OK) {
        print_layout(c, &l, files);
        st = try_model(c, files, e);
    }
    if (st == ST_OK) {
        c->sizes.weight_bytes = l.bytes;
    }
    layout_fini(&l);
    free(parts.layers);
    return st;
}

/* Accepts a config.json alone, but not an index whose files are missing. */
static enum status try_weights(struct check *c, const char *dir, bool *found,
                               struct error *e)
{
    struct checkpoint *files = NULL;
    enum status st = directory_weights(dir, found, e);

    if (st == ST_OK && !*found) {
        fprintf(c->out, "files        none here: sizes follow from "
                        "config.json\n");
        return ST_OK;
    }
    st = st == ST_OK ? checkpoint_open(&files, dir, e) : st;
    if (st == ST_OK && c->config.drafts) {
        st = checkpoint_add_mtp(files, e);
    }
    if (st == ST_OK) {
        st = try_layout(c, files, e);
    }
    checkpoint_close(&files);
    return st;
}

/* Fills in the defaults and checks the ranges. */
static enum status read_options(struct check *c, const struct check_options *o,
                                struct error *e)
{
    struct check_options *p = &c->options;
    const struct model_shape *s = &c->config.shape;

    *p = o != NULL ? *o : (struct check_options){0};
    p->end = p->end == 0 ? s->n_layers : p->end;
    p->block_tokens =
        p->block_tokens == 0 ? CHECK_BLOCK_TOKENS : p->block_tokens;
    p->max_rows = p->max_rows == 0 ? CHECK_MAX_ROWS : p->max_rows;
    if (p->begin >= p->end || p->end > s->n_layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "layers %u-%u of a model of %u", p->begin, p->end,
                         s->n_layers);
    }
    if (p->block_tokens > SIZES_BLOCK_TOKENS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "blocks of %u tokens, %d are allowed at most",
                         p->block_tokens, SIZES_BLOCK_TOKENS_MAX);
    }
    if (p->context > s->context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--context %u: the model allows at most %u tokens",
                         p->context, s->context);
    }
    if (sizes_check_slots(&c->config, p->slots, e) != ST_OK) {
        return e->code;
    }
    if (p->drafts > DRAFTS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--drafts %u: at most %d are allowed", p->drafts,
                         DRAFTS_MAX);
    }
    p->context = p->context == 0 ? s->context : p->context;
    p->step.context = p->context;
    p->chunk_tokens = p->chunk_tokens == 0 ? CHUNK_TOKENS_CPU : p->chunk_tokens;
    p->step.block_tokens = p->block_tokens;
    p->step.keep_tokens = costs_keep_tokens(p->drafts, p->max_rows);
    if (p->end - p->begin < s->n_layers) {
        p->step.tokens = costs_stage_tokens(&c->config, p->step.tokens);
    }
    return ST_OK;
}

/* A fault of the weights is reported later, when they are tried. */
static void find_mtp(struct check *c, const char *dir)
{
    enum status st = mtp_find_in(&c->mtp, &c->config, dir, &c->mtp_error);

    c->mtp_error.code = st;
    c->config.drafts = st == ST_OK && wants_mtp(c) && c->mtp.usable;
}

static enum status prepare_check(struct check *c, const char *dir,
                                 const struct check_options *o, struct error *e)
{
    struct check_options *p = &c->options;
    enum status st = config_load(&c->config, dir, e);

    st = st == ST_OK ? read_options(c, o, e) : st;
    st = st == ST_OK ? kv_format_choose(&c->kv, &c->config, &p->kv, e) : st;
    if (st != ST_OK) {
        return st;
    }
    find_mtp(c, dir);
    p->step.kept = c->kv.dtype;
    c->sizes = sizes_of(&c->config, p->begin, p->end, p->block_tokens, &c->kv);
    c->whole = sizes_of(&c->config, 0, c->config.shape.n_layers,
                        p->block_tokens, &c->kv);
    costs_of_shapes(&c->costs, &c->config, &c->kv);
    c->budget = (struct pool_budget){
        .scratch_bytes =
            p->step.tokens > 0
                ? costs_stage_scratch(&c->config, &p->step, p->begin, p->end)
                : 0,
        .pool = {.page_bytes = c->sizes.page_bytes,
                 .pages_per_slot = c->sizes.pages_per_slot,
                 .pages_per_block = c->sizes.pages_per_block,
                 .block_tokens = p->block_tokens,
                 .context = p->context,
                 .max_rows = p->max_rows,
                 .slots = p->slots,
                 .window_pages = c->sizes.window_pages,
                 .window_tokens = c->config.shape.window,
                 .chunk_tokens = p->chunk_tokens}};
    return sizes_check_pages(c->sizes.pages_per_slot, p->block_tokens, e);
}

enum status model_check(FILE *out, const char *dir,
                        const struct check_options *o, struct error *e)
{
    struct check c = {.out = out};
    struct error ignored;
    bool found = false;
    enum status st;

    e = e != NULL ? e : &ignored;
    st = prepare_check(&c, dir, o, e);
    if (st == ST_OK) {
        print_model(&c);
        if (!gguf_model_has_tokenizer(dir)) {
            fputs("tokenizer    none: only requests with token ids can be "
                  "served\n",
                  out);
        }
        st = try_weights(&c, dir, &found, e);
        if (st == ST_OK && wants_mtp(&c) && c.mtp_error.code != ST_OK) {
            *e = c.mtp_error;
            st = e->code;
        }
        /* Also after an error: the sizes may explain it. */
        print_sizes(&c);
        print_whole(&c);
    }
    if (st == ST_OK) {
        st = print_budget(&c, e);
    }
    if (st != ST_OK) {
        fprintf(out, "verdict      would not load: %s\n", e->text);
    } else {
        fprintf(out, "verdict      %s\n",
                found ? "would load" : "no weights to load");
    }
    return st;
}
