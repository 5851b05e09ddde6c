/* Ollama's routes through the whole core. */
#include <string.h>

#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

#define MODEL "models/tiny-hybrid"
#define HELLO                                            \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"," \
    "\"content\":\"hi\"}]"

static const struct world_options served = {.served = "m=" MODEL, .model = "m"};

static int setup(void **state)
{
    *state = world_new(&served);
    return 0;
}

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

static void a_chat_streams_lines(void **state)
{
    struct world *w = *state;

    world_post(w, "/api/chat", HELLO "}");
    world_chunk(w, 0, "Hello", SLUICE__V1__FINISH__FINISH_RUNNING);
    world_has(w, "Content-Type: application/x-ndjson\r\n");
    world_has(w, "\"content\":\"Hello\"},\"done\":false}\n");
    world_chunk(w, 1, "!", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "\"done\":true,\"done_reason\":\"stop\"");
    world_lacks(w, "data:");
    world_forget(w);
    world_post(w, "/api/chat", HELLO ",\"stream\":false}");
    world_chunk(w, 0, "Hello", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "Content-Type: application/json\r\n");
    world_has(w, "\"content\":\"Hello\"},\"done\":true");
}

static void a_prompt_is_templated_or_raw(void **state)
{
    struct world *w = *state;

    world_post(w, "/api/generate", "{\"model\":\"m\",\"prompt\":\"hi\"}");
    world_chunk(w, 0, "Hello", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "\"response\":\"Hello\",\"done\":false}\n");
    world_forget(w);
    world_post(w, "/api/generate",
               "{\"model\":\"m\",\"prompt\":\"hi\",\"raw\":true}");
    world_chunk(w, 0, "Hello", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "\"response\":\"Hello\",\"done\":false}\n");
}

static void errors_are_sentences(void **state)
{
    struct world *w = *state;

    world_post(w, "/api/chat", "{\"model\":\"m\"}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "{\"error\":\"'messages' is required\"}");
}

static void models_are_listed_and_shown(void **state)
{
    struct world *w = *state;

    world_send(w, "GET", "/api/tags", "", "");
    world_has(w, "{\"models\":[{\"name\":\"m\",\"model\":\"m\"");
    world_forget(w);
    world_send(w, "GET", "/api/version", "", "");
    world_has(w, "{\"version\":\"");
    for (int i = 0; i < 2; i++) {
        world_forget(w);
        world_post(w, "/api/show",
                   i == 0 ? "{\"model\":\"m\"}" : "{\"name\":\"m\"}");
        world_has(w, "\"sluice.context_length\":4096");
        world_has(w, "\"capabilities\":[\"completion\"");
    }
    world_forget(w);
    world_post(w, "/api/show", "{\"model\":\"none\"}");
    world_has(w, "HTTP/1.1 404 ");
    world_forget(w);
    world_post(w, "/api/show", "{}");
    world_has(w, "HTTP/1.1 400 ");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_chat_streams_lines),
        CASE(a_prompt_is_templated_or_raw),
        CASE(errors_are_sentences),
        CASE(models_are_listed_and_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
