/* key.h - (request_id, choice): the router's name for a sequence.
 *
 * Threading: none. */
#ifndef WORKER_SEQUENCE_KEY_H
#define WORKER_SEQUENCE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/request_id.h"
#include "proto/common.pb-c.h"

struct sequence_key {
    uint8_t request_id[REQUEST_ID_BYTES];
    uint32_t choice;
};

/* Reads the key in `ref`.  Returns false with e set if the id has a wrong
 * length or is all zero. */
MUST_CHECK bool sequence_key_read(struct sequence_key *out,
                                  const Sluice__V1__SequenceRef *ref,
                                  struct error *e);

/* Writes "0123..ef/2", the request id in hexadecimal and the choice, for logs.
 * Returns out. */
#define SEQUENCE_NAME 48
const char *sequence_name(const struct sequence_key *key,
                          char out[SEQUENCE_NAME]);

#endif
