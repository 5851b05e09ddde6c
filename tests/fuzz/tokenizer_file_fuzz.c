/* Arbitrary bytes as a tokenizer.json; a file that loads must encode and
 * decode.
 *
 * An input that starts with "P" is not a file but a patch: JSON that is
 * applied to a small tokenizer, so that mutations reach the components after
 * a vocabulary of 256 bytes.  "S" patches one with byte_fallback. */
#include <string.h>

#include <jansson.h>

#include "../unit/text/small.h"
#include "common/base/utf8.h"
#include "fuzz.h"
#include "text/detokenizer.h"

#define IDS_MAX 4096

static void decode(const struct tokenizer *t, const uint32_t *ids, size_t n)
{
    char *out = malloc(detokenizer_max(t));
    struct detokenizer d;
    size_t bad;

    FUZZ_CHECK(out != NULL);
    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < n; i++) {
        size_t len = detokenizer_push(&d, ids[i], out);
        FUZZ_CHECK(len <= detokenizer_max(t));
        FUZZ_CHECK(utf8_valid(out, len, &bad));
    }
    (void)detokenizer_finish(&d, out);
    free(out);
}

static void use(const struct tokenizer *t, const char *text, size_t len)
{
    uint32_t ids[IDS_MAX];
    struct error e;

    for (unsigned flags = 0; flags < 4; flags++) {
        size_t n = 0;
        enum status st =
            tokenizer_encode(t, text, len, flags, ids, IDS_MAX, &n, &e);
        FUZZ_CHECK(st == ST_OK || st == ST_RESOURCE_EXHAUSTED ||
                   st == ST_OUT_OF_RANGE);
        FUZZ_CHECK(n <= tokenizer_bound(t, len));
        for (size_t i = 0; i < n; i++) {
            size_t l;
            FUZZ_CHECK(tokenizer_token(t, ids[i], &l) != NULL);
            FUZZ_CHECK(flags != 0 || !tokenizer_is_special(t, ids[i]));
        }
        decode(t, ids, n);
    }
}

static char *patched(json_t *root, const uint8_t *data, size_t n)
{
    json_t *patch = json_loadb((const char *)data, n, 0, NULL);
    char *text = NULL;

    if (json_is_object(patch) &&
        json_object_update_recursive(root, patch) == 0) {
        text = json_dumps(root, JSON_COMPACT);
    }
    json_decref(patch);
    json_decref(root);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char text[] =
        "abc  ab a\n\n<|x|> I'LL 123 \xC3\xA9 e\xCC\x81\xCC\xA3 "
        "\xF0\x9F\x98\x80 <x>  \xEF\xAC\x81";
    char *made = n == 0           ? NULL
                 : data[0] == 'P' ? patched(fixture_small(), data + 1, n - 1)
                 : data[0] == 'S' ? patched(fixture_fallback(), data + 1, n - 1)
                                  : NULL;
    const char *file = made != NULL ? made : (const char *)data;
    struct tokenizer *t;
    struct error e;

    if (tokenizer_parse(&t, file, made != NULL ? strlen(made) : n, &e) ==
        ST_OK) {
        use(t, text, sizeof text - 1);
    } else {
        FUZZ_CHECK(t == NULL && e.text[0] != '\0');
    }
    tokenizer_free(&t);
    free(made);
    return 0;
}
