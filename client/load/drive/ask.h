/* ask.h - kind_ask() of each kind of server.
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
