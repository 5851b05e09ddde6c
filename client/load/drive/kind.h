/* kind.h - The kinds of server, by endpoint.
 *
 * Threading: none. */
#ifndef CLIENT_LOAD_DRIVE_KIND_H
#define CLIENT_LOAD_DRIVE_KIND_H

#include "client/load/drive/target.h"

/* tcp:// and ipc://, or http:// and https://. */
enum kind { KIND_NONE, KIND_NATIVE, KIND_HTTP };

enum kind kind_of(const char *endpoint);

/* Returns the functions of a kind; NULL of KIND_NONE. */
const struct target_ops *kind_ops(enum kind kind);

/* Asks a server for its model.  Blocks.  Returns ST_INVALID_ARGUMENT if the
 * endpoint is of no kind, else the error of the connection. */
MUST_CHECK enum status kind_ask(const struct target_options *o,
                                struct target_facts *out, struct error *e);

#endif
