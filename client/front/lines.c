#include "client/front/lines.h"

#include <string.h>

static void emit(struct lines *l, lines_fn *fn, void *arg)
{
    size_t n = l->n;

    /* Programs may end lines as DOS does. */
    if (n > 0 && l->text[n - 1] == '\r') {
        n--;
    }
    l->text[n] = '\0';
    l->n = 0;
    fn(arg, l->text, n);
}

void lines_push(struct lines *l, const char *bytes, size_t n, lines_fn *fn,
                void *arg)
{
    while (n > 0) {
        const char *newline = memchr(bytes, '\n', n);
        size_t part = newline != NULL ? (size_t)(newline - bytes) : n;
        size_t room = LINES_BYTES_MAX - l->n;
        size_t kept = part < room ? part : room;

        memcpy(l->text + l->n, bytes, kept);
        l->n += kept;
        if (newline != NULL) {
            emit(l, fn, arg);
            part++;
        }
        bytes += part;
        n -= part;
    }
}

void lines_finish(struct lines *l, lines_fn *fn, void *arg)
{
    if (l->n > 0) {
        emit(l, fn, arg);
    }
}
