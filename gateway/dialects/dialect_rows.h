/* dialect_rows.h - The rows of dialects.h, each defined in its own file.
 *
 * Threading: constant data. */
#ifndef GATEWAY_DIALECTS_DIALECT_ROWS_H
#define GATEWAY_DIALECTS_DIALECT_ROWS_H

#include "gateway/dialects/dialect.h"

extern const struct dialect chat_dialect, completions_dialect,
    responses_dialect, anthropic_dialect, anthropic_count_dialect,
    ollama_dialect, ollama_generate_dialect;

#endif
