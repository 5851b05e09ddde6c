#include "gateway/http/buffer.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 256

/* The subtraction cannot wrap, whatever was used before the check. */
static bool fits(const struct http_budget *budget, size_t more)
{
    return budget == NULL ||
           (budget->used <= budget->max && more <= budget->max - budget->used);
}

/* The budget counts capacity, not content: this is what the machine lends. */
static void account(struct http_buffer *b, size_t capacity)
{
    if (b->budget != NULL) {
        b->budget->used += capacity - b->capacity;
    }
    b->capacity = capacity;
}

/* Doubles, so that appending bytes one at a time stays linear. */
static bool grow(struct http_buffer *b, size_t need)
{
    size_t capacity = b->capacity == 0 ? FIRST_BYTES : b->capacity;
    char *data;

    while (capacity < need) {
        capacity *= 2;
    }
    if (!fits(b->budget, capacity - b->capacity)) {
        return false;
    }
    data = realloc(b->data, capacity);
    if (data == NULL) {
        return false;
    }
    b->data = data;
    account(b, capacity);
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
    free(b->data);
    account(b, 0);
    b->data = NULL;
    b->begin = 0;
    b->n = 0;
}

const char *http_buffer_data(const struct http_buffer *b)
{
    return b->data + b->begin;
}
