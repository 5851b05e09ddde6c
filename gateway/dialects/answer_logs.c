/* Logprobs of an answer: a list of objects, or four lists. */
#include <stdbool.h>
#include <string.h>

#include "common/base/utf8.h"
#include "gateway/dialects/answer_base.h"

struct token_text {
    const char *bytes;
    size_t n;
};

static struct token_text text_of(const struct openai_answer *a, uint32_t token)
{
    struct token_text t = {.bytes = ""};

    t.n = a->o.vocab->bytes(a->o.vocab->arg, token, &t.bytes);
    return t;
}

/* ---- objects ---- */

/* A token may end inside a character, so its bytes are given as well. */
static void put_token(struct json_out *o, struct token_text t, float logprob)
{
    json_out_put(o, "{\"token\":");
    json_out_string(o, t.bytes, t.n);
    json_out_put(o, ",\"logprob\":");
    json_out_float(o, logprob);
    json_out_put(o, ",\"bytes\":[");
    for (size_t i = 0; i < t.n; i++) {
        json_out_put(o, i > 0 ? "," : "");
        json_out_u64(o, (uint8_t)t.bytes[i]);
    }
    json_out_put(o, "]");
}

void answer_logs_objects(struct openai_answer *a, struct choice *c,
                         const struct openai_logprobs *l)
{
    struct json_out *o = &c->logs[0];

    for (uint32_t i = 0; i < l->n_tokens; i++) {
        json_out_put(o, o->n > 0 ? "," : "");
        put_token(o, text_of(a, l->tokens[i]), l->logprobs[i]);
        json_out_put(o, ",\"top_logprobs\":[");
        for (uint32_t j = i * l->n_top; j < (i + 1) * l->n_top; j++) {
            json_out_put(o, j > i * l->n_top ? "," : "");
            put_token(o, text_of(a, l->top_tokens[j]), l->top_logprobs[j]);
            json_out_put(o, "}");
        }
        json_out_put(o, "]}");
    }
}

/* ---- columns ---- */

/* This form has no list of bytes.  OpenAI's own servers write a token that is
 * not UTF-8 as "bytes:\xe2\x80". */
static void put_text(struct json_out *o, struct token_text t)
{
    static const char hex[] = "0123456789abcdef";

    if (utf8_valid(t.bytes, t.n, NULL)) {
        json_out_string(o, t.bytes, t.n);
        return;
    }
    json_out_put(o, "\"bytes:");
    for (size_t i = 0; i < t.n; i++) {
        uint8_t byte = (uint8_t)t.bytes[i];
        char escape[] = {'\\', '\\', 'x', hex[byte >> 4], hex[byte & 15]};

        json_out_raw(o, escape, sizeof escape);
    }
    json_out_put(o, "\"");
}

static void put_pair(struct json_out *o, struct token_text t, float logprob)
{
    put_text(o, t);
    json_out_put(o, ":");
    json_out_float(o, logprob);
}

/* Returns whether one of the candidates from..to has the text of token. */
static bool has_text(struct openai_answer *a, const struct openai_logprobs *l,
                     uint32_t from, uint32_t to, uint32_t token)
{
    struct token_text t = text_of(a, token);

    for (uint32_t j = from; j < to; j++) {
        struct token_text other = text_of(a, l->top_tokens[j]);

        if (other.n == t.n &&
            (t.n == 0 || memcmp(other.bytes, t.bytes, t.n) == 0)) {
            return true;
        }
    }
    return false;
}

/* The chosen token is among the candidates, or follows them.  Texts are keys:
 * of several tokens with one text the likeliest counts. */
static void put_candidates(struct openai_answer *a, struct json_out *o,
                           const struct openai_logprobs *l, uint32_t i)
{
    uint32_t from = i * l->n_top, to = from + l->n_top;

    json_out_put(o, "{");
    for (uint32_t j = from; j < to; j++) {
        if (has_text(a, l, from, j, l->top_tokens[j])) {
            continue;
        }
        json_out_put(o, j > from ? "," : "");
        put_pair(o, text_of(a, l->top_tokens[j]), l->top_logprobs[j]);
    }
    if (!has_text(a, l, from, to, l->tokens[i])) {
        json_out_put(o, l->n_top > 0 ? "," : "");
        put_pair(o, text_of(a, l->tokens[i]), l->logprobs[i]);
    }
    json_out_put(o, "}");
}

void answer_logs_columns(struct openai_answer *a, struct choice *c,
                         const struct openai_logprobs *l)
{
    for (uint32_t i = 0; i < l->n_tokens; i++) {
        struct token_text t = text_of(a, l->tokens[i]);

        for (size_t list = 0; list < ANSWER_LOGS; list++) {
            json_out_put(&c->logs[list], c->logs[list].n > 0 ? "," : "");
        }
        put_text(&c->logs[0], t);
        json_out_float(&c->logs[1], l->logprobs[i]);
        put_candidates(a, &c->logs[2], l, i);
        json_out_u64(&c->logs[3], c->n_chars);
        for (size_t j = 0; j < t.n; j++) {
            c->n_chars += ((uint8_t)t.bytes[j] & 0xc0) != 0x80;
        }
    }
}
