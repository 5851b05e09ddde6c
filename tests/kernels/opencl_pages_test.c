/* Tests the opencl backend's pool: its pages, and the canonical layouts of
 * blocks and slots. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/opencl.h"
#include "kernels/opencl/host_tier.h"
#include "kernels/opencl/pool.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define TOKENS OPENCL_SHAPE_TOKENS
#define BLOCKS 24 /* pages of blocks; slots are behind them */
#define SLOTS  8
#define PAGES  (BLOCKS + SLOTS * OPENCL_SHAPE_SLOT)

struct fixture {
    struct random_model model;
    struct kernels *k;
};

/* Returns the first page of slot i. */
static uint32_t slot_of(uint32_t i)
{
    return BLOCKS + i * OPENCL_SHAPE_SLOT;
}

static int set_up(void **state)
{
    static struct fixture f;
    const struct random_shape r = opencl_shape();
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv.dtype = DTYPE_BF16,
                                      .block_tokens = OPENCL_SHAPE_BLOCK,
                                      .max_tokens = TOKENS};
    struct dice d = {11};
    struct error e;

    random_model_new(&f.model, &r, &d);
    if (backend_new(&f.k, &f.model.w, &o, &e) != ST_OK ||
        kernels_alloc(f.k, PAGES, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    kernels_free(&f->k);
    random_model_free(&f->model);
    return 0;
}

static void test_sizes(void **state)
{
    struct fixture *f = *state;
    const struct model_shape *s = &f->model.w.shape;
    const size_t page = 2 * s->n_kv_heads * s->head_dim * 16 * 2;
    const size_t slot =
        s->n_v_heads * s->k_dim * s->v_dim * 4 + 3 * (2 * 2 * 32 + 4 * 32) * 2;
    struct kernels_sizes k;

    kernels_sizes(f->k, &k);
    assert_int_equal(k.page_bytes, page);
    assert_int_equal(k.pages_per_block, 1);
    assert_int_equal(k.pages_per_slot, (slot + page - 1) / page);
    assert_int_equal(k.pages_per_slot, OPENCL_SHAPE_SLOT);
    assert_false(k.one_arithmetic);
    assert_true(k.scratch_bytes > 0 && k.weight_bytes > 0);
    assert_int_equal(k.max_tokens, TOKENS);
}

/* Canonical blocks and slots read back; their neighbours do not change. */
static void test_pool_copies(void **state)
{
    struct fixture *f = *state;
    unsigned char in[8192], out[8192], other[8192], tail[4096], tail_out[4096];
    static float s[4096], s_out[4096];

    memset(other, 0x11, sizeof other);
    kernels_block_copy(f->k, 1, 4, other, true);
    kernels_block_copy(f->k, 1, 6, other, true);
    for (size_t i = 0; i < sizeof in; i++) {
        in[i] = (unsigned char)(i * 31 >> 3);
    }
    kernels_block_copy(f->k, 1, 5, in, true);
    kernels_block_copy(f->k, 1, 5, out, false);
    assert_memory_equal(in, out, sizeof in);
    kernels_block_copy(f->k, 1, 4, out, false);
    assert_memory_equal(other, out, sizeof other);
    kernels_block_copy(f->k, 1, 6, out, false);
    assert_memory_equal(other, out, sizeof other);
    for (size_t i = 0; i < 4096; i++) {
        s[i] = (float)i;
        tail[i] = (unsigned char)i;
    }
    kernels_slot_copy(f->k, 0, slot_of(2), (void *[MIXER_PARTS_MAX]){s, tail},
                      true);
    kernels_copy_pages(f->k, slot_of(2), slot_of(3), OPENCL_SHAPE_SLOT);
    kernels_zero_slot(f->k, slot_of(2));
    kernels_slot_copy(f->k, 0, slot_of(2),
                      (void *[MIXER_PARTS_MAX]){s_out, tail_out}, false);
    assert_true(s_out[1] == 0.0f && s_out[4095] == 0.0f && tail_out[3] == 0);
    kernels_slot_copy(f->k, 0, slot_of(3),
                      (void *[MIXER_PARTS_MAX]){s_out, tail_out}, false);
    assert_memory_equal(s, s_out, sizeof s);
    assert_memory_equal(tail, tail_out, 3 * 256 * 2);
}

/* Returns all pages of the pool, group after group. */
static unsigned char *read_pages(const struct fixture *f, size_t *bytes)
{
    struct opencl *c = opencl_of(f->k);
    unsigned char *all;
    size_t at = 0;

    *bytes = PAGES * c->sizes.page_bytes;
    all = malloc(*bytes);
    assert_non_null(all);
    opencl_copies_finish(c);
    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        size_t n = PAGES * c->cache.pages.groups[i].page_bytes;

        opencl_download(c, &c->cache.groups[i], 0, all + at, n);
        at += n;
    }
    assert_int_equal(at, *bytes);
    return all;
}

/* Copies, zeros and poison change the pages that they name, and no other
 * byte. */
static void test_pages(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    const size_t page = c->sizes.page_bytes;
    size_t bytes;
    unsigned char *before, *after;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        unsigned char block[8192];

        memset(block, (int)i, sizeof block);
        kernels_block_copy(f->k, 1, i, block, true);
    }
    before = read_pages(f, &bytes);
    kernels_copy_pages(f->k, 3, 7, 2);
    kernels_copy_pages(f->k, 5, 4, 1);
    kernels_poison_pages(f->k, 9, 3);
    kernels_poison_pages(f->k, PAGES - 1, 1);
    kernels_zero_slot(f->k, slot_of(1));
    after = read_pages(f, &bytes);
    memcpy(before + 7 * page, before + 3 * page, 2 * page);
    memcpy(before + 4 * page, before + 5 * page, page);
    memset(before + 9 * page, 0xff, 3 * page);
    memset(before + (PAGES - 1) * page, 0xff, page);
    memset(before + slot_of(1) * page, 0, OPENCL_SHAPE_SLOT * page);
    assert_int_equal(c->cache.pages.n_groups, 1);
    assert_memory_equal(after, before, bytes);
    free(before);
    free(after);
}

/* Ranges cross pieces, in both directions. */
static void test_host_tier_in_pieces(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    const size_t page = c->sizes.page_bytes;
    unsigned char *before, *after;
    struct error e;
    size_t bytes;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        unsigned char block[8192];

        memset(block, (int)i + 1, sizeof block);
        kernels_block_copy(f->k, 1, i, block, true);
    }
    opencl_tier_set_piece(3 * page + page / 2);
    assert_int_equal(kernels_alloc_host(f->k, 11, &e), ST_OK);
    opencl_tier_set_piece(OPENCL_TIER_PIECE);
    before = read_pages(f, &bytes);
    kernels_page_out(f->k, 2, 1, 8);
    kernels_page_out(f->k, 12, 9, 2);
    kernels_poison_pages(f->k, 0, BLOCKS);
    kernels_page_in(f->k, 0, 0, 11);
    kernels_page_in(f->k, 2, 11, 9);
    after = read_pages(f, &bytes);
    assert_memory_equal(after + page, before + 2 * page, 8 * page);
    assert_memory_equal(after + 9 * page, before + 12 * page, 2 * page);
    assert_memory_equal(after + 11 * page, before + 3 * page, 7 * page);
    assert_memory_equal(after + 18 * page, before + 12 * page, 2 * page);
    memset(before, 0xff, 4 * page);
    assert_memory_equal(after + 20 * page, before, 4 * page);
    assert_memory_equal(after + BLOCKS * page, before + BLOCKS * page,
                        bytes - BLOCKS * page);
    assert_int_equal(kernels_alloc_host(f->k, 0, &e), ST_OK);
    free(before);
    free(after);
}

/* A pool larger than an allocation is refused, and no layer keeps a part of
 * the old one. */
static void test_no_room_for_pool(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    struct error e;

    assert_int_equal(kernels_alloc(f->k, UINT32_MAX, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "allocate a pool of 4294967295 pages"));
    assert_non_null(strstr(e.text, "largest allocation"));
    assert_null(c->model.layers[0].state.mem);
    assert_null(c->model.layers[1].kv.mem);
    assert_int_equal(kernels_alloc(f->k, PAGES, &e), ST_OK);
    assert_non_null(c->model.layers[1].kv.mem);
}

/* The pages that a worker takes are those that can be allocated. */
static void test_most_pages(void **state)
{
    struct fixture *f = *state;
    struct opencl *c = opencl_of(f->k);
    const size_t page = c->cache.pages.groups[0].page_bytes;
    const uint64_t largest = c->device.largest;
    struct error e;

    assert_int_equal(c->cache.pages.n_groups, 1);
    assert_int_equal(c->sizes.pages_max, opencl_pool_most(c));
    c->device.largest =
        (PAGES * page + OPENCL_ALIGN - 1) / OPENCL_ALIGN * OPENCL_ALIGN;
    assert_int_equal(opencl_pool_most(c), PAGES);
    assert_int_equal(kernels_alloc(f->k, PAGES + 1, &e), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(kernels_alloc(f->k, PAGES, &e), ST_OK);
    c->device.largest = UINT64_MAX;
    assert_int_equal(opencl_pool_most(c), SHARD_CLASS_MAX);
    c->device.largest = largest;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_pool_copies),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_most_pages),
        cmocka_unit_test(test_host_tier_in_pieces),
        cmocka_unit_test(test_no_room_for_pool),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
