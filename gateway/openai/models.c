#include "gateway/openai/models.h"

#include "common/base/utf8.h"

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

/* A token that is no UTF-8 is a list of bytes, as llama.cpp writes it. */
static void put_piece(struct json_out *out, const char *bytes, size_t n)
{
    if (utf8_valid(bytes, n, NULL)) {
        json_out_string(out, bytes, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        json_out_put(out, i > 0 ? "," : "[");
        json_out_u64(out, (uint8_t)bytes[i]);
    }
    json_out_put(out, "]");
}

void openai_pieces_body(struct json_out *out, const uint32_t *ids, size_t n,
                        const struct openai_vocab *vocab)
{
    json_out_put(out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        const char *bytes = NULL;
        size_t length = vocab->bytes(vocab->arg, ids[i], &bytes);

        json_out_put(out, i > 0 ? ",{\"id\":" : "{\"id\":");
        json_out_u64(out, ids[i]);
        json_out_put(out, ",\"piece\":");
        put_piece(out, bytes, length);
        json_out_put(out, "}");
    }
    json_out_put(out, "]}");
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

void openai_prompt_body(struct json_out *out, const char *text, size_t n)
{
    json_out_put(out, "{\"prompt\":");
    json_out_string(out, text, n);
    json_out_put(out, "}");
}

/* vLLM has prompt, which /tokenize takes back as one, and llama.cpp content. */
void openai_detokenize_body(struct json_out *out, const char *text, size_t n)
{
    json_out_put(out, "{\"prompt\":");
    json_out_string(out, text, n);
    json_out_put(out, ",\"content\":");
    json_out_string(out, text, n);
    json_out_put(out, "}");
}

void openai_props_body(struct json_out *out, const struct openai_props *p)
{
    json_out_put(out, "{\"default_generation_settings\":{\"n_ctx\":");
    json_out_u64(out, p->context);
    json_out_put(out, "},\"model_alias\":");
    json_out_text(out, p->model);
    json_out_put(out, ",\"model_path\":");
    json_out_text(out, p->model);
    json_out_put(out, ",\"chat_template\":");
    json_out_string(out, p->template, p->n_template);
    json_out_put(out, ",\"bos_token\":");
    json_out_text(out, p->bos != NULL ? p->bos : "");
    json_out_put(out, ",\"eos_token\":");
    json_out_text(out, p->eos != NULL ? p->eos : "");
    json_out_put(out, ",\"modalities\":{\"vision\":false,\"audio\":false},"
                      "\"build_info\":\"sluice-" SLUICE_VERSION "\"}");
}
