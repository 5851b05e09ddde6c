/* text_defaults.h - A model's default sampling, from generation_config.json.
 *
 * Values are those of the file, unchecked: a program compares them with the
 * ranges of its sampler.
 *
 * Threading: plain data. */
#ifndef TEXT_TEXT_DEFAULTS_H
#define TEXT_TEXT_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "common/base/status.h"

struct text_defaults {
    bool has_do_sample, do_sample; /* false: the model prefers greedy */
    bool has_temperature, has_top_p, has_min_p, has_repetition_penalty;
    bool has_top_k;
    double temperature, top_p, min_p, repetition_penalty;
    int64_t top_k;
};

/* Reads config, an object or NULL.  Absent and null values are not set.
 * Returns ST_INVALID_ARGUMENT if a value has another type; the error names
 * its key. */
MUST_CHECK enum status text_defaults_read(struct text_defaults *out,
                                          const json_t *config,
                                          struct error *e);

#endif
