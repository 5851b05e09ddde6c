/* Layouts of pages, for shards of models and for every mix of few layers. */
#include "common/model/page_layout.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct page_layout l;
static enum mixer_kind kinds[MODEL_LAYERS_MAX];

/* Qwen3.5: three linear layers, then one of attention.  Blocks of 16 tokens. */
static const struct page_sizes small = {.kv_bytes = 16 * 2 * 2 * 256 * 2,
                                        .state_bytes = 16 * 128 * 128 * 4,
                                        .tail_bytes = 3 * 6144 * 2};
static const struct page_sizes large = {.kv_bytes = 16 * 2 * 4 * 256 * 2,
                                        .state_bytes = 32 * 128 * 128 * 4,
                                        .tail_bytes = 3 * 8192 * 2};

/* The same with keys and values of 8 and 4 bits, a whole layer at the end. */
static const struct page_sizes large_8 = {.kv_bytes = 32 * 2 * 4 * (256 + 16),
                                          .whole_bytes = 32 * 2 * 4 * 256 * 2,
                                          .whole = 32,
                                          .state_bytes = 32 * 128 * 128 * 4,
                                          .tail_bytes = 3 * 8192 * 2};
static const struct page_sizes large_4 = {.kv_bytes = 32 * 2 * 4 * (128 + 16),
                                          .whole_bytes = 32 * 2 * 4 * 256 * 2,
                                          .whole = 32,
                                          .state_bytes = 32 * 128 * 128 * 4,
                                          .tail_bytes = 3 * 8192 * 2};

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
    return n_linear * (s->state_bytes + s->tail_bytes);
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
    assert_int_equal(l.layers[0].at, 0);
    assert_int_equal(l.layers[2].at, 2 << 20);
    assert_int_equal(l.layers[2].tail_at, (3 << 20) + 2 * 36864);
    assert_int_equal(l.layers[23].group, 5);
    assert_int_equal(l.layers[23].at, 0);
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
    bool linear;
    uint64_t begin, end;
};

static uint32_t parts_of(struct part *out, uint32_t group, uint32_t n,
                         const struct page_sizes *s)
{
    uint32_t parts = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct page_layer *p = &l.layers[i];
        bool linear = kinds[i] == MIXER_DELTANET;

        assert_true(p->group < l.n_groups);
        if (p->group == group) {
            uint64_t kv = i + 1 == s->whole ? s->whole_bytes : s->kv_bytes;

            out[parts++] = (struct part){
                linear, p->at, p->at + (linear ? s->state_bytes : kv)};
        }
        if (p->group == group && linear) {
            out[parts++] =
                (struct part){true, p->tail_at, p->tail_at + s->tail_bytes};
        }
    }
    return parts;
}

/* Each part of a group is aligned, is inside and meets no other part of its
 * kind; blocks and slots are never in one page. */
static void holds(uint32_t n, const struct page_sizes *s)
{
    static struct part parts[2 * MODEL_LAYERS_MAX];
    uint64_t sum = 0;
    uint32_t in_groups = 0;

    for (uint32_t g = 0; g < l.n_groups; g++) {
        uint64_t page = l.groups[g].page_bytes;
        uint32_t n_parts = parts_of(parts, g, n, s);

        sum += page;
        in_groups += l.groups[g].n_attention + l.groups[g].n_linear;
        assert_int_equal(page % PAGE_ALIGN, 0);
        for (uint32_t i = 0; i < n_parts; i++) {
            const struct part *x = &parts[i];

            assert_int_equal(x->begin % PAGE_ALIGN, 0);
            assert_true(x->end <= (x->linear ? l.pages_per_slot * page : page));
            for (uint32_t k = 0; k < i; k++) {
                assert_true(x->linear != parts[k].linear ||
                            x->begin >= parts[k].end ||
                            x->end <= parts[k].begin);
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
    struct page_unit u =
        page_unit_of(n_attention * page_align(s->kv_bytes) + whole,
                     n_linear * page_linear_bytes(s));

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
    static const struct page_sizes odd = {100, 190, 0, 7001, 33, 0};
    static const struct page_sizes large_whole = {64, 6400, 0, 4096, 70, 0};
    static const struct page_sizes small_whole = {6400, 64, 0, 4096, 0, 0};

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
              (struct page_group[]){{3, 8, 3 * 69632, 0},
                                    {5, 16, 4 * 69632 + 131072, 0}});
    assert_int_equal(l.page_bytes, 32 * 19328);
    assert_int_equal(l.pages_per_slot, 84); /* 83.28 */
    assert_int_equal(l.layers[31].group, 1);
    assert_int_equal(l.layers[31].at, 4 * 69632);
    assert_int_equal(l.layers[15].at, 0);
    groups_of(&large_4, 1, (struct page_group[]){{8, 24, 32 * 12160, 0}});
    assert_int_equal(l.pages_per_slot, 133); /* 132.4 */
    assert_int_equal(l.layers[31].at, 7 * 36864);
}

static void fits_every_mix_of_layers(void **state)
{
    /* Odd sizes, without a tail, and blocks larger than states. */
    static const struct page_sizes odd = {
        .kv_bytes = 100, .state_bytes = 7001, .tail_bytes = 33};
    static const struct page_sizes no_tail = {.kv_bytes = 64,
                                              .state_bytes = 64};
    static const struct page_sizes wide = {
        .kv_bytes = 1 << 20, .state_bytes = 4096, .tail_bytes = 70};

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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
