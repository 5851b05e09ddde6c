#include "client/load/drive/http_body.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/json_must.h"
#include "common/base/quote.h"

/* The seed of the run may have 64 bits; servers take 63. */
#define SEED_MASK 0x7fffffffffffffff
#define ID_DIGITS 10

static void set_sampling(json_t *body, const struct target_options *o)
{
    json_must_set(body, "temperature", json_real(o->temperature));
    if (o->top_p > 0 && o->top_p < 1) {
        json_must_set(body, "top_p", json_real(o->top_p));
    }
    if (o->top_k > 0) {
        json_must_set(body, "top_k", json_integer(o->top_k));
    }
    if (o->n > 1) {
        json_must_set(body, "n", json_integer(o->n));
    }
    if (o->has_drafts) {
        json_must_set(body, "drafts", json_integer(o->drafts));
    }
    if (o->has_seed) {
        json_must_set(body, "seed",
                      json_integer((json_int_t)(o->seed & SEED_MASK)));
    }
}

static enum status set_stops(json_t *body, const struct target_options *o,
                             struct error *e)
{
    json_t *stops;

    if (o->n_stops == 0) {
        return ST_OK;
    }
    stops = json_array();
    for (uint32_t i = 0; i < o->n_stops; i++) {
        json_t *stop = json_string(o->stops[i]);

        if (stop == NULL) {
            json_decref(stops);
            return error_set(e, ST_INVALID_ARGUMENT, "--stop %s is no UTF-8",
                             quote(o->stops[i]).text);
        }
        json_array_append_new(stops, stop);
    }
    json_must_set(body, "stop", stops);
    return ST_OK;
}

static enum status add_extra(json_t *body, const char *extra, struct error *e)
{
    json_error_t why;
    json_t *more;

    if (extra == NULL) {
        return ST_OK;
    }
    more = json_loads(extra, 0, &why);
    if (!json_is_object(more)) {
        json_decref(more);
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--extra is no JSON object: %s; write "
                         "'{\"member\": value}'",
                         more == NULL ? why.text : "it is another value");
    }
    json_object_update(body, more);
    json_decref(more);
    return ST_OK;
}

static enum status fill(json_t *body, const struct target_options *o,
                        struct error *e)
{
    enum status st = ST_OK;

    if (o->model != NULL) {
        json_t *model = json_string(o->model);

        if (model == NULL) {
            return error_set(e, ST_INVALID_ARGUMENT, "--model %s is no UTF-8",
                             quote(o->model).text);
        }
        json_must_set(body, "model", model);
    }
    json_must_set(body, "stream", json_boolean(o->stream));
    if (o->stream) {
        json_must_set(body, "stream_options",
                      json_pack("{s:b}", "include_usage", 1));
    }
    if (o->ignore_eos) {
        json_must_set(body, "ignore_eos", json_true());
    }
    set_sampling(body, o);
    st = set_stops(body, o, e);
    return st == ST_OK ? add_extra(body, o->extra, e) : st;
}

enum status http_body_init(struct http_body *b, const struct target_options *o,
                           struct error *e)
{
    json_t *body = json_object();
    enum status st = fill(body, o, e);

    *b = (struct http_body){
        .chat = o->chat,
        .sends_max = json_object_get(body, "max_tokens") == NULL &&
                     json_object_get(body, "max_completion_tokens") == NULL};
    if (st == ST_OK) {
        b->shared = json_dumps(body, JSON_COMPACT);
        assert(b->shared != NULL);
        b->shared[0] = ','; /* the caller's members come first */
    }
    json_decref(body);
    return st;
}

void http_body_fini(struct http_body *b)
{
    free(b->shared);
    b->shared = NULL;
}

/* ---- prompts ---- */

/* Writes v and returns the end.  A prompt may have 100,000 ids. */
static char *put_id(char *to, uint32_t v)
{
    char digits[ID_DIGITS];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    while (n > 0) {
        *to++ = digits[--n];
    }
    return to;
}

static void put_ids(struct http_text *out, const struct prompt *p)
{
    char *to;

    http_text_reserve(out, p->n_ids * (ID_DIGITS + 1) + 1);
    to = out->bytes + out->n;
    *to++ = '[';
    for (size_t i = 0; i < p->n_ids; i++) {
        to = put_id(to, p->ids[i]);
        *to++ = ',';
    }
    to[-1] = ']'; /* the last comma; prompts of no id are texts */
    out->n = (size_t)(to - out->bytes);
}

static void put_message(struct http_text *out, const char *role,
                        const char *text, size_t n)
{
    http_text_puts(out, "{\"role\":");
    http_text_string(out, role, strlen(role));
    http_text_puts(out, ",\"content\":");
    http_text_string(out, text, n);
    http_text_puts(out, "}");
}

static void put_messages(struct http_text *out, const struct prompt *p)
{
    http_text_puts(out, "[");
    for (size_t i = 0; i < p->n_messages; i++) {
        const struct prompt_message *m = &p->messages[i];

        http_text_puts(out, i == 0 ? "" : ",");
        put_message(out, m->role, p->text + m->at, m->n);
    }
    if (p->n_messages == 0) {
        put_message(out, "user", p->text, p->n_text);
    }
    http_text_puts(out, "]");
}

enum status http_body_put(const struct http_body *b, const struct prompt *p,
                          uint32_t max_tokens, struct http_text *out,
                          struct error *e)
{
    if (b->chat && p->n_ids > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a chat takes text, but the prompt is token ids; use "
                         "--api completions or leave out --vocab");
    }
    if (!b->chat && p->json != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the data set has messages, which "
                         "/completions cannot take; use --api chat");
    }
    http_text_puts(out, b->chat ? "{\"messages\":" : "{\"prompt\":");
    if (p->json != NULL) {
        http_text_put(out, p->json, p->n_json);
    } else if (b->chat) {
        put_messages(out, p);
    } else if (p->n_ids > 0) {
        put_ids(out, p);
    } else {
        http_text_string(out, p->text, p->n_text);
    }
    if (b->sends_max) {
        http_text_puts(out, ",\"max_tokens\":");
        http_text_number(out, max_tokens);
    }
    http_text_puts(out, b->shared);
    return ST_OK;
}
