#include "client/ctl/plan_explain.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/ctl/columns.h"
#include "client/ctl/json_message.h"
#include "client/ctl/plan_blocks.h"
#include "client/ctl/plan_budget.h"
#include "common/model/sizes.h"

static const uint32_t alignments[EXPLAIN_ALIGNMENTS] = {16, 32};

/* The model in the engine's terms, and its blocks with one alignment. */
struct engine {
    uint64_t token_bytes, state_bytes; /* of one layer */
    struct blocks_sizes sizes;
    uint32_t kernel_tokens;
    bool valid; /* false: e has the reason */
    struct error e;
};

/* The memory of one sequence at one stage, in the engine and in sluice. */
struct row {
    uint64_t ids, bytes, sequences;
    uint64_t pages, our_bytes, our_sequences;
    double unused, our_unused;
    int64_t saved_bytes;
};

static struct engine engine_of(const struct plan_explain *x, uint32_t alignment)
{
    const struct model_shape *s = &x->config->shape;
    uint32_t item = (uint32_t)dtype_bytes(x->kv->dtype);
    uint64_t channels = 2 * (uint64_t)s->n_k_heads * s->k_dim +
                        (uint64_t)s->n_v_heads * s->v_dim;
    const struct blocks_state states[] = {
        {{s->conv > 0 ? s->conv - 1 : 0, channels}, 2, item},
        {{s->n_v_heads, s->v_dim, s->k_dim}, 3, sizeof(float)}};
    struct engine g = {.token_bytes = blocks_token_bytes(
                           s->n_kv_heads, s->head_dim, item, false),
                       .sizes.block_tokens = x->block_tokens};
    struct blocks_model m = {.is_hybrid = s->n_v_heads > 0 && s->n_heads > 0,
                             .token_bytes = g.token_bytes,
                             .states = states,
                             .n_states = 2};

    g.state_bytes = blocks_state_bytes(states, 2);
    g.valid =
        blocks_align(&g.sizes, &m, alignment, false, &g.e) == ST_OK &&
        blocks_kernel(&g.kernel_tokens, g.sizes.block_tokens, &g.e) == ST_OK;
    return g;
}

static bool is_hybrid(const struct plan_explain *x)
{
    return x->config->shape.n_heads > 0 && x->config->shape.n_v_heads > 0;
}

static uint64_t page_bytes(const struct engine *g)
{
    return g->sizes.block_tokens * g->token_bytes;
}

static double share_unused(uint64_t useful, uint64_t bytes)
{
    return bytes > 0 ? 1 - (double)useful / (double)bytes : 0;
}

static struct row row_of(const struct plan_explain *x, const struct engine *g,
                         const struct split_stage *s, uint32_t length)
{
    uint32_t n_attention =
        config_count(x->config, MIXER_IN_BLOCKS, s->begin, s->end) +
        config_drafts_at(x->config, s->end);
    uint32_t n_linear =
        config_count(x->config, MIXER_IN_SLOT, s->begin, s->end);
    struct sizes z =
        sizes_of(x->config, s->begin, s->end, x->block_tokens, x->kv);
    struct blocks_groups groups = blocks_group(n_attention, n_linear);
    uint64_t id_bytes = groups.size * page_bytes(g);
    struct row r = {
        .ids = blocks_of_sequence(&groups, g->sizes.block_tokens, length),
        .pages = pool_split_pages(&s->need, length)};

    r.bytes = r.ids * id_bytes;
    r.sequences = s->pool.bytes / id_bytes / r.ids;
    r.our_bytes = r.pages * s->need.page_bytes;
    r.our_sequences = s->pool.n_pages / r.pages;
    r.unused = share_unused(length * g->token_bytes * n_attention +
                                g->state_bytes * n_linear,
                            r.bytes);
    r.our_unused =
        share_unused(length * z.token_bytes + z.slot_bytes, r.our_bytes);
    r.saved_bytes =
        (int64_t)(r.our_sequences * r.bytes - r.our_sequences * r.our_bytes);
    return r;
}

/* The engine's own division of a worker's memory. */
static enum status divide(const struct plan_explain *x, const struct engine *g,
                          const struct split_stage *s,
                          struct plan_budget_result *r, struct error *e)
{
    uint32_t n_attention =
        config_count(x->config, MIXER_IN_BLOCKS, s->begin, s->end) +
        config_drafts_at(x->config, s->end);
    uint32_t n_linear =
        config_count(x->config, MIXER_IN_SLOT, s->begin, s->end);
    struct plan_budget_paged b = {
        .limit = x->workers[s->worker].budget_bytes,
        .fraction = BUDGET_FRACTION,
        .model_bytes = s->weight_bytes,
        .overhead_bytes = BUDGET_OVERHEAD,
        .slot_bytes = n_linear * g->state_bytes,
        .max_rows = x->max_rows,
        .block_bytes =
            (n_attention > 0 ? n_attention : n_linear) * page_bytes(g)};

    return plan_budget_divide(r, &b, e);
}

/* ---- text ---- */

static void print_alignments(const struct plan_explain *x)
{
    struct columns t;

    columns_init(&t, "ALIGNMENT", "BLOCK", "KERNEL BLOCKS", "PAGE", "PADDING",
                 "SHARE", NULL);
    for (int i = 0; i < EXPLAIN_ALIGNMENTS; i++) {
        struct engine g = engine_of(x, alignments[i]);

        columns_cell(&t, "%u", alignments[i]);
        columns_cell(&t, "%u", g.sizes.block_tokens);
        if (g.valid) {
            columns_cell(&t, "%u of %u", g.sizes.block_tokens / g.kernel_tokens,
                         g.kernel_tokens);
        } else {
            columns_cell(&t, "none");
        }
        columns_cell(&t, "%" PRIu64, page_bytes(&g));
        columns_cell(&t, "%" PRIu64, page_bytes(&g) - g.state_bytes);
        columns_cell(&t, "%.2f %%", g.sizes.padding_percent);
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

static void saved_cell(struct columns *t, int64_t saved)
{
    char text[BYTES_TEXT];

    bytes_write(text, (uint64_t)(saved < 0 ? -saved : saved));
    columns_cell(t, "%s%s", saved < 0 ? "-" : "", text);
}

static void row_cells(struct columns *t, const struct row *r)
{
    char bytes[BYTES_TEXT], ours[BYTES_TEXT];

    bytes_write(bytes, r->bytes);
    bytes_write(ours, r->our_bytes);
    columns_cell(t, "%" PRIu64, r->ids);
    columns_cell(t, "%s", bytes);
    columns_cell(t, "%.1f %%", 100 * r->unused);
    columns_cell(t, "%" PRIu64, r->sequences);
    columns_cell(t, "%" PRIu64, r->pages);
    columns_cell(t, "%s", ours);
    columns_cell(t, "%.1f %%", 100 * r->our_unused);
    columns_cell(t, "%" PRIu64, r->our_sequences);
    saved_cell(t, r->saved_bytes);
}

static void print_stage(const struct plan_explain *x, uint32_t stage)
{
    const struct split_stage *s = &x->split->stages[stage];
    struct columns t;

    columns_init(&t, "ALIGNMENT", "LENGTH", "IDS", "BYTES", "UNUSED",
                 "SEQUENCES", "PAGES", "BYTES", "UNUSED", "SEQUENCES", "SAVED",
                 NULL);
    for (int i = 0; i < EXPLAIN_ALIGNMENTS; i++) {
        struct engine g = engine_of(x, alignments[i]);

        for (size_t k = 0; k < x->n_lengths; k++) {
            struct row r = row_of(x, &g, s, x->lengths[k]);

            columns_cell(&t, "%u", alignments[i]);
            columns_cell(&t, "%u", x->lengths[k]);
            row_cells(&t, &r);
        }
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

/* Prints the blocks that the engine would plan for a worker. */
static void print_budgets(const struct plan_explain *x, uint32_t stage)
{
    const struct split_stage *s = &x->split->stages[stage];

    for (int i = 0; i < EXPLAIN_ALIGNMENTS; i++) {
        struct engine g = engine_of(x, alignments[i]);
        struct plan_budget_result r;
        struct error e;

        if (divide(x, &g, s, &r, &e) == ST_OK) {
            printf("its plan   %" PRIu64
                   " blocks of %u positions and %u slots: "
                   "%.0f %% of the memory, less weights and %" PRIu64 " MiB\n",
                   r.n_blocks, g.sizes.block_tokens, r.reserved_slots,
                   100 * BUDGET_FRACTION, BUDGET_OVERHEAD >> 20);
        } else {
            printf("its plan   none: %s\n", e.text);
        }
    }
}

/* ---- windows ---- */

/* The pages of one sequence at a stage with window layers. */
struct held {
    uint64_t blocks, windows, pages;
    uint64_t bytes, whole_bytes; /* whole: without release behind the window */
};

static struct held held_of(const struct split_stage *s, uint32_t length)
{
    const struct pool_split_need *n = &s->need;
    uint64_t all = ((uint64_t)length + n->block_tokens - 1) / n->block_tokens;
    struct held h = {.blocks = pool_split_blocks(n, length),
                     .pages = pool_split_pages(n, length)};

    if (n->window_pages > 0) {
        h.windows = pool_split_windows(n, length) / n->window_pages;
    }
    h.bytes = h.pages * n->page_bytes;
    h.whole_bytes =
        h.bytes + (all - h.windows) * n->window_pages * n->page_bytes;
    return h;
}

static void bytes_cell(struct columns *t, uint64_t bytes)
{
    char text[BYTES_TEXT];

    bytes_write(text, bytes);
    columns_cell(t, "%s", text);
}

static void print_held(const struct plan_explain *x, uint32_t stage)
{
    const struct split_stage *s = &x->split->stages[stage];
    struct columns t;

    columns_init(&t, "LENGTH", "BLOCKS", "WINDOW BLOCKS", "PAGES", "BYTES",
                 "WHOLE", "SAVED", NULL);
    for (size_t k = 0; k < x->n_lengths; k++) {
        struct held h = held_of(s, x->lengths[k]);

        columns_cell(&t, "%u", x->lengths[k]);
        columns_cell(&t, "%" PRIu64, h.blocks);
        columns_cell(&t, "%" PRIu64, h.windows);
        columns_cell(&t, "%" PRIu64, h.pages);
        bytes_cell(&t, h.bytes);
        bytes_cell(&t, h.whole_bytes);
        columns_cell(&t, "%.1f %%", 100 * share_unused(h.bytes, h.whole_bytes));
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

/* Prints the classes of each stage, and a sequence in them. */
static void print_windows(const struct plan_explain *x)
{
    printf("\nwindows    layers see %u positions; blocks behind are released. "
           "WHOLE: an engine that keeps them\n",
           x->config->shape.window);
    for (uint32_t i = 0; i < x->split->n_stages; i++) {
        const struct split_stage *s = &x->split->stages[i];

        printf("\nstage      %u: %u window layers; a block %u pages, a window "
               "block %u, each of %" PRIu64 " bytes\n",
               i, s->n_window, s->need.pages_per_block, s->need.window_pages,
               s->need.page_bytes);
        print_held(x, i);
    }
}

/* ---- both ---- */

static void print_ours(const struct plan_explain *x)
{
    char name[KV_NAME_MAX];
    struct sizes z = sizes_of(x->config, 0, x->config->shape.n_layers,
                              x->block_tokens, x->kv);

    printf("sluice     KV cache %s; blocks of %u positions in pages of "
           "%" PRIu64 " bytes, not aligned, not padded\n",
           kv_format_name(x->kv, name), x->block_tokens, z.page_bytes);
}

void plan_explain_print(const struct plan_explain *x)
{
    struct engine g = engine_of(x, alignments[0]);
    struct kv_format plain = kv_format_plain(x->kv->dtype);
    char name[KV_NAME_MAX];

    if (x->config->shape.window > 0) {
        print_windows(x);
    } else if (!is_hybrid(x)) {
        printf("\nblocks     all layers are of one kind: no engine aligns "
               "blocks of %u positions\n",
               x->block_tokens);
    }
    if (!is_hybrid(x)) {
        return;
    }
    printf("\nblocks     an engine with one page size, KV cache %s: a position "
           "and layer %" PRIu64 " bytes, a state and layer %" PRIu64 "\n",
           kv_format_name(&plain, name), g.token_bytes, g.state_bytes);
    print_ours(x);
    putchar('\n');
    print_alignments(x);
    for (uint32_t i = 0; i < x->split->n_stages; i++) {
        printf("\nstage      %u: the engine, then sluice; SAVED with sluice's "
               "pool full\n",
               i);
        print_stage(x, i);
        print_budgets(x, i);
    }
}

/* ---- JSON ---- */

static json_t *json_row(const struct row *r, uint32_t length)
{
    json_t *j = json_object();

    json_set_count(j, "n_tokens", length);
    json_set_count(j, "ids", r->ids);
    json_set_count(j, "bytes", r->bytes);
    json_object_set_new(j, "unused", json_real(r->unused));
    json_set_count(j, "sequences", r->sequences);
    json_set_count(j, "our_pages", r->pages);
    json_set_count(j, "our_bytes", r->our_bytes);
    json_object_set_new(j, "our_unused", json_real(r->our_unused));
    json_set_count(j, "our_sequences", r->our_sequences);
    json_object_set_new(j, "saved_bytes", json_integer(r->saved_bytes));
    return j;
}

static json_t *json_stage(const struct plan_explain *x, const struct engine *g,
                          const struct split_stage *s)
{
    json_t *j = json_object(), *rows = json_array();
    struct plan_budget_result b;
    struct error e;

    for (size_t k = 0; k < x->n_lengths; k++) {
        struct row r = row_of(x, g, s, x->lengths[k]);

        json_array_append_new(rows, json_row(&r, x->lengths[k]));
    }
    json_object_set_new(j, "lengths", rows);
    if (divide(x, g, s, &b, &e) != ST_OK) {
        json_object_set_new(j, "refused", json_string(e.text));
    }
    json_set_count(j, "planned_blocks", b.n_blocks);
    json_set_count(j, "reserved_slots", b.reserved_slots);
    return j;
}

static json_t *json_alignment(const struct plan_explain *x, uint32_t alignment)
{
    struct engine g = engine_of(x, alignment);
    json_t *j = json_object(), *stages = json_array();

    json_set_count(j, "alignment", alignment);
    json_set_count(j, "block_tokens", g.sizes.block_tokens);
    json_set_count(j, "kernel_tokens", g.valid ? g.kernel_tokens : 0);
    json_set_count(j, "ratio",
                   g.valid ? g.sizes.block_tokens / g.kernel_tokens : 0);
    json_set_count(j, "page_bytes", page_bytes(&g));
    json_set_count(j, "padding_bytes", page_bytes(&g) - g.state_bytes);
    json_object_set_new(j, "padding_percent",
                        json_real(g.sizes.padding_percent));
    for (uint32_t i = 0; i < x->split->n_stages; i++) {
        json_array_append_new(stages, json_stage(x, &g, &x->split->stages[i]));
    }
    json_object_set_new(j, "stages", stages);
    return j;
}

static json_t *json_held(const struct plan_explain *x,
                         const struct split_stage *s)
{
    json_t *j = json_object(), *rows = json_array();

    json_set_count(j, "n_window", s->n_window);
    for (size_t k = 0; k < x->n_lengths; k++) {
        struct held h = held_of(s, x->lengths[k]);
        json_t *row = json_object();

        json_set_count(row, "n_tokens", x->lengths[k]);
        json_set_count(row, "blocks", h.blocks);
        json_set_count(row, "window_blocks", h.windows);
        json_set_count(row, "pages", h.pages);
        json_set_count(row, "bytes", h.bytes);
        json_set_count(row, "whole_bytes", h.whole_bytes);
        json_array_append_new(rows, row);
    }
    json_object_set_new(j, "lengths", rows);
    return j;
}

static json_t *json_windows(const struct plan_explain *x)
{
    json_t *stages = json_array();

    for (uint32_t i = 0; i < x->split->n_stages && x->config->shape.window > 0;
         i++) {
        json_array_append_new(stages, json_held(x, &x->split->stages[i]));
    }
    return stages;
}

json_t *plan_explain_json(const struct plan_explain *x)
{
    struct engine g = engine_of(x, alignments[0]);
    json_t *j = json_object(), *aligned = json_array();
    char name[KV_NAME_MAX];

    json_object_set_new(j, "hybrid", json_boolean(is_hybrid(x)));
    json_object_set_new(j, "kv_format",
                        json_string(kv_format_name(x->kv, name)));
    json_set_count(j, "token_bytes", g.token_bytes);
    json_set_count(j, "state_bytes", g.state_bytes);
    for (int i = 0; i < EXPLAIN_ALIGNMENTS && is_hybrid(x); i++) {
        json_array_append_new(aligned, json_alignment(x, alignments[i]));
    }
    json_object_set_new(j, "aligned", aligned);
    json_object_set_new(j, "windows", json_windows(x));
    return j;
}
