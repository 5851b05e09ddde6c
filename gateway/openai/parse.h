/* parse.h - Tables of a body's fields, and readers that endpoints share.
 *
 * An endpoint lists its fields in a table of rules.  Names that only OpenAI's
 * other servers have (vLLM's top_k) are rows as well.  Rows that need other
 * fields are RULE_LATER; the endpoint reads them after the table.
 *
 * Threading: none.  Memory: a parse lives on the stack of
 * openai_request_parse(). */
#ifndef GATEWAY_OPENAI_PARSE_H
#define GATEWAY_OPENAI_PARSE_H

#include "gateway/openai/field.h"
#include "gateway/openai/request.h"

struct parse {
    struct openai_request *r;
    struct field body;
    struct openai_limits limits; /* none is 0 */
    size_t values_left;          /* left for arguments of calls */
};

typedef bool parse_fn(struct parse *p, const struct field *f);

enum rule_kind {
    RULE_IGNORE,  /* any value, without effect */
    RULE_REFUSE,  /* any value but null is refused */
    RULE_NEUTRAL, /* only values that set nothing, as false and [] */
    RULE_ONLY,    /* only the number `least`, which sets nothing */
    RULE_TRUE,    /* only true, which sets nothing */
    RULE_FLAG,    /* a bool of the request */
    RULE_FLOAT,   /* a float of its sampling, least..most */
    RULE_SHARE,   /* a float of its sampling, 0..1, where 0 is the least */
    RULE_COUNT,   /* an uint32_t of its sampling, where -1 is 0 */
    RULE_READ,    /* read() */
    RULE_LATER    /* read by the endpoint after the table */
};

struct rule {
    const char *name;
    enum rule_kind kind;
    size_t at;    /* offset of the value in struct openai_request */
    size_t given; /* offset of the bool "given" there; 0: none */
    double least, most;
    parse_fn *read;
};

/* Rows: by kind alone; a number that sets nothing; a bool of the request; a
 * field with a reader. */
#define RULE(name_, kind_)                  \
    {                                       \
        .name = name_, .kind = RULE_##kind_ \
    }
#define RULE_NUMBER(name_, only)                          \
    {                                                     \
        .name = name_, .kind = RULE_ONLY, .least = (only) \
    }
#define RULE_BOOL(name_, field)                      \
    {                                                \
        .name = name_, .kind = RULE_FLAG,            \
        .at = offsetof(struct openai_request, field) \
    }
#define RULE_BY(name_, read_)                           \
    {                                                   \
        .name = name_, .kind = RULE_READ, .read = read_ \
    }

#define RULE_COUNT_OF(rules) (sizeof(rules) / sizeof((rules)[0]))

/* Reads all fields of the body: those of rules, which the endpoint owns, and
 * those that every endpoint with generation shares if generates is set.  Fields
 * of other servers follow, and the rest is ignored, as parse_ignore() has it.
 */
MUST_CHECK bool parse_rules(struct parse *p, const struct rule *rules, size_t n,
                            bool generates);

/* Fields of other servers, in every endpoint that generates: those that would
 * change the answer. */
extern const struct rule parse_others[];
extern const size_t parse_others_n;

/* Notes that the server ignores f, for the answer: under its place, and behind
 * it under `kind` unless that is NULL.  Returns false, and the error, if the
 * operator wants unknown fields refused. */
MUST_CHECK bool parse_ignore(struct parse *p, const struct field *f,
                             const char *kind);

/* Checks that the body has a member. */
MUST_CHECK bool parse_require(struct parse *p, const char *name);

/* Returns zeroed memory.  Without memory it returns NULL and notes that
 * (gateway/openai/json_memory.h): the whole parse then fails, so a reader may
 * return anything. */
void *parse_alloc(size_t n, size_t size);

/* Sets a member of a JSON object, and takes value.  Returns false without
 * memory, which jansson has noted; value is then freed. */
bool parse_put(json_t *object, const char *key, json_t *value);
bool parse_append(json_t *array, json_t *value);

/* Keeps value, which the request's strings point into. */
void parse_hold(struct parse *p, const json_t *value);

/* Keeps value until the input is dropped. */
void parse_hold_input(struct parse *p, const json_t *value);

/* ---- readers ---- */

parse_fn parse_model, parse_n, parse_max_tokens, parse_seed, parse_stop;
parse_fn parse_stop_tokens, parse_logit_bias, parse_skip_special,
    parse_cache_salt, parse_drafts, parse_timeout, parse_service_tier,
    parse_priority;

/* Reads max_tokens, which is at least `least`: 0 or 1. */
MUST_CHECK bool parse_tokens_from(struct parse *p, const struct field *f,
                                  uint32_t least);

/* Checks that a value without effect is an object. */
parse_fn parse_object;

/* Refuses formats but text.  where: of OpenAI's response_format, or text.format
 * of /v1/responses. */
parse_fn parse_format;

/* Reads template variables: chat_template_kwargs, reasoning_effort; and what
 * other servers have for them: enable_thinking, thinking, reasoning. */
parse_fn parse_kwargs, parse_effort, parse_enable_thinking, parse_thinking,
    parse_reasoning;

/* Reads the fields that choose how the conversation ends: after the messages.
 */
MUST_CHECK bool parse_prompt_end(struct parse *p);

/* Reads top_logprobs, which needs logprobs. */
MUST_CHECK bool parse_top_logprobs(struct parse *p);

/* Reads stream_options, which needs stream. */
MUST_CHECK bool parse_stream_options(struct parse *p);

/* Reads ids of tokens, least..most of them, into memory of its own. */
MUST_CHECK bool parse_ids(const struct field *f, size_t least, uint32_t **ids,
                          size_t *n);

#endif
