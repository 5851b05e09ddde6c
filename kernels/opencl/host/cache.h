/* cache.h - files named by a hash; program.h describes their contents.
 *
 * Threading: no state; several processes may use one folder.
 * Memory: the caller owns what is read. */
#ifndef KERNELS_OPENCL_HOST_CACHE_H
#define KERNELS_OPENCL_HOST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_PATH      1024
#define CACHE_BYTES_MAX ((size_t)64 << 20) /* largest program */

struct cache_key {
    uint8_t v[16];
};

enum cache_found { CACHE_HIT, CACHE_ABSENT, CACHE_BROKEN };

/* Writes the default folder to dir; "" if there is none. */
void cache_default(char dir[CACHE_PATH]);

/* Reads a program.  On CACHE_HIT the caller frees *bytes [*n]. */
enum cache_found cache_read(const char *dir, const struct cache_key *key,
                            char **bytes, size_t *n);

/* Writes a program, and creates missing folders.  Returns false if it could not
 * be kept. */
bool cache_write(const char *dir, const struct cache_key *key,
                 const char *bytes, size_t n);

#endif
