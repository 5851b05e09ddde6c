/* Layouts of pages, for shards of models and for every mix of few layers. */
#include "common/model/page_layout.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct page_layout l;
static enum mixer_kind kinds[PAGE_LAYERS_MAX];

/* Qwen3.5: three linear layers, then one of attention.  Blocks of 16 tokens. */
static const struct page_sizes small = {
    .kv_bytes = 16 * 2 * 2 * 256 * 2,
    .slots[MIXER_DELTANET] = {{16 * 128 * 128 * 4, 3 * 6144 * 2}}};
static const struct page_sizes large = {
    .kv_bytes = 16 * 2 * 4 * 256 * 2,
    .slots[MIXER_DELTANET] = {{32 * 128 * 128 * 4, 3 * 8192 * 2}}};

/* The same with keys and values of 8 and 4 bits, a whole layer at the end. */
static const struct page_sizes large_8 = {
    .kv_bytes = 32 * 2 * 4 * (256 + 16),
    .whole_bytes = 32 * 2 * 4 * 256 * 2,
    .whole = 32,
    .slots[MIXER_DELTANET] = {{32 * 128 * 128 * 4, 3 * 8192 * 2}}};
static const struct page_sizes large_4 = {
    .kv_bytes = 32 * 2 * 4 * (128 + 16),
    .whole_bytes = 32 * 2 * 4 * 256 * 2,
    .whole = 32,
    .slots[MIXER_DELTANET] = {{32 * 128 * 128 * 4, 3 * 8192 * 2}}};

static void make(uint32_t begin, uint32_t end, const struct page_sizes *s)
{
    for (uint32_t i = begin; i < end; i++) {
        kinds[i - begin] = i % 4 == 3 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    memset(&l, 0xa5, sizeof l); /* no field is read before it is written */
    page_layout_make(&l, kinds, end - begin, s);
}

static uint64_t slot_bytes(uint32_t n_linear, const struct page_sizes *s)
{
    return n_linear * (s->slots[MIXER_DELTANET].parts[0] +
                       s->slots[MIXER_DELTANET].parts[1]);
}

static void divides_the_layers_of_0_8b(void **state)
{
    (void)state;
    make(0, 24, &small);
    assert_int_equal(l.page_bytes, 196608);
    assert_int_equal(slot_bytes(18, &small), 19537920);
    assert_int_equal(l.pages_per_block, 1);
    assert_int_equal(l.pages_per_slot, 100); /* 99.4 */
    /* A group of each attention layer, since 3.1 MiB round up alike. */
    assert_int_equal(l.n_groups, 6);
    for (uint32_t g = 0; g < 6; g++) {
        assert_int_equal(l.groups[g].n_attention, 1);
        assert_int_equal(l.groups[g].n_linear, 3);
        assert_int_equal(l.groups[g].page_bytes, 32768);
    }
    assert_int_equal(l.layers[0].at[0], 0);
    assert_int_equal(l.layers[2].at[0], 2 << 20);
    assert_int_equal(l.layers[2].at[1], (3 << 20) + 2 * 36864);
    assert_int_equal(l.layers[23].group, 5);
    assert_int_equal(l.layers[23].at[0], 0);
}

static void divides_the_layers_of_9b(void **state)
{
    (void)state;
    make(0, 32, &large);
    assert_int_equal(l.page_bytes, 8 * 65536);
    assert_int_equal(l.pages_per_slot, 99); /* 98.25 */
    assert_int_equal(l.n_groups, 8);
}

/* A layer's k and v, state or tail in the tensor of its group. */
struct part {
    enum mixer_kind kind;
    uint32_t table;
    uint64_t begin, end;
};

static uint64_t part_bytes(uint32_t layer, const struct page_sizes *s)
{
    switch (kinds[layer]) {
    case MIXER_DELTANET:
        return s->slots[MIXER_DELTANET].parts[0];
    case MIXER_WINDOW:
        return s->window_bytes;
    default:
        return layer + 1 == s->whole ? s->whole_bytes : s->kv_bytes;
    }
}

static uint32_t parts_of(struct part *out, uint32_t group, uint32_t n,
                         const struct page_sizes *s)
{
    uint32_t parts = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct page_layer *p = &l.layers[i];
        bool linear = kinds[i] == MIXER_DELTANET;

        assert_true(p->group < l.n_groups);
        assert_true(p->table < (kinds[i] == MIXER_WINDOW ? l.window_pages : 1));
        if (p->group == group) {
            out[parts++] = (struct part){kinds[i], p->table, p->at[0],
                                         p->at[0] + part_bytes(i, s)};
        }
        if (p->group == group && linear) {
            out[parts++] =
                (struct part){kinds[i], 0, p->at[1],
                              p->at[1] + s->slots[MIXER_DELTANET].parts[1]};
        }
    }
    return parts;
}

/* Each part of a group is aligned, is inside and meets no other part of its
 * kind and table; blocks, window blocks and slots are never in one page. */
static void holds(uint32_t n, const struct page_sizes *s)
{
    static struct part parts[2 * PAGE_LAYERS_MAX];
    uint64_t sum = 0;
    uint32_t in_groups = 0;

    for (uint32_t g = 0; g < l.n_groups; g++) {
        uint64_t page = l.groups[g].page_bytes;
        uint32_t n_parts = parts_of(parts, g, n, s);

        sum += page;
        in_groups += l.groups[g].n_attention + l.groups[g].n_linear +
                     l.groups[g].n_window;
        assert_int_equal(page % PAGE_ALIGN, 0);
        for (uint32_t i = 0; i < n_parts; i++) {
            const struct part *x = &parts[i];

            assert_int_equal(x->begin % PAGE_ALIGN, 0);
            assert_true(x->end <=
                        page *
                            (x->kind == MIXER_DELTANET ? l.pages_per_slot : 1));
            for (uint32_t k = 0; k < i; k++) {
                assert_true(
                    x->kind != parts[k].kind || x->table != parts[k].table ||
                    x->begin >= parts[k].end || x->end <= parts[k].begin);
            }
        }
    }
    assert_int_equal(sum, l.page_bytes);
    assert_int_equal(in_groups, n);
}

/* One group of everything wastes least; no layout takes more pages. */
static void is_as_tight_as_one_group(uint32_t n_attention, uint32_t n_linear,
                                     const struct page_sizes *s)
{
    uint64_t whole = s->whole == 0
                         ? 0
                         : page_align(s->whole_bytes) - page_align(s->kv_bytes);
    struct page_parts parts = {
        .block_bytes = n_attention * page_align(s->kv_bytes) + whole,
        .slot_bytes = n_linear * page_slot_bytes(&s->slots[MIXER_DELTANET])};
    struct page_unit u = page_unit_make(&parts);

    assert_int_equal(l.page_bytes, u.page_bytes);
    assert_int_equal(l.pages_per_slot, u.pages_per_slot);
    assert_int_equal(l.pages_per_block, u.pages_per_block);
    assert_true(n_attention == 0 || l.n_groups <= n_attention);
}

static void every_mix(const struct page_sizes *s, uint32_t most)
{
    for (uint32_t a = 0; a <= most; a++) {
        for (uint32_t b = 0; b <= most; b++) {
            uint32_t n = 0;

            for (uint32_t i = 0; i < a; i++) {
                kinds[n++] = MIXER_ATTENTION;
            }
            for (uint32_t i = 0; i < b; i++) {
                kinds[n++] = MIXER_DELTANET;
            }
            if (n > 0) {
                page_layout_make(&l, kinds, n, s);
                holds(n, s);
                is_as_tight_as_one_group(a, b, s);
            }
        }
    }
}

/* One layer of attention after each `apart` linear ones, each whole in turn. */
static void every_whole(struct page_sizes s, uint32_t n, uint32_t apart)
{
    uint32_t n_attention = n / (apart + 1);

    for (uint32_t i = 0; i < n; i++) {
        kinds[i] = i % (apart + 1) == apart ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    for (s.whole = apart + 1; s.whole <= n; s.whole += apart + 1) {
        page_layout_make(&l, kinds, n, &s);
        holds(n, &s);
        is_as_tight_as_one_group(n_attention, n - n_attention, &s);
    }
}

static void fits_every_mix_with_a_whole_layer(void **state)
{
    static const struct page_sizes odd = {
        .kv_bytes = 100,
        .whole_bytes = 190,
        .slots[MIXER_DELTANET] = {{7001, 33}}};
    static const struct page_sizes large_whole = {
        .kv_bytes = 64,
        .whole_bytes = 6400,
        .slots[MIXER_DELTANET] = {{4096, 70}}};
    static const struct page_sizes small_whole = {
        .kv_bytes = 6400, .whole_bytes = 64, .slots[MIXER_DELTANET] = {{4096}}};

    (void)state;
    for (uint32_t n = 1; n <= 24; n++) {
        for (uint32_t apart = 0; apart < 5; apart++) {
            every_whole(large_8, n, apart);
            every_whole(large_4, n, apart);
            every_whole(odd, n, apart);
            every_whole(large_whole, n, apart);
            every_whole(small_whole, n, apart);
        }
    }
}

static void groups_of(const struct page_sizes *s, uint32_t n_groups,
                      const struct page_group *groups)
{
    make(0, 32, s);
    holds(32, s);
    assert_int_equal(l.n_groups, n_groups);
    for (uint32_t i = 0; i < n_groups; i++) {
        assert_int_equal(l.groups[i].n_attention, groups[i].n_attention);
        assert_int_equal(l.groups[i].n_linear, groups[i].n_linear);
        assert_int_equal(l.groups[i].page_bytes, groups[i].page_bytes);
    }
}

/* 9B: a slot takes the 84 or 133 pages of one group, so more groups would cost
 * pages.  The whole layer is behind the others of the last group. */
static void divides_the_quantised_layers_of_9b(void **state)
{
    (void)state;
    groups_of(&large_8, 2,
              (struct page_group[]){
                  {.n_attention = 3, .n_linear = 8, .page_bytes = 3 * 69632},
                  {.n_attention = 5,
                   .n_linear = 16,
                   .page_bytes = 4 * 69632 + 131072}});
    assert_int_equal(l.page_bytes, 32 * 19328);
    assert_int_equal(l.pages_per_slot, 84); /* 83.28 */
    assert_int_equal(l.layers[31].group, 1);
    assert_int_equal(l.layers[31].at[0], 4 * 69632);
    assert_int_equal(l.layers[15].at[0], 0);
    groups_of(
        &large_4, 1,
        (struct page_group[]){
            {.n_attention = 8, .n_linear = 24, .page_bytes = 32 * 12160}});
    assert_int_equal(l.pages_per_slot, 133); /* 132.4 */
    assert_int_equal(l.layers[31].at[0], 7 * 36864);
}

static void fits_every_mix_of_layers(void **state)
{
    /* Odd sizes, without a tail, and blocks larger than states. */
    static const struct page_sizes odd = {
        .kv_bytes = 100, .slots[MIXER_DELTANET] = {{7001, 33}}};
    static const struct page_sizes no_tail = {.kv_bytes = 64,
                                              .slots[MIXER_DELTANET] = {{64}}};
    static const struct page_sizes wide = {
        .kv_bytes = 1 << 20, .slots[MIXER_DELTANET] = {{4096, 70}}};

    (void)state;
    every_mix(&small, 12);
    every_mix(&odd, 12);
    every_mix(&no_tail, 12);
    every_mix(&wide, 12);
}

/* Every range of the layers of a model, as a stage has them. */
static void fits_every_range_of_a_model(void **state)
{
    (void)state;
    for (uint32_t begin = 0; begin < 24; begin++) {
        for (uint32_t end = begin + 1; end <= 24; end++) {
            uint32_t n_attention = end / 4 - begin / 4;

            make(begin, end, &large);
            holds(end - begin, &large);
            is_as_tight_as_one_group(n_attention, end - begin - n_attention,
                                     &large);
        }
    }
}

/* gpt-oss-20b: 24 layers, every other one a window. */
static const struct page_sizes oss = {.kv_bytes = 16 * 2 * 8 * 64 * 2,
                                      .window_bytes = 16 * 2 * 8 * 64 * 2};

static void make_windows(uint32_t n, uint32_t apart, const struct page_sizes *s)
{
    for (uint32_t i = 0; i < n; i++) {
        kinds[i] = i % (apart + 1) == apart ? MIXER_ATTENTION : MIXER_WINDOW;
    }
    memset(&l, 0xa5, sizeof l);
    page_layout_make(&l, kinds, n, s);
    holds(n, s);
}

static void alternating_windows_have_one_table(void **state)
{
    (void)state;
    make_windows(24, 1, &oss);
    assert_int_equal(l.n_groups, 12);
    assert_int_equal(l.window_pages, 1);
    assert_int_equal(l.page_bytes, 12 * 32768);
    assert_int_equal(l.pages_per_slot, 0);
    for (uint32_t g = 0; g < 12; g++) {
        assert_int_equal(l.groups[g].n_attention, 1);
        assert_int_equal(l.groups[g].n_window, 1);
    }
}

/* Gemma 3 27B: 62 layers, five windows to one global layer; 52 windows in
 * pages of 10 layers. */
static void windows_of_62_layers_have_six_tables(void **state)
{
    (void)state;
    make_windows(62, 5, &oss);
    assert_int_equal(l.n_groups, 10);
    assert_int_equal(l.window_pages, 6);
    assert_int_equal(l.layers[0].table, 0);
    assert_int_equal(l.layers[61].table, 5);
    assert_int_equal(l.layers[61].group, 1); /* the 52nd */
}

/* A group for each quantised layer would leave room for a window layer in
 * that of the whole layer alone. */
static void small_pages_are_joined_for_windows(void **state)
{
    struct page_sizes s = oss;

    (void)state;
    s.kv_bytes = 16 * 2 * 8 * (32 + 4);
    s.whole_bytes = s.window_bytes;
    s.whole = 24;
    make_windows(24, 1, &s);
    assert_int_equal(l.n_groups, 2);
    assert_int_equal(l.groups[0].page_bytes, 11 * s.kv_bytes); /* 3.09 */
    assert_int_equal(l.groups[1].page_bytes, s.whole_bytes);
    assert_int_equal(l.window_pages, 3);
    assert_int_equal(l.layers[22].table, 2);
    assert_int_equal(l.layers[22].group, 1);
}

static void a_page_holds_at_least_one_window_layer(void **state)
{
    struct page_sizes s = oss;

    (void)state;
    s.kv_bytes = s.window_bytes - 64;
    make_windows(6, 5, &s);
    assert_int_equal(l.page_bytes, s.window_bytes);
    assert_int_equal(l.window_pages, 5);
    s.kv_bytes = s.window_bytes;
    make_windows(6, 5, &s);
    assert_int_equal(l.page_bytes, s.window_bytes);
    s.kv_bytes = 2 * s.window_bytes;
    make_windows(6, 5, &s);
    assert_int_equal(l.page_bytes, 2 * s.window_bytes);
    assert_int_equal(l.window_pages, 3);
}

static void windows_alone_are_in_one_page(void **state)
{
    (void)state;
    make_windows(5, 5, &oss);
    assert_int_equal(l.pages_per_block, 0);
    assert_int_equal(l.window_pages, 1);
    assert_int_equal(l.n_groups, 5);
    assert_int_equal(l.page_bytes, 5 * oss.window_bytes);
}

/* Returns the pages of the dealing that wastes least: one group. */
static uint64_t tables_of_one_group(uint32_t a, uint32_t w,
                                    const struct page_sizes *s)
{
    uint64_t window = page_align(s->window_bytes);
    uint64_t page = a == 0 ? w * window : a * page_align(s->kv_bytes);

    if (a > 0 && s->whole > 0) {
        page += page_align(s->whole_bytes) - page_align(s->kv_bytes);
    }
    page = page < window ? window : page;
    return (w + page / window - 1) / (page / window);
}

/* Attention, linear and window layers in every order of their kinds. */
static void mix(uint32_t a, uint32_t b, uint32_t w, struct page_sizes s)
{
    uint32_t n = 0, of[] = {a, b, w};
    uint64_t room = 0;

    for (uint32_t turn = 0; n < a + b + w; turn++) {
        uint32_t k = (turn * 7 + a) % 3;

        if (of[k] > 0) {
            of[k]--;
            kinds[n++] = (enum mixer_kind)k;
        }
    }
    for (uint32_t i = 0; s.whole_bytes > 0 && i < n; i++) {
        s.whole = kinds[i] == MIXER_ATTENTION ? i + 1 : s.whole;
    }
    memset(&l, 0xa5, sizeof l);
    page_layout_make(&l, kinds, n, &s);
    holds(n, &s);
    for (uint32_t g = 0; g < l.n_groups; g++) {
        room += l.groups[g].page_bytes / page_align(s.window_bytes);
    }
    assert_int_equal(l.window_pages, (w + room - 1) / room);
    assert_int_equal(l.window_pages, tables_of_one_group(a, w, &s));
    assert_int_equal(l.pages_per_block, a > 0);
    assert_true((l.pages_per_slot > 0) == (b > 0));
}

static void fits_every_mix_with_windows(void **state)
{
    static const struct page_sizes sizes[] = {
        {.kv_bytes = 32768, .window_bytes = 32768},
        {.kv_bytes = 100, .window_bytes = 190, .whole_bytes = 190},
        {.kv_bytes = 9216, .window_bytes = 32768, .whole_bytes = 32768},
        {.kv_bytes = 190, .window_bytes = 100},
        {.kv_bytes = 64, .window_bytes = 6400},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct page_sizes s = sizes[i];

        s.slots[MIXER_DELTANET].parts[0] = 70001;
        s.slots[MIXER_DELTANET].parts[1] = 33;
        for (uint32_t a = 0; a <= 9; a++) {
            for (uint32_t b = 0; b <= 6; b += 2) {
                for (uint32_t w = 1; w <= 13; w++) {
                    mix(a, b, w, s);
                }
            }
        }
    }
}

static void lays_out_the_most_windows(void **state)
{
    (void)state;
    make_windows(MODEL_LAYERS_MAX, MODEL_LAYERS_MAX - 1, &oss);
    assert_int_equal(l.window_pages, MODEL_LAYERS_MAX - 1);
}

static void knows_shards_of_one_kind(void **state)
{
    (void)state;
    make(3, 4, &small);
    assert_int_equal(l.pages_per_block, 1);
    assert_int_equal(l.pages_per_slot, 0);
    assert_int_equal(l.page_bytes, small.kv_bytes);
    make(0, 3, &small);
    assert_int_equal(l.n_groups, 3);
    assert_int_equal(l.pages_per_block, 0);
    assert_int_equal(l.pages_per_slot, 1);
    assert_int_equal(l.page_bytes, 3 * (1048576 + 36864));
}

static void lays_out_the_largest_model(void **state)
{
    (void)state;
    make(0, MODEL_LAYERS_MAX, &large);
    assert_int_equal(l.n_groups, MODEL_LAYERS_MAX / 4);
    assert_int_equal(l.pages_per_slot, 99);
    holds(MODEL_LAYERS_MAX, &large);
}

/* The longest model, all attention, and an MTP layer. */
static void lays_out_one_more_layer_for_drafts(void **state)
{
    (void)state;
    memset(kinds, 0, sizeof kinds);
    memset(&l, 0xa5, sizeof l);
    page_layout_make(&l, kinds, PAGE_LAYERS_MAX, &large);
    assert_int_equal(l.n_groups, MODEL_LAYERS_MAX + 1);
    assert_int_equal(l.page_bytes, (MODEL_LAYERS_MAX + 1) * large.kv_bytes);
    assert_int_equal(l.layers[MODEL_LAYERS_MAX].group, MODEL_LAYERS_MAX);
    holds(PAGE_LAYERS_MAX, &large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divides_the_layers_of_0_8b),
        cmocka_unit_test(divides_the_layers_of_9b),
        cmocka_unit_test(divides_the_quantised_layers_of_9b),
        cmocka_unit_test(fits_every_mix_of_layers),
        cmocka_unit_test(fits_every_mix_with_a_whole_layer),
        cmocka_unit_test(fits_every_range_of_a_model),
        cmocka_unit_test(knows_shards_of_one_kind),
        cmocka_unit_test(lays_out_the_largest_model),
        cmocka_unit_test(lays_out_one_more_layer_for_drafts),
        cmocka_unit_test(alternating_windows_have_one_table),
        cmocka_unit_test(windows_of_62_layers_have_six_tables),
        cmocka_unit_test(small_pages_are_joined_for_windows),
        cmocka_unit_test(a_page_holds_at_least_one_window_layer),
        cmocka_unit_test(windows_alone_are_in_one_page),
        cmocka_unit_test(fits_every_mix_with_windows),
        cmocka_unit_test(lays_out_the_most_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
