#include "gateway/dialects/completions_parse.h"

#include "gateway/openai/parse.h"

/* ---- prompts ---- */

static bool one_prompt(struct parse *p, const struct field *f)
{
    struct openai_prompt *prompt = &p->r->prompts[p->r->n_prompts];
    uint32_t *ids;

    if (json_is_array(f->value)) {
        if (!parse_ids(f, 1, &ids, &prompt->n_ids)) {
            return false;
        }
        prompt->ids = ids;
    } else {
        if (!json_is_string(f->value)) {
            return field_unexpected(f, "a string or an array of token ids");
        }
        parse_hold_input(p, f->value);
        if (!field_string(f, &prompt->text, &prompt->n_text)) {
            return false;
        }
        /* Not every model begins with a token of its own, and a sequence
         * needs one. */
        if (prompt->n_text == 0) {
            return field_fail(f, "is empty; give a prompt of at least one "
                                 "character");
        }
    }
    p->r->n_prompts++;
    return true;
}

static bool read_prompts(struct parse *p, const struct field *f)
{
    const json_t *first = json_array_get(f->value, 0);
    size_t n = json_array_size(f->value);

    /* An array of numbers is one prompt of ids. */
    if (!json_is_array(f->value) || json_is_number(first)) {
        p->r->prompts = parse_alloc(1, sizeof *p->r->prompts);
        return p->r->prompts != NULL && one_prompt(p, f);
    }
    if (!field_array(f, 1, p->limits.prompts_max)) {
        return false;
    }
    p->r->prompts = parse_alloc(n, sizeof *p->r->prompts);
    for (size_t i = 0; p->r->prompts != NULL && i < n; i++) {
        struct field prompt = field_element(f, i);

        if (!one_prompt(p, &prompt)) {
            return false;
        }
    }
    return true;
}

/* ---- the other fields ---- */

/* The number of candidates; 0 gives the chosen tokens alone. */
static bool read_logprobs(struct parse *p, const struct field *f)
{
    p->r->sampling.logprobs = true;
    p->r->given.logprobs = true;
    return field_count(f, 0, TOP_LOGPROBS_MAX, &p->r->sampling.n_top_logprobs);
}

/* 0 is in OpenAI's schema, of completions alone: the answer is empty, or with
 * echo the prompt. */
static bool read_max_tokens(struct parse *p, const struct field *f)
{
    return parse_tokens_from(p, f, 0);
}

static const struct rule completion_rules[] = {
    RULE_BY("prompt", read_prompts), RULE_BY("logprobs", read_logprobs),
    RULE_BOOL("echo", echo),         RULE_BY("max_tokens", read_max_tokens),
    RULE("best_of", LATER),          RULE("suffix", NEUTRAL),
    RULE("prompt_embeds", REFUSE),
};

/* Drawing more than n to keep the best would cost tokens that no one sees. */
static bool check_best_of(struct parse *p)
{
    struct field f;
    uint32_t best_of;

    if (!field_find(&p->body, "best_of", &f)) {
        return true;
    }
    if (!field_count(&f, 1, p->limits.n_max, &best_of)) {
        return false;
    }
    return best_of == p->r->n ||
           field_fail(&f, "is %u, but only the value of n, %u, is supported",
                      best_of, p->r->n);
}

/* Each choice is a sequence in the router, so prompts and n multiply. */
static bool check_total(struct parse *p)
{
    struct field f;

    (void)field_find(&p->body, "n", &f);
    return openai_request_choices(p->r) <= p->limits.total_max ||
           field_fail(&f,
                      "is %u, which makes %u choices of %zu prompts, but at "
                      "most %u are allowed; lower n or send fewer prompts",
                      p->r->n, openai_request_choices(p->r), p->r->n_prompts,
                      p->limits.total_max);
}

/* Workers compute no logprobs of prompt tokens. */
static bool check_echo(struct parse *p)
{
    struct field f;

    (void)field_find(&p->body, "logprobs", &f);
    return !p->r->echo || !p->r->sampling.logprobs ||
           field_fail(&f, "of a prompt are not supported; leave out echo or "
                          "logprobs");
}

bool completions_parse(struct parse *p)
{
    p->r->template.add_special = true;
    return parse_rules(p, completion_rules, RULE_COUNT_OF(completion_rules),
                       true) &&
           parse_require(p, "model") && parse_require(p, "prompt") &&
           check_best_of(p) && check_total(p) && check_echo(p) &&
           parse_stream_options(p);
}
