/* /v1/chat/completions. */
#include "gateway/dialects/chat_parse.h"
#include "gateway/dialects/choices.h"
#include "gateway/dialects/dialect_rows.h"

/* A chunk has one kind of content. */
static void put_delta(struct json_out *o, const struct choice *c)
{
    if (c->run == OUTPUT_TOOL_ARGUMENTS) {
        json_out_put(o, "\"tool_calls\":[{\"index\":");
        json_out_u64(o, c->tool);
        json_out_put(o, ",\"function\":{\"arguments\":");
        choices_put_text(o, c);
        json_out_put(o, "}}]");
        return;
    }
    json_out_put(o, c->run == OUTPUT_REASONING ? "\"reasoning_content\":"
                                               : "\"content\":");
    choices_put_text(o, c);
}

static void put_message(struct json_out *o, const struct choice *c)
{
    json_out_put(o, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->calls.n > 0 && c->text.n == 0) {
        json_out_put(o, "null");
    } else {
        choices_put_text(o, c);
    }
    json_out_put(o, ",\"refusal\":null");
    if (c->reasoning.n > 0) {
        json_out_put(o, ",\"reasoning_content\":\"");
        json_out_raw(o, c->reasoning.data, c->reasoning.n);
        json_out_put(o, "\"");
    }
    if (c->calls.n > 0) {
        json_out_put(o, ",\"tool_calls\":[");
        json_out_raw(o, c->calls.data, c->calls.n);
        json_out_put(o, "]");
    }
    json_out_put(o, "}");
}

static const struct choices_form form = {
    .id_prefix = "chatcmpl-",
    .whole = "chat.completion",
    .chunk = "chat.completion.chunk",
    .role = "\"role\":\"assistant\",\"content\":\"\"",
    .delta_open = ",\"delta\":{",
    .delta_close = "}",
    .logs = {"{\"content\":["},
    .logs_end = "],\"refusal\":null}",
    .put_run = put_delta,
    .put_whole = put_message,
};

const struct dialect chat_dialect = {
    .path = "/v1/chat/completions",
    .help = "chat completions",
    .label = GATEWAY_ROUTE_CHAT,
    .parse = chat_parse,
    .input = "messages",
    .stream_type = DIALECT_EVENTS,
    .whole_type = DIALECT_JSON,
    .ping = DIALECT_COMMENT,
    .remark = DIALECT_REMARK,
    .error = openai_error_body,
    .form = &form,
    .init = choices_init,
    .first = choices_first,
    .delta = choices_delta,
    .logprobs = answer_logs_objects,
    .flush = choices_flush,
    .finish = choices_finish,
    .end = choices_end,
    .fail = choices_fail,
    .drop = choices_drop,
    .fini = choices_fini,
};
