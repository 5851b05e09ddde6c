/* daemon_options.h - Options of the daemons, checked against their own tables.
 *
 * The rows are those of sluice-router, sluice-gateway and sluice-worker
 * themselves, so an option that `cluster check` accepts is one that the daemon
 * accepts.  Options that the cluster file sets by a key of its own, such as
 * --model, are refused with that key's name, and so are options that only print
 * something, such as --limits.
 *
 * Threading: none.  Memory: constant tables. */
#ifndef CLIENT_CLUSTER_DAEMON_OPTIONS_H
#define CLIENT_CLUSTER_DAEMON_OPTIONS_H

#include <stdbool.h>

#include "common/base/option.h"
#include "common/base/status.h"

enum daemon_kind { DAEMON_ROUTER, DAEMON_GATEWAY, DAEMON_WORKER };

/* Returns "sluice-router" and so on. */
const char *daemon_program(enum daemon_kind who);

/* Checks an option and one value of it; a flag's value is yes or no.  '-' and
 * '_' are equal in names.  Returns ST_NOT_FOUND if a cluster file may not name
 * the option, ST_INVALID_ARGUMENT if the value is wrong, and a sentence. */
MUST_CHECK enum status daemon_option_check(enum daemon_kind who,
                                           const char *name, const char *value,
                                           struct error *e);

/* Returns whether the option may be repeated. */
bool daemon_option_is_list(enum daemon_kind who, const char *name);

/* Returns whether two spellings are one option: '-' equals '_'. */
bool daemon_option_same(const char *a, const char *b);

#endif
