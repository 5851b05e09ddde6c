#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>
#include <xxhash.h>

#include "text/encoder.h"
#include "text/file.h"
#include "text/json_read.h"
#include "text/text_limits.h"
#include "text/tokenizer_parts.h"

static enum status parse(struct tokenizer *t, const char *text, size_t len,
                         struct error *e)
{
    XXH128_hash_t h = XXH3_128bits(text, len);
    XXH128_canonical_t canonical;
    enum status st;
    json_t *root;

    XXH128_canonicalFromHash(&canonical, h);
    memcpy(t->hash, canonical.digest, sizeof t->hash);
    /* The hash is computed first: it also seeds the hash tables. */
    st = json_read(&root, text, len, e);
    if (st == ST_OK) {
        st = tokenizer_fill(t, root, h.low64, e);
        json_decref(root);
    }
    return st;
}

enum status tokenizer_parse(struct tokenizer **out, const char *json,
                            size_t len, struct error *e)
{
    struct error scratch;
    enum status st;

    *out = NULL;
    e = e == NULL ? &scratch : e;
    if (len > TEXT_FILE_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%zu bytes long, at most %d are allowed", len,
                         TEXT_FILE_BYTES);
    }
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = parse(*out, json, len, e);
    if (st != ST_OK) {
        tokenizer_free(out);
    }
    return st;
}

enum status tokenizer_load(struct tokenizer **out, const char *path,
                           struct error *e)
{
    struct error scratch;
    char *data;
    size_t n;
    enum status st;

    *out = NULL;
    e = e == NULL ? &scratch : e;
    st = file_read(path, TEXT_FILE_BYTES, &data, &n, e);
    if (st == ST_OK) {
        st = tokenizer_parse(out, data, n, e);
        free(data);
    }
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", path);
}

void tokenizer_free(struct tokenizer **t)
{
    if (*t == NULL) {
        return;
    }
    /* Each part's fini is legal on zeroed storage, so a half-loaded tokenizer
     * is freed the same way. */
    bpe_fini(&(*t)->bpe);
    pretokenizer_fini(&(*t)->pretokenizer);
    added_tokens_fini(&(*t)->added);
    vocab_fini(&(*t)->vocab);
    free(*t);
    *t = NULL;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
    return t->vocab.n_ids;
}

const uint8_t *tokenizer_hash(const struct tokenizer *t)
{
    return t->hash;
}

struct encode_input {
    const char *text;
    size_t len;
    const struct text_span *untrusted; /* [n_spans] */
    size_t n_spans;
};

static enum status encode(const struct tokenizer *t,
                          const struct encode_input *in, unsigned flags,
                          struct id_sink *out, size_t *n, struct error *e)
{
    struct error scratch;
    /* One encoder per call, so that calls on one tokenizer need no lock. */
    struct encoder c;
    enum status st;

    *n = 0;
    e = e == NULL ? &scratch : e;
    st = encoder_init(&c, t, e);
    if (st == ST_OK) {
        c.untrusted = in->untrusted;
        c.n_untrusted = in->n_spans;
        st = encoder_run(&c, in->text, in->len, flags, out, e);
        encoder_fini(&c);
    }
    if (st == ST_OK) {
        *n = out->n;
    }
    return st;
}

enum status tokenizer_encode(const struct tokenizer *t, const char *text,
                             size_t len, unsigned flags, uint32_t *ids,
                             size_t cap, size_t *n, struct error *e)
{
    struct id_sink out = {.ids = ids, .cap = cap};
    const struct encode_input in = {.text = text, .len = len};

    return encode(t, &in, flags, &out, n, e);
}

enum status tokenizer_encode_spans(const struct tokenizer *t, const char *text,
                                   size_t len,
                                   const struct text_span *untrusted,
                                   size_t n_spans, unsigned flags,
                                   uint32_t *ids, size_t cap, size_t *n,
                                   struct error *e)
{
    struct id_sink out = {.ids = ids, .cap = cap};
    const struct encode_input in = {text, len, untrusted, n_spans};

    return encode(t, &in, flags | TOKENIZE_PARSE_SPECIAL, &out, n, e);
}

/* A space becomes 3 bytes.  UTF-8 grows by a factor of 3 at most under NFC and
 * NFD, of 11 under NFKC and NFKD (Unicode, UAX 15).  Then every byte may be a
 * word that gets a space. */
size_t tokenizer_bound(const struct tokenizer *t, size_t len)
{
    const struct normalizer *z = &t->normalizer;
    size_t n = len < TEXT_ENCODE_BYTES ? len : TEXT_ENCODE_BYTES;

    for (unsigned i = 0; i < z->n && n < TEXT_ENCODE_BYTES; i++) {
        n *= z->forms[i] != NORMALIZER_SPACES && z->forms[i] & UTF8PROC_COMPAT
                 ? 11
                 : 3;
    }
    n += z->prepend ? 3 * len + 3 : 0; /* of each piece */
    return 2 * n + t->post.n_before + t->post.n_after;
}

/* An added token is found before normalisation, and its bytes shrink no less
 * than those of text; or behind it, and then has at most added.longest. */
size_t tokenizer_fewest(const struct tokenizer *t, const char *text, size_t len)
{
    size_t longest = t->vocab.longest > t->added.longest ? t->vocab.longest
                                                         : t->added.longest;

    if (t->pretokenizer.removes || t->added.strips || longest == 0) {
        return 0;
    }
    return (normalizer_fewest(&t->normalizer, text, len) + longest - 1) /
           longest;
}

const char *tokenizer_token(const struct tokenizer *t, uint32_t id, size_t *len)
{
    return vocab_bytes(&t->vocab, id, len);
}

size_t tokenizer_token_of(void *arg, uint32_t id, const char **bytes)
{
    size_t n = 0;

    *bytes = tokenizer_token(arg, id, &n);
    return *bytes != NULL ? n : 0;
}

size_t tokenizer_longest(const struct tokenizer *t)
{
    return t->vocab.longest;
}

bool tokenizer_is_special(const struct tokenizer *t, uint32_t id)
{
    return (vocab_flags(&t->vocab, id) & VOCAB_SPECIAL) != 0;
}

bool tokenizer_is_structural(const struct tokenizer *t, uint32_t id)
{
    for (size_t i = 0; i < t->added.n; i++) {
        if (t->added.tokens[i].id == id && t->added.tokens[i].structural) {
            return true;
        }
    }
    return false;
}

void tokenizer_protect(struct tokenizer *t, const char *text, size_t n)
{
    added_tokens_protect(&t->added, &t->vocab, text, n);
}

bool tokenizer_find(const struct tokenizer *t, const char *content, size_t len,
                    uint32_t *id)
{
    return vocab_find(&t->vocab, content, len, id);
}
