/* tokenizer.h - Text to token ids, by a Hugging Face tokenizer.json.
 *
 * Byte-level BPE: added tokens are found, the rest is normalised (NFC, NFD,
 * NFKC, NFKD) and cut into words (Split, Digits, ByteLevel), and each word's
 * bytes are merged.  Ids equal the reference's for all supported components.
 * Any other component is refused by name when the file is read, never
 * ignored. "truncation" and "padding" are not applied: they shape training
 * batches.
 *
 * Threading: a tokenizer is read-only once loaded; any number of threads may
 * call everything but tokenizer_free() at the same time.  Memory: a tokenizer
 * of 150,000 tokens takes about 20 MB, and 100 MB while it is read.  An
 * encode takes what its text needs (at most 60 bytes per byte) and frees it
 * before it returns.
 *
 * Time: linear in the text; O(n log n) in a word whose windows do not meet
 * (bpe.h).  Limits: text/text_limits.h.  No file and no text can crash it. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define TOKENIZER_HASH_BYTES 16

/* Control tokens spelt in the text become control tokens.  Without this flag
 * no text produces the id of a special added token. */
#define TOKENIZE_PARSE_SPECIAL 1u
/* Puts the post-processor's tokens (bos, eos) around the ids. */
#define TOKENIZE_ADD_SPECIAL 2u

struct tokenizer;

/* Load a file, or parse its len bytes.  *out is the caller's, to
 * tokenizer_free(); NULL on failure.  Returns ST_NOT_FOUND: no such file;
 * ST_INVALID_ARGUMENT: broken; ST_OUT_OF_RANGE: past a limit;
 * ST_UNIMPLEMENTED: an unsupported component.  The error's text has the place
 * in the file. */
MUST_CHECK enum status tokenizer_load(struct tokenizer **out, const char *path,
                                      struct error *e);
MUST_CHECK enum status tokenizer_parse(struct tokenizer **out, const char *json,
                                       size_t len, struct error *e);

/* Frees *t and sets it to NULL; NULL is legal. */
void tokenizer_free(struct tokenizer **t);

/* Returns one past the highest id.  Not every id below it need be a token. */
uint32_t tokenizer_vocab(const struct tokenizer *t);

/* Returns XXH3-128 of the file's bytes, [TOKENIZER_HASH_BYTES], in canonical
 * (big-endian) form.  Borrowed. */
const uint8_t *tokenizer_hash(const struct tokenizer *t);

/* Encodes text[0..len) into ids[cap].  Sets *n to the ids written, 0 on
 * failure.  Returns ST_RESOURCE_EXHAUSTED: more than cap ids, or out of
 * memory; ST_INVALID_ARGUMENT: not UTF-8, with the byte's offset;
 * ST_OUT_OF_RANGE: longer than TEXT_ENCODE_BYTES, checked before any byte is
 * read, or a limit of the work that the text needs. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *t,
                                        const char *text, size_t len,
                                        unsigned flags, uint32_t *ids,
                                        size_t cap, size_t *n, struct error *e);

/* Bytes [begin, end) of a text. */
struct text_span {
    size_t begin, end;
};

/* Marks added tokens that are structure, though the file does not call them
 * special: those that text[0..n), a chat template or a list of markers, spells.
 * Tokens of letters, digits and white space, and of less than three bytes, are
 * none.  Call it before other threads use t. */
void tokenizer_protect(struct tokenizer *t, const char *text, size_t n);

/* Encodes as tokenizer_encode() with TOKENIZE_PARSE_SPECIAL, but finds no
 * structural added token that has a byte in untrusted[n_spans]: special ones,
 * "<|name|>", "[NAME]", and those of tokenizer_protect().  Spans ascend
 * and do not overlap.  flags may be 0 or TOKENIZE_ADD_SPECIAL.  A text whose
 * spans spell no control token gets the ids of tokenizer_encode().  If the
 * normalizer changes a piece of text with untrusted bytes, "normalized"
 * control tokens are not found in the whole piece.  Errors as
 * tokenizer_encode(), and ST_INVALID_ARGUMENT if spans are out of order or
 * past the end. */
MUST_CHECK enum status tokenizer_encode_spans(const struct tokenizer *t,
                                              const char *text, size_t len,
                                              const struct text_span *untrusted,
                                              size_t n_spans, unsigned flags,
                                              uint32_t *ids, size_t cap,
                                              size_t *n, struct error *e);

/* Returns a cap that is enough for every text of len bytes, with any flags. */
size_t tokenizer_bound(const struct tokenizer *t, size_t len);

/* Returns a lower bound on the ids of text[0..len), with any flags: the bytes
 * that are left after normalisation over those of the longest token.  Every id
 * stands for at most so many bytes.  0 if a split drops parts of the text, or
 * an added token takes the white space around it, as an id then stands for
 * more.  Takes about 1 ns per byte. */
size_t tokenizer_fewest(const struct tokenizer *t, const char *text,
                        size_t len);

/* Returns the bytes that an id stands for in text (not always UTF-8 on their
 * own), and their number.  NULL if the id is no token.  Borrowed, without
 * NUL. */
const char *tokenizer_token(const struct tokenizer *t, uint32_t id,
                            size_t *len);

/* The same as a callback: arg is the tokenizer.  Sets *bytes, NULL if the id is
 * no token, and returns their number. */
size_t tokenizer_token_of(void *arg, uint32_t id, const char **bytes);

/* Returns the bytes of the longest token. */
size_t tokenizer_longest(const struct tokenizer *t);

/* Returns whether id is a special added token; false if it is no token. */
bool tokenizer_is_special(const struct tokenizer *t, uint32_t id);

/* Returns whether tokenizer_encode_spans() keeps the token out of untrusted
 * text.  Takes time proportional to the number of added tokens. */
bool tokenizer_is_structural(const struct tokenizer *t, uint32_t id);

/* Finds the token, added or not, with exactly this spelling ("<|im_end|>"). */
bool tokenizer_find(const struct tokenizer *t, const char *content, size_t len,
                    uint32_t *id);

#endif
