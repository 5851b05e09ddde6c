#include "gateway/openai/parse.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/openai/json_memory.h"

/* ---- rows of every endpoint that generates ---- */

#define AT(field) offsetof(struct openai_request, field)

#define ROW_FLOAT RULE_FLOAT
#define ROW_SHARE RULE_SHARE
#define ROW_COUNT RULE_COUNT
#define ROW_FLAG  RULE_FLAG

static const struct rule shared[] = {
#define X(field, kind, unset, least, most) \
    {#field, ROW_##kind, AT(sampling.field), AT(given.field), least, most, 0},
    SAMPLING_VALUES(X)
#undef X
        RULE_BY("model", parse_model),
    RULE_BY("n", parse_n),
    RULE_BY("max_tokens", parse_max_tokens),
    RULE_BY("seed", parse_seed),
    RULE_BY("stop", parse_stop),
    RULE_BY("stop_token_ids", parse_stop_tokens),
    RULE_BY("logit_bias", parse_logit_bias),
    RULE_BY("skip_special_tokens", parse_skip_special),
    RULE_BOOL("add_special_tokens", template.add_special),
    RULE_BOOL("stream", stream),
    RULE("stream_options", LATER),
    RULE_BY("response_format", parse_format),
    /* Hints and labels that change no token. */
    RULE("user", IGNORE),
    RULE("metadata", IGNORE),
    RULE("store", IGNORE),
    RULE_BY("service_tier", parse_service_tier),
    RULE("safety_identifier", IGNORE),
    RULE("prompt_cache_key", IGNORE),
    RULE("prompt_cache_retention", IGNORE),
    RULE("prompt_cache_options", IGNORE),
    RULE_BY("cache_salt", parse_cache_salt),
    RULE_BOOL("cache_prompt", cache_prompt),
    RULE_BOOL("guaranteed", turn.guaranteed),
    RULE_BY("drafts", parse_drafts),
    RULE_BY("timeout", parse_timeout),
    RULE_BY("priority", parse_priority),
    RULE("request_id", IGNORE),
    RULE("spaces_between_special_tokens", IGNORE),
    /* Other servers' switches, off. */
    RULE("use_beam_search", NEUTRAL),
    RULE("min_tokens", NEUTRAL),
    RULE("include_stop_str_in_output", NEUTRAL),
    RULE("return_tokens_as_token_ids", NEUTRAL),
    RULE("return_token_ids", NEUTRAL),
    RULE("bad_words", NEUTRAL),
    /* Would change the tokens, and are not built. */
    RULE("prompt_logprobs", REFUSE),
    RULE("truncate_prompt_tokens", REFUSE),
    RULE("allowed_token_ids", REFUSE),
    RULE("logits_processors", REFUSE),
    RULE("thinking_token_budget", REFUSE),
    RULE("structured_outputs", REFUSE),
    RULE("guided_json", REFUSE),
    RULE("guided_regex", REFUSE),
    RULE("guided_choice", REFUSE),
    RULE("guided_grammar", REFUSE),
    RULE("guided_decoding_backend", REFUSE),
    RULE("json_schema", REFUSE),
    RULE("grammar", REFUSE),
    RULE("regex", REFUSE),
    RULE("moderation", REFUSE),
};

/* ---- the tables ---- */

/* Linear: a table has 20 to 100 short names, and a body is parsed once. */
static const struct rule *find(const struct rule *rules, size_t n,
                               const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rules[i].name, name) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

static bool read_float(struct parse *p, const struct rule *rule,
                       const struct field *f)
{
    float *to = (float *)((char *)p->r + rule->at);
    double v;

    if (!field_number(f, rule->least, rule->most, &v)) {
        return false;
    }
    *to = (float)v;
    /* A share of 0 keeps the best token alone; so does the least float. */
    if (rule->kind == RULE_SHARE && *to < FLT_MIN) {
        *to = FLT_MIN;
    }
    return true;
}

/* Other servers write "no limit" as -1 or 0. */
static bool read_count(struct parse *p, const struct rule *rule,
                       const struct field *f)
{
    int64_t v;

    if (!field_integer(f, -1, UINT32_MAX, &v)) {
        return false;
    }
    *(uint32_t *)((char *)p->r + rule->at) = v < 0 ? 0 : (uint32_t)v;
    return true;
}

static bool apply(struct parse *p, const struct rule *rule,
                  const struct field *f)
{
    switch (rule->kind) {
    case RULE_FLAG:
        return field_flag(f, (bool *)((char *)p->r + rule->at));
    case RULE_FLOAT:
    case RULE_SHARE:
        return read_float(p, rule, f);
    case RULE_COUNT:
        return read_count(p, rule, f);
    case RULE_READ:
        return rule->read(p, f);
    case RULE_REFUSE:
        return field_refuse(f);
    case RULE_NEUTRAL:
        return field_neutral(f) || field_refuse(f);
    case RULE_ONLY:
        return (json_is_number(f->value) &&
                json_number_value(f->value) == rule->least) ||
               field_fail(f, "is not supported; leave it out, or send %g",
                          rule->least);
    case RULE_TRUE:
        return json_is_true(f->value) ||
               field_fail(f, "is not supported; leave it out, or send true");
    case RULE_IGNORE:
    case RULE_LATER:
        break;
    }
    return true;
}

/* In the order of the table, not of the body: the error of a body with several
 * faults does not depend on how a client sorts its fields. */
static bool read_all(struct parse *p, const struct rule *rules, size_t n,
                     const struct rule *over, size_t n_over)
{
    for (size_t i = 0; i < n; i++) {
        const struct rule *rule = &rules[i];
        struct field f;

        if (find(over, n_over, rule->name) != NULL ||
            !field_find(&p->body, rule->name, &f)) {
            continue;
        }
        if (!apply(p, rule, &f)) {
            return false;
        }
        if (rule->given != 0) {
            *(bool *)((char *)p->r + rule->given) = true;
        }
    }
    return true;
}

bool parse_rules(struct parse *p, const struct rule *rules, size_t n,
                 bool generates)
{
    size_t n_shared = generates ? RULE_COUNT_OF(shared) : 0;
    size_t n_others = generates ? parse_others_n : 0;
    bool has_others = false;
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)p->body.value, name, value)
    {
        struct field f;

        if (find(rules, n, name) != NULL ||
            find(shared, n_shared, name) != NULL) {
            continue;
        }
        if (find(parse_others, n_others, name) != NULL) {
            has_others = true;
        } else if ((field_find(&p->body, name, &f) ||
                    p->limits.refuse_unknown) &&
                   !parse_ignore(p, &f, NULL)) {
            return false;
        }
    }
    /* An endpoint's own row replaces the shared one: logprobs is a number in
     * completions and a bool in chats.  Few requests have fields of other
     * servers, and the long table costs the rest nothing. */
    return read_all(p, rules, n, NULL, 0) &&
           read_all(p, shared, n_shared, rules, n) &&
           (!has_others || read_all(p, parse_others, n_others, rules, n));
}

bool parse_require(struct parse *p, const char *name)
{
    struct field f;

    return field_find(&p->body, name, &f) || field_fail(&f, "is required");
}

/* ---- memory ---- */

void *parse_alloc(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);

    if (memory == NULL) {
        json_memory_fail();
    }
    return memory;
}

bool parse_put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

bool parse_append(json_t *array, json_t *value)
{
    return json_array_append_new(array, value) == 0;
}

void parse_hold(struct parse *p, const json_t *value)
{
    (void)parse_append(p->r->values.held, json_incref((json_t *)value));
}

void parse_hold_input(struct parse *p, const json_t *value)
{
    (void)parse_append(p->r->values.input, json_incref((json_t *)value));
}
