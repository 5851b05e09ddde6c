#include "text/gguf_tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "text/byte_fallback.h"
#include "text/spm_merges.h"
#include "text/text_limits.h"
#include "text/vocab.h"

#define KEY(name) "tokenizer.ggml." name
#define TOP_K     "general.sampling.top_k"

/* tokenizer.ggml.token_type */
enum token_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

/* ---- split expressions ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char qwen2[] =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                 " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES;
static const char qwen35[] =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                 " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES;
static const char llama3[] =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                 " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES;
static const char gpt_4o[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" CONTRACTIONS "?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" CONTRACTIONS "?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES;

/* The expression of a name of tokenizer.ggml.pre; no expression: that of
 * ByteLevel. */
static const struct pre {
    const char *name, *split;
    bool nfc, ignore_merges, bos;
} pres[] = {
    {"qwen2", qwen2, true, false, false},
    {"deepseek-r1-qwen", qwen2, true, false, false},
    {"qwen35", qwen35, true, false, false},
    {"llama-bpe", llama3, false, true, true},
    {"llama3", llama3, false, true, true},
    {"llama-v3", llama3, false, true, true},
    {"gpt-4o", gpt_4o, false, false, false},
    {"gpt-2", NULL, false, false, false},
};

#define PRES "qwen2, qwen35, llama-bpe, gpt-4o and gpt-2"

/* ---- values ---- */

struct builder {
    const struct gguf *g;
    const struct gguf_value *types;
    const struct pre *pre; /* NULL: SentencePiece */
    uint64_t n;            /* tokens */
    json_t *vocab, *added; /* borrowed from root */
    struct vocab spelt;    /* SentencePiece: to find halves of tokens */
    double *scores;        /* [n] */
    struct error *error;
};

static enum status no_memory(const struct builder *b)
{
    return error_set(b->error, ST_RESOURCE_EXHAUSTED,
                     "no memory for a tokenizer");
}

static bool is_text(const char *text, size_t n, const char *want)
{
    return text != NULL && strlen(want) == n && memcmp(text, want, n) == 0;
}

/* Reads a flag; *out stays as it is if there is none. */
static enum status flag(const struct builder *b, const char *key, bool *out)
{
    int64_t v = *out;
    enum status st = gguf_get_whole(b->g, key, &v, b->error);

    *out = v != 0;
    return st;
}

static enum token_type type_of(const struct builder *b, uint64_t id)
{
    int64_t t;

    return gguf_whole(b->types, id, &t) && t >= NORMAL && t <= BYTE
               ? (enum token_type)t
               : NORMAL;
}

static bool is_control(enum token_type t)
{
    return t == CONTROL || t == UNKNOWN;
}

/* Finds token id; a walk from the start. */
static const char *token_at(const struct gguf *g, int64_t id, size_t *n)
{
    const struct gguf_value *v = gguf_find(g, KEY("tokens"));
    const char *text = NULL;
    size_t at = 0;

    for (int64_t i = 0; i <= id; i++) {
        if (!gguf_next_text(v, &at, &text, n)) {
            return NULL;
        }
    }
    return text;
}

/* ---- tokens ---- */

static enum status put_token(struct builder *b, const char *s, size_t n,
                             uint64_t id)
{
    if (json_object_getn(b->vocab, s, n) != NULL) {
        return error_set(b->error, ST_INVALID_ARGUMENT,
                         "token %llu, %s, is there twice",
                         (unsigned long long)id, quote_bytes(s, n).text);
    }
    if (json_object_setn_new(b->vocab, s, n, json_integer((json_int_t)id)) !=
        0) {
        return error_set(b->error, ST_INVALID_ARGUMENT,
                         "token %llu, %s, is not UTF-8", (unsigned long long)id,
                         quote_bytes(s, n).text);
    }
    return ST_OK;
}

static enum status put_added(struct builder *b, const char *s, size_t n,
                             uint64_t id, bool special)
{
    json_t *row =
        json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id,
                  "content", s, n, "single_word", 0, "lstrip", 0, "rstrip", 0,
                  "normalized", 0, "special", special);

    if (row == NULL) {
        return error_set(b->error, ST_INVALID_ARGUMENT,
                         "token %llu, %s, is not UTF-8", (unsigned long long)id,
                         quote_bytes(s, n).text);
    }
    return json_array_append_new(b->added, row) == 0 ? ST_OK : no_memory(b);
}

/* Conversion writes spaces in user-defined tokens of SentencePiece, which
 * spells them as U+2581.  Returns the spelling, in out if it differs. */
static const char *spelling_of(char *out, const char *s, size_t *n)
{
    size_t w = 0;

    if (memchr(s, ' ', *n) == NULL || *n > TEXT_TOKEN_BYTES) {
        return s;
    }
    for (size_t i = 0; i < *n; i++) {
        if (s[i] == ' ') {
            memcpy(out + w, BYTE_FALLBACK_SPACE, BYTE_FALLBACK_SPACE_LEN);
            w += BYTE_FALLBACK_SPACE_LEN;
        } else {
            out[w++] = s[i];
        }
    }
    *n = w;
    return out;
}

/* A token of SentencePiece stays in the vocabulary even if it is added.
 * User-defined ones have the highest score, 0, whatever the file has. */
static enum status take_spm(struct builder *b, const char *s, size_t n,
                            uint64_t id)
{
    char spelt[BYTE_FALLBACK_SPACE_LEN * TEXT_TOKEN_BYTES];
    enum token_type type = type_of(b, id);
    double score = 0;
    enum status st;

    s = spelling_of(spelt, s, &n);
    if (n > TEXT_TOKEN_BYTES) {
        return error_set(b->error, ST_OUT_OF_RANGE,
                         "token %llu is %zu bytes long, at most %d are allowed",
                         (unsigned long long)id, n, TEXT_TOKEN_BYTES);
    }
    st = put_token(b, s, n, id);
    if (st == ST_OK) {
        st = vocab_add(&b->spelt, s, n, (int64_t)id, VOCAB_MODEL, b->error);
    }
    if (st == ST_OK && type != USER_DEFINED &&
        (!gguf_real(gguf_find(b->g, KEY("scores")), id, &score) ||
         isnan(score))) {
        st = error_set(b->error, ST_INVALID_ARGUMENT, "token %llu has no score",
                       (unsigned long long)id);
    }
    b->scores[id] = score;
    if (st == ST_OK && (is_control(type) || type == USER_DEFINED)) {
        st = put_added(b, s, n, id, is_control(type));
    }
    return st;
}

static enum status take_bpe(struct builder *b, const char *s, size_t n,
                            uint64_t id)
{
    enum token_type type = type_of(b, id);

    return is_control(type) || type == USER_DEFINED
               ? put_added(b, s, n, id, is_control(type))
               : put_token(b, s, n, id);
}

static enum status take_tokens(struct builder *b)
{
    const struct gguf_value *v = gguf_find(b->g, KEY("tokens"));
    enum status st = ST_OK;
    size_t at = 0, n;
    const char *s;

    for (uint64_t id = 0; st == ST_OK && gguf_next_text(v, &at, &s, &n); id++) {
        st = b->pre != NULL ? take_bpe(b, s, n, id) : take_spm(b, s, n, id);
    }
    return st;
}

/* ---- merges ---- */

/* Returns whether a merge, "left right", makes a token of the vocabulary. Other
 * text is refused later, with its reason. */
static bool makes_token(const struct builder *b, const char *s, size_t n)
{
    char joined[2 * TEXT_TOKEN_BYTES + 1];
    const char *gap = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;

    if (gap == NULL || n > 2 * TEXT_TOKEN_BYTES) {
        return true;
    }
    memcpy(joined, s, (size_t)(gap - s));
    memcpy(joined + (gap - s), gap + 1, n - (size_t)(gap - s) - 1);
    joined[n - 1] = '\0';
    return json_object_get(b->vocab, joined) != NULL;
}

/* Merges of the file, "left right".  One whose result is no token is left out:
 * files have them whose vocabulary was cut after training. */
static enum status file_merges(struct builder *b, json_t *merges)
{
    const struct gguf_value *v = gguf_find(b->g, KEY("merges"));
    size_t at = 0, n;
    const char *s;

    if (v == NULL || !v->array || v->type != GGUF_VALUE_STRING) {
        return error_set(b->error, ST_INVALID_ARGUMENT,
                         KEY("merges") " is no list of strings");
    }
    while (gguf_next_text(v, &at, &s, &n)) {
        json_t *merge = json_stringn(s, n);

        if (merge != NULL && !makes_token(b, s, n)) {
            json_decref(merge);
        } else if (json_array_append_new(merges, merge) != 0) {
            return error_set(b->error, ST_INVALID_ARGUMENT,
                             "merge %s is not UTF-8", quote_bytes(s, n).text);
        }
    }
    return ST_OK;
}

static json_t *spelling(const struct builder *b, uint32_t id)
{
    size_t n;
    const char *s = vocab_spelling(&b->spelt, id, &n);

    return json_stringn_nocheck(s, n);
}

static enum status score_merges(struct builder *b, json_t *merges)
{
    struct spm_merge *list;
    size_t n;
    enum status st = spm_merges(&list, &n, &b->spelt, b->scores, b->error);

    for (size_t i = 0; st == ST_OK && i < n; i++) {
        json_t *pair = json_pack("[o, o]", spelling(b, list[i].left),
                                 spelling(b, list[i].right));

        st = pair != NULL && json_array_append_new(merges, pair) == 0
                 ? ST_OK
                 : no_memory(b);
    }
    free(list);
    return st;
}

/* ---- the other parts ---- */

static json_t *split_part(const char *expression)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern",
                     "Regex", expression, "behavior", "Isolated", "invert", 0);
}

static json_t *byte_level(bool regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                     "add_prefix_space", 0, "trim_offsets", 0, "use_regex",
                     regex);
}

static enum status bpe_parts(const struct builder *b, json_t *root)
{
    const struct pre *p = b->pre;
    json_t *steps = json_array();

    if (p->nfc) {
        json_object_set_new(root, "normalizer",
                            json_pack("{s:s}", "type", "NFC"));
    }
    if (p->split != NULL) {
        json_array_append_new(steps, split_part(p->split));
    }
    json_array_append_new(steps, byte_level(p->split == NULL));
    json_object_set_new(
        root, "pre_tokenizer",
        json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps));
    json_object_set_new(root, "decoder", byte_level(true));
    return ST_OK;
}

static json_t *replace(const char *from, const char *to)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                     "String", from, "content", to);
}

static enum status spm_parts(const struct builder *b, json_t *root)
{
    json_t *steps = json_array();
    bool prefix = true;
    enum status st = flag(b, KEY("add_space_prefix"), &prefix);

    if (prefix) {
        json_array_append_new(steps, json_pack("{s:s, s:s}", "type", "Prepend",
                                               "prepend", BYTE_FALLBACK_SPACE));
    }
    json_array_append_new(steps, replace(" ", BYTE_FALLBACK_SPACE));
    json_object_set_new(
        root, "normalizer",
        json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps));
    json_object_set_new(root, "decoder",
                        json_pack("{s:s, s:[o, {s:s}, {s:s}]}", "type",
                                  "Sequence", "decoders",
                                  replace(BYTE_FALLBACK_SPACE, " "), "type",
                                  "ByteFallback", "type", "Fuse"));
    return st;
}

/* Appends a token to a template; its name is its id, which is unique. */
static enum status put_around(const struct builder *b, const char *key,
                              json_t *single, json_t *tokens)
{
    char name[24];
    int64_t id = -1;
    enum status st = gguf_get_whole(b->g, key, &id, b->error);

    if (st != ST_OK) {
        return st;
    }
    if (id < 0 || (uint64_t)id >= b->n) {
        return error_set(b->error, ST_INVALID_ARGUMENT,
                         "%s is missing, or no token", key);
    }
    snprintf(name, sizeof name, "%lld", (long long)id);
    json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "SpecialToken",
                                            "id", name, "type_id", 0));
    json_object_set_new(
        tokens, name,
        json_pack("{s:s, s:[I]}", "id", name, "ids", (json_int_t)id));
    return ST_OK;
}

static enum status post_processor(const struct builder *b, json_t *root)
{
    bool bos = b->pre == NULL || b->pre->bos, eos = false;
    json_t *single = json_array(), *tokens = json_object();
    enum status st = flag(b, KEY("add_bos_token"), &bos);

    json_object_set_new(root, "post_processor",
                        json_pack("{s:s, s:o, s:o}", "type",
                                  "TemplateProcessing", "single", single,
                                  "special_tokens", tokens));
    if (st == ST_OK) {
        st = flag(b, KEY("add_eos_token"), &eos);
    }
    if (st == ST_OK && bos) {
        st = put_around(b, KEY("bos_token_id"), single, tokens);
    }
    json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id",
                                            "A", "type_id", 0));
    if (st == ST_OK && eos) {
        st = put_around(b, KEY("eos_token_id"), single, tokens);
    }
    return st;
}

/* ---- the whole ---- */

static enum status find_pre(struct builder *b)
{
    size_t n = 0;
    const char *s = NULL;
    enum status st = gguf_get_text(b->g, KEY("pre"), &s, &n, b->error);

    if (st != ST_OK) {
        return st;
    }
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++) {
        if (is_text(s, n, pres[i].name)) {
            b->pre = &pres[i];
            return ST_OK;
        }
    }
    return error_set(b->error, ST_UNIMPLEMENTED,
                     KEY("pre") " %s is not supported; " PRES
                                " are: put the model's tokenizer.json beside "
                                "the file",
                     s == NULL ? "(none)" : quote_bytes(s, n).text);
}

static enum status begin(struct builder *b)
{
    const struct gguf_value *v = gguf_find(b->g, KEY("tokens"));
    size_t n = 0;
    const char *model = NULL;
    int64_t type;
    enum status st = gguf_get_text(b->g, KEY("model"), &model, &n, b->error);

    if (st != ST_OK) {
        return st;
    }
    if (v == NULL || model == NULL) {
        return error_set(b->error, ST_NOT_FOUND,
                         "the file has no tokenizer (" KEY("model") " and " KEY(
                             "tokens") ")");
    }
    if (!v->array || v->type != GGUF_VALUE_STRING || v->n > MODEL_VOCAB_MAX) {
        return error_set(b->error, ST_INVALID_ARGUMENT,
                         KEY("tokens") " is no list of at most %d strings",
                         MODEL_VOCAB_MAX);
    }
    b->n = v->n;
    b->types = gguf_find(b->g, KEY("token_type"));
    if (b->types != NULL && (!b->types->array || b->types->n != v->n ||
                             !gguf_whole(b->types, 0, &type))) {
        return error_set(b->error, ST_INVALID_ARGUMENT,
                         KEY("token_type") " is no list of %llu whole numbers",
                         (unsigned long long)v->n);
    }
    if (is_text(model, n, "gpt2")) {
        return find_pre(b);
    }
    if (!is_text(model, n, "llama")) {
        return error_set(b->error, ST_UNIMPLEMENTED,
                         KEY("model") " %s is not supported; gpt2 and llama "
                                      "are: put the model's tokenizer.json "
                                      "beside the file",
                         quote_bytes(model, n).text);
    }
    b->scores = calloc((size_t)b->n + 1, sizeof *b->scores);
    return b->scores == NULL
               ? no_memory(b)
               : vocab_init(&b->spelt, (size_t)b->n, b->n, b->error);
}

static enum status build(struct builder *b, json_t *root)
{
    json_t *model =
        json_pack("{s:s, s:b, s:b, s:{}, s:[]}", "type", "BPE", "byte_fallback",
                  b->pre == NULL, "ignore_merges",
                  b->pre != NULL && b->pre->ignore_merges, "vocab", "merges");
    enum status st;

    if (model == NULL) {
        return no_memory(b);
    }
    json_object_set_new(root, "model", model);
    json_object_set_new(root, "added_tokens", json_array());
    b->vocab = json_object_get(model, "vocab");
    b->added = json_object_get(root, "added_tokens");
    st = b->pre != NULL ? bpe_parts(b, root) : spm_parts(b, root);
    st = st == ST_OK ? take_tokens(b) : st;
    if (st == ST_OK) {
        json_t *merges = json_object_get(model, "merges");

        st = b->pre != NULL ? file_merges(b, merges) : score_merges(b, merges);
    }
    return st == ST_OK ? post_processor(b, root) : st;
}

enum status gguf_tokenizer_json(json_t **out, const struct gguf *g,
                                struct error *e)
{
    struct builder b = {.g = g, .error = e};
    json_t *root = json_object();
    enum status st = root == NULL ? no_memory(&b) : begin(&b);

    st = st == ST_OK ? build(&b, root) : st;
    vocab_fini(&b.spelt);
    free(b.scores);
    if (st != ST_OK) {
        json_decref(root);
        root = NULL;
    }
    *out = root;
    return st;
}

/* ---- the rest of the text ---- */

static enum status put_name(json_t *config, const struct gguf *g,
                            const char *from, const char *key, struct error *e)
{
    const char *s;
    int64_t id = -1;
    size_t n;
    enum status st = gguf_get_whole(g, from, &id, e);

    if (st == ST_OK && id >= 0 && id < MODEL_VOCAB_MAX &&
        (s = token_at(g, id, &n)) != NULL) {
        json_object_set_new(config, key, json_stringn(s, n));
    }
    return st;
}

static enum status put_template(json_t *list, const char *name, const char *s,
                                size_t n, struct error *e)
{
    json_t *row = json_pack("{s:s, s:s%}", "name", name, "template", s, n);

    return row != NULL && json_array_append_new(list, row) == 0
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "tokenizer.chat_template is not UTF-8");
}

enum status gguf_tokenizer_config(json_t **out, const struct gguf *g,
                                  struct error *e)
{
    static const char prefix[] = "tokenizer.chat_template";
    static const char *const names[][2] = {
        {KEY("bos_token_id"), "bos_token"},
        {KEY("eos_token_id"), "eos_token"},
        {KEY("padding_token_id"), "pad_token"},
        {KEY("unknown_token_id"), "unk_token"},
    };
    json_t *config = json_object(), *list = json_array();
    enum status st = ST_OK;

    for (uint32_t i = 0; st == ST_OK && i < g->n_values; i++) {
        const char *key = g->values[i].key, *s = NULL;
        size_t n = 0, len = sizeof prefix - 1;

        if (strncmp(key, prefix, len) != 0 ||
            (key[len] != '\0' && key[len] != '.')) {
            continue;
        }
        st = gguf_get_text(g, key, &s, &n, e);
        if (st == ST_OK) {
            st = put_template(list, key[len] == '.' ? key + len + 1 : "default",
                              s, n, e);
        }
    }
    if (json_array_size(list) > 0) {
        json_object_set(config, "chat_template", list);
    }
    json_decref(list);
    for (size_t i = 0; st == ST_OK && i < sizeof names / sizeof names[0]; i++) {
        st = put_name(config, g, names[i][0], names[i][1], e);
    }
    if (st != ST_OK) {
        json_decref(config);
        config = NULL;
    }
    *out = config;
    return st;
}

enum status gguf_tokenizer_sampling(json_t **out, const struct gguf *g,
                                    struct error *e)
{
    static const struct {
        const char *from, *key;
    } rows[] = {
        {"general.sampling.temp", "temperature"},
        {"general.sampling.top_p", "top_p"},
        {"general.sampling.min_p", "min_p"},
        {"general.sampling.penalty_repeat", "repetition_penalty"},
    };
    json_t *config = json_object();
    int64_t top_k = 0;
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < sizeof rows / sizeof rows[0]; i++) {
        double v = 0;

        st = gguf_get_real(g, rows[i].from, &v, e);
        if (gguf_find(g, rows[i].from) != NULL) {
            json_object_set_new(config, rows[i].key, json_real(v));
        }
    }
    if (st == ST_OK) {
        st = gguf_get_whole(g, TOP_K, &top_k, e);
    }
    if (gguf_find(g, TOP_K) != NULL) {
        json_object_set_new(config, "top_k", json_integer(top_k));
    }
    if (st != ST_OK) {
        json_decref(config);
        config = NULL;
    }
    *out = config;
    return st;
}
