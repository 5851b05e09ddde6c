/* Arbitrary bytes as bodies of requests.
 *
 * Byte 0 chooses the endpoint, the rest is the body.  A body is refused with a
 * 4xx and a sentence, or gives a request within its limits whose answer, in
 * the form that the body asks for, is JSON. */
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "gateway/dialects/answer.h"
#include "gateway/dialects/dialects.h"
#include "gateway/openai/request_parse.h"

#define BYTES_MAX 65536

static void is_json(const char *text, size_t n)
{
    json_t *tree = json_loadb(text, n, JSON_ALLOW_NUL, NULL);

    FUZZ_CHECK(tree != NULL);
    json_decref(tree);
}

static void check_error(const struct openai_error *e)
{
    struct json_out body = {0};

    FUZZ_CHECK(e->http == 400 || e->http == 413);
    FUZZ_CHECK(e->message[0] != '\0' && e->type != NULL);
    FUZZ_CHECK(strlen(e->param) < sizeof e->param);
    openai_error_body(&body, e);
    is_json(body.data, body.n);
    json_out_fini(&body);
}

static void check_lists(const struct openai_request *r)
{
    const struct sampling *s = &r->sampling;

    for (uint32_t i = 1; i < s->n_biases; i++) {
        FUZZ_CHECK(s->bias_tokens[i - 1] < s->bias_tokens[i]);
    }
    for (uint32_t i = 1; i < s->n_stop_tokens; i++) {
        FUZZ_CHECK(s->stop_tokens[i - 1] < s->stop_tokens[i]);
    }
    FUZZ_CHECK(s->n_biases <= LOGIT_BIASES_MAX);
    FUZZ_CHECK(s->n_stop_tokens <= STOP_TOKENS_MAX);
    FUZZ_CHECK(r->n_stops <= STOP_STRINGS_MAX);
    for (size_t i = 0; i < r->n_stops; i++) {
        FUZZ_CHECK(r->stops[i].n > 0 && r->stops[i].n <= STOP_STRING_BYTES_MAX);
    }
}

static void check_messages(const struct openai_request *r, bool is_ids)
{
    size_t i;
    json_t *message;

    json_array_foreach(r->messages, i, message)
    {
        FUZZ_CHECK(json_is_string(json_object_get(message, "role")));
        FUZZ_CHECK(json_is_string(json_object_get(message, "content")));
    }
    FUZZ_CHECK(is_ids || (r->messages != NULL) != (r->n_prompts > 0));
    FUZZ_CHECK(r->template.tools == NULL ||
               json_array_size(r->template.tools) > 0);
}

static void check_request(const struct openai_request *r, bool is_ids,
                          bool needs_model)
{
    const struct sampling *s = &r->sampling;

    FUZZ_CHECK(r->model != NULL || !needs_model);
    FUZZ_CHECK(r->model == NULL || strlen(r->model) <= MODEL_NAME_MAX);
    FUZZ_CHECK(r->n >= 1 && r->n <= CHOICES_MAX);
    FUZZ_CHECK(openai_request_choices(r) <= OPENAI_TOTAL_MAX);
    FUZZ_CHECK(s->temperature >= 0 && s->temperature <= TEMPERATURE_MAX);
    FUZZ_CHECK(s->top_p > 0 && s->top_p <= 1);
    FUZZ_CHECK(s->n_top_logprobs <= TOP_LOGPROBS_MAX);
    FUZZ_CHECK(!r->has_max_tokens ||
               (r->max_tokens > 0 && r->max_tokens <= MODEL_CONTEXT_MAX));
    check_lists(r);
    check_messages(r, is_ids);
}

/* ---- its answer ---- */

static void collect(void *out, const char *bytes, size_t n)
{
    json_out_raw(out, bytes, n);
}

/* Each event has a line with a JSON text, or [DONE]. */
static void check_stream(const struct json_out *out)
{
    const char *at = out->data, *end = at + out->n;

    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));

        FUZZ_CHECK(line != NULL);
        if (line - at > 6 && memcmp(at, "data: {", 7) == 0) {
            is_json(at + 6, (size_t)(line - at - 6));
        }
        at = line + 1;
    }
}

static void check_answer(const struct openai_request *r,
                         const struct dialect *dialect)
{
    static const uint8_t id[16] = {1};
    struct json_out out = {0};
    const struct openai_answer_options o = {.dialect = dialect,
                                            .request = r,
                                            .request_id = id,
                                            .write = collect,
                                            .arg = &out};
    struct openai_answer *a = openai_answer_new(&o);
    const struct output_event event = {.text = "a\"", .n = 2};
    const struct openai_usage usage = {1, 2, 0, 0};

    openai_answer_begin(a);
    for (uint32_t i = 0; i < openai_request_choices(r); i++) {
        openai_answer_output(a, i, &event);
        openai_answer_finish(a, i, "stop");
    }
    openai_answer_end(a, &usage);
    if (r->stream) {
        check_stream(&out);
    } else {
        is_json(out.data, out.n);
    }
    openai_answer_free(&a);
    json_out_fini(&out);
}

#define ROWS       8
#define DETOKENIZE 4

/* The rows of the bodies, by the first byte of the input; NULL: no dialect. */
static const struct dialect *const rows[ROWS] = {
    &completions_dialect, &chat_dialect,   &responses_dialect,      NULL, NULL,
    &anthropic_dialect,   &ollama_dialect, &ollama_generate_dialect};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct openai_request *r;
    struct openai_error e;
    const struct dialect *d;
    openai_parse_fn *parse;

    if (n == 0 || n > BYTES_MAX) {
        return 0;
    }
    d = rows[data[0] % ROWS];
    parse = d != NULL                      ? d->parse
            : data[0] % ROWS == DETOKENIZE ? openai_parse_detokenize
                                           : openai_parse_tokenize;
    if (!openai_request_parse(parse, (const char *)data + 1, n - 1, NULL, &r,
                              &e)) {
        FUZZ_CHECK(r == NULL);
        check_error(&e);
        return 0;
    }
    check_request(r, parse == openai_parse_detokenize, d != NULL);
    openai_request_drop_input(r);
    if (d != NULL) {
        check_answer(r, d);
    }
    openai_request_free(&r);
    return 0;
}
