#include "gateway/http/buffer.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 256

/* The budget counts capacity, not content: this is what the machine lends. */
static size_t counted(const struct http_buffer *b, size_t capacity)
{
    return b->budget == NULL || capacity <= b->exempt ? 0 : capacity;
}

/* Doubles, so that appending bytes one at a time stays linear. */
static bool grow(struct http_buffer *b, size_t need)
{
    size_t capacity = b->capacity == 0 ? FIRST_BYTES : b->capacity;
    size_t more;
    char *data;

    while (capacity < need) {
        capacity *= 2;
    }
    if (need <= b->expected && capacity > b->expected) {
        capacity = b->expected;
    }
    more = counted(b, capacity) - counted(b, b->capacity);
    if (more > 0 && !memory_take(b->budget, more)) {
        return false;
    }
    data = realloc(b->data, capacity);
    if (data == NULL) {
        if (more > 0) {
            memory_give(b->budget, more);
        }
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

bool http_buffer_append(struct http_buffer *b, const char *data, size_t n)
{
    if (n == 0) {
        return true;
    }
    /* Bytes move to the front only if this makes room: a slow reader would
     * otherwise cost a copy of its output at each write. */
    if (b->begin > 0 && n > b->capacity - b->begin - b->n) {
        memmove(b->data, b->data + b->begin, b->n);
        b->begin = 0;
    }
    if (n > b->capacity - b->begin - b->n && !grow(b, b->begin + b->n + n)) {
        return false;
    }
    memcpy(b->data + b->begin + b->n, data, n);
    b->n += n;
    return true;
}

bool http_buffer_text(struct http_buffer *b, const char *text)
{
    return http_buffer_append(b, text, strlen(text));
}

void http_buffer_take(struct http_buffer *b, size_t n)
{
    b->begin += n;
    b->n -= n;
    /* An idle connection owns no buffer. */
    if (b->n == 0) {
        http_buffer_fini(b);
    }
}

void http_buffer_fini(struct http_buffer *b)
{
    size_t used = counted(b, b->capacity);

    free(b->data);
    if (used > 0) {
        memory_give(b->budget, used);
    }
    b->data = NULL;
    b->capacity = 0;
    b->begin = 0;
    b->n = 0;
}

const char *http_buffer_data(const struct http_buffer *b)
{
    return b->data + b->begin;
}
