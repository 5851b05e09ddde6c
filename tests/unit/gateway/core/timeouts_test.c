/* The timeout of a request, and streams that wait for their first token. */
#include <stdio.h>

#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

#define CHAT "/v1/chat/completions"
#define HELLO                                            \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"," \
    "\"content\":\"hi\"}]"
#define STREAM HELLO ",\"stream\":true"

static const struct world_options served = {.served = "m=models/tiny-hybrid",
                                            .model = "m"};

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

/* Returns the time that the router was given, in ms. */
static int64_t given_ms(const struct world *w)
{
    return (w->deadline_us - w->now_us) / 1000;
}

static void a_timeout_is_the_deadline_of_the_call(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, HELLO ",\"timeout\":2.5}");
    assert_in_range(given_ms(w), 2300, 2501);
    world_run(w, 2600);
    world_has(w, "HTTP/1.1 504 ");
    world_has(w, "the timeout of 2.500 s passed");
    world_lacks(w, "retry-after");
}

static void the_shorter_of_field_and_header_holds(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_send(w, "POST", CHAT, "X-Request-Timeout: 0.75\r\n",
               HELLO ",\"timeout\":20}");
    assert_in_range(given_ms(w), 600, 751);
    world_run(w, 800);
    world_has(w, "HTTP/1.1 504 ");
    world_forget(w);
    world_send(w, "POST", CHAT, "X-Request-Timeout: 86400\r\n",
               HELLO ",\"timeout\":3}");
    assert_in_range(given_ms(w), 2800, 3001);
}

static void without_a_timeout_there_is_no_deadline(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, HELLO "}");
    assert_true(w->deadline_us == INT64_MAX);
}

static void a_header_that_is_no_time_is_refused(void **state)
{
    static const char *const wrong[] = {"",    "0",     "0.0001", "86400.001",
                                        "-1",  "1s",    "1e3",    "1.2.3",
                                        "inf", "5., 6", "."};
    struct world *w = world_new(&served);
    char line[64];

    *state = w;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(line, sizeof line, "X-Request-Timeout: %s\r\n", wrong[i]);
        world_send(w, "POST", CHAT, line, HELLO "}");
        world_has(w, "HTTP/1.1 400 ");
        world_has(w, "the header x-request-timeout must be a number of "
                     "seconds from 0.001 to 86400, but is ");
        assert_int_equal(w->n_calls, 0);
        world_forget(w);
    }
}

static void a_stream_that_waits_shows_life_within_a_second(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, STREAM "}");
    assert_int_equal(w->bytes.n, 0);
    world_run(w, 1000);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "\n: waiting for the first token, 1 s\n\n");
    world_forget(w);
    world_run(w, SERVICE_WAIT_US / 1000 + 100);
    world_has(w, ": waiting for the first token, 11 s\n\n");
    world_forget(w);
    world_chunk(w, 0, "x", SLUICE__V1__FINISH__FINISH_RUNNING);
    world_run(w, SERVICE_PING_US / 1000 + 100);
    world_has(w, ": ping\n\n");
    world_lacks(w, ": waiting");
}

/* Within the first second an error still has its status. */
static void a_refusal_at_once_has_its_status(void **state)
{
    struct error full = {ST_RESOURCE_EXHAUSTED, "it would wait for 20 s"};
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, STREAM "}");
    peer_fail(w->peer, w->call, &full, 20000);
    world_run(w, 20);
    world_has(w, "HTTP/1.1 429 ");
    world_has(w, "retry-after: 20\r\n");
}

static void a_later_refusal_is_an_event(void **state)
{
    struct error full = {ST_RESOURCE_EXHAUSTED, "it has waited for 60 s"};
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, STREAM "}");
    world_run(w, 2000);
    peer_fail(w->peer, w->call, &full, 20000);
    world_run(w, 20);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "\"message\":\"it has waited for 60 s\"");
    world_has(w, "data: [DONE]");
}

/* An answer in one piece has no comments. */
static void a_whole_answer_waits_in_silence(void **state)
{
    struct world *w = world_new(&served);

    *state = w;
    world_post(w, CHAT, HELLO "}");
    world_run(w, 20000);
    assert_int_equal(w->bytes.n, 0);
}

#define CASE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_timeout_is_the_deadline_of_the_call),
        CASE(the_shorter_of_field_and_header_holds),
        CASE(without_a_timeout_there_is_no_deadline),
        CASE(a_header_that_is_no_time_is_refused),
        CASE(a_stream_that_waits_shows_life_within_a_second),
        CASE(a_refusal_at_once_has_its_status),
        CASE(a_later_refusal_is_an_event),
        CASE(a_whole_answer_waits_in_silence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
