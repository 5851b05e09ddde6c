/* Arbitrary bytes as a grammar, and a walk over its masks.
 *
 * The first byte chooses the kind and the style, the second seeds the walk; the
 * rest is the source.  Whatever compiles allows, at each step, a token or the
 * end, and every token of a mask is accepted. */
#include <string.h>

#include "fuzz.h"
#include "text/grammar/grammar.h"

#define SOURCE_MAX 2000
#define STEPS      24
#define TOKENS     300
#define WORDS      8

static const char *const more[] = {"\":", "\",\"", "{\"", "true",     "12",
                                   "ab",  "\"}",   "]]",  "\xC3\xA9", "\\u00"};

static size_t token(void *arg, uint32_t id, const char **bytes)
{
    static char all[256];

    (void)arg;
    if (id < 256) {
        all[id] = (char)id;
        *bytes = &all[id];
        return 1;
    }
    *bytes = id - 256 < sizeof more / sizeof *more ? more[id - 256] : NULL;
    return *bytes == NULL ? 0 : strlen(*bytes);
}

static const struct grammar_vocab *vocab(void)
{
    static struct grammar_vocab *v;

    FUZZ_CHECK(v != NULL || grammar_vocab_new(&v, TOKENS, token, NULL, NULL, 0,
                                              NULL) == ST_OK);
    return v;
}

/* Takes one allowed token.  Returns false at the end of the text. */
static bool step(struct constraint *c, uint32_t *seed)
{
    uint64_t bits[WORDS] = {0};
    uint32_t allowed[TOKENS], n = 0;
    struct error e;

    if (constraint_mask(c, bits, &e) != ST_OK) {
        FUZZ_CHECK(e.code == ST_RESOURCE_EXHAUSTED);
        return false;
    }
    for (uint32_t id = 0; id < TOKENS; id++) {
        if (bits[id / 64] >> (id % 64) & 1) {
            allowed[n++] = id;
        }
    }
    FUZZ_CHECK(n > 0 || constraint_complete(c));
    if (n == 0) {
        return false;
    }
    *seed = *seed * 1103515245u + 12345u;
    FUZZ_CHECK(constraint_accept(c, allowed[*seed / 65536 % n], &e) == ST_OK ||
               e.code == ST_RESOURCE_EXHAUSTED);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct grammar *g;
    struct constraint *c;
    struct error e = {0};
    uint32_t seed;

    if (n < 2 || n > SOURCE_MAX) {
        return 0;
    }
    const struct grammar_style style = {.any_order = (data[0] & 4) != 0,
                                        .spaces = (data[0] & 8) != 0};

    seed = data[1];
    FUZZ_CHECK(grammar_vocab_words(vocab()) <= WORDS);
    if (grammar_compile(&g, vocab(), (enum grammar_kind)(data[0] & 3),
                        (const char *)data + 2, n - 2, &style, &e) != ST_OK) {
        FUZZ_CHECK(g == NULL && e.text[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(constraint_new(&c, g, &e) == ST_OK);
    for (int i = 0; i < STEPS && step(c, &seed); i++) {
    }
    constraint_free(&c);
    grammar_free(&g);
    return 0;
}
