/* requests - Invalid requests over the wire, sent with the C library.
 *
 *     requests ENDPOINT
 *
 * sluicectl rejects many of them itself; another client may not.  Each row has
 * an invalid request and the expected status.  The exit code is 0 if all rows
 * end with their status and the router serves a valid request after each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "proto/admin.pb-c.h"

#define CONTEXT 4096

static uint32_t many_ids[CONTEXT + 1];
static const uint32_t good_ids[] = {451, 362};
static const uint32_t bad_id[] = {4096};
static const uint32_t huge_id[] = {4294967295u};
static const uint32_t twice[] = {7, 7};
static const float ones[] = {1, 1};
static const float high_bias[] = {100.5f};
static const float nan_bias[] = {NAN};
static const struct client_stop empty_stop[] = {{"", 0}};
static const struct client_stop not_utf8_stop[] = {{"a\xff", 2}};
static const char long_text[STOP_STRING_BYTES_MAX + 1] = {'x'}; /* then NULs */
static const struct client_stop long_stop[] = {{long_text, sizeof long_text}};
static const struct client_stop whole_stop[] = {
    {long_text, STOP_STRING_BYTES_MAX}};
static int n_failed;

static struct client_request good(void)
{
    struct client_request r = client_request_default();

    r.ids = good_ids;
    r.n_ids = 2;
    r.max_tokens = 2;
    r.sampling.ignore_eos = true;
    return r;
}

static void put_biases(struct client_request *r, const uint32_t *tokens,
                       const float *biases, uint32_t n)
{
    r->sampling.bias_tokens = tokens;
    r->sampling.biases = biases;
    r->sampling.n_biases = n;
}

struct row {
    const char *name;
    void (*spoil)(struct client_request *r);
    enum status wanted;
};

#define SPOIL(name, statement)                         \
    static void spoil_##name(struct client_request *r) \
    {                                                  \
        statement;                                     \
    }

SPOIL(nothing, (void)r)
SPOIL(no_prompt, r->n_ids = 0)
SPOIL(empty_text, (r->text = "", r->n_text = 0, r->n_ids = 0))
SPOIL(both, (r->text = "x", r->n_text = 1))
SPOIL(not_utf8, (r->text = "a\xff", r->n_text = 2, r->n_ids = 0))
SPOIL(id_out_of_range, (r->ids = bad_id, r->n_ids = 1))
SPOIL(id_huge, (r->ids = huge_id, r->n_ids = 1))
SPOIL(prompt_too_long, (r->ids = many_ids, r->n_ids = CONTEXT + 1))
SPOIL(prompt_fills_context, (r->ids = many_ids, r->n_ids = CONTEXT))
SPOIL(too_many_tokens, r->max_tokens = CONTEXT)
SPOIL(most_tokens, r->max_tokens = 4294967295u)
SPOIL(temperature_nan, r->sampling.temperature = NAN)
SPOIL(temperature_negative, r->sampling.temperature = -1)
SPOIL(temperature_infinite, r->sampling.temperature = INFINITY)
SPOIL(temperature_high, r->sampling.temperature = 100.5f)
SPOIL(top_p_zero, r->sampling.top_p = 0)
SPOIL(top_p_nan, r->sampling.top_p = NAN)
SPOIL(top_p_high, r->sampling.top_p = 1.5f)
SPOIL(unknown_model, r->model = "no-such-model")
SPOIL(keep_too_long, r->keep_ms = 600001)

SPOIL(min_p_nan, r->sampling.min_p = NAN)
SPOIL(min_p_high, r->sampling.min_p = 1.5f)
SPOIL(top_k_high, r->sampling.top_k = 4097)
SPOIL(repetition_zero, r->sampling.repetition_penalty = 0)
SPOIL(repetition_high, r->sampling.repetition_penalty = 100.5f)
SPOIL(presence_low, r->sampling.presence_penalty = -2.5f)
SPOIL(presence_nan, r->sampling.presence_penalty = NAN)
SPOIL(frequency_high, r->sampling.frequency_penalty = 2.5f)
SPOIL(bias_id, put_biases(r, bad_id, ones, 1))
SPOIL(bias_high, put_biases(r, twice, high_bias, 1))
SPOIL(bias_nan, put_biases(r, twice, nan_bias, 1))
SPOIL(bias_twice, put_biases(r, twice, ones, 2))
SPOIL(stop_token_id,
      (r->sampling.stop_tokens = bad_id, r->sampling.n_stop_tokens = 1))
SPOIL(top_logprobs_high, r->sampling.n_top_logprobs = TOP_LOGPROBS_MAX + 1)
SPOIL(stop_empty, (r->stops = empty_stop, r->n_stops = 1))
SPOIL(stop_not_utf8, (r->stops = not_utf8_stop, r->n_stops = 1))
SPOIL(stop_long, (r->stops = long_stop, r->n_stops = 1))
SPOIL(stop_whole, (r->stops = whole_stop, r->n_stops = 1))
SPOIL(choices_high, r->n = CHOICES_MAX + 1)
SPOIL(choices_most, r->n = CHOICES_MAX)
SPOIL(all_values,
      (r->sampling.min_p = 1, r->sampling.repetition_penalty = 100,
       r->sampling.presence_penalty = -2, r->sampling.frequency_penalty = 2,
       r->sampling.n_top_logprobs = TOP_LOGPROBS_MAX))

static const struct row rows[] = {
    {"nothing", spoil_nothing, ST_OK},
    {"no prompt", spoil_no_prompt, ST_INVALID_ARGUMENT},
    {"empty text", spoil_empty_text, ST_INVALID_ARGUMENT},
    {"text and ids", spoil_both, ST_INVALID_ARGUMENT},
    {"text that is not UTF-8", spoil_not_utf8, ST_INVALID_ARGUMENT},
    {"an id past the vocabulary", spoil_id_out_of_range, ST_INVALID_ARGUMENT},
    {"the highest id", spoil_id_huge, ST_INVALID_ARGUMENT},
    {"a prompt past the context", spoil_prompt_too_long, ST_INVALID_ARGUMENT},
    {"a prompt that fills the context", spoil_prompt_fills_context,
     ST_INVALID_ARGUMENT},
    {"max_tokens past the context", spoil_too_many_tokens, ST_INVALID_ARGUMENT},
    {"the highest max_tokens", spoil_most_tokens, ST_INVALID_ARGUMENT},
    {"temperature NaN", spoil_temperature_nan, ST_INVALID_ARGUMENT},
    {"temperature -1", spoil_temperature_negative, ST_INVALID_ARGUMENT},
    {"temperature infinite", spoil_temperature_infinite, ST_INVALID_ARGUMENT},
    {"temperature 100.5", spoil_temperature_high, ST_INVALID_ARGUMENT},
    {"top_p 0", spoil_top_p_zero, ST_INVALID_ARGUMENT},
    {"top_p NaN", spoil_top_p_nan, ST_INVALID_ARGUMENT},
    {"top_p 1.5", spoil_top_p_high, ST_INVALID_ARGUMENT},
    {"an unknown model", spoil_unknown_model, ST_NOT_FOUND},
    {"min_p NaN", spoil_min_p_nan, ST_INVALID_ARGUMENT},
    {"min_p 1.5", spoil_min_p_high, ST_INVALID_ARGUMENT},
    {"top_k past the vocabulary", spoil_top_k_high, ST_INVALID_ARGUMENT},
    {"repetition penalty 0", spoil_repetition_zero, ST_INVALID_ARGUMENT},
    {"repetition penalty 100.5", spoil_repetition_high, ST_INVALID_ARGUMENT},
    {"presence penalty -2.5", spoil_presence_low, ST_INVALID_ARGUMENT},
    {"presence penalty NaN", spoil_presence_nan, ST_INVALID_ARGUMENT},
    {"frequency penalty 2.5", spoil_frequency_high, ST_INVALID_ARGUMENT},
    {"a bias past the vocabulary", spoil_bias_id, ST_INVALID_ARGUMENT},
    {"a bias of 100.5", spoil_bias_high, ST_INVALID_ARGUMENT},
    {"a bias NaN", spoil_bias_nan, ST_INVALID_ARGUMENT},
    {"two biases of a token", spoil_bias_twice, ST_INVALID_ARGUMENT},
    {"a stop token past the vocabulary", spoil_stop_token_id,
     ST_INVALID_ARGUMENT},
    {"top_logprobs 21", spoil_top_logprobs_high, ST_INVALID_ARGUMENT},
    {"an empty stop string", spoil_stop_empty, ST_INVALID_ARGUMENT},
    {"a stop string that is not UTF-8", spoil_stop_not_utf8,
     ST_INVALID_ARGUMENT},
    {"a stop string of 257 bytes", spoil_stop_long, ST_INVALID_ARGUMENT},
    {"a stop string of 256 bytes", spoil_stop_whole, ST_OK},
    {"65 choices", spoil_choices_high, ST_INVALID_ARGUMENT},
    {"64 choices", spoil_choices_most, ST_OK},
    {"every value at its limit", spoil_all_values, ST_OK},
    {"keep_ms past its limit", spoil_keep_too_long, ST_INVALID_ARGUMENT},
};

static void expect(const char *name, enum status wanted, enum status got,
                   const char *text)
{
    if (got != wanted) {
        printf("requests: FAILED: %s: expected %s, got %s: %s\n", name,
               status_name(wanted), status_name(got), text);
        n_failed++;
    } else {
        printf("%-34s %s: %s\n", name, status_name(got), text);
    }
}

static void try_row(struct client *c, const struct row *row)
{
    struct client_request r = good();
    struct client_result result;
    struct error e = {0};
    enum status got;

    row->spoil(&r);
    got = client_generate(c, &r, &result, &e);
    expect(row->name, row->wanted, got, e.text);
    if (got != ST_OK && strlen(e.text) < 10) {
        printf("requests: FAILED: %s: no error text\n", row->name);
        n_failed++;
    }
    r = good();
    got = client_generate(c, &r, &result, &e);
    if (got != ST_OK || result.n_generated != 2) {
        expect("a good request after it", ST_OK, got, e.text);
    }
}

/* Cancels at the first chunk.  An id may be used again after its end. */
static bool again(void *arg, const struct client_chunk *chunk)
{
    (void)chunk;
    (*(int *)arg)++;
    return false; /* cancel */
}

static void try_twice(const char *endpoint, struct client *c)
{
    struct client_config config = {.endpoint = endpoint};
    struct client_request r = good();
    struct client_result result;
    struct client *other = NULL;
    struct error e = {0};
    int n = 0;

    if (client_open(&other, &config, &e) != ST_OK) {
        expect("a second connection", ST_OK, e.code, e.text);
        return;
    }
    memset(r.request_id, 7, sizeof r.request_id);
    r.max_tokens = 3000;
    r.on_chunk = again;
    r.arg = &n;
    expect("cancelled by its callback", ST_CANCELLED,
           client_generate(c, &r, &result, &e), e.text);
    if (!result.has_receipt || result.receipt.slots != 1 || n == 0) {
        printf("requests: FAILED: incomplete receipt\n");
        n_failed++;
    }
    r.max_tokens = 2;
    r.on_chunk = NULL;
    expect("an id that has ended", ST_OK,
           client_generate(other, &r, &result, &e), e.text);
    client_close(&other);
}

static void try_admin(struct client *c)
{
    Sluice__V1__StatusRequest nothing = SLUICE__V1__STATUS_REQUEST__INIT;
    struct error e = {0};

    expect("the Admin service by a client", ST_PERMISSION_DENIED,
           client_call(c, METHOD_ADMIN_STATUS, &nothing.base, 1000, NULL, NULL,
                       &e),
           e.text);
}

int main(int argc, char **argv)
{
    struct client_config config = {.endpoint = argc > 1 ? argv[1] : ""};
    struct client *c = NULL;
    struct error e = {0};

    for (size_t i = 0; i <= CONTEXT; i++) {
        many_ids[i] = 300 + (uint32_t)(i % 1000);
    }
    if (client_open(&c, &config, &e) != ST_OK) {
        printf("requests: FAILED: %s\n", e.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        try_row(c, &rows[i]);
    }
    try_twice(config.endpoint, c);
    try_admin(c);
    client_close(&c);
    return n_failed == 0 ? 0 : 1;
}
