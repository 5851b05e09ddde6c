/* http_ask.c - The models of an OpenAI-compatible server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <jansson.h>

#include "client/load/drive/ask.h"
#include "client/load/drive/http_text.h"
#include "client/load/drive/http_wire.h"
#include "common/base/quote.h"

#define MODELS_BYTES_MAX (4u << 20)
#define KEY_MAX          4096

enum status http_key_check(const char *key, struct error *e)
{
    if (strlen(key) > KEY_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the API key has %zu bytes; the limit is %d",
                         strlen(key), KEY_MAX);
    }
    for (const char *p = key; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~') {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "the API key has a character that no header may "
                             "have; check --key or $SLUICE_API_KEY");
        }
    }
    return ST_OK;
}

static size_t take(char *bytes, size_t one, size_t n, void *arg)
{
    struct http_text *t = arg;

    if (n > MODELS_BYTES_MAX - t->n) {
        return 0;
    }
    http_text_put(t, bytes, n * one);
    return n;
}

/* Fetches the list of models.  Returns the HTTP status; 0 and an error if there
 * is no answer. */
static long fetch(const struct target_options *o, const struct http_url *url,
                  struct http_text *body, struct error *e)
{
    char address[HTTP_URL_MAX + 300], bearer[KEY_MAX + 32],
        why[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    CURL *c = curl_easy_init();
    long status = 0;
    CURLcode result;

    snprintf(address, sizeof address, "%s://%s%s/models",
             url->secure ? "https" : "http", url->authority, url->base);
    if (o->key != NULL) {
        snprintf(bearer, sizeof bearer, "Authorization: Bearer %s", o->key);
        headers = curl_slist_append(headers, bearer);
    }
    curl_easy_setopt(c, CURLOPT_URL, address);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_ms);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)o->connect_ms + ASK_MS);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, o->insecure ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, o->insecure ? 0L : 2L);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, body);
    result = curl_easy_perform(c);
    if (result == CURLE_OK) {
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    } else {
        error_set(e, ST_UNAVAILABLE, "%s: %s", address,
                  why[0] != '\0' ? why : curl_easy_strerror(result));
    }
    curl_easy_cleanup(c);
    curl_slist_free_all(headers);
    return status;
}

static const json_t *find_model(const json_t *list, const char *id)
{
    size_t i;
    const json_t *model;

    json_array_foreach(list, i, model)
    {
        const char *is = json_string_value(json_object_get(model, "id"));

        if (is != NULL && (id == NULL || strcmp(is, id) == 0)) {
            return model;
        }
    }
    return NULL;
}

static uint32_t context_of(const json_t *model)
{
    static const char *const keys[] = {"max_model_len", "context_length",
                                       "context_window", "max_context_length"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_int_t n = json_integer_value(json_object_get(model, keys[i]));

        if (n > 0 && n <= UINT32_MAX) {
            return (uint32_t)n;
        }
    }
    return 0;
}

/* Fills the facts from an entry of the list, NULL if there is none. */
static enum status take_facts(const json_t *model,
                              const struct target_options *o,
                              struct target_facts *out, struct error *e)
{
    const char *id = json_string_value(json_object_get(model, "id"));
    const char *owner = json_string_value(json_object_get(model, "owned_by"));

    if (o->model == NULL && id == NULL) {
        return error_set(e, ST_NOT_FOUND,
                         "%s lists no model; name one with "
                         "--model",
                         o->endpoint);
    }
    out->has_text = true;
    out->is_sluice = owner != NULL && strcmp(owner, "sluice") == 0;
    out->context = context_of(model);
    if (o->model != NULL) {
        id = o->model;
    }
    if (strlen(id) >= sizeof out->model) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "model %s has a name of %zu bytes; the limit is %zu",
                         quote(id).text, strlen(id), sizeof out->model - 1);
    }
    snprintf(out->model, sizeof out->model, "%s", id);
    return ST_OK;
}

/* A server without a list of models can be used if the model is named. */
static enum status judge(long status, const struct target_options *o,
                         struct error *e)
{
    if (status == 401 || status == 403) {
        return error_set(e, ST_UNAUTHENTICATED,
                         "%s refuses the API key (HTTP %ld); set --key or "
                         "$SLUICE_API_KEY",
                         o->endpoint, status);
    }
    if (status != 200 && o->model == NULL) {
        return error_set(e, ST_NOT_FOUND,
                         "%s has no list of models (HTTP %ld); name one with "
                         "--model",
                         o->endpoint, status);
    }
    return ST_OK;
}

enum status http_ask(const struct target_options *o, struct target_facts *out,
                     struct error *e)
{
    struct http_text body = {0};
    struct http_url url;
    json_t *root = NULL;
    long status;
    enum status st = http_url_read(&url, o->endpoint, e);

    if (st == ST_OK && o->key != NULL) {
        st = http_key_check(o->key, e);
    }
    if (st != ST_OK) {
        return st;
    }
    *out = (struct target_facts){0};
    status = fetch(o, &url, &body, e);
    st = status == 0 ? ST_UNAVAILABLE : judge(status, o, e);
    if (st == ST_OK) {
        if (status == 200 && body.n > 0) {
            root = json_loadb(body.bytes, body.n, 0, NULL);
        }
        st = take_facts(find_model(json_object_get(root, "data"), o->model), o,
                        out, e);
    }
    json_decref(root);
    http_text_fini(&body);
    return st;
}
