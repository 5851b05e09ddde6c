/* Limits of answers, and guarantees: those that requests set, defaults, and
 * those of a key. */
#include <stdlib.h>
#include <string.h>

#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

#define CHAT   "/v1/chat/completions"
#define STOP   SLUICE__V1__FINISH__FINISH_STOP
#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define HELLO                                            \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"," \
    "\"content\":\"hi\"}]"

/* SHA-256 of the keys alpha and beta */
#define ALPHA "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"
#define BETA  "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753"

static const struct world_options served = {.served = "m=models/tiny-hybrid",
                                            .model = "m"};

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

/* ---- guarantees ---- */

static void a_guarantee_needs_a_key_that_may(void **state)
{
    struct world_options o = served;
    struct world *w;

    o.keys = ALPHA " acme guaranteed=1\n" BETA " other\n";
    *state = w = world_new(&o);
    world_send(w, "POST", CHAT, "Authorization: Bearer beta\r\n",
               HELLO ",\"guaranteed\":true}");
    world_has(w, "HTTP/1.1 403 ");
    world_has(w, "guaranteed=N");
    world_lacks(w, "retry-after");
    world_forget(w);
    world_send(w, "POST", CHAT, "Authorization: Bearer alpha\r\n",
               HELLO ",\"guaranteed\":true,\"n\":2}");
    world_has(w, "HTTP/1.1 429 ");
    world_forget(w);
    for (int i = 0; i < 2; i++) { /* the first one's end gives it back */
        world_send(w, "POST", CHAT, "Authorization: Bearer alpha\r\n",
                   HELLO ",\"guaranteed\":true}");
        assert_true(w->guaranteed);
        world_chunk(w, 0, "a", STOP);
        world_has(w, "HTTP/1.1 200 ");
        world_forget(w);
    }
}

/* ---- the limit of an answer ---- */

static void the_default_limit_says_that_it_cut(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, "/v1/completions", "{\"model\":\"m\",\"prompt\":[1]}");
    world_chunk(w, 0, "a", LENGTH);
    world_has(w, "x-sluice-default-max-tokens: 16\r\n");
    world_has(w, "x-sluice-warning: the default limit of 16 tokens");
    world_forget(w);
    world_post(w, CHAT, HELLO "}");
    world_chunk(w, 0, "a", LENGTH);
    world_has(w, "HTTP/1.1 200 ");
    world_lacks(w, "x-sluice");
    world_forget(w);
    world_post(w, CHAT, HELLO ",\"max_tokens\":1}");
    world_chunk(w, 0, "a", LENGTH);
    world_has(w, "HTTP/1.1 200 ");
    world_lacks(w, "x-sluice");
    world_forget(w);
    world_post(w, CHAT, HELLO ",\"stream\":true}");
    world_chunk(w, 0, "a", LENGTH);
    world_has(w, "[DONE]");
    world_lacks(w, "default");
    world_forget(w);
    world_post(w, CHAT, HELLO ",\"stream\":true,\"max_tokens\":1}");
    world_chunk(w, 0, "a", LENGTH);
    world_has(w, "[DONE]");
    world_lacks(w, "default");
}

static void an_operator_may_set_a_limit(void **state)
{
    struct world_options o = served;
    struct world *w;

    o.chat_tokens = 100;
    *state = w = world_new(&o);
    world_post(w, CHAT, HELLO "}");
    assert_int_equal(w->max_tokens, 100);
    world_chunk(w, 0, "a", STOP);
    world_has(w, "x-sluice-default-max-tokens: 100\r\n");
    world_lacks(w, "x-sluice-warning");
    world_forget(w);
    world_post(w, CHAT, HELLO ",\"stream\":true}");
    world_chunk(w, 0, "a", LENGTH);
    world_has(w, ": the default limit of 100 tokens cut the answer; set "
                 "max_tokens\n\n");
}

static void the_default_is_what_the_context_leaves(void **state)
{
    struct world *w = world_new(&served);
    const char *usage;
    uint32_t n;

    *state = w;
    world_post(w, CHAT, HELLO "}");
    n = WORLD_CONTEXT - w->max_tokens;
    world_chunk(w, 0, "a", LENGTH);
    world_lacks(w, "x-sluice");
    usage = strstr(w->bytes.data, "\"prompt_tokens\":");
    assert_non_null(usage);
    assert_int_equal(strtoul(strchr(usage, ':') + 1, NULL, 10), n);
}

#define CASE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_guarantee_needs_a_key_that_may),
        CASE(the_default_limit_says_that_it_cut),
        CASE(an_operator_may_set_a_limit),
        CASE(the_default_is_what_the_context_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
