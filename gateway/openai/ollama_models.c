#include "gateway/openai/ollama_models.h"

#include <time.h>

void ollama_put_time(struct json_out *out, int64_t unix_s)
{
    time_t t = (time_t)unix_s;
    struct tm utc;
    char text[32];

    if (gmtime_r(&t, &utc) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0) {
        text[0] = '\0';
    }
    json_out_text(out, text);
}

/* Sizes and digests are those of files, which the workers have. */
static void put_details(struct json_out *out)
{
    json_out_put(out, "\"details\":{\"parent_model\":\"\",\"format\":\"\","
                      "\"family\":\"\",\"families\":null,"
                      "\"parameter_size\":\"\",\"quantization_level\":\"\"}");
}

void ollama_tags_body(struct json_out *out, const struct openai_model *models,
                      size_t n)
{
    json_out_put(out, "{\"models\":[");
    for (size_t i = 0; i < n; i++) {
        json_out_put(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        json_out_text(out, models[i].id);
        json_out_put(out, ",\"model\":");
        json_out_text(out, models[i].id);
        json_out_put(out, ",\"modified_at\":");
        ollama_put_time(out, models[i].created_unix);
        json_out_put(out, ",\"size\":0,\"digest\":\"\",");
        put_details(out);
        json_out_put(out, "}");
    }
    json_out_put(out, "]}");
}

void ollama_show_body(struct json_out *out, const struct openai_model *model,
                      const char *template, size_t n)
{
    json_out_put(out, "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":");
    json_out_string(out, template, n);
    json_out_put(out, ",");
    put_details(out);
    /* Clients look for the context under the name of the architecture. */
    json_out_put(out, ",\"model_info\":{\"general.architecture\":\"sluice\","
                      "\"sluice.context_length\":");
    json_out_u64(out, model->context);
    json_out_put(out, "},\"capabilities\":[\"completion\"");
    json_out_put(out, model->tools != NULL ? ",\"tools\"" : "");
    json_out_put(out, model->reasoning ? ",\"thinking\"" : "");
    json_out_put(out, "],\"modified_at\":");
    ollama_put_time(out, model->created_unix);
    json_out_put(out, "}");
}

void ollama_version_body(struct json_out *out)
{
    json_out_put(out, "{\"version\":\"" SLUICE_VERSION "\"}");
}
