/* heap.h - Memory, steps and failure of one compilation or rendering.
 *
 * All memory of a compilation or rendering belongs to a heap and is freed at
 * once.  A failure anywhere jumps to the entry point, so that no function
 * between returns a status:
 *
 *     if (setjmp(h.out) != 0) { heap_fini(&h); return h.status; }
 *
 * Bounds: memory TEMPLATE_MEMORY, steps TEMPLATE_STEPS, depth TEMPLATE_DEPTH.
 * A step is one node evaluated, one element visited, or HEAP_STEP_BYTES bytes
 * of text read or written.
 *
 * Threading: one thread's. */
#ifndef TEXT_TEMPLATE_HEAP_H
#define TEXT_TEMPLATE_HEAP_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "text/template/template_limits.h"

#define HEAP_STEP_BYTES 64

struct heap_chunk;
struct heap;

/* Collects a string (value.h). */
struct builder {
    struct heap *h;
    char *text;
    uint8_t *marks;
    size_t n, cap;
};

struct heap {
    struct heap_chunk *chunks;
    size_t bytes; /* in all chunks */
    uint64_t steps;
    unsigned depth;
    unsigned line; /* in the source, for messages; 0: none */
    enum status status;
    struct error *error; /* borrowed; may be NULL */
    struct builder last; /* the result of the last concatenation */
    jmp_buf out;
};

void heap_init(struct heap *h, struct error *e);
void heap_fini(struct heap *h);

/* Returns n zeroed bytes, aligned for any type.  Never NULL. */
void *heap_alloc(struct heap *h, size_t n);

/* Returns a copy of old[n] elements with room for more.  Sets *cap. */
void *heap_grow(struct heap *h, const void *old, size_t n, size_t size,
                size_t *cap);

/* Counts n steps; fails past TEMPLATE_STEPS. */
void heap_steps(struct heap *h, size_t n);

/* Counts the steps of n bytes of text. */
void heap_bytes(struct heap *h, size_t n);

/* Enter and leave one level of recursion; entering fails past
 * TEMPLATE_DEPTH. */
void heap_enter(struct heap *h);
void heap_leave(struct heap *h);

/* Sets the error, with the line in front, and jumps to h->out. */
_Noreturn void heap_fail(struct heap *h, enum status status, const char *fmt,
                         ...) __attribute__((format(printf, 3, 4)));

/* Sets the error to text[0..n), cut at a character, and jumps to h->out. */
_Noreturn void heap_raise(struct heap *h, const char *text, size_t n);

#endif
