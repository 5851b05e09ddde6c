/* The pipe: faults do not depend on the pieces in which bytes arrive. */
#include "tests/faults/chaos_pipe.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define STREAM   (256u << 10)
#define MESSAGES 400

struct bytes {
    uint8_t at[4 * STREAM];
    size_t n;
};

static void add(struct bytes *b, const void *data, size_t n)
{
    assert_true(b->n + n <= sizeof b->at);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void add_frame(struct bytes *b, uint8_t flags, size_t n, uint8_t fill)
{
    uint8_t head[9] = {flags, (uint8_t)n};

    if (n > 255) {
        head[0] = flags | 2;
        memset(head + 1, 0, 8);
        head[7] = (uint8_t)(n >> 8);
        head[8] = (uint8_t)n;
    }
    add(b, head, n > 255 ? 9 : 2);
    for (size_t i = 0; i < n; i++) {
        add(b, &fill, 1);
    }
}

/* Makes a greeting, then messages of one to three frames, and some commands. */
static void fill_stream(struct bytes *b)
{
    uint8_t greeting[64] = {0xff, [9] = 0x7f, [10] = 3, [12] = 'N'};
    uint64_t random = 1;

    b->n = 0;
    add(b, greeting, sizeof greeting);
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t frames = 1 + chaos_draw(&random, 3);

        while (frames-- > 0) {
            add_frame(b, frames > 0, (size_t)chaos_draw(&random, 600),
                      (uint8_t)i);
        }
        if (chaos_draw(&random, 10) == 0) {
            add_frame(b, 4, 7, 0xcc);
        }
    }
}

/* Reads everything that may leave now. */
static void drain(struct chaos_pipe *p, struct bytes *out)
{
    const uint8_t *data;
    size_t n;

    while ((n = chaos_pipe_peek(p, &data, 0)) > 0) {
        add(out, data, n);
        chaos_pipe_took(p, n, 0);
    }
}

/* Passes bytes through a pipe in pieces of 1..most bytes. */
static void through(const struct bytes *in, const struct chaos_settings *s,
                    size_t most, struct chaos_counts *counts, struct bytes *out)
{
    struct chaos_pipe p;
    uint64_t random = most;

    *counts = (struct chaos_counts){0};
    out->n = 0;
    chaos_pipe_init(&p, s, counts, CHAOS_UP, true, 9);
    for (size_t at = 0, n; at < in->n; at += n) {
        n = 1 + (size_t)chaos_draw(&random, most);
        n = n < in->n - at ? n : in->n - at;
        chaos_pipe_put(&p, in->at + at, n, 0);
        drain(&p, out);
    }
    chaos_pipe_end(&p, 0);
    drain(&p, out);
    assert_true(chaos_pipe_done(&p));
    chaos_pipe_fini(&p);
}

static void what_comes_in_comes_out(void **state)
{
    static struct bytes in, out;
    struct chaos_settings none = {0};
    struct chaos_counts counts;

    (void)state;
    fill_stream(&in);
    for (size_t most = 1; most < 2 * in.n; most *= 3) {
        through(&in, &none, most, &counts, &out);
        assert_int_equal(counts.messages[CHAOS_UP], MESSAGES);
        assert_int_equal(out.n, in.n);
        assert_memory_equal(out.at, in.at, in.n);
    }
}

static void chance_does_not_see_how_it_was_cut(void **state)
{
    static struct bytes in, whole, out;
    struct chaos_settings all = {
        .flip = 5000, .dup = 5, .reorder = 4, .lose = 9};
    struct chaos_counts counts, again;

    (void)state;
    fill_stream(&in);
    through(&in, &all, in.n, &counts, &whole);
    assert_true(counts.dups > 0 && counts.reorders > 0 && counts.losses > 0 &&
                counts.flips > 0);
    for (size_t most = 1; most < in.n; most *= 3) {
        through(&in, &all, most, &again, &out);
        assert_memory_equal(&again, &counts, sizeof counts);
        assert_int_equal(out.n, whole.n);
        assert_memory_equal(out.at, whole.at, whole.n);
    }
}

/* Only whole messages are dropped, wherever the drop begins and ends. */
static void a_drop_leaves_the_stream_whole(void **state)
{
    static struct bytes in, out, again;
    struct chaos_settings s = {0}, none = {0};
    struct chaos_counts counts;
    struct chaos_pipe p;

    (void)state;
    fill_stream(&in);
    for (size_t from = 64; from < in.n; from += 7919) {
        size_t to = from + (in.n - from) / 2;
        uint64_t dropped;

        counts = (struct chaos_counts){0};
        out.n = 0;
        s.drop[CHAOS_UP] = false;
        chaos_pipe_init(&p, &s, &counts, CHAOS_UP, true, 9);
        chaos_pipe_put(&p, in.at, from, 0);
        s.drop[CHAOS_UP] = true;
        chaos_pipe_put(&p, in.at + from, to - from, 0);
        s.drop[CHAOS_UP] = false;
        chaos_pipe_put(&p, in.at + to, in.n - to, 0);
        drain(&p, &out);
        chaos_pipe_fini(&p);
        assert_int_equal(out.n + counts.dropped_bytes, in.n);
        dropped = counts.dropped_messages;
        through(&out, &none, out.n, &counts, &again);
        assert_int_equal(counts.messages[CHAOS_UP] + dropped, MESSAGES);
        assert_int_equal(counts.not_zmtp, 0);
    }
}

static void what_is_no_zmtp_passes(void **state)
{
    static struct bytes in, out;
    struct chaos_settings all = {.dup = 1, .lose = 1, .reorder = 1};
    struct chaos_counts counts;

    (void)state;
    in.n = 0;
    add(&in, "\xff it began so well, and then it was not", 38);
    through(&in, &all, in.n, &counts, &out);
    assert_int_equal(counts.not_zmtp, 1);
    assert_int_equal(out.n, in.n);
    assert_memory_equal(out.at, in.at, in.n);
}

/* Bytes leave in order and not before their time. */
static void late_and_in_order(void **state)
{
    struct chaos_settings s = {.delay_ms = 10, .jitter_ms = 50};
    struct chaos_counts counts = {0};
    struct chaos_pipe p;
    const uint8_t *data;
    uint8_t next = 0;

    (void)state;
    chaos_pipe_init(&p, &s, &counts, CHAOS_DOWN, false, 3);
    for (uint8_t i = 0; i < 100; i++) {
        chaos_pipe_put(&p, &i, 1, i * 1000);
    }
    for (int64_t now_us = 0; next < 100; now_us += 100) {
        while (chaos_pipe_peek(&p, &data, now_us) > 0) {
            assert_int_equal(*data, next);
            assert_true(now_us >= next * 1000 + 10000);
            assert_true(now_us <= next * 1000 + 60000 + 100000);
            chaos_pipe_took(&p, 1, now_us);
            next++;
        }
        assert_true(next == 100 || chaos_pipe_due(&p) > now_us);
    }
    chaos_pipe_fini(&p);
}

static void so_many_bytes_a_second(void **state)
{
    struct chaos_settings s = {.rate = 1000};
    struct chaos_counts counts = {0};
    struct chaos_pipe p;
    const uint8_t *data;
    uint8_t in[3000] = {0};
    size_t out = 0, n;
    int64_t now_us = 0;

    (void)state;
    chaos_pipe_init(&p, &s, &counts, CHAOS_UP, false, 3);
    chaos_pipe_put(&p, in, sizeof in, 0);
    while (out < sizeof in) {
        while ((n = chaos_pipe_peek(&p, &data, now_us)) > 0) {
            chaos_pipe_took(&p, n, now_us);
            out += n;
        }
        now_us = out < sizeof in ? chaos_pipe_due(&p) : now_us;
    }
    /* The rate covers all but the last slice. */
    assert_in_range(now_us, 2900000, 3000000);
    chaos_pipe_fini(&p);
}

static void it_is_full_at_its_limit(void **state)
{
    static uint8_t in[1 << 20];
    struct chaos_settings s = {0};
    struct chaos_counts counts = {0};
    struct chaos_pipe p;

    (void)state;
    chaos_pipe_init(&p, &s, &counts, CHAOS_UP, false, 3);
    for (size_t n = 0; n < CHAOS_PIPE_MAX; n += sizeof in) {
        assert_false(chaos_pipe_full(&p));
        chaos_pipe_put(&p, in, sizeof in, 0);
    }
    assert_true(chaos_pipe_full(&p));
    chaos_pipe_took(&p, 1, 0);
    assert_false(chaos_pipe_full(&p));
    chaos_pipe_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_in_comes_out),
        cmocka_unit_test(chance_does_not_see_how_it_was_cut),
        cmocka_unit_test(a_drop_leaves_the_stream_whole),
        cmocka_unit_test(what_is_no_zmtp_passes),
        cmocka_unit_test(late_and_in_order),
        cmocka_unit_test(so_many_bytes_a_second),
        cmocka_unit_test(it_is_full_at_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
