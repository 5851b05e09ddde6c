/* /api/chat. */
#include "gateway/dialects/dialect_rows.h"
#include "gateway/dialects/ollama_answer.h"
#include "gateway/dialects/ollama_parse.h"

static const struct ollama_form form = {
    .open = "\"message\":{\"role\":\"assistant\",\"content\":\"",
    .close = "}",
};

const struct dialect ollama_dialect = {
    .path = "/api/chat",
    .help = "chats, as Ollama",
    .label = GATEWAY_ROUTE_OLLAMA_CHAT,
    .parse = ollama_parse_chat,
    .input = "messages",
    .stream_type = OLLAMA_LINES,
    .whole_type = DIALECT_JSON,
    .error = ollama_error,
    .form = &form,
    .init = ollama_init,
    .first = ollama_first,
    .delta = ollama_delta,
    .flush = ollama_flush,
    .finish = ollama_finish,
    .end = ollama_end,
    .fail = ollama_fail,
    .drop = ollama_drop,
    .fini = ollama_fini,
};
