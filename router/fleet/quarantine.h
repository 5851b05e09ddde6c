/* quarantine.h - names of workers that are kept out for a while, because what
 * they sent could not be true.
 *
 * Threading: the core's.  Limits: QUARANTINE_MAX names, of which the one that
 * ends first gives way. */
#ifndef ROUTER_FLEET_QUARANTINE_H
#define ROUTER_FLEET_QUARANTINE_H

#include <stddef.h>

#include "router/base/base.h"

struct fleet;

/* Keeps name out for WORKER_QUARANTINE_US from now on. */
void quarantine_add(struct fleet *fleet, const char *name);

/* Returns how long name[0, n) is still kept out, in us; 0: it is not. */
int64_t quarantine_left_us(const struct fleet *fleet, const uint8_t *name,
                           size_t n);

#endif
