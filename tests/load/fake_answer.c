#include "tests/load/fake_answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#define TOKENS_DEFAULT 16

static void reserve(struct fake_text *t, size_t n)
{
    size_t size = t->size == 0 ? 4096 : t->size;

    if (t->n + n <= t->size) {
        return;
    }
    while (size < t->n + n) {
        size *= 2;
    }
    t->bytes = realloc(t->bytes, size);
    if (t->bytes == NULL) {
        abort();
    }
    t->size = size;
}

void fake_put(struct fake_text *t, const void *bytes, size_t n)
{
    reserve(t, n);
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

void fake_print(struct fake_text *t, const char *format, ...)
{
    va_list args;
    int n;

    reserve(t, 1024);
    va_start(args, format);
    n = vsnprintf(t->bytes + t->n, 1024, format, args);
    va_end(args);
    if (n < 0 || n >= 1024) {
        abort();
    }
    t->n += (size_t)n;
}

/* ---- the request ---- */

/* Returns what follows "key": in the body, NULL if it is absent. */
static const char *after(const char *body, size_t n, const char *key)
{
    size_t size = strlen(key);
    const char *at = memmem(body, n, key, size);
    const char *end = body + n;

    if (at == NULL) {
        return NULL;
    }
    at += size;
    while (at < end && (*at == ' ' || *at == ':')) {
        at++;
    }
    return at < end ? at : NULL;
}

static uint32_t number_of(const char *body, size_t n, const char *key,
                          uint32_t fallback)
{
    const char *at = after(body, n, key);

    return at == NULL ? fallback : (uint32_t)strtoul(at, NULL, 10);
}

static bool is_true(const char *body, size_t n, const char *key)
{
    const char *at = after(body, n, key);

    return at != NULL && *at == 't';
}

/* Counts ids; of text, a token for each four bytes. */
static uint32_t prompt_tokens(const char *body, size_t n)
{
    const char *at = after(body, n, "\"prompt\"");
    uint32_t count = 1;

    if (at == NULL || *at != '[') {
        return (uint32_t)(n / 4);
    }
    for (; at < body + n && *at != ']'; at++) {
        count += *at == ',';
    }
    return count;
}

void fake_request_read(struct fake_request *q, const char *body, size_t n)
{
    q->stream = is_true(body, n, "\"stream\"");
    q->usage = is_true(body, n, "\"include_usage\"");
    q->n_tokens = number_of(body, n, "\"max_tokens\"", TOKENS_DEFAULT);
    q->n_choices = number_of(body, n, "\"n\"", 1);
    q->n_prompt = prompt_tokens(body, n);
    q->hash = XXH3_64bits(body, n);
}

int64_t fake_delay_us(uint64_t number, int64_t low_us, int64_t high_us)
{
    uint64_t span = (uint64_t)(high_us - low_us) + 1;

    return low_us + (int64_t)(XXH3_64bits_withSeed(&number, 8, 1) % span);
}

enum fake_fault fake_fault_of(uint64_t number, double share)
{
    uint64_t h = XXH3_64bits_withSeed(&number, 8, 2);
    double x = (double)(h >> 11) / 9007199254740992.0;

    return x < share ? (enum fake_fault)(1 + h % 3) : FAKE_NO_FAULT;
}

/* ---- the answer ---- */

static const char *word(const struct fake_request *q, uint32_t choice,
                        uint32_t i)
{
    static const char *const words[16] = {
        " the", " of",  " and", " a",  " to",  " in",   " is", " water",
        " was", " for", " on",  " as", " his", " with", " by", " that"};
    uint64_t key[2] = {q->hash, (uint64_t)choice << 32 | i};

    return words[XXH3_64bits(key, sizeof key) % 16];
}

void fake_head(struct fake_text *out)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n"
                               "Content-Type: text/event-stream\r\n"
                               "Cache-Control: no-cache\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";

    fake_put(out, head, sizeof head - 1);
}

/* Appends one event as one HTTP chunk. */
static void put_event(struct fake_text *out, const char *data, size_t n)
{
    fake_print(out, "%zx\r\ndata: ", n + 8);
    fake_put(out, data, n);
    fake_put(out, "\n\n\r\n", 4);
}

static void put_chunk(struct fake_text *out, const struct fake_request *q,
                      const char *choices, const char *usage)
{
    char data[640];
    int n = snprintf(data, sizeof data,
                     "{\"id\":\"fake-%llu\",\"object\":\"%s\",\"created\":"
                     "1700000000,\"model\":\"fake\",\"choices\":[%s]%s%s}",
                     (unsigned long long)q->number,
                     q->chat ? "chat.completion.chunk" : "text_completion",
                     choices, usage[0] == '\0' ? "" : ",\"usage\":", usage);

    put_event(out, data, (size_t)n);
}

static void put_choice(struct fake_text *out, const struct fake_request *q,
                       uint32_t choice, const char *text, const char *finish)
{
    char choices[256];

    if (q->chat) {
        snprintf(choices, sizeof choices,
                 "{\"index\":%u,\"delta\":{\"content\":\"%s\"},"
                 "\"finish_reason\":%s}",
                 choice, text, finish);
    } else {
        snprintf(choices, sizeof choices,
                 "{\"index\":%u,\"text\":\"%s\",\"logprobs\":null,"
                 "\"finish_reason\":%s}",
                 choice, text, finish);
    }
    put_chunk(out, q, choices, "");
}

void fake_token(struct fake_text *out, const struct fake_request *q, uint32_t i)
{
    for (uint32_t c = 0; c < q->n_choices; c++) {
        put_choice(out, q, c, word(q, c, i),
                   i + 1 == q->n_tokens ? "\"length\"" : "null");
    }
}

static void usage_text(const struct fake_request *q, char *out, size_t size)
{
    snprintf(out, size,
             "{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
             "\"total_tokens\":%u,\"prompt_tokens_details\":"
             "{\"cached_tokens\":%u}}",
             q->n_prompt, q->n_tokens * q->n_choices,
             q->n_prompt + q->n_tokens * q->n_choices, q->n_prompt / 2);
}

void fake_end(struct fake_text *out, const struct fake_request *q)
{
    char usage[200];

    usage_text(q, usage, sizeof usage);
    if (q->usage) {
        put_chunk(out, q, "", usage);
    }
    put_event(out, "[DONE]", 6);
    fake_put(out, "0\r\n\r\n", 5);
}

static void put_body(struct fake_text *out, const char *status,
                     const struct fake_text *body)
{
    fake_print(out,
               "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n",
               status, body->n);
    fake_put(out, body->bytes, body->n);
}

void fake_whole(struct fake_text *out, const struct fake_request *q)
{
    struct fake_text body = {0};
    char usage[200];

    usage_text(q, usage, sizeof usage);
    fake_print(&body, "{\"id\":\"fake-%llu\",\"model\":\"fake\",\"choices\":[",
               (unsigned long long)q->number);
    for (uint32_t c = 0; c < q->n_choices; c++) {
        fake_print(&body, "%s{\"index\":%u,%s\"", c > 0 ? "," : "", c,
                   q->chat ? "\"message\":{\"role\":\"assistant\",\"content\":"
                           : "\"text\":");
        for (uint32_t i = 0; i < q->n_tokens; i++) {
            const char *text = word(q, c, i);

            fake_put(&body, text, strlen(text));
        }
        fake_print(&body, "\"%s,\"finish_reason\":\"length\"}",
                   q->chat ? "}" : "");
    }
    fake_print(&body, "],\"usage\":%s}", usage);
    put_body(out, "200 OK", &body);
    free(body.bytes);
}

void fake_error(struct fake_text *out, int status, const char *message)
{
    struct fake_text body = {0};
    char line[64];

    fake_print(&body,
               "{\"error\":{\"message\":\"%s\",\"type\":\"fake_error\","
               "\"code\":null}}",
               message);
    snprintf(line, sizeof line, "%d Fault", status);
    put_body(out, line, &body);
    free(body.bytes);
}

void fake_models(struct fake_text *out)
{
    struct fake_text body = {0};

    fake_print(&body, "{\"object\":\"list\",\"data\":[{\"id\":\"fake\","
                      "\"object\":\"model\",\"created\":1700000000,"
                      "\"owned_by\":\"fake\",\"max_model_len\":131072}]}");
    put_body(out, "200 OK", &body);
    free(body.bytes);
}
