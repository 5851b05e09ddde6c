#include "router/requests/stops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"

struct stops *stops_new(const struct stop_strings *strings,
                        const struct tokenizer *t, unsigned flags)
{
    struct stops *s = calloc(1, sizeof *s);

    if (s != NULL) {
        s->strings = strings;
        detokenizer_init(&s->detok, t, flags);
    }
    return s;
}

void stops_free(struct stops **s)
{
    free(*s);
    *s = NULL;
}

bool stops_scan(struct stops *s, const uint32_t *tokens, uint32_t n,
                char *scratch)
{
    if (PLANT(STOP_ACROSS)) {
        s->scan.at = 0;
    }
    /* Stops at the first string: later tokens are not the client's. */
    while (s->n_tokens < n && !s->scan.found) {
        size_t bytes =
            detokenizer_push(&s->detok, tokens[s->n_tokens++], scratch);

        (void)stop_scan_push(s->strings, &s->scan, scratch, bytes);
    }
    return s->scan.found;
}

bool stops_end(struct stops *s, char *scratch)
{
    size_t bytes = detokenizer_finish(&s->detok, scratch);

    return stop_scan_push(s->strings, &s->scan, scratch, bytes);
}

size_t stops_resume(struct stops *s, char *text)
{
    size_t n = PLANT(STOP_TEXT) ? 0 : s->n_held;

    memcpy(text, s->held, n);
    s->n_held = 0;
    return n;
}

size_t stops_cut(struct stops *s, const char *text, size_t n, bool last)
{
    uint64_t left = stop_scan_certain(s->strings, &s->scan) - s->n_given;
    size_t fit = left < n ? (size_t)left : n;

    /* Without a stop string nothing is held back at the end. */
    if (last && !s->scan.found) {
        fit = n;
    } else if (!s->scan.found) {
        assert(n - fit < STOP_STRING_BYTES_MAX);
        s->n_held = (uint32_t)(n - fit);
        memcpy(s->held, text + fit, s->n_held);
    }
    s->n_given += fit;
    return fit;
}
