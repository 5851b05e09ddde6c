/* frame_spare.h - memory of frames that were freed, kept for the next ones.
 *
 * A program in its steady state makes and frees frames of the same few sizes
 * all the time; from here they come without malloc.  Under AddressSanitizer
 * nothing is kept, so that it sees every use after free and every overflow.
 *
 * Threading: any.  Memory: of each power of two from FRAME_SPARE_LEAST to
 * FRAME_SPARE_MOST at most FRAME_SPARE_BYTES and at most FRAME_SPARE_MAX
 * pieces; the rest goes back at once. */
#ifndef COMMON_WIRE_FRAME_SPARE_H
#define COMMON_WIRE_FRAME_SPARE_H

#include <stdbool.h>
#include <stddef.h>

#define FRAME_SPARE_LEAST 128u
#define FRAME_SPARE_MOST  (256u << 10)
#define FRAME_SPARE_BYTES (512u << 10)
#define FRAME_SPARE_MAX   256

/* gcc says it in one way, clang in another. */
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

/* At least bytes of memory; *room is what spare_give() wants to know.  Aborts
 * when memory is out. */
void *spare_take(size_t bytes, size_t *room);
void spare_give(void *memory, size_t room);

#endif
