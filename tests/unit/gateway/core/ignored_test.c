/* Ignored fields of requests, as their clients and the operator see them. */
#include <stdio.h>
#include <string.h>

#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

#define CHAT  "/v1/chat/completions"
#define MODEL "models/tiny-hybrid"
#define HELLO                                            \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"," \
    "\"content\":\"hi\"}]"

static const struct world_options served = {.served = "m=" MODEL, .model = "m"};

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

static void is_answered(struct world *w, const char *members)
{
    char body[2048 + sizeof HELLO];

    snprintf(body, sizeof body, HELLO "%s}", members);
    world_forget(w);
    world_post(w, CHAT, body);
    world_chunk(w, 0, "a", SLUICE__V1__FINISH__FINISH_STOP);
    world_has(w, "HTTP/1.1 200 ");
}

static void counts(struct world *w, unsigned n)
{
    char line[64];

    snprintf(line, sizeof line, "\nsluice_gateway_ignored_fields_total %u\n",
             n);
    world_forget(w);
    world_send(w, "GET", "/metrics", "", "");
    world_has(w, line);
}

static void fields_are_named_once_and_counted(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    is_answered(w, "");
    world_lacks(w, "x-sluice-ignored");
    is_answered(w, ",\"chat_id\":\"x\",\"user\":\"u\",\"provider\":{}");
    world_has(w, "\r\nx-sluice-ignored: chat_id, provider\r\n");
    is_answered(w, ",\"stream\":true,\"trace_id\":1");
    world_has(w, "\r\nx-sluice-ignored: trace_id\r\n");
    counts(w, 3);
}

/* One name too many for the line. */
static void a_long_list_is_cut(void **state)
{
    char members[2048] = "";
    struct world *w = world_new(&served);

    *state = w;
    for (int i = 0; i < 30; i++) {
        size_t n = strlen(members);

        snprintf(members + n, sizeof members - n, ",\"unknown_%02d\":1", i);
    }
    is_answered(w, members);
    /* A name and its comma have 12 bytes: 16 of them have 190. */
    world_has(w, "x-sluice-ignored: unknown_00, ");
    world_has(w, ", unknown_15, and 14 more\r\n");
    counts(w, 30);
}

static void an_operator_may_have_them_refused(void **state)
{
    struct world_options o = served;
    struct world *w;

    o.refuse_unknown = true;
    w = world_new(&o);
    *state = w;
    is_answered(w, ",\"user\":\"u\"");
    world_forget(w);
    world_post(w, CHAT, HELLO ",\"chat_id\":\"x\"}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "unrecognized request argument supplied: \\\"chat_id\\\"");
    world_has(w, "\"param\":\"chat_id\",\"code\":\"unknown_parameter\"");
    counts(w, 0);
}

static void tokenize_names_them_too(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, "/tokenize", "{\"model\":\"m\",\"prompt\":\"a\",\"x\":1}");
    world_run(w, 20);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "\r\nx-sluice-ignored: x\r\n");
}

#define CASE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(fields_are_named_once_and_counted),
        CASE(a_long_list_is_cut),
        CASE(an_operator_may_have_them_refused),
        CASE(tokenize_names_them_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
