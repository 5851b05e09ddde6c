#include "client/load/drive/native_receipt.h"

#include "tests/unit/cmocka.h"

#define STATE(name) SLUICE__V1__SEQUENCE_STATE__SEQUENCE_##name

/* A running request of one choice that held 4 blocks and a slot. */
static const struct native_receipt running = {.request_id = {1, 2},
                                              .state = STATE(DECODE),
                                              .n_generated = 5,
                                              .blocks = 4,
                                              .slots = 1,
                                              .has_worker = true};
static const struct native_shown shown = {.request_id = {1, 2},
                                          .n_choices = 1,
                                          .n_received = 5,
                                          .has_figures = true,
                                          .blocks = 4,
                                          .slots = 1};
static char why[100];

static bool fits(const struct native_receipt *r, const struct native_shown *s)
{
    why[0] = '\0';
    return native_receipt_fits(r, s, why, sizeof why);
}

static void a_receipt_of_what_was_held_fits(void **state)
{
    struct native_receipt r = running;

    (void)state;
    assert_true(fits(&r, &shown));
    r.n_generated++; /* a token that was still on its way */
    assert_true(fits(&r, &shown));
}

static void another_request_or_too_few_tokens_do_not_fit(void **state)
{
    struct native_receipt r = running;

    (void)state;
    r.request_id[15] = 1;
    assert_false(fits(&r, &shown));
    assert_string_equal(why, "the receipt names another request");
    r = running;
    r.n_generated = 4;
    assert_false(fits(&r, &shown));
    assert_string_equal(why, "the receipt counts 4 tokens, but 5 have arrived");
}

static void window_pages_are_compared_too(void **state)
{
    struct native_receipt r = running;
    struct native_shown s = shown;

    (void)state;
    s.windows = r.windows = 8;
    assert_true(fits(&r, &s));
    r.windows = 7;
    assert_false(fits(&r, &s));
    assert_string_equal(why, "the receipt frees 7 window pages, the request "
                             "held 8");
    r.blocks = s.blocks = 0; /* a model of window layers alone */
    r.windows = 8;
    assert_true(fits(&r, &s));
    r.state = STATE(FINISHED);
    assert_false(fits(&r, &s));
}

static void a_running_request_frees_exactly_what_it_held(void **state)
{
    struct native_receipt r = running;

    (void)state;
    r.blocks = 3;
    assert_false(fits(&r, &shown));
    assert_string_equal(why, "the receipt frees 3 blocks and 1 slots, the "
                             "request held 4 and 1");
    r.blocks = 5;
    assert_false(fits(&r, &shown));
    r = running;
    r.slots = 0;
    assert_false(fits(&r, &shown));
    r.state = STATE(PREFILL);
    assert_false(fits(&r, &shown));
}

static void choices_and_moves_allow_less_but_not_more(void **state)
{
    struct native_receipt r = running;
    struct native_shown s = shown;

    (void)state;
    r.blocks = 1;
    s.n_choices = 2;
    assert_true(fits(&r, &s));
    s.n_choices = 1;
    s.moved = true;
    assert_true(fits(&r, &s));
    r.blocks = 5;
    assert_false(fits(&r, &s));
}

static void a_running_request_frees_at_least_a_block(void **state)
{
    struct native_receipt r = running;
    struct native_shown s = shown;

    (void)state;
    s.has_figures = false;
    r.blocks = 0;
    assert_false(fits(&r, &s));
    r.blocks = 1;
    assert_true(fits(&r, &s));
    r.blocks = 0;
    r.has_worker = false; /* waited in the router, or its worker is gone */
    assert_true(fits(&r, &s));
}

static void an_ended_request_frees_nothing(void **state)
{
    struct native_receipt r = running;

    (void)state;
    r.state = STATE(FINISHED);
    assert_false(fits(&r, &shown));
    r.blocks = r.slots = 0;
    assert_true(fits(&r, &shown));
    r.state = STATE(UNKNOWN); /* and then counts no tokens */
    r.n_generated = 0;
    assert_true(fits(&r, &shown));
    r.slots = 1;
    assert_false(fits(&r, &shown));
}

static void a_waiting_request_held_nothing(void **state)
{
    struct native_receipt r = {.request_id = {1, 2}, .state = STATE(QUEUED)};
    struct native_shown s = {
        .request_id = {1, 2}, .n_choices = 1, .has_figures = true};

    (void)state;
    assert_true(fits(&r, &s));
    r.blocks = 1;
    assert_false(fits(&r, &s));
}

static void a_message_is_copied_whatever_its_id(void **state)
{
    Sluice__V1__Receipt m = SLUICE__V1__RECEIPT__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t id[16] = {1, 2};
    struct native_receipt r;

    (void)state;
    m.sequence = &ref;
    m.state = STATE(DECODE);
    m.blocks = 4;
    m.slots = 1;
    m.n_generated = 5;
    m.has_worker = true;
    ref.request_id = (ProtobufCBinaryData){16, id};
    native_receipt_take(&r, &m);
    assert_true(fits(&r, &shown));
    ref.request_id.len = 15;
    native_receipt_take(&r, &m);
    assert_false(fits(&r, &shown));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receipt_of_what_was_held_fits),
        cmocka_unit_test(another_request_or_too_few_tokens_do_not_fit),
        cmocka_unit_test(window_pages_are_compared_too),
        cmocka_unit_test(a_running_request_frees_exactly_what_it_held),
        cmocka_unit_test(choices_and_moves_allow_less_but_not_more),
        cmocka_unit_test(a_running_request_frees_at_least_a_block),
        cmocka_unit_test(an_ended_request_frees_nothing),
        cmocka_unit_test(a_waiting_request_held_nothing),
        cmocka_unit_test(a_message_is_copied_whatever_its_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
