/* load_samples.h - Every request as a line of JSON, for other tools.
 *
 * Threading: none.  Memory: none. */
#ifndef CLIENT_LOAD_LOAD_SAMPLES_H
#define CLIENT_LOAD_LOAD_SAMPLES_H

#include <stdio.h>

#include "client/load/figures/sample.h"

/* Writes one line.  Times are microseconds since the start of the run; those
 * that did not happen are left out. */
void load_sample_write(FILE *to, const struct sample *s, const uint32_t *gaps);

#endif
