/* Readers of single fields that several endpoints share. */
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/base/quote.h"
#include "gateway/openai/parse.h"

bool parse_model(struct parse *p, const struct field *f)
{
    parse_hold(p, f->value);
    return field_short_string(f, MODEL_NAME_MAX, &p->r->model);
}

bool parse_n(struct parse *p, const struct field *f)
{
    return field_count(f, 1, p->limits.n_max, &p->r->n);
}

/* Some servers take -1, and some 0, for no limit. */
static bool limit_is_number(const struct field *f, uint32_t least)
{
    if (!json_is_integer(f->value) ||
        json_integer_value(f->value) >= (json_int_t)least) {
        return true;
    }
    return field_fail(f,
                      "must be an integer from %u to %d, but is %lld; leave it "
                      "out for the server's default",
                      least, MODEL_CONTEXT_MAX,
                      (long long)json_integer_value(f->value));
}

/* max_tokens, max_completion_tokens and max_output_tokens are one limit. */
bool parse_max_tokens(struct parse *p, const struct field *f)
{
    return parse_tokens_from(p, f, 1);
}

bool parse_tokens_from(struct parse *p, const struct field *f, uint32_t least)
{
    uint32_t before = p->r->max_tokens;

    if (!limit_is_number(f, least) ||
        !field_count(f, least, MODEL_CONTEXT_MAX, &p->r->max_tokens)) {
        return false;
    }
    if (p->r->has_max_tokens && p->r->max_tokens != before) {
        return field_fail(f,
                          "is %u, but max_tokens and max_completion_tokens "
                          "set the same limit, and the other is %u; leave one "
                          "out",
                          p->r->max_tokens, before);
    }
    p->r->has_max_tokens = true;
    return true;
}

bool parse_seed(struct parse *p, const struct field *f)
{
    int64_t seed;

    if (!field_integer(f, INT64_MIN, INT64_MAX, &seed)) {
        return false;
    }
    /* Seeds are 64 bits; a negative one is as good as any. */
    p->r->sampling.seed = (uint64_t)seed;
    p->r->has_seed = true;
    return true;
}

bool parse_skip_special(struct parse *p, const struct field *f)
{
    bool skip;

    if (!field_flag(f, &skip)) {
        return false;
    }
    p->r->keep_special = !skip;
    return true;
}

bool parse_cache_salt(struct parse *p, const struct field *f)
{
    if (!field_string(f, &p->r->salt.text, &p->r->salt.n)) {
        return false;
    }
    if (p->r->salt.n == 0 || p->r->salt.n > CACHE_SALT_MAX) {
        return field_fail(f, "has %zu bytes, but a salt has 1 to %d",
                          p->r->salt.n, CACHE_SALT_MAX);
    }
    parse_hold(p, f->value);
    return true;
}

bool parse_object(struct parse *p, const struct field *f)
{
    (void)p;
    return field_object(f);
}

bool parse_drafts(struct parse *p, const struct field *f)
{
    p->r->drafts.given = field_count(f, 0, DRAFTS_MAX, &p->r->drafts.n);
    return p->r->drafts.given;
}

bool parse_timeout(struct parse *p, const struct field *f)
{
    double s;

    if (!field_number(f, 0.001, OPENAI_TIMEOUT_S, &s)) {
        return false;
    }
    p->r->timeout_ms = (uint32_t)(s * 1000);
    return true;
}

const char *const openai_tiers[OPENAI_TIERS] = {
    [OPENAI_TIER_DEFAULT] = "default",
    [OPENAI_TIER_PRIORITY] = "priority",
    [OPENAI_TIER_FLEX] = "flex",
};

bool parse_service_tier(struct parse *p, const struct field *f)
{
    const char *name;
    size_t n;

    if (!field_string(f, &name, &n)) {
        return false;
    }
    p->r->turn.shows_tier = true;
    if (strcmp(name, "auto") == 0) {
        return true;
    }
    for (int i = 0; i < OPENAI_TIERS; i++) {
        if (strcmp(name, openai_tiers[i]) == 0) {
            p->r->turn.tier = (enum openai_tier)i;
            return true;
        }
    }
    return field_fail(f, "is none of auto, default, priority and flex");
}

/* As vLLM has it: a number below 0 goes first, one above it last. */
bool parse_priority(struct parse *p, const struct field *f)
{
    int64_t n;

    if (!field_integer(f, INT64_MIN, INT64_MAX, &n)) {
        return false;
    }
    if (n != 0) {
        p->r->turn.tier = n < 0 ? OPENAI_TIER_PRIORITY : OPENAI_TIER_FLEX;
    }
    return true;
}

/* ---- stops ---- */

static bool read_stop(struct parse *p, const struct field *f)
{
    struct openai_stop *stop = &p->r->stops[p->r->n_stops];

    if (!field_string(f, &stop->text, &stop->n)) {
        return false;
    }
    if (stop->n == 0) {
        return field_fail(f, "is empty, and the empty text is everywhere; "
                             "leave it out");
    }
    if (stop->n > STOP_STRING_BYTES_MAX) {
        return field_fail(f, "has %zu bytes, but a stop string has 1 to %d",
                          stop->n, STOP_STRING_BYTES_MAX);
    }
    parse_hold(p, f->value);
    p->r->n_stops++;
    return true;
}

bool parse_stop(struct parse *p, const struct field *f)
{
    /* Room for the most: 256 bytes. */
    if (p->r->stops != NULL) {
        return field_fail(f, "is a second list of stop strings; leave one out");
    }
    p->r->stops = parse_alloc(STOP_STRINGS_MAX, sizeof *p->r->stops);
    if (p->r->stops == NULL) {
        return false;
    }
    if (json_is_string(f->value)) {
        return read_stop(p, f);
    }
    if (!json_is_array(f->value)) {
        return field_unexpected(f, "a string or an array of strings");
    }
    if (!field_array(f, 0, STOP_STRINGS_MAX)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(f->value); i++) {
        struct field stop = field_element(f, i);

        if (!read_stop(p, &stop)) {
            return false;
        }
    }
    return true;
}

/* Copied to 4 bytes each: the tree has about 40 per number. */
bool parse_ids(const struct field *f, size_t least, uint32_t **ids, size_t *n)
{
    *n = json_array_size(f->value);
    if (!field_array(f, least, MODEL_CONTEXT_MAX)) {
        return false;
    }
    *ids = parse_alloc(*n, sizeof **ids);
    for (size_t i = 0; *ids != NULL && i < *n; i++) {
        struct field id = field_element(f, i);

        if (!field_count(&id, 0, MODEL_VOCAB_MAX - 1, &(*ids)[i])) {
            free(*ids);
            *ids = NULL;
            return false;
        }
    }
    return *ids != NULL;
}

bool parse_stop_tokens(struct parse *p, const struct field *f)
{
    struct sampling *s = &p->r->sampling;
    uint32_t *ids;
    size_t n;

    if (!field_array(f, 0, STOP_TOKENS_MAX) || !parse_ids(f, 0, &ids, &n)) {
        return false;
    }
    qsort(ids, n, sizeof *ids, ascending_u32);
    for (size_t i = 0; i < n; i++) { /* each id once, as sampling.h demands */
        if (s->n_stop_tokens == 0 || ids[s->n_stop_tokens - 1] != ids[i]) {
            ids[s->n_stop_tokens++] = ids[i];
        }
    }
    s->stop_tokens = ids;
    return true;
}

/* ---- logit_bias ---- */

struct bias {
    uint32_t token; /* first, for ascending_u32() */
    float bias;
};

/* Reads a key: a decimal number without leading zeros, so that no two keys
 * name one token. */
static bool token_of_key(const char *key, uint32_t *token)
{
    uint32_t v = 0;

    if (key[0] == '\0' || (key[0] == '0' && key[1] != '\0')) {
        return false;
    }
    for (; *key != '\0'; key++) {
        if (*key < '0' || *key > '9' || v > MODEL_VOCAB_MAX / 10) {
            return false;
        }
        v = v * 10 + (uint32_t)(*key - '0');
    }
    *token = v;
    return v < MODEL_VOCAB_MAX;
}

static bool read_bias(const struct field *f, const char *key, struct bias *out)
{
    struct field member;
    double bias;

    if (!token_of_key(key, &out->token)) {
        return field_fail(f, "has the key %s, which is no token id below %d",
                          quote(key).text, MODEL_VOCAB_MAX);
    }
    (void)field_find(f, key, &member);
    if (!field_number(&member, -(double)LOGIT_BIAS_MAX, (double)LOGIT_BIAS_MAX,
                      &bias)) {
        return false;
    }
    out->bias = (float)bias;
    return true;
}

/* Two lists, ascending by token, as struct sampling has them. */
static void keep_biases(struct sampling *s, const struct bias *biases, size_t n)
{
    uint32_t *tokens = parse_alloc(n, sizeof *tokens);
    float *values = parse_alloc(n, sizeof *values);

    for (size_t i = 0; tokens != NULL && values != NULL && i < n; i++) {
        tokens[i] = biases[i].token;
        values[i] = biases[i].bias;
    }
    s->bias_tokens = tokens;
    s->biases = values;
    s->n_biases = (uint32_t)n;
}

bool parse_logit_bias(struct parse *p, const struct field *f)
{
    struct bias biases[LOGIT_BIASES_MAX];
    const char *key;
    json_t *value;
    size_t n = 0;

    if (!field_object(f)) {
        return false;
    }
    if (json_object_size(f->value) > LOGIT_BIASES_MAX) {
        return field_fail(f, "has %zu tokens, but at most %d are allowed",
                          json_object_size(f->value), LOGIT_BIASES_MAX);
    }
    json_object_foreach((json_t *)f->value, key, value)
    {
        if (!read_bias(f, key, &biases[n++])) {
            return false;
        }
    }
    qsort(biases, n, sizeof *biases, ascending_u32);
    keep_biases(&p->r->sampling, biases, n);
    return true;
}

/* ---- the form of the answer ---- */

bool parse_top_logprobs(struct parse *p)
{
    struct sampling *s = &p->r->sampling;
    struct field f;

    if (!field_find(&p->body, "top_logprobs", &f)) {
        return true;
    }
    if (!field_count(&f, 0, TOP_LOGPROBS_MAX, &s->n_top_logprobs)) {
        return false;
    }
    /* 0 asks for nothing, and some clients always send it. */
    if (s->n_top_logprobs > 0 && !s->logprobs) {
        return field_fail(&f, "needs logprobs; set logprobs to true");
    }
    return true;
}

static bool read_stream_option(struct parse *p, const struct field *f)
{
    bool unused, *to = strcmp(f->key, "include_usage") == 0
                           ? &p->r->include_usage
                       : strcmp(f->key, "continuous_usage_stats") == 0
                           ? &p->r->continuous_usage
                       : strcmp(f->key, "include_obfuscation") == 0 ? &unused
                                                                    : NULL;

    return to != NULL ? field_flag(f, to) : parse_ignore(p, f, NULL);
}

bool parse_stream_options(struct parse *p)
{
    struct field f, member;
    const char *key;
    json_t *value;

    if (!field_find(&p->body, "stream_options", &f)) {
        return true;
    }
    if (!field_object(&f)) {
        return false;
    }
    /* As OpenAI: a client that expects usage in a stream has no stream.  An
     * empty object expects nothing, and some clients always send it. */
    if (!p->r->stream && json_object_size(f.value) > 0) {
        return field_fail(&f, "needs stream; set stream to true");
    }
    json_object_foreach((json_t *)f.value, key, value)
    {
        if (field_find(&f, key, &member) && !read_stream_option(p, &member)) {
            return false;
        }
    }
    return true;
}

bool parse_format(struct parse *p, const struct field *f)
{
    struct field type, schema;

    (void)p;
    if (!field_object(f)) {
        return false;
    }
    (void)field_find(f, "type", &type);
    if (field_is(&type, "text")) {
        return true;
    }
    if (field_is(&type, "json_schema")) {
        /* /v1/responses has the schema beside the type. */
        if (!field_find(f, "schema", &schema) &&
            !field_find(f, "json_schema", &schema)) {
            return field_fail(&schema, "is required by type json_schema");
        }
        if (!field_object(&schema)) {
            return false;
        }
        return field_fail(&type, "json_schema is not supported yet; use text");
    }
    if (field_is(&type, "json_object")) {
        return field_fail(&type, "json_object is not supported yet; use text");
    }
    return field_unexpected(&type, "\"text\"");
}

/* ---- variables of the chat template ---- */

static json_t *kwargs(struct parse *p)
{
    if (p->r->template.kwargs == NULL) {
        p->r->template.kwargs = json_object();
    }
    return p->r->template.kwargs;
}

/* Variables that the gateway sets.  A request must not replace them: the
 * tokens' texts, such as bos_token, may become control tokens. */
static bool reserved(const char *name)
{
    static const char *const names[] = {
        "messages",  "tools",           "add_generation_prompt",
        "documents", "bos_token",       "continue_final_message",
        "eos_token", "pad_token",       "chat_template",
        "unk_token", "raise_exception", "strftime_now",
        "namespace"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool parse_kwargs(struct parse *p, const struct field *f)
{
    const char *key;
    json_t *value;

    if (!field_object(f)) {
        return false;
    }
    if (json_object_size(f->value) > OPENAI_KWARGS_MAX) {
        return field_fail(f, "has %zu variables, but at most %d are allowed",
                          json_object_size(f->value), OPENAI_KWARGS_MAX);
    }
    json_object_foreach((json_t *)f->value, key, value)
    {
        if (reserved(key)) {
            return field_fail(f, "must not set %s", quote(key).text);
        }
        parse_put(kwargs(p), key, json_incref(value));
    }
    return true;
}

bool parse_effort(struct parse *p, const struct field *f)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max"};

    for (size_t i = 0; i < sizeof efforts / sizeof efforts[0]; i++) {
        if (!field_is(f, efforts[i])) {
            continue;
        }
        /* No template has one name for this.  chat_template_kwargs is read
         * first, and takes precedence. */
        if (json_object_get(kwargs(p), "reasoning_effort") == NULL) {
            parse_put(kwargs(p), "reasoning_effort", json_string(efforts[i]));
        }
        if (i == 0 && json_object_get(kwargs(p), "enable_thinking") == NULL) {
            parse_put(kwargs(p), "enable_thinking", json_false());
        }
        return true;
    }
    return field_unexpected(f,
                            "none, minimal, low, medium, high, xhigh or max");
}

/* Templates of Qwen and GLM have one name for this, those of DeepSeek and
 * Granite another.  chat_template_kwargs takes precedence. */
static void set_thinking(struct parse *p, bool on)
{
    static const char *const names[] = {"enable_thinking", "thinking"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (json_object_get(kwargs(p), names[i]) == NULL) {
            parse_put(kwargs(p), names[i], json_boolean(on));
        }
    }
}

bool parse_enable_thinking(struct parse *p, const struct field *f)
{
    bool on = false;

    if (!field_flag(f, &on)) {
        return false;
    }
    set_thinking(p, on);
    return true;
}

/* A budget is a target for the model and not a limit, so that a model which
 * does not count its tokens may be asked with one. */
bool parse_thinking(struct parse *p, const struct field *f)
{
    struct field type, budget;
    int64_t n;

    if (json_is_boolean(f->value)) { /* as Ollama's clients have it */
        return parse_enable_thinking(p, f);
    }
    if (!field_object(f)) {
        return false;
    }
    if (!field_find(f, "type", &type) ||
        !(field_is(&type, "enabled") || field_is(&type, "disabled") ||
          field_is(&type, "adaptive") || field_is(&type, "auto"))) {
        return field_unexpected(&type, "enabled, disabled or adaptive");
    }
    if (field_is(&type, "disabled")) {
        set_thinking(p, false);
    } else if (field_is(&type, "enabled")) {
        set_thinking(p, true);
    }
    return !field_find(f, "budget_tokens", &budget) ||
           (field_integer(&budget, 0, MODEL_CONTEXT_MAX, &n) &&
            parse_ignore(p, &budget, NULL));
}

/* OpenRouter's object. */
bool parse_reasoning(struct parse *p, const struct field *f)
{
    struct field member;
    bool on = false;

    if (!field_object(f)) {
        return false;
    }
    if (field_find(f, "effort", &member) && !parse_effort(p, &member)) {
        return false;
    }
    if (field_find(f, "enabled", &member)) {
        if (!field_flag(&member, &on)) {
            return false;
        }
        set_thinking(p, on);
    }
    /* Both would leave reasoning out that the model writes. */
    return (!field_find(f, "max_tokens", &member) || field_refuse(&member)) &&
           (!field_find(f, "exclude", &member) || field_neutral(&member) ||
            field_refuse(&member));
}

bool parse_prompt_end(struct parse *p)
{
    size_t n = json_array_size(p->r->messages);
    json_t *role = json_object_get(
        json_array_get(p->r->messages, n > 0 ? n - 1 : 0), "role");
    struct field f, last = {.value = role};

    if (field_find(&p->body, "continue_final_message", &f) &&
        !field_flag(&f, &p->r->template.continue_final_message)) {
        return false;
    }
    if (p->r->template.continue_final_message &&
        !field_is(&last, "assistant")) {
        return field_fail(&f, "needs a last message of role assistant");
    }
    /* A continued message needs no new turn, so that is the default. */
    p->r->template.add_generation_prompt =
        !p->r->template.continue_final_message;
    if (!field_find(&p->body, "add_generation_prompt", &f)) {
        return true;
    }
    if (!field_flag(&f, &p->r->template.add_generation_prompt)) {
        return false;
    }
    if (p->r->template.add_generation_prompt &&
        p->r->template.continue_final_message) {
        return field_fail(&f, "and continue_final_message exclude each other");
    }
    return true;
}
