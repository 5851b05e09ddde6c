/* dialects.h - The dialects that the gateway serves.
 *
 * Threading: constant data. */
#ifndef GATEWAY_DIALECTS_DIALECTS_H
#define GATEWAY_DIALECTS_DIALECTS_H

#include "gateway/dialects/dialect_rows.h"

#define DIALECT_ROWS 16

/* Ends with NULL; at most DIALECT_ROWS rows. */
extern const struct dialect *const dialects[];

#endif
