/* quarantine.h - Names of workers that the router refuses for a while after a
 * protocol violation.
 *
 * Threading: the core's.  Memory: in struct fleet; no call allocates.
 * Limits: QUARANTINE_MAX names; a new name replaces the one whose quarantine
 * ends first. */
#ifndef ROUTER_FLEET_QUARANTINE_H
#define ROUTER_FLEET_QUARANTINE_H

#include "router/base/base.h"

struct fleet;

/* Puts name into quarantine for WORKER_QUARANTINE_US from now on. */
void quarantine_add(struct fleet *fleet, const char *name);

/* Returns the time in us that a name is still in quarantine; 0 if it is not. */
int64_t quarantine_left_us(const struct fleet *fleet, const char *name);

#endif
