/* /v1/messages/count_tokens. */
#include "gateway/dialects/anthropic_error.h"
#include "gateway/dialects/anthropic_parse.h"
#include "gateway/dialects/dialect_rows.h"

static void put_count(struct json_out *out, uint64_t n)
{
    json_out_put(out, "{\"input_tokens\":");
    json_out_u64(out, n);
    json_out_put(out, "}");
}

const struct dialect anthropic_count_dialect = {
    .path = "/v1/messages/count_tokens",
    .help = "tokens of a prompt of /v1/messages",
    .label = GATEWAY_ROUTE_COUNT,
    .parse = anthropic_parse,
    .input = "messages",
    .whole_type = DIALECT_JSON,
    .error = anthropic_error_body,
    .status = anthropic_error_status,
    .id_header = ANTHROPIC_ID_HEADER,
    .counted = put_count,
};
