/* Requests to an OpenAI-compatible server, from their body to their end. */
#include "client/load/drive/http_target.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client/load/drive/ask.h"
#include "client/load/drive/http_wire.h"
#include "client/load/drive/kind.h"
#include "common/base/monotonic.h"
#include "tests/patience.h"
#include "tests/unit/client/load/drive/http_peer.h"
#include "tests/unit/cmocka.h"

#define HEAD                                                 \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" \
    "Connection: close\r\n\r\n"
#define TOKEN "data: {\"choices\":[{\"text\":\"x\"}]}\n\n"
#define DONE  "data: [DONE]\n\n"

struct seen {
    int n_sent, n_outputs, n_ends;
    int64_t first_us, last_us; /* of outputs */
    struct call_end end;
    char why[SAMPLE_WHY];
    struct call *gives_up; /* at the first output, if not NULL */
};

static struct target *target;
static struct http_peer peer;

static void on_sent(void *arg, int64_t now)
{
    struct seen *s = arg;

    (void)now;
    s->n_sent++;
}

static void on_output(void *arg, int64_t now, uint32_t n, const uint32_t *ids,
                      size_t n_ids, const char *text, size_t n_text)
{
    struct seen *s = arg;

    (void)ids;
    assert_int_equal(n_ids, 0);
    assert_int_equal(n_text, n);
    assert_int_equal(text[0], 'x');
    s->n_outputs++;
    s->first_us = s->n_outputs == 1 ? now : s->first_us;
    s->last_us = now;
    if (s->gives_up != NULL) {
        http_target.give_up(target, s->gives_up, GIVE_UP_CANCEL, now);
    }
}

static void on_end(void *arg, int64_t now, const struct call_end *end)
{
    struct seen *s = arg;

    (void)now;
    s->n_ends++;
    s->end = *end;
    snprintf(s->why, sizeof s->why, "%s", end->why == NULL ? "" : end->why);
}

static const struct call_ops ops = {on_sent, on_output, on_end};

static void open_target(void)
{
    struct target_options o = {
        .model = "m", .stream = true, .connect_ms = (uint32_t)patience_ms()};
    struct error e;

    http_peer_open(&peer);
    o.endpoint = peer.url;
    assert_int_equal(http_target.open(&target, &o, &e), ST_OK);
}

static void close_target(void)
{
    http_target.close(&target);
    http_peer_close(&peer);
}

static struct call *prepare(struct seen *s, bool slow)
{
    struct prompt p = {.text = (char[]){"hi"}, .n_text = 2};
    struct call_request r = {.prompt = &p,
                             .max_tokens = 4,
                             .slow_reader = slow,
                             .ops = &ops,
                             .arg = s};
    struct error e;
    size_t bytes = 0;
    struct call *c = http_target.prepare(target, &r, &bytes, &e);

    assert_non_null(c);
    assert_true(bytes > 0);
    return c;
}

static struct call *start(struct seen *s, bool slow)
{
    struct call *c = prepare(s, slow);

    http_target.start(target, c, monotonic_us());
    return c;
}

static void turn(void)
{
    struct pollfd items[TARGET_ITEMS];
    int64_t due;
    int n = http_target.items(target, items, &due);

    http_peer_turn(&peer);
    poll(items, (nfds_t)n, 1);
    http_target.turn(target, items, n, monotonic_us());
}

static void until(const int *value, int want)
{
    int64_t end = monotonic_us() + patience_us();

    while (*value < want && monotonic_us() < end) {
        turn();
    }
    assert_int_equal(*value, want);
}

static void until_requests(size_t want)
{
    int64_t end = monotonic_us() + patience_us();

    while (peer.n_requests < want && monotonic_us() < end) {
        turn();
    }
    assert_int_equal(peer.n_requests, want);
}

static void a_stream_gives_outputs_and_ends(void **state)
{
    struct seen s = {0};

    (void)state;
    open_target();
    start(&s, false);
    until_requests(1);
    http_peer_send(&peer, 0, HEAD TOKEN);
    until(&s.n_outputs, 1);
    http_peer_send(&peer, 0, TOKEN DONE);
    http_peer_hang_up(&peer, 0);
    until(&s.n_ends, 1);
    assert_int_equal(s.n_sent, 1);
    assert_int_equal(s.n_outputs, 2);
    assert_int_equal(s.end.outcome, OUTCOME_OK);
    assert_int_equal(s.end.code, 200);
    close_target();
}

static void a_cut_stream_and_a_refused_connection_fail(void **state)
{
    struct seen cut = {0}, refused = {0};

    (void)state;
    open_target();
    start(&cut, false);
    until_requests(1);
    http_peer_send(&peer, 0, HEAD TOKEN);
    http_peer_hang_up(&peer, 0);
    until(&cut.n_ends, 1);
    assert_int_equal(cut.end.outcome, OUTCOME_FAILED);
    assert_non_null(strstr(cut.why, "without [DONE]"));
    http_peer_close(&peer);
    start(&refused, false);
    until(&refused.n_ends, 1);
    assert_int_equal(refused.end.outcome, OUTCOME_FAILED);
    assert_non_null(strstr(refused.why, "cannot connect: "));
    http_target.close(&target);
}

static void a_refusal_carries_status_and_message(void **state)
{
    struct seen s = {0};

    (void)state;
    open_target();
    start(&s, false);
    until_requests(1);
    http_peer_send(&peer, 0,
                   "HTTP/1.1 429 Slow\r\nContent-Length: 29\r\n\r\n"
                   "{\"error\":{\"message\":\"later\"}}");
    until(&s.n_ends, 1);
    assert_int_equal(s.end.outcome, OUTCOME_REFUSED);
    assert_int_equal(s.end.code, 429);
    assert_string_equal(s.why, "HTTP 429: \"later\"");
    close_target();
}

static void a_call_that_is_given_up_ends_at_once(void **state)
{
    static const uint8_t outcomes[] = {[GIVE_UP_CANCEL] = OUTCOME_CANCELLED,
                                       [GIVE_UP_DISCONNECT] =
                                           OUTCOME_DISCONNECTED,
                                       [GIVE_UP_TIMEOUT] = OUTCOME_TIMEOUT};
    int64_t end = monotonic_us() + patience_us();

    (void)state;
    open_target();
    for (int how = 0; how < 3; how++) {
        struct seen s = {0};
        struct call *c = start(&s, false);

        until_requests((size_t)how + 1);
        http_target.give_up(target, c, (enum give_up)how, monotonic_us());
        assert_int_equal(s.n_ends, 1);
        assert_int_equal(s.end.outcome, outcomes[how]);
        while (!peer.ended[how] && monotonic_us() < end) {
            turn();
        }
        assert_true(peer.ended[how]);
    }
    close_target();
}

static void a_call_can_be_given_up_at_its_output(void **state)
{
    struct seen s = {0};

    (void)state;
    open_target();
    s.gives_up = start(&s, false);
    until_requests(1);
    http_peer_send(&peer, 0, HEAD TOKEN TOKEN DONE);
    until(&s.n_ends, 1);
    assert_int_equal(s.n_outputs, 1);
    assert_int_equal(s.end.outcome, OUTCOME_CANCELLED);
    close_target();
}

static void a_whole_answer_can_be_given_up_at_its_output(void **state)
{
    struct seen s = {0};

    (void)state;
    open_target();
    s.gives_up = start(&s, false);
    until_requests(1);
    http_peer_send(&peer, 0,
                   "HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n"
                   "{\"choices\":[{\"text\":\"x\"}]}");
    until(&s.n_ends, 1);
    assert_int_equal(s.end.outcome, OUTCOME_CANCELLED);
    close_target();
}

static void a_slow_reader_pauses_after_each_event(void **state)
{
    struct seen s = {0};

    (void)state;
    open_target();
    start(&s, true);
    until_requests(1);
    http_peer_send(&peer, 0, HEAD TOKEN);
    until(&s.n_outputs, 1);
    http_peer_send(&peer, 0, TOKEN DONE);
    http_peer_hang_up(&peer, 0);
    until(&s.n_ends, 1);
    assert_int_equal(s.end.outcome, OUTCOME_OK);
    assert_int_equal(s.n_outputs, 2);
    assert_true(s.last_us - s.first_us >= 1000000); /* its own timer */
    close_target();
}

static void calls_that_never_start_are_freed(void **state)
{
    struct seen s = {0};

    (void)state;
    open_target();
    http_target.drop(target, prepare(&s, false));
    (void)prepare(&s, false);
    start(&s, false);
    close_target();
    assert_int_equal(s.n_ends, 0);
}

/* ---- kind_ask ---- */

static const char *models;

static void *answer_models(void *arg)
{
    int64_t end = monotonic_us() + patience_us();
    bool answered = false;

    (void)arg;
    while (!answered && monotonic_us() < end) {
        http_peer_turn(&peer);
        answered = peer.n > 0 && strstr(peer.in[0], "\r\n\r\n") != NULL;
    }
    http_peer_send(&peer, 0, models);
    http_peer_hang_up(&peer, 0);
    return NULL;
}

static enum status ask(const char *answer, const char *model,
                       struct target_facts *facts, struct error *e)
{
    struct target_options o = {
        .connect_ms = (uint32_t)patience_ms(), .model = model, .key = "k"};
    pthread_t thread;
    enum status st;

    models = answer;
    http_peer_open(&peer);
    o.endpoint = peer.url;
    assert_int_equal(pthread_create(&thread, NULL, answer_models, NULL), 0);
    st = http_ask(&o, facts, e);
    pthread_join(thread, NULL);
    assert_non_null(strstr(peer.in[0], "GET /v1/models HTTP/1.1\r\n"));
    assert_non_null(strstr(peer.in[0], "Authorization: Bearer k\r\n"));
    http_peer_close(&peer);
    return st;
}

static void a_server_tells_its_models(void **state)
{
    static const char two[] =
        "HTTP/1.1 200 OK\r\n\r\n"
        "{\"data\":[{\"id\":\"a\",\"owned_by\":\"sluice\","
        "\"max_model_len\":4096},{\"id\":\"b\",\"context_length\":512}]}";
    struct target_facts facts;
    struct error e;

    (void)state;
    assert_int_equal(ask(two, NULL, &facts, &e), ST_OK);
    assert_string_equal(facts.model, "a");
    assert_int_equal(facts.context, 4096);
    assert_true(facts.is_sluice);
    assert_true(facts.has_text);
    assert_int_equal(ask(two, "b", &facts, &e), ST_OK);
    assert_string_equal(facts.model, "b");
    assert_int_equal(facts.context, 512);
    assert_false(facts.is_sluice);
    assert_int_equal(ask(two, "c", &facts, &e), ST_OK);
    assert_string_equal(facts.model, "c");
    assert_int_equal(facts.context, 0);
}

static void a_server_without_models_needs_a_name(void **state)
{
    static const char none[] = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    static const char wrong[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
    static const char key[] = "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n";
    struct target_facts facts;
    struct error e;

    (void)state;
    assert_int_equal(ask(none, "m", &facts, &e), ST_OK);
    assert_string_equal(facts.model, "m");
    assert_int_equal(ask(none, NULL, &facts, &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "--model"));
    assert_int_equal(ask(wrong, NULL, &facts, &e), ST_NOT_FOUND);
    assert_int_equal(ask(key, "m", &facts, &e), ST_UNAUTHENTICATED);
    assert_non_null(strstr(e.text, "--key"));
}

static void keys_fit_into_a_header_line(void **state)
{
    static char key[4098];
    struct error e;

    (void)state;
    memset(key, 'k', 4096);
    assert_int_equal(http_key_check(key, &e), ST_OK);
    key[4096] = 'k';
    assert_int_equal(http_key_check(key, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(http_key_check("a\r\nX: y", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(http_key_check("a b", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(http_key_check("\xc3\xa9", &e), ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_gives_outputs_and_ends),
        cmocka_unit_test(a_cut_stream_and_a_refused_connection_fail),
        cmocka_unit_test(a_refusal_carries_status_and_message),
        cmocka_unit_test(a_call_that_is_given_up_ends_at_once),
        cmocka_unit_test(a_call_can_be_given_up_at_its_output),
        cmocka_unit_test(a_whole_answer_can_be_given_up_at_its_output),
        cmocka_unit_test(a_slow_reader_pauses_after_each_event),
        cmocka_unit_test(calls_that_never_start_are_freed),
        cmocka_unit_test(a_server_tells_its_models),
        cmocka_unit_test(a_server_without_models_needs_a_name),
        cmocka_unit_test(keys_fit_into_a_header_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
