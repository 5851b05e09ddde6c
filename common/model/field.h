/* field.h - keys of a config.json, inherited and checked.
 *
 * A key is looked up in `inner` (text_config) and, where it is absent there,
 * in `outer` (the top level).  A null counts as absent but hides the outer
 * one.  The first fault is kept and everything after it is a no-op, so a
 * reader is a straight list of fields with one check at its end.
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
    const json_t *inner, *outer; /* the same object in a flat file */
    struct error *error;
    enum status status;
};

/* The value of key, NULL if absent or null. */
const json_t *field_get(const struct fields *f, const char *key);

/* key, or its older name where that is in a nearer place or alone: of two
 * places the inner counts, of two names in one place the newer. */
const char *field_named(const struct fields *f, const char *key,
                        const char *older);

/* A whole number in [min, max]; absent gives fallback, unless that is
 * FIELD_REQUIRED. */
uint32_t field_u32(struct fields *f, const char *key, uint32_t fallback,
                   uint32_t min, uint32_t max);

bool field_bool(struct fields *f, const char *key, bool fallback);

/* A finite number in [min, max]. */
double field_real(struct fields *f, const char *key, double fallback,
                  double min, double max);

/* A string, NULL if absent. */
const char *field_text(struct fields *f, const char *key);

/* Keep a fault, unless there is one already. */
void field_fault(struct fields *f, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
