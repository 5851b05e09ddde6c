/* native_target.h - Routers, by our own protocol, as a target of a generator.
 *
 * Threading: see target.h. */
#ifndef CLIENT_LOAD_DRIVE_NATIVE_TARGET_H
#define CLIENT_LOAD_DRIVE_NATIVE_TARGET_H

#include "client/load/drive/target.h"

extern const struct target_ops native_target;

#endif
