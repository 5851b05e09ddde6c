#include "gateway/openai/request_parse.h"

#include "gateway/openai/body.h"
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
    LIMIT_ROW(OPENAI_MESSAGES_MAX, "", "messages of a request"),
    LIMIT_ROW(OPENAI_CALL_ID_MAX, "bytes", "the id of a call in a message"),
    LIMIT_ROW(OPENAI_KWARGS_MAX, "", "variables of chat_template_kwargs"),
    LIMIT_ROW(MESSAGES_ARGUMENTS_VALUES, "values",
              "arguments of all calls in a request's messages"),
};

const size_t openai_limit_rows_n =
    sizeof openai_limit_rows / sizeof openai_limit_rows[0];

/* By kind, so that a new endpoint cannot be forgotten. */
static bool (*const parsers[OPENAI_KIND_NR])(struct parse *p) = {
    [OPENAI_COMPLETION] = parse_completion, [OPENAI_CHAT] = parse_chat,
    [OPENAI_RESPONSES] = parse_responses,   [OPENAI_TOKENIZE] = parse_tokenize,
    [OPENAI_DETOKENIZE] = parse_detokenize,
};

static struct openai_request *request_new(enum openai_kind kind)
{
    struct openai_request *r = parse_alloc(1, sizeof *r);

    r->kind = kind;
    r->n = 1;
    r->cache_prompt = true;
    r->sampling = sampling_default();
    r->parallel_tool_calls = true;
    r->held = json_array();
    r->input = json_array();
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

bool openai_request_parse(enum openai_kind kind, const char *body, size_t n,
                          const struct openai_limits *limits,
                          struct openai_request **out, struct openai_error *e)
{
    struct parse p = {.limits = resolve(limits),
                      .values_left = MESSAGES_ARGUMENTS_VALUES,
                      .body.e = e};
    json_t *tree;
    bool fine;

    *out = NULL;
    if (!body_parse(body, n, &tree, e)) {
        return false;
    }
    /* Requests hold references to the parts they keep; the tree can go. */
    p.body.value = tree;
    p.r = request_new(kind);
    fine = field_object(&p.body) && parsers[kind](&p);
    json_decref(tree);
    if (!fine) {
        openai_request_free(&p.r);
    }
    *out = p.r;
    return fine;
}
