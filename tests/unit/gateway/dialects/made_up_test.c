/* A made-up dialect, added to the gateway by its row alone: other fields, other
 * framing (JSON lines), other bodies of errors.  The whole core runs, between a
 * client of HTTP and a simple router. */
#include <stdlib.h>
#include <string.h>

#include "gateway/dialects/answer_base.h"
#include "gateway/dialects/dialects.h"
#include "gateway/openai/parse.h"
#include "proto/inference.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/gateway/core/world.h"

/* ---- the dialect ---- */

static bool read_ask(struct parse *p, const struct field *f)
{
    p->r->prompts = parse_alloc(1, sizeof *p->r->prompts);
    p->r->n_prompts = 1;
    parse_hold_input(p, f->value);
    return field_string(f, &p->r->prompts[0].text, &p->r->prompts[0].n_text);
}

static bool made_up_parse(struct parse *p)
{
    static const struct rule rules[] = {RULE_BY("model", parse_model),
                                        RULE_BY("ask", read_ask),
                                        RULE_BOOL("lines", stream)};

    return parse_rules(p, rules, RULE_COUNT_OF(rules), false) &&
           parse_require(p, "model") && parse_require(p, "ask");
}

static void put_error(struct json_out *out, const struct openai_error *e)
{
    json_out_put(out, "{\"oops\":");
    json_out_text(out, e->message);
    json_out_put(out, "}\n");
}

static bool init(struct openai_answer *a)
{
    (void)a;
    return true;
}

static void nothing(struct openai_answer *a)
{
    (void)a;
}

static void first(struct openai_answer *a)
{
    json_out_put(&a->out, "{\"listen\":true}\n");
}

static void delta(struct openai_answer *a, uint32_t index,
                  const struct output_event *event)
{
    json_out_escaped(&a->choices[index].text, event->text, event->n);
}

static void flush(struct openai_answer *a, uint32_t index)
{
    struct json_out *text = &a->choices[index].text;

    json_out_put(&a->out, "{\"say\":\"");
    json_out_raw(&a->out, text->data, text->n);
    json_out_put(&a->out, "\"}\n");
    text->n = 0;
}

static void finish(struct openai_answer *a, uint32_t index)
{
    if (a->stream) {
        flush(a, index);
    }
}

static void end(struct openai_answer *a)
{
    if (!a->stream) {
        flush(a, 0);
    }
    json_out_put(&a->out, "{\"words\":");
    json_out_u64(&a->out, a->usage.completion);
    json_out_put(&a->out, "}\n");
}

static void fail_stream(struct openai_answer *a, const struct openai_error *e)
{
    put_error(&a->out, e);
}

static const struct dialect made_up = {
    .path = "/made/up",
    .help = "a dialect of tests",
    .label = GATEWAY_ROUTE_OTHER,
    .parse = made_up_parse,
    .input = "ask",
    .is_raw = true,
    .stream_type = "application/x-ndjson",
    .whole_type = "application/x-ndjson",
    .ping = "{}\n",
    .error = put_error,
    .init = init,
    .first = first,
    .delta = delta,
    .flush = flush,
    .finish = finish,
    .end = end,
    .fail = fail_stream,
    .drop = nothing,
    .fini = nothing,
};

/* ---- the cases ---- */

static int setup(void **state)
{
    static const struct dialect *const rows[] = {&chat_dialect, &made_up, NULL};
    const struct world_options o = {.dialects = rows};

    *state = world_new(&o);
    return 0;
}

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

static void chunk(struct world *w, uint32_t first_index, const char *text,
                  bool last)
{
    world_chunk(w, first_index, text,
                last ? SLUICE__V1__FINISH__FINISH_STOP
                     : SLUICE__V1__FINISH__FINISH_RUNNING);
}

#define ASK "{\"model\":\"m\",\"ask\":\"why\""

static void a_whole_answer(void **state)
{
    struct world *w = *state;

    world_post(w, "/made/up", ASK "}");
    assert_int_not_equal(w->call, 0);
    assert_string_equal(w->prompt, "why");
    assert_int_equal(w->max_tokens, SERVICE_COMPLETION_TOKENS); /* is_raw */
    chunk(w, 0, "be", false);
    assert_int_equal(w->bytes.n, 0);
    chunk(w, 1, "cause", true);
    world_has(w, "HTTP/1.1 200 ");
    world_has(w, "Content-Type: application/x-ndjson\r\n");
    world_has(w, "\r\n\r\n{\"say\":\"because\"}\n{\"words\":2}\n");
}

static void a_stream(void **state)
{
    struct world *w = *state;

    world_post(w, "/made/up", ASK ",\"lines\":true}");
    chunk(w, 0, "be", false);
    world_has(w, "Content-Type: application/x-ndjson\r\n");
    world_has(w, "{\"listen\":true}\n");
    world_has(w, "{\"say\":\"be\"}\n");
    world_run(w, SERVICE_PING_US / 1000 + 1000);
    world_has(w, "\n{}\n"); /* its ping, not a comment of events */
    chunk(w, 1, "cause", true);
    world_has(w, "{\"say\":\"cause\"}\n");
    world_has(w, "{\"words\":2}\n");
    world_lacks(w, "data:");
}

static void a_stream_that_fails(void **state)
{
    struct error broken = {ST_INTERNAL, "the wire is cut"};
    struct world *w = *state;

    world_post(w, "/made/up", ASK ",\"lines\":true}");
    chunk(w, 0, "be", false);
    peer_fail(w->peer, w->call, &broken, 0);
    world_run(w, 20);
    world_has(w, "{\"oops\":\"the wire is cut\"}\n");
}

/* Errors before the first byte: of the body, the method and the router. */
static void errors_have_its_form(void **state)
{
    struct error full = {ST_RESOURCE_EXHAUSTED, "the queue is full"};
    struct world *w = *state;

    world_post(w, "/made/up", "{\"model\":\"m\"}");
    world_has(w, "HTTP/1.1 400 ");
    world_has(w, "\r\n\r\n{\"oops\":\"'ask' is required\"}\n");
    world_forget(w);
    world_post(w, "/made/up", ASK "}");
    peer_fail(w->peer, w->call, &full, 700);
    world_run(w, 20);
    world_has(w, "HTTP/1.1 429 ");
    world_has(w, "{\"oops\":\"the queue is full\"}\n");
}

static void others_keep_their_form(void **state)
{
    struct world *w = *state;

    world_post(w, "/v1/chat/completions", "{\"model\":\"m\"}");
    world_has(w, "{\"error\":{\"message\":\"'messages' is required\"");
    world_forget(w);
    world_post(w, "/v1/completions",
               "{\"model\":\"m\"}"); /* no row of the table */
    world_has(w, "HTTP/1.1 404 ");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_whole_answer),         CASE(a_stream),
        CASE(a_stream_that_fails),    CASE(errors_have_its_form),
        CASE(others_keep_their_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
