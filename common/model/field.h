/* field.h - Keys of a config.json, inherited and checked.
 *
 * A key is looked up in `inner` (text_config) and, if absent there, in
 * `outer` (the top level).  A null counts as absent but hides the outer
 * value.  The first fault is kept and makes every later call a no-op, so a
 * reader is a plain list of fields with one check at its end.
 *
 * Threading: none.  Memory: borrows the document and the error. */
#ifndef COMMON_MODEL_FIELD_H
#define COMMON_MODEL_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define FIELD_REQUIRED UINT32_MAX

struct fields {
    const json_t *inner, *outer; /* one object if the file is flat */
    struct error *error;
    enum status status;
};

/* Returns the value of key, NULL if absent or null. */
const json_t *field_get(const struct fields *f, const char *key);

/* Returns whether the key is there, null or not. */
bool field_has(const struct fields *f, const char *key);

/* Finds the name to use, key or its older name.  The inner object goes before
 * the outer; within one object, the newer name goes first. */
const char *field_named(const struct fields *f, const char *key,
                        const char *older);

/* Reads a whole number in [min, max].  Returns fallback if absent;
 * FIELD_REQUIRED makes absence a fault. */
uint32_t field_u32(struct fields *f, const char *key, uint32_t fallback,
                   uint32_t min, uint32_t max);

bool field_bool(struct fields *f, const char *key, bool fallback);

/* Reads a finite number in [min, max]; fallback if absent. */
double field_real(struct fields *f, const char *key, double fallback,
                  double min, double max);

/* Returns a string, NULL if absent. */
const char *field_text(struct fields *f, const char *key);

/* Records a fault unless there is one already. */
void field_fault(struct fields *f, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
