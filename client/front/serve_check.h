/* serve_check.h - Checks of the address of `sluice serve`, before any program
 * starts.
 *
 * The gateway checks its address too, but names its own options.  Everything
 * else that it checks, such as the file of keys, is reported while the workers
 * load, because it starts beside them.
 *
 * Threading: none.  Memory: none. */
#ifndef CLIENT_FRONT_SERVE_CHECK_H
#define CLIENT_FRONT_SERVE_CHECK_H

#include "client/front/serve_plan.h"

/* Checks that the address can be bound, and that it has keys if other machines
 * can reach it.  Returns ST_INVALID_ARGUMENT or ST_UNAVAILABLE with a sentence
 * that names the option to change.  ST_OK without an address, and for a host
 * that only the gateway can judge. */
MUST_CHECK enum status serve_check_address(const struct serve_args *a,
                                           struct error *e);

#endif
