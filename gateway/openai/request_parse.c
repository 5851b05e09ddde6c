#include "gateway/openai/request_parse.h"

#include "common/base/json_bound.h"
#include "gateway/openai/body.h"
#include "gateway/openai/json_memory.h"
#include "gateway/openai/messages.h"
#include "gateway/openai/parse.h"

const struct limit_row openai_limit_rows[] = {
    LIMIT_ROW(OPENAI_DEPTH_MAX, "", "arrays and objects inside each other"),
    LIMIT_ROW(OPENAI_VALUES_MAX, "values", "a body, ids included"),
    LIMIT_ROW(OPENAI_LISTS_MAX, "", "arrays and objects of a body"),
    LIMIT_ROW(OPENAI_MEMBERS_MAX, "", "members of all objects of a body"),
    LIMIT_ROW(OPENAI_PROMPTS_MAX, "", "prompts of a completion"),
    LIMIT_ROW(OPENAI_TOTAL_MAX, "", "choices of all prompts of a request"),
    LIMIT_ROW(OPENAI_TOOLS_MAX, "", "functions of a request"),
    LIMIT_ROW(OPENAI_NAME_MAX, "bytes", "the name of a function"),
    LIMIT_ROW(ANTHROPIC_NAME_MAX, "bytes",
              "the name of a tool of /v1/messages"),
    LIMIT_ROW(OPENAI_MESSAGES_MAX, "", "messages of a request"),
    LIMIT_ROW(OPENAI_CALL_ID_MAX, "bytes", "the id of a call in a message"),
    LIMIT_ROW(OPENAI_KWARGS_MAX, "", "variables of chat_template_kwargs"),
    LIMIT_ROW(OPENAI_TIMEOUT_S, "s", "timeout of a request"),
    LIMIT_ROW(OPENAI_IGNORED_MAX, "bytes",
              "names of ignored fields in x-sluice-ignored"),
    LIMIT_ROW(MESSAGES_ARGUMENTS_VALUES, "values",
              "arguments of all calls in a request's messages"),
};

const size_t openai_limit_rows_n =
    sizeof openai_limit_rows / sizeof openai_limit_rows[0];

static struct openai_request *request_new(void)
{
    struct openai_request *r = parse_alloc(1, sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    r->n = 1;
    r->cache_prompt = true;
    r->sampling = sampling_default();
    r->template.parallel_tool_calls = true;
    r->values.held = json_array();
    r->values.input = json_array();
    return r;
}

static struct openai_limits resolve(const struct openai_limits *given)
{
    struct openai_limits l = given != NULL ? *given : (struct openai_limits){0};

    /* 0 is no useful limit, so it stands for the default. */
    l.prompts_max = l.prompts_max > 0 ? l.prompts_max : OPENAI_PROMPTS_MAX;
    l.n_max = l.n_max > 0 ? l.n_max : CHOICES_MAX;
    l.total_max = l.total_max > 0 ? l.total_max : OPENAI_TOTAL_MAX;
    return l;
}

/* Parses the body within its share of the memory. */
static bool parse_within(openai_parse_fn *parse, const char *body, size_t n,
                         const struct openai_limits *limits,
                         struct openai_request **out, struct openai_error *e)
{
    struct parse p = {.limits = resolve(limits),
                      .values_left = MESSAGES_ARGUMENTS_VALUES,
                      .body.e = e};
    json_t *tree;
    bool fine;

    json_memory_clear();
    if (!body_parse(body, n, &tree, e)) {
        if (json_memory_failed()) {
            openai_error_memory(e);
        }
        return false;
    }
    /* Requests hold references to the parts they keep; the tree can go. */
    p.body.value = tree;
    p.r = request_new();
    fine = p.r != NULL && field_object(&p.body) && parse(&p);
    json_decref(tree);
    if (json_memory_failed()) {
        fine = false;
        openai_error_memory(e);
    }
    if (!fine) {
        openai_request_free(&p.r);
    }
    *out = p.r;
    return fine;
}

/* Sets the error of a body that costs more than the budget has left. */
static bool refuse(const struct memory_budget *b, size_t cost,
                   struct openai_error *e)
{
    if (cost > b->max) {
        openai_error_set(e, 413, NULL, NULL,
                         "the body needs up to %zu bytes of memory, and the "
                         "server has %zu for all requests; send less",
                         cost, b->max);
    } else {
        openai_error_memory(e);
    }
    return false;
}

bool openai_request_parse(openai_parse_fn *parse, const char *body, size_t n,
                          const struct openai_limits *limits,
                          struct openai_request **out, struct openai_error *e)
{
    struct memory_budget *b = limits != NULL ? limits->memory : NULL;
    size_t cost = b != NULL ? json_cost(body, n) : 0;

    *out = NULL;
    if (b != NULL && !memory_take(b, cost)) {
        return refuse(b, cost, e);
    }
    if (!parse_within(parse, body, n, limits, out, e)) {
        if (b != NULL) {
            memory_give(b, cost);
        }
        return false;
    }
    (*out)->body_bytes = n;
    (*out)->memory = b;
    (*out)->held_bytes = cost;
    return true;
}
