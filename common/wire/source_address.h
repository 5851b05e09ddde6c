/* source_address.h - The address of this machine on the way to another.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_WIRE_SOURCE_ADDRESS_H
#define COMMON_WIRE_SOURCE_ADDRESS_H

#include <stdbool.h>

#include "proto/limits.h"

/* Writes the address from which a packet to a tcp endpoint would leave, as
 * endpoint_join() takes it.  The host of the endpoint is an address.  Sends
 * nothing.  Returns false if there is no way there. */
bool source_address(const char *endpoint, char out[ENDPOINT_MAX]);

#endif
