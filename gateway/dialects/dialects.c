#include "gateway/dialects/dialects.h"

#include <assert.h>

/* In the order of --list-routes. */
const struct dialect *const dialects[] = {
    &chat_dialect,
    &completions_dialect,
    &responses_dialect,
    &anthropic_dialect,
    &anthropic_count_dialect,
    &ollama_dialect,
    &ollama_generate_dialect,
    NULL,
};

static_assert(sizeof dialects / sizeof *dialects <= DIALECT_ROWS + 1,
              "the table of routes has room for all dialects");
