#include "common/wire/frame.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "tests/unit/cmocka.h"

static struct frame *small_frame(uint32_t tensor_bytes)
{
    static const uint8_t tensor[200] = {1, 2, 3};
    uint8_t buffer[256];
    struct envelope call = {.call = 7,
                            .deadline_ms = 1500,
                            .method = 0x0201,
                            .kind = ENVELOPE_CALL,
                            .body_bytes = 3,
                            .body = (const uint8_t *)"abc"};
    struct envelope report = {.method = 0x0102, .kind = ENVELOPE_ONEWAY};
    struct frame_header h = {.n_ordered = 1,
                             .n_state = 1,
                             .session = 0x1122334455667788,
                             .number = 5,
                             .ack = 4,
                             .tensor_bytes = tensor_bytes};
    size_t n = envelope_write(buffer, &call);

    n += envelope_write(buffer + n, &report);
    h.envelopes_bytes = (uint32_t)n;
    return frame_make(&h, buffer, tensor);
}

static enum status check(const struct frame *f)
{
    struct frame_header h;

    return frame_check(f->data, f->bytes, &h, NULL);
}

static void survives_the_way(void **state)
{
    struct frame *f = small_frame(0);
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;

    (void)state;
    assert_int_equal(f->bytes, FRAME_HEADER + 2 * ENVELOPE_HEADER + 3);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_true(h.session == 0x1122334455667788);
    assert_int_equal(h.number, 5);
    assert_int_equal(h.ack, 4);
    assert_true(envelope_next(f, &h, &at, &e));
    assert_int_equal(e.call, 7);
    assert_int_equal(e.deadline_ms, 1500);
    assert_int_equal(e.method, 0x0201);
    assert_int_equal(e.kind, ENVELOPE_CALL);
    assert_memory_equal(e.body, "abc", 3);
    assert_true(envelope_next(f, &h, &at, &e));
    assert_int_equal(e.body_bytes, 0);
    assert_false(envelope_next(f, &h, &at, &e));
    assert_int_equal(at, h.envelopes_bytes);
    frame_free(&f);
}

static void tensor_is_padded_for(void **state)
{
    struct frame *f = small_frame(200);
    struct frame_header h;

    (void)state;
    assert_int_equal(f->bytes, 128 + 200);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_int_equal(h.tensor_bytes, 200);
    assert_int_equal(f->data[128], 1);
    f->data[127] = 1; /* padding, with a correct checksum */
    frame_reseal(f, h.ack, 0);
    assert_int_equal(check(f), ST_INVALID_ARGUMENT);
    frame_free(&f);
}

static void layout_is_the_documented_one(void **state)
{
    struct frame *f = small_frame(0);

    (void)state;
    assert_memory_equal(f->data, "SLUC", 4);
    assert_int_equal(get_u16(f->data + 4), FRAME_VERSION);
    assert_int_equal(get_u16(f->data + 8), 1);
    assert_int_equal(get_u16(f->data + 10), 1);
    assert_int_equal(get_u32(f->data + 12), 51);
    assert_int_equal(f->data[24], 0x88);
    assert_int_equal(f->data[64], 7);
    frame_free(&f);
}

static void every_flipped_bit_is_refused(void **state)
{
    const uint32_t tensors[] = {0, 200};

    (void)state;
    for (int t = 0; t < 2; t++) {
        struct frame *f = small_frame(tensors[t]);

        for (uint32_t bit = 0; bit < 8 * f->bytes; bit++) {
            f->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_not_equal(check(f), ST_OK);
            f->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_int_equal(check(f), ST_OK);
        frame_free(&f);
    }
}

static void every_cut_is_refused(void **state)
{
    struct frame *f = small_frame(200);
    struct frame_header h;

    (void)state;
    for (uint32_t n = 0; n < f->bytes; n++) {
        /* Exactly n bytes, so that a read past them is detected. */
        uint8_t *cut = malloc(n == 0 ? 1 : n);

        memcpy(cut, f->data, n);
        assert_int_equal(frame_check(cut, n, &h, NULL), ST_INVALID_ARGUMENT);
        free(cut);
    }
    frame_free(&f);
}

/* Every header field set to hostile values, with a correct checksum. */
static void hostile_headers_are_refused(void **state)
{
    const struct {
        uint8_t at, bytes;
        uint64_t value;
        enum status want;
    } cases[] = {
        {0, 4, 0, ST_INVALID_ARGUMENT},
        {4, 2, 2, ST_FAILED_PRECONDITION},
        {6, 2, 2, ST_INVALID_ARGUMENT},
        {6, 2, 0x8001, ST_INVALID_ARGUMENT},
        {8, 2, 0, ST_INVALID_ARGUMENT}, /* a number without ordered envelopes */
        {8, 2, 2, ST_INVALID_ARGUMENT}, /* 3 envelopes do not fit in 51 bytes */
        {8, 2, 0xffff, ST_INVALID_ARGUMENT},
        {10, 2, 0xffff, ST_INVALID_ARGUMENT},
        {12, 4, 0, ST_INVALID_ARGUMENT},
        {12, 4, 50, ST_INVALID_ARGUMENT},
        {12, 4, 52, ST_INVALID_ARGUMENT},
        {12, 4, FRAME_BYTES_MAX, ST_INVALID_ARGUMENT},
        {12, 4, 0xffffffff, ST_INVALID_ARGUMENT},
        {16, 4, 1, ST_INVALID_ARGUMENT},
        {16, 4, 0xffffffff, ST_INVALID_ARGUMENT},
        {20, 4, 1, ST_INVALID_ARGUMENT},
        {32, 8, 0,
         ST_INVALID_ARGUMENT}, /* ordered envelopes without a number */
        {48, 8, 1, ST_INVALID_ARGUMENT},
        {48, 8, UINT64_C(1) << 63, ST_INVALID_ARGUMENT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct frame *f = small_frame(0);

        for (int b = 0; b < cases[i].bytes; b++) {
            f->data[cases[i].at + b] = (uint8_t)(cases[i].value >> 8 * b);
        }
        frame_reseal(f, get_u64(f->data + 40), get_u16(f->data + 6));
        assert_int_equal(check(f), cases[i].want);
        frame_free(&f);
    }
}

static void reseal_changes_ack_and_flags(void **state)
{
    struct frame *f = small_frame(0);
    struct frame_header h;

    (void)state;
    frame_reseal(f, 77, FRAME_GAP);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_int_equal(h.ack, 77);
    assert_int_equal(h.flags, FRAME_GAP);
    assert_int_equal(h.number, 5);
    frame_free(&f);
}

static struct frame *frame_of(uint32_t n, uint32_t body_bytes)
{
    size_t one = ENVELOPE_HEADER + (size_t)body_bytes;
    uint8_t *buffer = calloc(n, one);
    struct frame_header h = {.n_ordered = (uint16_t)n, .number = 1};
    struct envelope e = {.kind = ENVELOPE_CALL, .body_bytes = body_bytes};
    struct frame *f;

    e.body = calloc(1, body_bytes + 1);
    for (uint32_t i = 0; i < n; i++) {
        envelope_write(buffer + i * one, &e);
    }
    h.envelopes_bytes = (uint32_t)(n * one);
    f = frame_make(&h, buffer, NULL);
    free((void *)(uintptr_t)e.body);
    free(buffer);
    return f;
}

static void limits_hold_at_the_limit_and_past_it(void **state)
{
    uint32_t most = FRAME_BYTES_MAX - FRAME_HEADER - ENVELOPE_HEADER;
    const struct {
        uint32_t n, body_bytes;
        enum status want;
    } cases[] = {
        {FRAME_ENVELOPES_MAX, 0, ST_OK},
        {FRAME_ENVELOPES_MAX + 1, 0, ST_INVALID_ARGUMENT},
        {1, most, ST_OK},
        {1, most + 1, ST_INVALID_ARGUMENT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct frame *f = frame_of(cases[i].n, cases[i].body_bytes);

        assert_int_equal(check(f), cases[i].want);
        frame_free(&f);
    }
}

/* Every size has the same checksum, whether hashed in one piece or in three. */
static void sums_agree_at_every_size(void **state)
{
    (void)state;
    for (uint32_t body = 0; body < 1200; body++) {
        struct frame *f = frame_of(1, body);

        assert_int_equal(check(f), ST_OK);
        f->data[f->bytes - 1] ^= 1;
        assert_int_not_equal(check(f), ST_OK);
        frame_free(&f);
    }
}

static void cut_envelopes_are_not_walked(void **state)
{
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;
    struct frame *f = small_frame(0);

    (void)state;
    put_u32(f->data + FRAME_HEADER + 8, 28); /* one more than exists */
    frame_reseal(f, 0, 0);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_false(envelope_next(f, &h, &at, &e));
    assert_int_equal(at, 0);
    put_u32(f->data + FRAME_HEADER + 8, 0xffffffff);
    assert_false(envelope_next(f, &h, &at, &e));
    put_u32(f->data + FRAME_HEADER + 8, 3);
    put_u32(f->data + FRAME_HEADER + 20, 1); /* reserved */
    assert_false(envelope_next(f, &h, &at, &e));
    frame_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_the_way),
        cmocka_unit_test(tensor_is_padded_for),
        cmocka_unit_test(layout_is_the_documented_one),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(reseal_changes_ack_and_flags),
        cmocka_unit_test(limits_hold_at_the_limit_and_past_it),
        cmocka_unit_test(sums_agree_at_every_size),
        cmocka_unit_test(cut_envelopes_are_not_walked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
