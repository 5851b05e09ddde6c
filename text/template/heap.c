#include "text/template/heap.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)

struct heap_chunk {
    struct heap_chunk *next;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

void heap_init(struct heap *h, struct error *e)
{
    memset(h, 0, sizeof *h);
    h->error = e;
}

void heap_fini(struct heap *h)
{
    while (h->chunks != NULL) {
        struct heap_chunk *next = h->chunks->next;

        free(h->chunks);
        h->chunks = next;
    }
}

_Noreturn static void too_much(struct heap *h)
{
    heap_fail(h, ST_OUT_OF_RANGE,
              "the template needs more than %d bytes of memory",
              TEMPLATE_MEMORY);
}

/* A block that is large gets a chunk of its own behind the current one, so
 * that the rest of the current chunk stays in use. */
static struct heap_chunk *add_chunk(struct heap *h, size_t n)
{
    size_t size = n > CHUNK_BYTES / 4 ? n : CHUNK_BYTES;
    struct heap_chunk *c;

    if (size > (size_t)TEMPLATE_MEMORY - h->bytes) {
        too_much(h);
    }
    c = calloc(1, sizeof *c + size);
    if (c == NULL) {
        heap_fail(h, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    h->bytes += size;
    c->size = size;
    if (size != CHUNK_BYTES && h->chunks != NULL) {
        c->next = h->chunks->next;
        h->chunks->next = c;
    } else {
        c->next = h->chunks;
        h->chunks = c;
    }
    return c;
}

void *heap_alloc(struct heap *h, size_t n)
{
    const size_t unit = alignof(max_align_t);
    struct heap_chunk *c = h->chunks;
    void *p;

    if (n > TEMPLATE_MEMORY) { /* before the sum below could overflow */
        too_much(h);
    }
    n = (n + unit - 1) / unit * unit;
    if (c == NULL || n > c->size - c->used) {
        c = add_chunk(h, n);
    }
    p = c->data + c->used;
    c->used += n;
    return p;
}

/* The old elements stay where they are, for those who still refer to them. */
void *heap_grow(struct heap *h, const void *old, size_t n, size_t size,
                size_t *cap)
{
    void *p;

    *cap = n < 4 ? 8 : 2 * n;
    p = heap_alloc(h, *cap * size);
    if (n > 0) {
        memcpy(p, old, n * size);
    }
    return p;
}

void heap_steps(struct heap *h, size_t n)
{
    if (n > TEMPLATE_STEPS - h->steps) {
        heap_fail(h, ST_OUT_OF_RANGE,
                  "the template runs for more than %d steps", TEMPLATE_STEPS);
    }
    h->steps += n;
}

void heap_bytes(struct heap *h, size_t n)
{
    heap_steps(h, n / HEAP_STEP_BYTES);
}

void heap_enter(struct heap *h)
{
    if (h->depth == TEMPLATE_DEPTH) {
        heap_fail(h, ST_OUT_OF_RANGE,
                  "the template nests deeper than %d levels", TEMPLATE_DEPTH);
    }
    h->depth++;
}

void heap_leave(struct heap *h)
{
    h->depth--;
}

/* The line of a failure is the line that runs; 0 before and after. */
void heap_fail(struct heap *h, enum status status, const char *fmt, ...)
{
    char text[ERROR_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    h->status = h->line == 0
                    ? error_set(h->error, status, "%s", text)
                    : error_set(h->error, status, "line %u: %s", h->line, text);
    longjmp(h->out, 1);
}

void heap_raise(struct heap *h, const char *text, size_t n)
{
    size_t cut = n < ERROR_TEXT - 1 ? n : ERROR_TEXT - 1;

    while (cut < n && cut > 0 && ((unsigned char)text[cut] & 0xC0) == 0x80) {
        cut--;
    }
    h->status =
        error_set(h->error, ST_INVALID_ARGUMENT, "%.*s", (int)cut, text);
    longjmp(h->out, 1);
}
