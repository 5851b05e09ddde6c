/* gguf_keys.h - Keys of a GGUF file that llama.cpp honours and sluice does not.
 *
 * Each of them has values that leave its feature out, such as a factor of 1.
 * With any other value the file stands for another function than sluice would
 * compute, so it is refused by the key.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_MODEL_GGUF_KEYS_H
#define COMMON_MODEL_GGUF_KEYS_H

#include "common/base/status.h"
#include "common/model/gguf_arch.h"

/* Returns ST_UNIMPLEMENTED for a key with an effect, ST_INVALID_ARGUMENT for
 * one of a wrong type. */
MUST_CHECK enum status gguf_keys_check(const struct gguf_arch *a,
                                       struct error *e);

#endif
