#include "common/base/sse.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

/* Appends, and keeps room for a NUL.  Returns false past the limit. */
static bool append(struct sse_text *t, const char *bytes, size_t n)
{
    if (n > SSE_EVENT_BYTES_MAX - t->n) {
        return false;
    }
    if (t->n + n + 1 > t->size) {
        size_t size = t->size == 0 ? 1024 : t->size;

        while (size < t->n + n + 1) {
            size *= 2;
        }
        t->bytes = realloc(t->bytes, size);
        if (t->bytes == NULL) {
            (void)memory_must(NULL);
        }
        t->size = size;
    }
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = '\0';
    return true;
}

static void end_event(struct sse *s, sse_fn *fn, void *arg)
{
    if (s->has_data) {
        append(&s->data, "", 0); /* its NUL */
        fn(arg, s->data.bytes, s->data.n);
    }
    s->data.n = 0;
    s->has_data = false;
}

/* Takes the value of "data: value" or "data". */
static bool take_data(struct sse *s, const char *value, size_t n)
{
    if (n > 0 && value[0] == ' ') {
        value++;
        n--;
    }
    if (s->has_data && !append(&s->data, "\n", 1)) {
        return false;
    }
    s->has_data = true;
    return append(&s->data, value, n);
}

static bool end_line(struct sse *s, sse_fn *fn, void *arg)
{
    static const char bom[] = "\xef\xbb\xbf";
    const char *line = s->line.n > 0 ? s->line.bytes : "";
    size_t n = s->line.n;
    bool ok = true;

    if (!s->past_bom && n >= 3 && memcmp(line, bom, 3) == 0) {
        line += 3;
        n -= 3;
    }
    s->past_bom = true;
    s->line.n = 0;
    if (n == 0) {
        end_event(s, fn, arg);
    } else if (n >= 5 && memcmp(line, "data:", 5) == 0) {
        ok = take_data(s, line + 5, n - 5);
    } else if (n == 4 && memcmp(line, "data", 4) == 0) {
        ok = take_data(s, "", 0);
    }
    return ok;
}

/* Returns the bytes before the first \r or \n. */
static size_t before_end(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && bytes[i] != '\n' && bytes[i] != '\r') {
        i++;
    }
    return i;
}

bool sse_push(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *arg)
{
    while (n > 0 && !s->failed) {
        size_t part;

        if (s->after_cr && bytes[0] == '\n') {
            s->after_cr = false;
            bytes++;
            n--;
            continue;
        }
        s->after_cr = false;
        part = before_end(bytes, n);
        s->failed = !append(&s->line, bytes, part);
        if (!s->failed && part < n) {
            s->after_cr = bytes[part] == '\r';
            s->failed = !end_line(s, fn, arg);
            part++;
        }
        bytes += part;
        n -= part;
    }
    return !s->failed;
}

void sse_fini(struct sse *s)
{
    free(s->line.bytes);
    free(s->data.bytes);
    *s = (struct sse){0};
}
