#include "text/detokenizer.h"

#include <assert.h>
#include <string.h>

#include "common/base/utf8.h"

static const char replacement[] = "\xEF\xBF\xBD";

#define REPLACEMENT_LEN (sizeof replacement - 1)

void detokenizer_init(struct detokenizer *d, const struct tokenizer *t,
                      unsigned flags)
{
    *d = (struct detokenizer){.t = t, .flags = flags};
}

/* In the worst case every byte, held ones too, becomes a replacement
 * character of 3 bytes. */
size_t detokenizer_max(const struct tokenizer *t)
{
    return REPLACEMENT_LEN * (tokenizer_longest(t) + DETOK_HELD_MAX);
}

static size_t put(char *out, const void *s, size_t n)
{
    memcpy(out, s, n);
    return n;
}

/* Writes the part of s[0..n) that is certain and holds back the rest. */
static size_t drain(struct detokenizer *d, const uint8_t *s, size_t n,
                    char *out)
{
    enum utf8_kind kind;
    size_t w = 0, len;

    for (size_t at = 0; at < n; at += len) {
        len = utf8_step(s + at, n - at, &kind);
        if (kind == UTF8_CHAR) {
            w += put(out + w, s + at, len);
        } else if (kind == UTF8_BAD) {
            w += put(out + w, replacement, REPLACEMENT_LEN);
        } else {
            /* A cut character lacks at least one of its 4 bytes. */
            assert(len <= DETOK_HELD_MAX);
            memcpy(d->held, s + at, len);
            d->n_held = (uint8_t)len;
        }
    }
    return w;
}

/* Completes the held bytes from s, one byte at a time: a character ends
 * within 4 bytes.  Returns how many bytes of s were used. */
static size_t complete(struct detokenizer *d, const uint8_t *s, size_t n,
                       char *out, size_t *w)
{
    uint8_t front[DETOK_HELD_MAX + 1];
    size_t taken = 0;

    while (d->n_held > 0 && taken < n) {
        size_t len = d->n_held;
        enum utf8_kind kind;

        memcpy(front, d->held, len);
        front[len] = s[taken];
        if (utf8_step(front, len + 1, &kind) == len + 1) {
            taken++; /* the byte belongs to the held character */
            if (kind == UTF8_CUT) {
                d->held[d->n_held++] = front[len];
                continue;
            }
            *w += put(out + *w, front, len + 1);
        } else {
            /* The held bytes start no character; the byte after them is
             * looked at again. */
            *w += put(out + *w, replacement, REPLACEMENT_LEN);
        }
        d->n_held = 0;
    }
    return taken;
}

size_t detokenizer_push(struct detokenizer *d, uint32_t id, char *out)
{
    size_t n, w = 0, taken;
    const uint8_t *s = (const uint8_t *)tokenizer_token(d->t, id, &n);

    /* Unknown ids are ignored: a model may have more rows than its tokenizer
     * has tokens. */
    if (s == NULL ||
        ((d->flags & DETOK_SKIP_SPECIAL) && tokenizer_is_special(d->t, id))) {
        return 0;
    }
    taken = complete(d, s, n, out, &w);
    return w + drain(d, s + taken, n - taken, out + w);
}

size_t detokenizer_finish(struct detokenizer *d, char *out)
{
    size_t w = d->n_held > 0 ? put(out, replacement, REPLACEMENT_LEN) : 0;

    d->n_held = 0;
    return w;
}
