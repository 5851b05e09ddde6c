/* ask.h - What a server says of its model, by kind of server.
 *
 * Each blocks for at most o->connect_ms and a call's time limit; for a process
 * of its own.  Returns ST_UNAVAILABLE if nothing answers, ST_NOT_FOUND if the
 * server does not serve o->model, and a sentence in *e. */
/* ask.h - target_ask() of each kind of server.
 *
 * Threading: one thread; blocks, at most connect_ms and ASK_MS. */
#ifndef CLIENT_LOAD_DRIVE_ASK_H
#define CLIENT_LOAD_DRIVE_ASK_H

#include "client/load/drive/target.h"

#define ASK_MS 30000 /* time for the answer */

MUST_CHECK enum status http_ask(const struct target_options *o,
                                struct target_facts *out, struct error *e);
MUST_CHECK enum status native_ask(const struct target_options *o,
                                  struct target_facts *out, struct error *e);

#endif
