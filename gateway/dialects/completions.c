/* /v1/completions. */
#include "gateway/dialects/choices.h"
#include "gateway/dialects/completions_parse.h"
#include "gateway/dialects/dialect_rows.h"

/* A completion has text alone: no reasoning and no calls, as is_raw promises.
 */
static void put_text(struct json_out *o, const struct choice *c)
{
    json_out_put(o, ",\"text\":");
    choices_put_text(o, c);
}

static const struct choices_form form = {
    .id_prefix = "cmpl-",
    .whole = "text_completion",
    .chunk = "text_completion",
    .delta_open = ",\"text\":",
    .delta_close = "",
    .last_text = true, /* clients read "text" of every chunk */
    .logs = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
             "],\"text_offset\":["},
    .logs_end = "]}",
    .put_run = choices_put_text,
    .put_whole = put_text,
};

const struct dialect completions_dialect = {
    .path = "/v1/completions",
    .help = "completions",
    .label = GATEWAY_ROUTE_COMPLETIONS,
    .parse = completions_parse,
    .input = "prompt",
    .is_raw = true,
    .stream_type = DIALECT_EVENTS,
    .whole_type = DIALECT_JSON,
    .ping = DIALECT_COMMENT,
    .remark = DIALECT_REMARK,
    .error = openai_error_body,
    .form = &form,
    .init = choices_init,
    .first = choices_first,
    .delta = choices_delta,
    .logprobs = answer_logs_columns,
    .flush = choices_flush,
    .finish = choices_finish,
    .end = choices_end,
    .fail = choices_fail,
    .drop = choices_drop,
    .fini = choices_fini,
};
