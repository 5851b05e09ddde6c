/* request.c - Conversion of a struct client_request to a GenerateRequest. */
#include "client/lib/request.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/sampling/sampling_message.h"

struct client_request client_request_default(void)
{
    return (struct client_request){.sampling = sampling_default(), .n = 1};
}

/* ---- lists ----
 *
 * The message has bounded lists in ascending order, each token once (checked
 * by the router); the caller's lists may be in any order. */

static enum status check_length(const char *what, size_t n, size_t most,
                                struct error *e)
{
    return n <= most
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "%zu %s exceed the limit of %zu", n, what, most);
}

struct bias {
    uint32_t token;
    float bias;
};

static int by_token(const void *a, const void *b)
{
    uint32_t x = ((const struct bias *)a)->token;
    uint32_t y = ((const struct bias *)b)->token;

    return (x > y) - (x < y);
}

/* Sorts a copy, because the caller's array is const. */
static enum status take_biases(struct request_message *out,
                               const struct sampling *r, struct error *e)
{
    struct bias sorted[LOGIT_BIASES_MAX];
    enum status s =
        check_length("logit biases", r->n_biases, LOGIT_BIASES_MAX, e);

    if (s != ST_OK) {
        return s;
    }
    for (size_t i = 0; i < r->n_biases; i++) {
        sorted[i] = (struct bias){r->bias_tokens[i], r->biases[i]};
    }
    if (r->n_biases > 0) {
        qsort(sorted, r->n_biases, sizeof *sorted, by_token);
    }
    for (size_t i = 0; i < r->n_biases; i++) {
        if (i > 0 && sorted[i].token == sorted[i - 1].token) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "token %u has two logit biases", sorted[i].token);
        }
        out->bias_tokens[i] = sorted[i].token;
        out->biases[i] = sorted[i].bias;
    }
    return ST_OK;
}

static enum status take_stop_tokens(struct request_message *out,
                                    const struct sampling *r, struct error *e)
{
    uint32_t *sorted = out->stop_tokens;
    enum status s =
        check_length("stop tokens", r->n_stop_tokens, STOP_TOKENS_MAX, e);

    if (s != ST_OK) {
        return s;
    }
    if (r->n_stop_tokens > 0) {
        memcpy(sorted, r->stop_tokens, r->n_stop_tokens * sizeof *sorted);
        qsort(sorted, r->n_stop_tokens, sizeof *sorted, ascending_u32);
    }
    for (size_t i = 1; i < r->n_stop_tokens; i++) {
        if (sorted[i] == sorted[i - 1]) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "stop token %u occurs twice", sorted[i]);
        }
    }
    return ST_OK;
}

static enum status take_stops(struct request_message *out,
                              const struct client_request *r, struct error *e)
{
    enum status s =
        check_length("stop strings", r->n_stops, STOP_STRINGS_MAX, e);

    for (size_t i = 0; s == ST_OK && i < r->n_stops; i++) {
        out->stop[i] = (ProtobufCBinaryData){
            r->stops[i].n, (uint8_t *)(uintptr_t)r->stops[i].text};
    }
    return s;
}

/* ---- the message ---- */

/* has_seed is set here, because struct sampling always has a seed: without one
 * in the request, the router derives it from the request_id. */
static void write_sampling(struct request_message *out,
                           const struct client_request *r)
{
    struct sampling s = r->sampling;

    s.logprobs = s.logprobs || s.n_top_logprobs > 0;
    s.bias_tokens = out->bias_tokens;
    s.biases = out->biases;
    s.stop_tokens = out->stop_tokens;
    sampling_write(&s, &out->sampling);
    out->sampling.has_seed = r->has_seed;
}

/* Writes the fields besides sampling.  Optional fields at their default are
 * left out. */
static void write_rest(struct request_message *out,
                       const struct client_request *r,
                       const uint8_t request_id[16])
{
    Sluice__V1__GenerateRequest *m = &out->m;
    const char *model = r->model == NULL ? "" : r->model;
    size_t tenant_bytes = r->tenant == NULL ? 0 : strlen(r->tenant);
    size_t salt_bytes = r->cache_salt == NULL ? 0 : strlen(r->cache_salt);

    sluice__v1__generate_request__init(m);
    m->sampling = &out->sampling;
    m->request_id = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)request_id};
    m->model =
        (ProtobufCBinaryData){strlen(model), (uint8_t *)(uintptr_t)model};
    m->has_text = r->text != NULL;
    m->text = (ProtobufCBinaryData){r->n_text, (uint8_t *)(uintptr_t)r->text};
    m->n_tokens = r->n_ids;
    m->tokens = (uint32_t *)(uintptr_t)r->ids;
    m->has_max_tokens = r->max_tokens != 0;
    m->max_tokens = r->max_tokens;
    m->has_keep_ms = r->keep_ms != 0;
    m->keep_ms = r->keep_ms;
    m->has_parse_special = m->has_want_text = true;
    m->parse_special = r->parse_special;
    m->want_text = !r->no_text;
    m->has_special_text = r->special_text;
    m->special_text = r->special_text;
    m->has_tenant = r->tenant != NULL;
    m->tenant =
        (ProtobufCBinaryData){tenant_bytes, (uint8_t *)(uintptr_t)r->tenant};
    m->has_guaranteed = m->guaranteed = r->turn.guaranteed;
    m->has_cache = r->no_cache;
    m->cache = !r->no_cache;
    m->has_cache_salt = r->cache_salt != NULL;
    m->cache_salt =
        (ProtobufCBinaryData){salt_bytes, (uint8_t *)(uintptr_t)r->cache_salt};
    m->has_tier = r->turn.tier != CLIENT_TIER_DEFAULT;
    m->tier = (Sluice__V1__Tier)r->turn.tier; /* the same numbers */
    m->has_drafts = r->drafts.given;
    m->drafts = r->drafts.n;
    if (r->has_continue) {
        sluice__v1__sequence_ref__init(&out->continue_from);
        out->continue_from.request_id =
            (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)r->continue_id};
        out->continue_from.has_choice = true;
        out->continue_from.choice = r->continue_choice;
        m->continue_from = &out->continue_from;
    }
    m->n_stop = r->n_stops;
    m->stop = out->stop;
    m->has_n = r->n > 1;
    m->n = r->n > 1 ? r->n : 1;
}

enum status request_message(struct request_message *out,
                            const struct client_request *r,
                            const uint8_t request_id[16], struct error *e)
{
    enum status s = take_biases(out, &r->sampling, e);

    s = s == ST_OK ? take_stop_tokens(out, &r->sampling, e) : s;
    s = s == ST_OK ? take_stops(out, r, e) : s;
    if (s == ST_OK && r->n > CHOICES_MAX) {
        s = error_set(e, ST_INVALID_ARGUMENT,
                      "%u choices exceed the limit of %d", r->n, CHOICES_MAX);
    }
    if (s == ST_OK) {
        write_sampling(out, r);
        write_rest(out, r, request_id);
    }
    return s;
}
