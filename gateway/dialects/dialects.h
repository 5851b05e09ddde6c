/* dialects.h - The dialects that the gateway serves.
 *
 * Threading: constant data. */
#ifndef GATEWAY_DIALECTS_DIALECTS_H
#define GATEWAY_DIALECTS_DIALECTS_H

#include "gateway/dialects/dialect.h"

#define DIALECT_ROWS 16

/* Ends with NULL; at most DIALECT_ROWS rows. */
extern const struct dialect *const dialects[];

/* The rows. */
extern const struct dialect chat_dialect, completions_dialect,
    responses_dialect, anthropic_dialect, anthropic_count_dialect;

#endif
