/* A made-up fifth kind of layer needs a line in common/model/mixer_list.h, a
 * row, and a kernel: it is read, sized, laid out, planned, run, saved, checked
 * by the canary and named in errors without another line anywhere.
 *
 * The list is made by CMakeLists.txt.  The model is linear, identity,
 * attention, identity. */
#include <stdlib.h>
#include <string.h>

#include "common/model/config.h"
#include "common/model/costs.h"
#include "common/model/mixer.h"
#include "common/model/sizes.h"
#include "kernels/backends/backend.h"
#include "kernels/backends/canary.h"
#include "tests/kernels/identity/cpu_identity.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#define LAYERS 4
#define TOKENS 160
#define BLOCK  16

/* ---- config.json, sizes, costs ---- */

static const char config[] =
    "{\"model_type\": \"qwen3_5_text\", \"hidden_size\": 64,"
    " \"num_hidden_layers\": 4, \"intermediate_size\": 96,"
    " \"vocab_size\": 512, \"max_position_embeddings\": 1024,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"linear_num_key_heads\": 1,"
    " \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 16,"
    " \"linear_value_head_dim\": 16, \"linear_conv_kernel_dim\": 4,"
    " \"tie_word_embeddings\": true,"
    " \"layer_types\": [\"linear_attention\", \"%s\", \"full_attention\","
    " \"identity\"]}";

static enum status parse(struct model_config *c, const char *kind,
                         struct error *e)
{
    char text[sizeof config + 32];
    int n = snprintf(text, sizeof text, config, kind);

    memset(c, 0, sizeof *c);
    return config_parse(c, text, (size_t)n, e);
}

static struct model_config parsed(void)
{
    struct model_config c;
    struct error e;

    if (parse(&c, "identity", &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return c;
}

static void is_read_and_listed(void **state)
{
    struct model_config c = parsed();
    char text[MIXER_TEXT_MAX];
    struct error e;

    (void)state;
    assert_int_equal(c.mixers[1], MIXER_IDENTITY);
    assert_int_equal(c.mixers[3], MIXER_IDENTITY);
    assert_int_equal(config_count(&c, MIXER_IN_SLOT, 0, LAYERS), 3);
    assert_string_equal(mixer_counts(&c, 0, LAYERS, text),
                        "1 linear, 2 identity, 1 attention");
    assert_string_equal(mixer_counts(&c, 2, LAYERS, text),
                        "0 linear, 1 identity, 1 attention");
    assert_int_equal(parse(&c, "mamba", &e), ST_UNIMPLEMENTED);
    assert_non_null(strstr(e.text, "full_attention, sliding_attention, "
                                   "linear_attention and identity are"));
}

/* A Gated DeltaNet has Hv Dk Dv floats and 3 rows of C values. */
static void its_state_is_counted(void **state)
{
    struct model_config c = parsed();
    struct kv_format kv = kv_format_plain(DTYPE_BF16);
    struct sizes z = sizes_of(&c, 0, LAYERS, BLOCK, &kv);
    struct sizes one = sizes_of(&c, 3, LAYERS, BLOCK, &kv);
    uint64_t linear = 2 * 16 * 16 * 4 + 3 * (2 * 16 + 2 * 16) * 2;

    (void)state;
    assert_int_equal(z.n_linear, 3);
    assert_int_equal(z.n_attention, 1);
    assert_int_equal(z.slot_bytes, linear + 2 * sizeof(float));
    assert_int_equal(z.kept_bytes,
                     sizes_kept(&c.shape, MIXER_DELTANET, DTYPE_BF16));
    assert_int_equal(one.slot_bytes, sizeof(float));
    assert_int_equal(one.pages_per_slot, 1);
    assert_int_equal(one.page_bytes, 64);
}

/* Parts of two sizes share a slot, aligned and apart. */
static void its_state_has_a_place(void **state)
{
    struct model_config c = parsed();
    struct kv_format kv = kv_format_plain(DTYPE_BF16);
    struct page_sizes p = sizes_page(&c.shape, 0, LAYERS, BLOCK, &kv);
    struct page_layout l;

    (void)state;
    page_layout_make(&l, c.mixers, LAYERS, &p);
    assert_int_equal(l.n_groups, 1);
    assert_int_equal(l.layers[0].at[0], 0);
    assert_int_equal(l.layers[1].at[0], 2 * 16 * 16 * 4);
    assert_int_equal(l.layers[3].at[0], l.layers[1].at[0] + 64);
    assert_int_equal(l.layers[0].at[1], l.layers[3].at[0] + 64);
    assert_true(l.pages_per_slot * l.page_bytes >=
                l.layers[0].at[1] + p.slots[MIXER_DELTANET].parts[1]);
}

/* A part of a state in the slot of its group. */
struct part {
    uint32_t group;
    uint64_t begin, end;
};

/* Adds the parts of layer i, each aligned and inside the slot of its group. */
static uint32_t add_parts(struct part *out, const struct page_layout *l,
                          const struct page_sizes *s, enum mixer_kind kind,
                          uint32_t i)
{
    const struct page_layer *p = &l->layers[i];
    uint32_t n = 0;

    for (uint32_t j = 0; j < MIXER_PARTS_MAX; j++) {
        uint64_t end = p->at[j] + s->slots[kind].parts[j];

        if (end > p->at[j]) {
            assert_int_equal(p->at[j] % PAGE_ALIGN, 0);
            assert_true(end <=
                        l->pages_per_slot * l->groups[p->group].page_bytes);
            out[n++] = (struct part){p->group, p->at[j], end};
        }
    }
    return n;
}

static void check_mix(const enum mixer_kind *kinds, uint32_t n,
                      const struct page_sizes *s)
{
    static struct page_layout l;
    struct part parts[64 * MIXER_PARTS_MAX];
    uint32_t n_parts = 0;

    page_layout_make(&l, kinds, n, s);
    for (uint32_t i = 0; i < n; i++) {
        n_parts += add_parts(parts + n_parts, &l, s, kinds[i], i);
    }
    for (uint32_t i = 0; i < n_parts; i++) {
        for (uint32_t j = 0; j < i; j++) {
            assert_true(parts[i].group != parts[j].group ||
                        parts[i].begin >= parts[j].end ||
                        parts[j].begin >= parts[i].end);
        }
    }
}

/* Every mix of few layers, with states much and little larger than blocks. */
static void states_of_two_sizes_never_meet(void **state)
{
    static const struct page_sizes sizes[] = {
        {.kv_bytes = 640,
         .slots = {[MIXER_DELTANET] = {{7001, 33}}, [MIXER_IDENTITY] = {{4}}}},
        {.kv_bytes = 64,
         .slots = {[MIXER_DELTANET] = {{100, 70}},
                   [MIXER_IDENTITY] = {{65, 1, 200, 3}}}},
    };
    enum mixer_kind kinds[64];

    (void)state;
    for (uint32_t mix = 0; mix < 2 * 9 * 9 * 9; mix++) {
        uint32_t left[] = {mix / 2 % 9, mix / 18 % 9, mix / 162}, n = 0;
        uint32_t all = left[0] + left[1] + left[2];

        for (uint32_t turn = 0; n < all; turn++) {
            static const enum mixer_kind kind[] = {
                MIXER_ATTENTION, MIXER_DELTANET, MIXER_IDENTITY};
            uint32_t k = (turn * 7 + mix) % 3;

            if (left[k] > 0) {
                left[k]--;
                kinds[n++] = kind[k];
            }
        }
        if (n > 0) {
            check_mix(kinds, n, &sizes[mix % 2]);
        }
    }
}

/* Its layer has two norms and an MLP, and no mixer's weights. */
static void its_costs_are_planned(void **state)
{
    struct model_config c = parsed();
    struct kv_format kv = kv_format_plain(DTYPE_BF16);
    struct costs_step step = {
        .tokens = 64, .rows = 8, .keep_tokens = 16, .kept = DTYPE_BF16};
    struct split_model m;

    (void)state;
    costs_of_shapes(&m, &c, &kv);
    costs_add_kept(&m, &c, &step);
    assert_int_equal(m.layers[1].slot_bytes, 64);
    assert_int_equal(m.layers[1].token_bytes, 0);
    assert_int_equal(m.layers[1].kept_bytes, 0);
    assert_true(m.layers[0].kept_bytes > 0);
    assert_int_equal(m.layers[1].weight_bytes,
                     2 * 64 * sizeof(float) + UINT64_C(3) * 96 * 64 * 2);
    assert_true(m.layers[0].weight_bytes > m.layers[1].weight_bytes);
}

/* ---- a small model ---- */

struct rig {
    struct random_model model;
    struct kernels_options o;
    struct kernels *k;
    struct kernels_sizes sizes;
    uint32_t blocks[TOKENS / BLOCK];
    size_t h;
    float *x, *out; /* [TOKENS, H] */
};

static void open_rig(struct rig *g)
{
    struct dice d = {77};
    struct random_shape r;
    struct error e;

    memset(g, 0, sizeof *g);
    random_shape(&r, &d);
    r.shape.n_layers = LAYERS;
    for (uint32_t i = 0; i < LAYERS; i++) {
        r.mixers[i] = i == 0   ? MIXER_DELTANET
                      : i == 2 ? MIXER_ATTENTION
                               : MIXER_IDENTITY;
        r.ffns[i] = FFN_DENSE;
    }
    random_model_new(&g->model, &r, &d);
    g->o = (struct kernels_options){.device = "cpu",
                                    .kv = kv_format_plain(DTYPE_F32),
                                    .block_tokens = BLOCK,
                                    .max_tokens = TOKENS,
                                    .keep_tokens = 8,
                                    .n_threads = 2};
    if (backend_new(&g->k, &g->model.w, &g->o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    kernels_sizes(g->k, &g->sizes);
    for (uint32_t i = 0; i < TOKENS / BLOCK; i++) {
        g->blocks[i] = 4 * g->sizes.pages_per_slot + i;
    }
    assert_int_equal(
        kernels_alloc(g->k, 4 * g->sizes.pages_per_slot + TOKENS / BLOCK, &e),
        ST_OK);
    g->h = r.shape.hidden;
    g->x = calloc(TOKENS * g->h, sizeof *g->x);
    g->out = calloc(TOKENS * g->h, sizeof *g->out);
    assert_true(g->x != NULL && g->out != NULL);
    for (size_t i = 0; i < TOKENS * g->h; i++) {
        g->x[i] = dice_float(&d, -2.0f, 2.0f);
    }
}

static void close_rig(struct rig *g)
{
    kernels_free(&g->k);
    random_model_free(&g->model);
    free(g->x);
    free(g->out);
}

/* Runs positions [from, from + n) through all layers, on slot number i. */
static void run_row(struct rig *g, uint32_t i, struct kernel_row row)
{
    struct kernel_step step = {&row, 1, row.n_tokens};
    struct error e;

    row.slot = i * g->sizes.pages_per_slot;
    row.blocks = g->blocks;
    kernels_begin(g->k, &step);
    kernels_hidden_write(g->k, 0, row.n_tokens, g->x + row.position * g->h);
    for (uint32_t l = 0; l < LAYERS; l++) {
        kernels_mixer(g->k, l);
        kernels_ffn(g->k, l);
    }
    kernels_hidden_read(g->k, 0, row.n_tokens, g->out + row.position * g->h);
    assert_int_equal(kernels_end(g->k, &e), ST_OK);
}

static void run(struct rig *g, uint32_t i, uint32_t from, uint32_t n)
{
    run_row(g, i, (struct kernel_row){.position = from, .n_tokens = n});
}

static float positions(struct rig *g, uint32_t layer, uint32_t i)
{
    float state = -1;

    kernels_slot_copy(g->k, layer, i * g->sizes.pages_per_slot,
                      (void *[MIXER_PARTS_MAX]){&state}, false);
    return state;
}

static void adds_its_normed_input(void **state)
{
    struct rig g;
    const struct kernel_row row = {.n_tokens = 3};
    const struct kernel_step step = {&row, 1, 3};
    struct error e;

    (void)state;
    open_rig(&g);
    kernels_zero_slot(g.k, 0);
    kernels_begin(g.k, &step);
    kernels_hidden_write(g.k, 0, 3, g.x);
    kernels_mixer(g.k, 1);
    kernels_hidden_read(g.k, 0, 3, g.out);
    assert_int_equal(kernels_end(g.k, &e), ST_OK);
    for (size_t i = 0; i < 3 * g.h; i++) {
        float ratio =
            (g.out[i] - g.x[i]) / g.model.layers[1].input_norm[i % g.h];

        /* norm(x) / gamma is x over its root mean square: of one sign. */
        assert_true(ratio * g.x[i] >= 0);
        assert_true(g.x[i] == 0 || g.out[i] != g.x[i]);
    }
    close_rig(&g);
}

/* The same bits and states whole, in chunks, and continued from a checkpoint
 * and from a save inside a row. */
static void chunks_and_checkpoints_agree(void **state)
{
    struct rig g;
    const struct kernel_save save = {64, 0};
    float *whole;
    size_t bytes;

    (void)state;
    open_rig(&g);
    bytes = TOKENS * g.h * sizeof *whole;
    whole = malloc(bytes);
    assert_non_null(whole);
    kernels_zero_slot(g.k, 0);
    run(&g, 0, 0, TOKENS);
    memcpy(whole, g.out, bytes);
    assert_true(positions(&g, 1, 0) == TOKENS);
    assert_true(positions(&g, 3, 0) == TOKENS);

    kernels_zero_slot(g.k, g.sizes.pages_per_slot);
    run(&g, 1, 0, 64);
    assert_true(positions(&g, 1, 1) == 64);
    kernels_copy_pages(g.k, g.sizes.pages_per_slot, 2 * g.sizes.pages_per_slot,
                       g.sizes.pages_per_slot);
    run(&g, 1, 64, TOKENS - 64);
    assert_memory_equal(whole, g.out, bytes);
    assert_true(positions(&g, 3, 1) == TOKENS);

    memset(g.out + 64 * g.h, 0, (TOKENS - 64) * g.h * sizeof *g.out);
    assert_true(positions(&g, 3, 2) == 64);
    run(&g, 2, 64, TOKENS - 64);
    assert_memory_equal(whole, g.out, bytes);

    kernels_zero_slot(g.k, 3 * g.sizes.pages_per_slot);
    run_row(&g, 3,
            (struct kernel_row){.n_tokens = 100, .n_saves = 1, .saves = &save});
    assert_true(positions(&g, 1, 3) == 100);
    assert_true(positions(&g, 1, 0) == 64);
    run(&g, 0, 64, TOKENS - 64);
    assert_memory_equal(whole, g.out, bytes);
    free(whole);
    close_rig(&g);
}

/* A row that keeps leaves the state, and a replay advances it. */
static void drafts_are_replayed(void **state)
{
    struct rig g;
    struct kernel_replay replay = {0, 0, 3};

    (void)state;
    open_rig(&g);
    kernels_zero_slot(g.k, 0);
    run(&g, 0, 0, 20);
    run_row(
        &g, 0,
        (struct kernel_row){
            .position = 20, .n_tokens = 5, .generated = true, .keep = true});
    assert_true(positions(&g, 1, 0) == 20);
    kernels_replay(g.k, &replay, 1);
    assert_true(positions(&g, 1, 0) == 23);
    assert_true(positions(&g, 3, 0) == 23);
    close_rig(&g);
}

/* ---- the canary, and other backends ---- */

static enum status watch(struct rig *g, struct error *e)
{
    struct error unseen;
    enum status st;

    assert_int_equal(kernels_alloc(g->k, 256, &unseen), ST_OK);
    st = canary_run(g->k, &g->model.w, &g->o, e);
    cpu_identity_broken = NULL;
    return st;
}

static void the_canary_runs_it(void **state)
{
    struct rig g;
    struct error e = {0};

    (void)state;
    open_rig(&g);
    if (watch(&g, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    cpu_identity_broken = g.k;
    assert_int_equal(watch(&g, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "an identity layer differs from the cpu's"));
    close_rig(&g);
}

/* OpenCL has no row for it, whether there is a device or not. */
static void a_backend_without_it_refuses_by_name(void **state)
{
    struct rig g;
    struct kernels *k;
    struct error e = {0};

    (void)state;
    open_rig(&g);
    g.o.device = "0";
    assert_int_equal(backend_new(&k, &g.model.w, &g.o, &e), ST_UNIMPLEMENTED);
    assert_null(k);
    assert_non_null(strstr(e.text, "layer 1 is an identity layer"));
    close_rig(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_and_listed),
        cmocka_unit_test(its_state_is_counted),
        cmocka_unit_test(its_state_has_a_place),
        cmocka_unit_test(states_of_two_sizes_never_meet),
        cmocka_unit_test(its_costs_are_planned),
        cmocka_unit_test(adds_its_normed_input),
        cmocka_unit_test(chunks_and_checkpoints_agree),
        cmocka_unit_test(drafts_are_replayed),
        cmocka_unit_test(the_canary_runs_it),
        cmocka_unit_test(a_backend_without_it_refuses_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
