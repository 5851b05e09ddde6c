/* Prompts that are too long: refused by their bytes, or while they are
 * encoded.  Every token of the small tokenizer has at most 3 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/tiny_text.h"

#define LONGEST 3
#define ROOM    (RIG_CONTEXT - 4) /* ids that max_tokens 4 leaves */

/* Sends n times `unit`, with max_tokens 4, and returns its record. */
static struct record *ask(struct tiny *s, uint8_t id, const char *unit,
                          size_t n)
{
    size_t len = strlen(unit);
    char *text = calloc(n + 1, len);
    struct record *x;

    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + i * len, unit, len);
    }
    x = client_generate_text(s->c, id, text, 4);
    free(text);
    rig_run(s->rig);
    return x;
}

static void bytes_alone_refuse_a_text(void **state)
{
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    s.text.hold = true;
    x = ask(&s, 1, "abc", ROOM);
    assert_false(x->ended);
    assert_int_equal(s.text.n_jobs, 1);
    x = ask(&s, 2, "abc", ROOM + 1);
    assert_int_equal(s.text.n_jobs, 1);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(
        x->error,
        "the prompt has 119991 bytes, thus 39997 tokens or more, but the "
        "context of tiny is 40000 and must also hold 4 new tokens; shorten "
        "the prompt or lower max_tokens");
    tiny_end(&s);
}

/* The bytes may fit; the encode ends with the first id past the context. */
static void an_encode_ends_past_the_context(void **state)
{
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = ask(&s, 1, "x", RIG_CONTEXT);
    rig_advance(s.rig, 10000);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(x->error, "the prompt has 40000 tokens, but"));
    x = ask(&s, 2, "x", RIG_CONTEXT + 1);
    rig_advance(s.rig, 10000);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_non_null(
        strstr(x->error, "the prompt has more than 40000 tokens, but"));
    tiny_end(&s);
}

/* With a max_tokens over the context, the error has both figures. */
static void a_short_text_is_not_refused_by_its_bytes(void **state)
{
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = client_generate_text(s.c, 1, "abc", RIG_CONTEXT);
    rig_advance(s.rig, 10000);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(x->error, "prompt (1) and max_tokens (40000)"));
    tiny_end(&s);
}

/* A reply of Tokenize has room for 262,140 ids. */
static void tokenize_ends_past_its_reply(void **state)
{
    const size_t most = 262140;
    char *text = calloc(most + 2, 1);
    struct tiny s;

    (void)state;
    assert_non_null(text);
    tiny_set(&s, tiny_tokenizer);
    for (size_t extra = 0; extra < 2; extra++) {
        Sluice__V1__TokenizeRequest m = SLUICE__V1__TOKENIZE_REQUEST__INIT;
        struct record *x;

        memset(text, 'x', most + extra);
        m.model = wire_text("tiny");
        m.text = wire_text(text);
        x = client_call(s.c, METHOD_INFERENCE_TOKENIZE, &m.base, 0);
        rig_run(s.rig);
        rig_advance(s.rig, 10000);
        assert_true(x->ended);
        assert_int_equal(x->status, extra == 0 ? ST_OK : ST_OUT_OF_RANGE);
        if (extra > 0) {
            assert_non_null(strstr(x->error, "more than 262140 tokens"));
        }
    }
    tiny_end(&s);
    free(text);
}

/* Each caller is a client of its own in the turns of the seam. */
static void jobs_carry_their_client(void **state)
{
    struct fake *other;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    other = rig_client(s.rig, "c2");
    s.text.hold = true;
    (void)ask(&s, 1, "x", 1);
    (void)ask(&s, 2, "x", 1);
    (void)client_generate_text(other, 3, "x", 4);
    rig_run(s.rig);
    assert_int_equal(s.text.n_jobs, 3);
    assert_int_equal(s.text.jobs[0]->job.turn.client,
                     s.text.jobs[1]->job.turn.client);
    assert_int_not_equal(s.text.jobs[0]->job.turn.client,
                         s.text.jobs[2]->job.turn.client);
    tiny_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_alone_refuse_a_text),
        cmocka_unit_test(an_encode_ends_past_the_context),
        cmocka_unit_test(a_short_text_is_not_refused_by_its_bytes),
        cmocka_unit_test(tokenize_ends_past_its_reply),
        cmocka_unit_test(jobs_carry_their_client),
    };

    return cmocka_run_group_tests(tests, tiny_load, tiny_unload);
}
