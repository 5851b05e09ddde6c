/* Fields of other servers that would change the answer.  Those that this server
 * has under another name are read; of the rest, the values that change nothing
 * pass, and others are refused by name.  A field that changes no answer has no
 * row: it is ignored (parse_ignored.c). */
#include "gateway/openai/parse.h"

/* llama.cpp's and Ollama's name of max_tokens, where -1 is no limit. */
static bool read_predict(struct parse *p, const struct field *f)
{
    return (json_is_integer(f->value) && json_integer_value(f->value) == -1) ||
           parse_max_tokens(p, f);
}

/* Values of 0 and below switch the sampler off, in llama.cpp. */
static bool read_off(struct parse *p, const struct field *f)
{
    (void)p;
    return field_neutral(f) ||
           (json_is_number(f->value) && json_number_value(f->value) < 0) ||
           field_refuse(f);
}

/* A penalty of all tokens has the same name at vLLM.  That of llama.cpp looks
 * back at some of them, so that its value means something else. */
static bool read_repeat_penalty(struct parse *p, const struct field *f)
{
    (void)p;
    return (json_is_number(f->value) && json_number_value(f->value) == 1) ||
           field_fail(f, "is not supported; use repetition_penalty, which "
                         "counts all tokens of prompt and answer");
}

/* How far a penalty looks back: without the penalty, and for all tokens, it
 * changes nothing. */
static bool read_last_n(struct parse *p, const struct field *f)
{
    const struct sampling *s = &p->r->sampling;
    int64_t n;

    if (!field_integer(f, -1, INT64_MAX, &n)) {
        return false;
    }
    return n == -1 || s->repetition_penalty == 1 ||
           field_fail(f, "is not supported beside repetition_penalty, which "
                         "counts all tokens; leave it out, or send -1");
}

/* A budget of 0 is no thinking, and -1 no limit. */
static bool read_budget(struct parse *p, const struct field *f)
{
    struct field off = *f;
    int64_t n;

    if (!field_integer(f, -1, INT64_MAX, &n)) {
        return false;
    }
    if (n == 0) {
        off.value = json_false();
        return parse_enable_thinking(p, &off);
    }
    return n == -1 ||
           field_fail(f, "is not supported: nothing would end the thinking "
                         "there; leave it out, or send 0 for no thinking");
}

/* Reasoning is apart from the text, always. */
static bool read_reasoning_format(struct parse *p, const struct field *f)
{
    (void)p;
    return field_is(f, "auto") || field_is(f, "deepseek") ||
           field_is(f, "parsed") ||
           field_unexpected(f, "auto, deepseek or parsed");
}

/* Draws no random number: the best token of each step. */
static bool read_do_sample(struct parse *p, const struct field *f)
{
    bool on = false;

    if (!field_flag(f, &on)) {
        return false;
    }
    if (!on) {
        p->r->sampling.temperature = 0;
        p->r->given.temperature = true;
    }
    return true;
}

const struct rule parse_others[] = {
    /* Other names of fields that there are. */
    RULE_BY("max_new_tokens", parse_max_tokens),
    RULE_BY("max_completion_tokens", parse_max_tokens),
    RULE_BY("max_output_tokens", parse_max_tokens),
    RULE_BY("n_predict", read_predict),
    RULE_BY("num_predict", read_predict),
    RULE_BY("stop_sequences", parse_stop),
    RULE_BY("random_seed", parse_seed),
    RULE_BY("do_sample", read_do_sample),
    RULE_BY("enable_thinking", parse_enable_thinking),
    RULE_BY("thinking", parse_thinking),
    RULE_BY("think", parse_thinking),
    RULE_BY("reasoning", parse_reasoning),
    RULE_BY("reasoning_effort", parse_effort),
    RULE_BY("reasoning_format", read_reasoning_format),
    RULE_BY("thinking_budget", read_budget),
    RULE_BY("reasoning_budget", read_budget),
    /* Samplers. */
    RULE_BY("repeat_penalty", read_repeat_penalty),
    RULE_BY("repeat_last_n", read_last_n),
    RULE_BY("repetition_context_size", read_last_n),
    RULE_BY("top_n_sigma", read_off),
    RULE_BY("nsigma", read_off),
    RULE("top_a", NEUTRAL),
    RULE_NUMBER("typical_p", 1),
    RULE_NUMBER("typical", 1),
    RULE_NUMBER("tfs", 1),
    RULE_NUMBER("tfs_z", 1),
    RULE_NUMBER("encoder_repetition_penalty", 1),
    RULE_NUMBER("guidance_scale", 1),
    RULE("mirostat", NEUTRAL),
    RULE("mirostat_mode", NEUTRAL),
    RULE("dry_multiplier", NEUTRAL),
    RULE("xtc_probability", NEUTRAL),
    RULE("dynatemp_range", NEUTRAL),
    RULE("dynamic_temperature", NEUTRAL),
    RULE("temperature_last", NEUTRAL),
    RULE("smoothing_factor", NEUTRAL),
    RULE("epsilon_cutoff", NEUTRAL),
    RULE("eta_cutoff", NEUTRAL),
    RULE("penalty_alpha", NEUTRAL),
    RULE("no_repeat_ngram_size", NEUTRAL),
    RULE("samplers", NEUTRAL),
    RULE("sampler_order", NEUTRAL),
    RULE("sampler_priority", NEUTRAL),
    RULE("watermark", NEUTRAL),
    RULE("negative_prompt", NEUTRAL),
    RULE("custom_logit_processor", NEUTRAL),
    /* Lengths, and what ends or must not be in an answer. */
    RULE("min_length", NEUTRAL),
    RULE("min_new_tokens", NEUTRAL),
    RULE("min_completion_tokens", NEUTRAL),
    RULE("bad_words_ids", NEUTRAL),
    RULE("suppress_tokens", NEUTRAL),
    RULE("banned_tokens", NEUTRAL),
    RULE("banned_strings", NEUTRAL),
    RULE("custom_token_bans", NEUTRAL),
    RULE("force_words_ids", NEUTRAL),
    RULE("no_stop_trim", NEUTRAL),
    RULE("t_max_predict_ms", NEUTRAL),
    /* Several answers, of which one is chosen. */
    RULE_NUMBER("best_of", 1),
    RULE_NUMBER("num_beams", 1),
    RULE_NUMBER("num_return_sequences", 1),
    RULE_NUMBER("candidate_count", 1),
    /* The form of the answer. */
    RULE("ebnf", NEUTRAL),
    RULE("structural_tag", NEUTRAL),
    RULE("guided_whitespace_pattern", NEUTRAL),
    RULE("output_schema", NEUTRAL),
    RULE("format", NEUTRAL),
    RULE("n_probs", NEUTRAL),
    RULE("return_full_text", NEUTRAL),
    RULE("return_hidden_states", NEUTRAL),
    RULE("detokenize", TRUE),
    RULE("separate_reasoning", TRUE),
    /* The model. */
    RULE("lora", NEUTRAL),
    RULE("lora_adapter", NEUTRAL),
    RULE("lora_path", NEUTRAL),
    RULE("adapter_id", NEUTRAL),
    /* The input. */
    RULE("options", NEUTRAL),
    RULE("extra_body", NEUTRAL),
    RULE("transforms", NEUTRAL),
    RULE("plugins", NEUTRAL),
    RULE("truncate", NEUTRAL),
    RULE("template", NEUTRAL),
    RULE("prompt", NEUTRAL),
    RULE("input", NEUTRAL),
    RULE("messages", NEUTRAL),
    RULE("system", NEUTRAL),
    RULE("instructions", NEUTRAL),
    RULE("suffix", NEUTRAL),
    RULE("context", NEUTRAL),
    RULE("images", NEUTRAL),
    RULE("image_data", NEUTRAL),
    RULE("videos", NEUTRAL),
    RULE("audio", NEUTRAL),
    RULE("files", NEUTRAL),
    RULE("data_sources", NEUTRAL),
    RULE("enable_search", NEUTRAL),
    RULE("web_search", NEUTRAL),
    RULE("web_search_options", NEUTRAL),
    RULE("safe_prompt", NEUTRAL),
    RULE("input_ids", NEUTRAL),
    RULE("prompt_token_ids", NEUTRAL),
    RULE("prompt_embeds", NEUTRAL),
    RULE("input_embeds", NEUTRAL),
    RULE("chat_template", NEUTRAL),
    RULE("functions", NEUTRAL),
    RULE("function_call", NEUTRAL),
    RULE("tools", NEUTRAL),
    RULE("echo", NEUTRAL),
};

const size_t parse_others_n = RULE_COUNT_OF(parse_others);
