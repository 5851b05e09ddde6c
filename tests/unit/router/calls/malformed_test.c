/* Malformed requests: each ends with its status and text, and leaves nothing
 * behind. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

struct wrong {
    void (*spoil)(Sluice__V1__GenerateRequest *m, Sluice__V1__Sampling *s);
    enum status status;
    const char *why;
};

#define WRONG(name) \
    static void name(Sluice__V1__GenerateRequest *m, Sluice__V1__Sampling *s)
#define UNUSED (void)m, (void)s

static uint8_t bytes[64];
static uint32_t ids[] = {1, 2, RIG_VOCAB};

WRONG(id_short)
{
    UNUSED;
    m->request_id.len = 15;
}
WRONG(id_long)
{
    UNUSED;
    m->request_id.len = 17;
}
WRONG(id_none)
{
    UNUSED;
    m->request_id.len = 0;
}
WRONG(id_zero)
{
    UNUSED;
    memset(m->request_id.data, 0, 16);
}
WRONG(no_prompt)
{
    UNUSED;
    m->n_tokens = 0;
}
WRONG(empty_text)
{
    UNUSED;
    m->n_tokens = 0;
    m->has_text = true;
}
WRONG(both_prompts)
{
    UNUSED;
    m->has_text = true;
    m->text = wire_text("hello");
}
WRONG(text_not_utf8)
{
    UNUSED;
    m->n_tokens = 0;
    m->has_text = true;
    memset(bytes + 32, 0xc0, 4);
    m->text = (ProtobufCBinaryData){4, bytes + 32};
}
WRONG(text_nul)
{
    UNUSED;
    m->n_tokens = 0;
    m->has_text = true;
    memset(bytes + 32, 0, 4);
    m->text = (ProtobufCBinaryData){4, bytes + 32};
}
WRONG(text_without_tokenizer)
{
    UNUSED;
    m->n_tokens = 0;
    m->has_text = true;
    m->text = wire_text("hello");
}
WRONG(want_text_without_tokenizer)
{
    UNUSED;
    m->has_want_text = m->want_text = true;
}
WRONG(token_past_vocab)
{
    UNUSED;
    m->n_tokens = 3;
}
WRONG(model_unknown)
{
    UNUSED;
    m->model = wire_text("huge");
}
WRONG(model_long)
{
    static char name[200];
    UNUSED;
    memset(name, 'm', 150);
    m->model = wire_text(name);
}
WRONG(model_not_utf8)
{
    UNUSED;
    memset(bytes + 40, 0xff, 4);
    m->model = (ProtobufCBinaryData){4, bytes + 40};
}
WRONG(max_tokens_0)
{
    UNUSED;
    m->has_max_tokens = true;
}
WRONG(max_tokens_huge)
{
    UNUSED;
    m->has_max_tokens = true;
    m->max_tokens = UINT32_MAX;
}
WRONG(keep_long)
{
    UNUSED;
    m->has_keep_ms = true;
    m->keep_ms = KEEP_MS_MAX + 1;
}
WRONG(tenant_empty)
{
    UNUSED;
    m->has_tenant = true;
}
WRONG(tenant_long)
{
    static char name[TENANT_NAME_MAX + 2];
    UNUSED;
    memset(name, 't', TENANT_NAME_MAX + 1);
    m->has_tenant = true;
    m->tenant = wire_text(name);
}
WRONG(tenant_not_utf8)
{
    UNUSED;
    memset(bytes + 40, 0xff, 4);
    m->has_tenant = true;
    m->tenant = (ProtobufCBinaryData){4, bytes + 40};
}
WRONG(route_empty)
{
    UNUSED;
    m->has_route = true;
}
WRONG(route_long)
{
    static char name[ROUTE_NAME_MAX + 2];
    UNUSED;
    memset(name, 'r', ROUTE_NAME_MAX + 1);
    m->has_route = true;
    m->route = wire_text(name);
}
WRONG(route_not_utf8)
{
    UNUSED;
    memset(bytes + 40, 0xff, 4);
    m->has_route = true;
    m->route = (ProtobufCBinaryData){4, bytes + 40};
}
WRONG(temperature_low)
{
    UNUSED;
    s->temperature = -0.5f;
}
WRONG(temperature_high)
{
    UNUSED;
    s->temperature = 100.5f;
}
WRONG(temperature_nan)
{
    UNUSED;
    s->temperature = NAN;
}
WRONG(temperature_inf)
{
    UNUSED;
    s->temperature = INFINITY;
}
WRONG(top_p_0)
{
    UNUSED;
    s->top_p = 0;
}
WRONG(top_p_high)
{
    UNUSED;
    s->top_p = 1.5f;
}
WRONG(top_p_nan)
{
    UNUSED;
    s->top_p = NAN;
}

#define INVALID ST_INVALID_ARGUMENT

static const struct wrong table[] = {
    {id_short, INVALID, "request_id has 15 bytes, must have 16"},
    {id_long, INVALID, "request_id has 17 bytes, must have 16"},
    {id_none, INVALID, "request_id has 0 bytes, must have 16"},
    {id_zero, INVALID, "request_id is all zeros"},
    {no_prompt, INVALID, "the prompt is empty"},
    {empty_text, INVALID, "the prompt is empty"},
    {both_prompts, INVALID, "send only one"},
    {text_not_utf8, INVALID, "not valid UTF-8"},
    {text_nul, INVALID, "NUL"},
    {text_without_tokenizer, ST_FAILED_PRECONDITION, "no tokenizer"},
    {want_text_without_tokenizer, ST_FAILED_PRECONDITION, "want_text"},
    {token_past_vocab, INVALID,
     "token 2 is 1000, but the vocabulary of tiny has 1000"},
    {model_unknown, ST_NOT_FOUND, "model huge is not served here"},
    {model_long, INVALID, "at most 128 bytes"},
    {model_not_utf8, INVALID, "UTF-8"},
    {max_tokens_0, INVALID, "max_tokens is 0"},
    {max_tokens_huge, INVALID, "max_tokens (4294967295)"},
    {keep_long, INVALID, "keep_ms is 600001, at most 600000"},
    {tenant_empty, INVALID, "tenant must be 1 to 64 bytes"},
    {tenant_long, INVALID, "tenant must be 1 to 64 bytes"},
    {route_empty, INVALID, "route must be 1 to 32 bytes"},
    {route_long, INVALID, "route must be 1 to 32 bytes"},
    {route_not_utf8, INVALID, "route must be 1 to 32 bytes"},
    {tenant_not_utf8, INVALID, "tenant must be 1 to 64 bytes of UTF-8"},
    {temperature_low, INVALID, "temperature is -0.5"},
    {temperature_high, INVALID, "temperature is 100.5"},
    {temperature_nan, INVALID, "temperature is"},
    {temperature_inf, INVALID, "temperature is inf"},
    {top_p_0, INVALID, "top_p is 0"},
    {top_p_high, INVALID, "top_p is 1.5"},
    {top_p_nan, INVALID, "top_p is"},
};

static struct record *ask(struct fake *c, const struct wrong *w)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling s = SLUICE__V1__SAMPLING__INIT;

    memset(bytes, 9, sizeof bytes);
    m.request_id = (ProtobufCBinaryData){16, bytes};
    m.model = wire_text("tiny");
    m.tokens = ids;
    m.n_tokens = 2;
    s.has_temperature = s.has_top_p = true;
    m.sampling = &s;
    if (w != NULL) {
        w->spoil(&m, &s);
    }
    return client_call(c, METHOD_INFERENCE_GENERATE, &m.base, 0);
}

static void each_gets_its_sentence(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    size_t n = sizeof table / sizeof *table;
    struct router_metrics k;
    struct record *x;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        x = ask(c, &table[i]);
        rig_run(rig);
        if (!x->ended || x->status != table[i].status ||
            strstr(x->error, table[i].why) == NULL) {
            fail_msg("row %zu: ended %d, %s, \"%s\"; wanted \"%s\"", i,
                     x->ended, status_name(x->status), x->error, table[i].why);
        }
    }
    router_counts(rig->router, &k);
    assert_int_equal(k.choices_open, 0);
    assert_int_equal(k.requests, n);
    assert_int_equal(k.refused, n);
    assert_int_equal(w->n_submits, 0);
    x = ask(c, NULL); /* without a fault the request is accepted */
    rig_run(rig);
    assert_false(x->ended);
    assert_int_equal(w->n_submits, 1);
    x = ask(c, NULL); /* a second one with the same id is refused */
    rig_run(rig);
    assert_int_equal(x->status, ST_ALREADY_EXISTS);
    assert_string_equal(x->error,
                        "a request with this id exists; its state is prefill");
    rig_free(&rig);
}

static void the_longest_names_are_accepted(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct rig *rig = rig_new(NULL);
    char name[TENANT_NAME_MAX + 1] = {0}, route[ROUTE_NAME_MAX + 1] = {0};
    struct record *x;

    (void)state;
    rig_worker(rig, "w1", 64, 8);
    memset(name, 't', TENANT_NAME_MAX);
    m.has_tenant = true;
    m.tenant = wire_text(name);
    memset(route, 'r', ROUTE_NAME_MAX);
    m.has_route = true;
    m.route = wire_text(route);
    x = client_generate_with(rig_client(rig, "c1"), 1, 3, 3, &m, 0);
    rig_run(rig);
    assert_false(x->ended);
    rig_free(&rig);
}

static void models_by_no_name(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct fake *other;
    struct record *x = client_generate_with(c, 1, 3, 3, &m, 0);

    (void)state;
    rig_run(rig);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    rig_worker(rig, "w1", 64, 8);
    x = client_generate_with(c, 2, 3, 3, &m, 0);
    rig_run(rig);
    assert_false(x->ended);
    other = fake_worker_new(rig, "w2", 64, 8);
    other->shard.model = wire_text("other");
    fake_hello(other);
    x = client_generate_with(c, 3, 3, 3, &m, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(x->error, "several models are served: tiny, other; "
                                  "name one of them (--model NAME)");
    for (int i = 0; i < 20; i++) { /* more names than a sentence holds */
        char name[16], model[64];

        snprintf(name, sizeof name, "v%d", i);
        snprintf(model, sizeof model, "a-model-with-a-long-name-%d", i);
        other = fake_worker_new(rig, name, 64, 8);
        other->shard.model = wire_text(model);
        fake_hello(other);
    }
    x = client_generate_with(c, 4, 3, 3, &m, 0);
    rig_run(rig);
    assert_non_null(strstr(x->error, "several models are served: tiny, other"));
    assert_non_null(strstr(x->error, ", ...; name one of them (--model NAME)"));
    rig_free(&rig);
}

/* Texts that the text threads reject, or have no room for. */
static void text_refused(void **state)
{
    struct fake_text text;
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 16,
                            .max_waiting = 16,
                            .text = &text.seam};
    struct rig *rig;
    struct fake *c;
    struct record *x;

    (void)state;
    fake_text_init(&text, NULL);
    rig = rig_new(&o);
    rig_worker(rig, "w1", 64, 8);
    c = rig_client(rig, "c1");
    text.fail = true;
    x = client_generate_text(c, 1, "hello", 3);
    rig_advance(rig, 10000);
    assert_int_equal(x->status, ST_OUT_OF_RANGE);
    assert_string_equal(x->error, "prompt: too many regex steps");
    text.fail = false;
    text.full = true;
    x = client_generate_text(c, 2, "hello", 3);
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_true(x->retry_ms > 0);
    rig_free(&rig);
    fake_text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_its_sentence),
        cmocka_unit_test(the_longest_names_are_accepted),
        cmocka_unit_test(models_by_no_name),
        cmocka_unit_test(text_refused),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
