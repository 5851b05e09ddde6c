/* Arbitrary bytes as a text, and as ids.
 *
 * The tokenizer is tiny-hybrid's.  An accepted text decodes to its normal
 * form, yields no control token unless requested, and gives the same ids in
 * windows and in slices of a few bytes. */
#include <stdbool.h>
#include <string.h>

#include "common/base/utf8.h"
#include "fuzz.h"
#include "text/detokenizer.h"
#include "text/encoder.h"
#include "text/encoding.h"
#include "text/tokenizer_parts.h"

#define TEXT_MAX 4096

static struct tokenizer *tokenizer(void)
{
    static struct tokenizer *t;
    struct error e;

    if (t == NULL &&
        tokenizer_load(&t, "models/tiny-hybrid/tokenizer.json", &e) != ST_OK) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    return t;
}

/* Decodes chunk by chunk; each chunk must be UTF-8. */
static size_t decode(const struct tokenizer *t, const uint32_t *ids, size_t n,
                     char *out, size_t cap)
{
    struct detokenizer d;
    size_t w = 0, bad;

    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        FUZZ_CHECK(cap - w >= detokenizer_max(t));
        len = detokenizer_push(&d, ids[i], out + w);
        FUZZ_CHECK(len <= detokenizer_max(t));
        FUZZ_CHECK(utf8_valid(out + w, len, &bad));
        w += len;
    }
    return w + detokenizer_finish(&d, out + w);
}

static void in_windows(const struct tokenizer *t, const char *text, size_t len,
                       unsigned flags, const uint32_t *want, size_t n)
{
    uint32_t *ids = malloc((n + 1) * sizeof *ids);
    struct id_sink out = {.ids = ids, .cap = n};
    struct encoder c;
    struct error e;

    FUZZ_CHECK(ids != NULL && encoder_init(&c, t, &e) == ST_OK);
    c.bpe.window = 16 + (uint32_t)len % 64;
    FUZZ_CHECK(encoder_run(&c, text, len, flags, &out, &e) == ST_OK);
    FUZZ_CHECK(out.n == n && memcmp(ids, want, n * sizeof *ids) == 0);
    encoder_fini(&c);
    free(ids);
}

/* Encodes in slices of a few bytes. */
static void in_slices(const struct tokenizer *t, const char *text, size_t len,
                      unsigned flags, const uint32_t *want, size_t n)
{
    struct encoding_input in = {.text = text, .len = len, .flags = flags};
    struct encoding *g;
    bool done = false;
    struct error e;
    uint32_t *ids;
    size_t got;

    FUZZ_CHECK(encoding_new(&g, t, &in, &e) == ST_OK);
    while (!done) {
        FUZZ_CHECK(encoding_step(g, 1 + len % 61, &done, &e) == ST_OK);
    }
    ids = encoding_take(g, &got);
    FUZZ_CHECK(got == n && (n == 0 || memcmp(ids, want, n * sizeof *ids) == 0));
    FUZZ_CHECK(tokenizer_fewest(t, text, len) <= n);
    free(ids);
    encoding_free(&g);
}

static void round_trip(const struct tokenizer *t, const char *text, size_t len,
                       unsigned flags)
{
    size_t cap = tokenizer_bound(t, len), n, bad, out_cap, w, want_n;
    uint32_t *ids = malloc((cap + 1) * sizeof *ids);
    const char *want;
    char *owned, *out;
    struct error e;

    FUZZ_CHECK(ids != NULL);
    if (!utf8_valid(text, len, &bad)) {
        FUZZ_CHECK(tokenizer_encode(t, text, len, flags, ids, cap, &n, &e) ==
                   ST_INVALID_ARGUMENT);
        free(ids);
        return;
    }
    FUZZ_CHECK(tokenizer_encode(t, text, len, flags, ids, cap, &n, &e) ==
               ST_OK);
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK((flags & TOKENIZE_PARSE_SPECIAL) ||
                   !tokenizer_is_special(t, ids[i]));
    }
    in_windows(t, text, len, flags, ids, n);
    in_slices(t, text, len, flags, ids, n);
    out_cap = 4 * 3 * len + 2 * detokenizer_max(t);
    out = malloc(out_cap);
    FUZZ_CHECK(out != NULL);
    w = decode(t, ids, n, out, out_cap);
    FUZZ_CHECK(normalizer_run(&t->normalizer, text, len, &want, &want_n, &owned,
                              &e) == ST_OK);
    /* An added token separates characters that a normal form would compose. */
    if (memchr(text, '<', len) == NULL) {
        FUZZ_CHECK(w == want_n && memcmp(out, want, w) == 0);
    }
    free(owned);
    free(out);
    free(ids);
}

static void as_ids(const struct tokenizer *t, const uint8_t *data, size_t n)
{
    size_t cap = (n / 2 + 2) * detokenizer_max(t);
    char *out = malloc(cap);
    uint32_t ids[TEXT_MAX / 2 + 1];

    FUZZ_CHECK(out != NULL);
    for (size_t i = 0; i < n / 2; i++) {
        ids[i] = (uint32_t)(data[2 * i] | data[2 * i + 1] << 8);
    }
    (void)decode(t, ids, n / 2, out, cap);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct tokenizer *t = tokenizer();

    if (n > TEXT_MAX) {
        return 0;
    }
    for (unsigned flags = 0; flags < 4; flags++) {
        round_trip(t, (const char *)data, n, flags);
    }
    as_ids(t, data, n);
    return 0;
}
