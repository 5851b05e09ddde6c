/* request.h - Bodies of requests, checked and in one form.
 *
 * One struct holds a request of any endpoint: of the dialects of
 * gateway/dialects, of /tokenize, /detokenize and /apply-template.  An endpoint
 * sets the fields that it has:
 *
 *     endpoint     prompts   messages, tools   sampling, stops, n   tokens
 *     completions  1..64     -                 yes                  -
 *     chat         -         1..               yes                  -
 *     responses    -         1..               yes, n is 1          -
 *     messages     -         1..               yes, n is 1          -
 *     /tokenize    0 or 1    or 1..            -                    -
 *     /detokenize  -         -                 -                    0..
 *     /apply-..    -         1..               -                    -
 *
 * Each field of the API is accepted, ignored, or refused by name with 400.  An
 * unknown field is ignored, and the answer names it; or it is refused, if the
 * operator wants that.  null is an absent field.  The tables of rules in
 * parse.c and parse_others.c, and in *_parse.c of the dialects, list them.
 *
 * Messages have the form that chat templates expect:
 *   - role is "system", "user", "assistant" or "tool"; "developer" becomes
 *     "system".
 *   - content is a string; text parts are joined.  It is "" for an assistant
 *     with calls and without content.
 *   - arguments of tool_calls are an object if their text is one.
 *   - reasoning of an assistant is in reasoning_content.
 *
 * Threading: none.  Memory: a request owns everything that its fields point
 * to.  openai_request_drop_input() frees the input once it is encoded.
 *
 * Limits: the OPENAI_* below and those of proto/limits.h.  A parse takes time
 * linear in the body, and at most OPENAI_VALUES_MAX values of memory. */
#ifndef GATEWAY_OPENAI_REQUEST_H
#define GATEWAY_OPENAI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/limit.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "gateway/openai/error.h"

#define OPENAI_DEPTH_MAX    64      /* arrays and objects inside each other */
#define OPENAI_VALUES_MAX   1048576 /* values of a body, ids included */
#define OPENAI_LISTS_MAX    65536   /* arrays and objects of a body */
#define OPENAI_MEMBERS_MAX  131072  /* members of all objects of a body */
#define OPENAI_PROMPTS_MAX  64      /* prompts of a completion */
#define OPENAI_TOTAL_MAX    128     /* choices of all prompts together */
#define OPENAI_TOOLS_MAX    128     /* functions of a request */
#define OPENAI_NAME_MAX     64      /* bytes of a function's name */
#define ANTHROPIC_NAME_MAX  128     /* bytes of one at /v1/messages */
#define OPENAI_MESSAGES_MAX 16384   /* messages of a request */
#define OPENAI_CALL_ID_MAX  256     /* bytes of the id of a call */
#define OPENAI_KWARGS_MAX   32      /* variables of chat_template_kwargs */
#define OPENAI_TIMEOUT_S    86400   /* timeout of a request */
#define OPENAI_IGNORED_MAX  200     /* bytes of the names of ignored fields */

/* Rows of the limits above, for --limits. */
extern const struct limit_row openai_limit_rows[];
extern const size_t openai_limit_rows_n;

/* Limits that an operator may lower; 0: the constant above. */
struct openai_limits {
    uint32_t prompts_max;         /* OPENAI_PROMPTS_MAX */
    uint32_t n_max;               /* CHOICES_MAX */
    uint32_t total_max;           /* OPENAI_TOTAL_MAX */
    struct memory_budget *memory; /* in which requests count; NULL: none */
    bool refuse_unknown;          /* fields without a rule get 400 */
};

/* A prompt: text, or ids if text is NULL. */
struct openai_prompt {
    const char *text; /* [n_text] UTF-8, may hold NULs */
    size_t n_text;
    const uint32_t *ids; /* [n_ids], each below MODEL_VOCAB_MAX */
    size_t n_ids;
};

struct openai_stop {
    const char *text; /* [n] UTF-8, 1..STOP_STRING_BYTES_MAX */
    size_t n;
};

/* Marks the sampling values that the body sets.  The others have the default of
 * sampling.h, and a model's own defaults may replace them. */
struct openai_given {
#define X(field, kind, unset, least, most) bool field;
    SAMPLING_VALUES(X)
#undef X
};

/* Variables of the chat template. */
struct openai_template {
    json_t *tools; /* array in OpenAI's chat form; NULL: none may be called */
    bool strict;   /* a function wants its schema kept: not yet */
    bool parallel_tool_calls; /* false: the first call ends the answer */
    bool add_generation_prompt, continue_final_message;
    bool add_special; /* the tokenizer adds its own tokens, as <s> */
    json_t *kwargs;   /* object of further variables; NULL: none */
};

/* Fields and kinds of tools of a request that the server does not use. */
struct openai_ignored {
    uint32_t n;                         /* all of them */
    uint32_t n_named;                   /* in names */
    char names[OPENAI_IGNORED_MAX + 1]; /* "chat_id, tools.web_search", of
                                         * letters, digits and "_-.?" */
};

/* Values of the body that live as long as the request. */
struct openai_values {
    json_t *repeated; /* object by field, that the object of /v1/responses
                       * repeats: instructions, tools, metadata ..; or NULL */
    json_t *held;     /* array: keeps model and stops alive */
    json_t *input;    /* array: keeps the texts of prompts alive */
    struct openai_ignored ignored;
    bool marks_cache; /* a block has cache_control: /v1/messages */
    bool pieces;      /* tokens are objects with their texts: /tokenize */
    bool renders;     /* only the text of the prompt: /apply-template */
};

/* The place of a request among those of its tenant that wait. */
enum openai_tier {
    OPENAI_TIER_DEFAULT,
    OPENAI_TIER_PRIORITY,
    OPENAI_TIER_FLEX,
    OPENAI_TIERS
};

/* Their names in service_tier. */
extern const char *const openai_tiers[OPENAI_TIERS];

/* When a request runs. */
struct openai_turn {
    enum openai_tier tier; /* by service_tier or priority */
    bool shows_tier;       /* service_tier is set */
    bool guaranteed;       /* never suspended */
};

/* Drafts in a step. */
struct openai_drafts {
    bool given; /* false: the worker's choice */
    uint32_t n; /* 0..DRAFTS_MAX */
};

struct openai_request {
    const char *model; /* [1..MODEL_NAME_MAX] without NUL; NULL: no field */

    /* How the answer is written. */
    bool stream, include_usage, continuous_usage;
    bool keep_special;      /* skip_special_tokens is false */
    bool return_token_strs; /* /tokenize */

    /* Generation. */
    uint32_t n; /* choices of each prompt, 1..CHOICES_MAX */
    bool has_max_tokens;
    uint32_t max_tokens;      /* 1..MODEL_CONTEXT_MAX; of completions from 0 */
    struct sampling sampling; /* logprobs, n_top_logprobs and lists too */
    struct openai_given given;
    bool has_seed;
    bool cache_prompt; /* computed prefixes are reused and kept */
    struct openai_turn turn;
    struct openai_drafts drafts;
    uint32_t timeout_ms;       /* from its arrival; 0: none */
    struct openai_stop salt;   /* for the prefix index; n = 0: none */
    struct openai_stop *stops; /* [n_stops] */
    size_t n_stops;            /* 0..STOP_STRINGS_MAX */

    /* The input. */
    bool echo;                     /* the text begins with the prompt */
    struct openai_prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
    json_t *messages; /* array; NULL: prompts */
    uint32_t *tokens; /* [n_tokens] /detokenize */
    size_t n_tokens;

    struct openai_template template;
    struct openai_values values;

    size_t body_bytes;            /* length of the body */
    struct memory_budget *memory; /* NULL: none */
    size_t held_bytes;            /* counted there */
};

/* Frees prompts, messages, tokens and the variables of the template, whose
 * fields are empty then.  n_prompts and tools remain. */
void openai_request_drop_input(struct openai_request *r);

/* Returns the number of choices of the answer: n for each prompt.  Choice i
 * belongs to prompt i / n. */
uint32_t openai_request_choices(const struct openai_request *r);

/* Frees a request; NULL is legal. */
void openai_request_free(struct openai_request **r);

#endif
