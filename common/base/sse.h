/* sse.h - Server-sent events, as clients read them.
 *
 * Follows the WHATWG HTML standard, section 9.2.6: lines end in \n, \r\n or
 * \r, "data" fields of an event are joined by newlines, and an empty line ends
 * the event.  Comments and other fields are ignored, and so is an incomplete
 * event at the end of the stream.
 *
 * Threading: none.  Memory: at most two times SSE_EVENT_BYTES_MAX, doubling;
 * aborts without memory.  Pure.  Limits: SSE_EVENT_BYTES_MAX. */
#ifndef COMMON_BASE_SSE_H
#define COMMON_BASE_SSE_H

#include <stdbool.h>
#include <stddef.h>

#define SSE_EVENT_BYTES_MAX                          \
    (1u << 20) /* one line, or the data of one event \
                */

struct sse_text {
    char *bytes;
    size_t n, size;
};

/* All zeros is the start of a stream. */
struct sse {
    struct sse_text line, data;
    bool has_data; /* the event has a data field, maybe empty */
    bool after_cr; /* a \n that follows belongs to the same line end */
    bool failed;   /* a limit was exceeded */
    bool past_bom; /* the first line has been seen */
};

/* Receives the data of an event; a NUL follows data[0..n). */
typedef void sse_fn(void *arg, const char *data, size_t n);

/* Takes the next bytes, split anywhere.  Returns false from the moment on that
 * a line or an event exceeds the limit. */
bool sse_push(struct sse *s, const char *bytes, size_t n, sse_fn *fn,
              void *arg);

/* Frees the buffers.  The struct is then at the start of a stream. */
void sse_fini(struct sse *s);

#endif
