/* frame_spare.h - Reuse of the memory of freed frames.
 *
 * In the steady state a program makes and frees frames of the same few sizes.
 * This module serves such frames without malloc.  Under AddressSanitizer it
 * keeps nothing, so the sanitizer sees every use after free and every
 * overflow.
 *
 * Threading: any thread.  Memory: for each power of two from
 * FRAME_SPARE_LEAST to FRAME_SPARE_MOST, at most FRAME_SPARE_BYTES and at
 * most FRAME_SPARE_MAX pieces; the rest is freed at once. */
#ifndef COMMON_WIRE_FRAME_SPARE_H
#define COMMON_WIRE_FRAME_SPARE_H

#include <stdbool.h>
#include <stddef.h>

#define FRAME_SPARE_LEAST 128u
#define FRAME_SPARE_MOST  (256u << 10)
#define FRAME_SPARE_BYTES (512u << 10)
#define FRAME_SPARE_MAX   256

/* gcc defines a macro, clang has a feature test. */
#if defined(__SANITIZE_ADDRESS__)
#define FRAME_SPARE_KEEPS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FRAME_SPARE_KEEPS false
#endif
#endif
#ifndef FRAME_SPARE_KEEPS
#define FRAME_SPARE_KEEPS true
#endif

/* Takes at least `bytes` of memory and sets *room for spare_give().  Returns
 * NULL without memory. */
void *spare_take(size_t bytes, size_t *room);
/* Gives memory of spare_take() back. */
void spare_give(void *memory, size_t room);

#endif
