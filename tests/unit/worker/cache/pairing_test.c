/* Several heaps over one array, compared with a search of all entries. */
#include "worker/cache/pairing.h"

#include "tests/unit/cmocka.h"

#define ENTRIES 64
#define HEAPS   3
#define OUT     HEAPS

struct bench {
    struct pairing entries[ENTRIES];
    uint32_t roots[HEAPS];
    uint8_t in[ENTRIES]; /* heap of each entry; OUT: none */
    uint32_t random;
};

static uint32_t draw(struct bench *b, uint32_t n)
{
    b->random = b->random * 1664525 + 1013904223;
    return (b->random >> 8) % n;
}

static void start(struct bench *b)
{
    *b = (struct bench){.random = 1};
    for (uint32_t h = 0; h < HEAPS; h++) {
        b->roots[h] = PAIRING_NONE;
    }
    for (uint32_t i = 0; i < ENTRIES; i++) {
        b->in[i] = OUT;
    }
}

static void add(struct bench *b, uint32_t h, uint32_t i, double key)
{
    b->entries[i].key = key;
    b->roots[h] = pairing_add(b->entries, b->roots[h], i);
    b->in[i] = (uint8_t)h;
}

static void drop(struct bench *b, uint32_t i)
{
    uint32_t *root = &b->roots[b->in[i]];

    *root = pairing_drop(b->entries, *root, i);
    b->in[i] = OUT;
}

/* Checks that each root has the lowest key of its heap. */
static void assert_lowest(const struct bench *b)
{
    for (uint32_t h = 0; h < HEAPS; h++) {
        uint32_t root = b->roots[h], n = 0;

        for (uint32_t i = 0; i < ENTRIES; i++) {
            if (b->in[i] == h) {
                n++;
                assert_int_not_equal(root, PAIRING_NONE);
                assert_true(b->entries[root].key <= b->entries[i].key);
            }
        }
        if (n == 0) {
            assert_int_equal(root, PAIRING_NONE);
        } else {
            assert_int_equal(b->in[root], h);
        }
    }
}

static void the_root_is_the_lowest_whatever_comes_and_goes(void **state)
{
    struct bench b;

    (void)state;
    start(&b);
    for (int step = 0; step < 20000; step++) {
        uint32_t i = draw(&b, ENTRIES);

        if (b.in[i] == OUT) {
            add(&b, draw(&b, HEAPS), i, (double)draw(&b, 16));
        } else {
            drop(&b, i);
        }
        assert_lowest(&b);
    }
}

static void roots_leave_in_order_of_their_keys(void **state)
{
    struct bench b;
    double last = -1;

    (void)state;
    start(&b);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        add(&b, 0, i, (double)(i * 37 % ENTRIES));
    }
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t root = b.roots[0];

        assert_true(b.entries[root].key > last);
        last = b.entries[root].key;
        drop(&b, root);
    }
    assert_int_equal(b.roots[0], PAIRING_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_is_the_lowest_whatever_comes_and_goes),
        cmocka_unit_test(roots_leave_in_order_of_their_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
