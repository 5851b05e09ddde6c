/* scratch.h - A folder of a test, removed with all that is in it. */
#ifndef TESTS_UNIT_CLIENT_CLUSTER_SCRATCH_H
#define TESTS_UNIT_CLIENT_CLUSTER_SCRATCH_H

#include <stddef.h>
#include <sys/types.h>

/* The folder; set by scratch_make(), for cmocka's setup. */
extern char scratch[64];

int scratch_make(void **state);
int scratch_remove(void **state);

/* Returns scratch/NAME, in a ring of four buffers. */
const char *scratch_path(const char *name);

/* Writes a file; the folders on its path must exist. */
void scratch_write(const char *name, const char *text, mode_t mode);

/* Reads a file, or returns NULL; static buffer. */
const char *scratch_read(const char *name);

/* Returns the mode of a file, 0 if there is none. */
mode_t scratch_mode(const char *name);

#endif
