/* cache.h - files named by a hash; program.h says what they are.
 *
 * Threading: none; several processes may use one folder.  Memory: what is
 * read is the caller's. */
#ifndef KERNELS_OPENCL_HOST_CACHE_H
#define KERNELS_OPENCL_HOST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_PATH      1024
#define CACHE_BYTES_MAX ((size_t)64 << 20) /* of a program */

struct cache_key {
    uint8_t v[16];
};

enum cache_found { CACHE_HIT, CACHE_ABSENT, CACHE_BROKEN };

/* Where programs are kept if nobody says; "" if there is no such place. */
void cache_default(char dir[CACHE_PATH]);

/* CACHE_HIT: *bytes [*n] is the caller's to free. */
enum cache_found cache_read(const char *dir, const struct cache_key *key,
                            char **bytes, size_t *n);

/* Makes the folder where it is missing.  False: it could not be kept. */
bool cache_write(const char *dir, const struct cache_key *key,
                 const char *bytes, size_t n);

#endif
