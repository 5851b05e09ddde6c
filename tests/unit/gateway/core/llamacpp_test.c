/* The routes of llama.cpp's server, whose clients name no model. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

#define MODEL    "models/tiny-hybrid"
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static const struct world_options served = {.served = "m=" MODEL, .model = "m"};

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

static void ask(struct world *w, const char *path, const char *body)
{
    world_forget(w);
    world_post(w, path, body);
    world_run(w, 20);
}

static void texts_become_ids_and_back(void **state)
{
    struct world *w = world_new(&served);
    char ids[64];
    const char *at;

    *state = w;
    ask(w, "/tokenize", "{\"content\":\"hi\"}");
    world_has(w, "HTTP/1.1 200 ");
    at = strstr(w->bytes.data, "\"tokens\":[");
    assert_non_null(at);
    snprintf(ids, sizeof ids, "{%.*s]}", (int)strcspn(at, "]"), at);
    ask(w, "/detokenize", ids);
    world_has(w, "{\"prompt\":\"hi\",\"content\":\"hi\"}");
    ask(w, "/tokenize", "{\"content\":\"hi\",\"with_pieces\":true}");
    world_has(w, "{\"tokens\":[{\"id\":");
    world_has(w, "\"piece\":\"");
}

static void a_template_is_applied(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    ask(w, "/apply-template", "{" MESSAGES "}");
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "{\"prompt\":\"<|im_start|>");
    world_has(w, "hi<|im_end|>");
    world_has(w, "assistant\\n");
    assert_int_equal(w->n_calls, 0);
    ask(w, "/apply-template", "{" MESSAGES ",\"add_generation_prompt\":false}");
    world_lacks(w, "assistant\\n");
    ask(w, "/apply-template", "{}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "\"param\":\"messages\"");
    ask(w, "/apply-template", "{\"model\":\"none\"," MESSAGES "}");
    world_has(w, "HTTP/1.1 404 ");
}

static void props_show_context_and_template(void **state)
{
    static const char *const paths[] = {"/props", "/props?model=m",
                                        "/props?model=m&x=1", "/v1/props"};
    struct world *w = world_new(&served);

    *state = w;
    for (int i = 0; i < 4; i++) {
        world_forget(w);
        world_send(w, "GET", paths[i], "", "");
        world_has(w, "HTTP/1.1 200 ");
        world_has(w, "{\"default_generation_settings\":{\"n_ctx\":4096},"
                     "\"model_alias\":\"m\"");
        world_has(w, "\"chat_template\":\"{");
        world_has(w, "\"eos_token\":\"<|");
    }
    world_forget(w);
    world_send(w, "GET", "/props?model=none", "", "");
    world_has(w, "HTTP/1.1 404 ");
}

/* Without the tokenizer of one model alone, a request must name it. */
static void a_gateway_without_models_needs_a_name(void **state)
{
    static const struct world_options none = {.model = "m"};
    struct world *w = world_new(&none);

    *state = w;
    ask(w, "/tokenize", "{\"content\":\"hi\"}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "'model' is required: the gateway has the tokenizers of 0 "
                 "models");
    world_forget(w);
    world_send(w, "GET", "/props", "", "");
    world_has(w, "HTTP/1.1 404 ");
}

#define CASE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(texts_become_ids_and_back),
        CASE(a_template_is_applied),
        CASE(props_show_context_and_template),
        CASE(a_gateway_without_models_needs_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
