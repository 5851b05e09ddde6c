/* Bodies of /tokenize, /detokenize, /apply-template and /api/show. */
#include "gateway/openai/messages.h"
#include "gateway/openai/parse.h"
#include "gateway/openai/request_parse.h"

/* Unlike a completion, an empty text is fine: it has 0 tokens. */
static bool read_text(struct parse *p, const struct field *f)
{
    p->r->prompts = parse_alloc(1, sizeof *p->r->prompts);
    if (p->r->prompts == NULL) {
        return false;
    }
    p->r->n_prompts = 1;
    p->r->template.add_special = true;
    parse_hold_input(p, f->value);
    return field_string(f, &p->r->prompts[0].text, &p->r->prompts[0].n_text);
}

/* llama.cpp's name of a prompt, to which it adds no special tokens. */
static bool read_content(struct parse *p, const struct field *f)
{
    if (p->r->prompts != NULL) {
        return field_fail(f, "and prompt exclude each other");
    }
    if (!read_text(p, f)) {
        return false;
    }
    p->r->template.add_special = false;
    return true;
}

/* As llama.cpp's: each token is an object with its text. */
static bool read_pieces(struct parse *p, const struct field *f)
{
    return field_flag(f, &p->r->values.pieces);
}

static bool read_tokens(struct parse *p, const struct field *f)
{
    return parse_ids(f, 0, &p->r->tokens, &p->r->n_tokens);
}

static const struct rule tokenize_rules[] = {
    RULE_BY("model", parse_model),
    RULE_BY("prompt", read_text),
    RULE_BY("content", read_content),
    RULE_BOOL("add_special", template.add_special),
    RULE("parse_special", TRUE),
    RULE_BY("with_pieces", read_pieces),
    RULE_BY("messages", messages_parse),
    RULE("tools", LATER),
    RULE_BY("chat_template_kwargs", parse_kwargs),
    RULE("chat_template", REFUSE),
    RULE_BOOL("add_special_tokens", template.add_special),
    RULE_BOOL("return_token_strs", return_token_strs),
    RULE("add_generation_prompt", LATER),
    RULE("continue_final_message", LATER),
};

bool openai_parse_tokenize(struct parse *p)
{
    struct field f;

    if (!parse_rules(p, tokenize_rules, RULE_COUNT_OF(tokenize_rules), false)) {
        return false;
    }
    if ((p->r->messages == NULL) == (p->r->n_prompts == 0)) {
        (void)field_find(&p->body, "prompt", &f);
        return field_fail(&f, "or messages is required, and not both");
    }
    return messages_tools(p) && parse_prompt_end(p);
}

static const struct rule detokenize_rules[] = {
    RULE_BY("model", parse_model),
    RULE_BY("tokens", read_tokens),
};

bool openai_parse_detokenize(struct parse *p)
{
    return parse_rules(p, detokenize_rules, RULE_COUNT_OF(detokenize_rules),
                       false) &&
           parse_require(p, "tokens");
}

static const struct rule apply_rules[] = {
    RULE_BY("model", parse_model),
    RULE_BY("messages", messages_parse),
    RULE("tools", LATER),
    RULE("tool_choice", LATER),
    RULE_BY("chat_template_kwargs", parse_kwargs),
    RULE_BY("reasoning_effort", parse_effort),
    RULE("chat_template", REFUSE),
    RULE("add_generation_prompt", LATER),
    RULE("continue_final_message", LATER),
};

bool openai_parse_apply(struct parse *p)
{
    p->r->values.renders = true;
    return parse_rules(p, apply_rules, RULE_COUNT_OF(apply_rules), false) &&
           parse_require(p, "messages") && messages_tools(p) &&
           parse_prompt_end(p);
}

static const struct rule show_rules[] = {
    RULE_BY("model", parse_model),
    RULE("name", LATER),
};

/* name is the older name of model. */
bool openai_parse_show(struct parse *p)
{
    struct field name;

    if (!parse_rules(p, show_rules, RULE_COUNT_OF(show_rules), false)) {
        return false;
    }
    if (p->r->model == NULL && field_find(&p->body, "name", &name)) {
        return parse_model(p, &name);
    }
    return parse_require(p, "model");
}
