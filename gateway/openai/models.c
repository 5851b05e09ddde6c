#include "gateway/openai/models.h"

void openai_model_body(struct json_out *out, const struct openai_model *model)
{
    json_out_put(out, "{\"id\":");
    json_out_text(out, model->id);
    json_out_put(out, ",\"object\":\"model\",\"created\":");
    json_out_i64(out, model->created_unix);
    json_out_put(out, ",\"owned_by\":\"sluice\"");
    /* The field is vLLM's; clients that size prompts read it. */
    if (model->context > 0) {
        json_out_put(out, ",\"max_model_len\":");
        json_out_u64(out, model->context);
    }
    /* The names of Mistral's API, which lists such things. */
    json_out_put(out, ",\"capabilities\":{\"completion_chat\":");
    json_out_put(out, model->chat ? "true" : "false");
    json_out_put(out, ",\"function_calling\":");
    json_out_put(out, model->tools != NULL ? "true" : "false");
    json_out_put(out, ",\"reasoning\":");
    json_out_put(out, model->reasoning ? "true" : "false");
    json_out_put(out, "},\"tool_format\":");
    json_out_text(out, model->tools);
    json_out_put(out, "}");
}

void openai_models_body(struct json_out *out, const struct openai_model *models,
                        size_t n)
{
    json_out_put(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n; i++) {
        json_out_put(out, i > 0 ? "," : "");
        openai_model_body(out, &models[i]);
    }
    json_out_put(out, "]}");
}

/* A token may end inside a character; its string then has U+FFFD. */
static void token_texts(struct json_out *out, const uint32_t *ids, size_t n,
                        const struct openai_vocab *vocab)
{
    json_out_put(out, "[");
    for (size_t i = 0; i < n; i++) {
        const char *bytes = NULL;
        size_t length = vocab->bytes(vocab->arg, ids[i], &bytes);

        json_out_put(out, i > 0 ? "," : "");
        json_out_string(out, bytes, length);
    }
    json_out_put(out, "]");
}

void openai_tokenize_body(struct json_out *out, const uint32_t *ids, size_t n,
                          uint32_t context, const struct openai_vocab *vocab)
{
    json_out_put(out, "{\"count\":");
    json_out_u64(out, n);
    json_out_put(out, ",\"max_model_len\":");
    json_out_u64(out, context);
    json_out_put(out, ",\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        json_out_put(out, i > 0 ? "," : "");
        json_out_u64(out, ids[i]);
    }
    json_out_put(out, "],\"token_strs\":");
    if (vocab != NULL) {
        token_texts(out, ids, n, vocab);
    } else {
        json_out_put(out, "null");
    }
    json_out_put(out, "}");
}

/* The field is named prompt because /tokenize takes it back as one. */
void openai_detokenize_body(struct json_out *out, const char *text, size_t n)
{
    json_out_put(out, "{\"prompt\":");
    json_out_string(out, text, n);
    json_out_put(out, "}");
}
