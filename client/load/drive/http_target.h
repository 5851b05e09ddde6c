/* http_target.h - OpenAI-compatible servers, as a target of a generator.
 *
 * Threading: see target.h. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_TARGET_H
#define CLIENT_LOAD_DRIVE_HTTP_TARGET_H

#include "client/load/drive/target.h"

extern const struct target_ops http_target;

#endif
