#include "tests/sim/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/assets.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

#define TOKENS     512
#define PATH_BYTES 80
#define SPECIAL    255

struct token {
    uint8_t bytes[VOCABULARY_BYTES];
    uint8_t n;
};

static struct token tokens[TOKENS];
static uint32_t n_tokens;

static void add(const char *before, const char *middle, const char *after)
{
    struct token *t = &tokens[n_tokens++];

    t->n = (uint8_t)(strlen(before) + strlen(middle) + strlen(after));
    if (n_tokens > TOKENS || t->n > VOCABULARY_BYTES) {
        abort();
    }
    memcpy(t->bytes, before, strlen(before));
    memcpy(t->bytes + strlen(before), middle, strlen(middle));
    memcpy(t->bytes + strlen(before) + strlen(middle), after, strlen(after));
}

/* Returns run number i over a, b, c: 0 is empty, then 3 of one letter, 9 of
 * two, 27 of three, 81 of four. */
static const char *run(uint32_t i, char out[5])
{
    uint32_t length = 0, n = 1;

    while (i >= n) {
        i -= n;
        n *= 3;
        length++;
    }
    for (uint32_t k = 0; k < length; k++) {
        out[k] = (char)('a' + i % 3);
        i /= 3;
    }
    out[length] = '\0';
    return out;
}

/* Adds parts of characters, with each of the first n runs before or after. */
static void add_parts(const char *part, uint32_t n, bool before)
{
    char text[5];

    for (uint32_t i = 0; i < n; i++) {
        (void)run(i, text);
        add(before ? text : "", part, before ? "" : text);
    }
}

static bool is_token(uint8_t byte)
{
    for (uint32_t i = 0; i < n_tokens; i++) {
        if (tokens[i].n == 1 && tokens[i].bytes[0] == byte) {
            return true;
        }
    }
    return false;
}

static void fill(void)
{
    char text[5];

    for (uint32_t i = 1; i < 40; i++) {
        add(run(i, text), "", "");
    }
    add_parts("\xc3", 40, true); /* U+00E9, cut */
    add_parts("\xa9", 40, false);
    add_parts("\xe2\x82", 13, true); /* U+20AC */
    add_parts("\xac", 13, false);
    add_parts("\xe2", 4, true);
    add_parts("\x82\xac", 4, false);
    add_parts("\xf0\x9f", 13, true); /* U+1F600 */
    add_parts("\x98\x80", 13, false);
    add_parts("\xc3\xa9", 4, true); /* whole */
    add_parts("\xe2\x82\xac", 4, true);
    add_parts("\xf0\x9f\x98\x80", 4, true);
    for (uint32_t i = 40; n_tokens < SPECIAL; i++) {
        add(run(i, text), "", "");
    }
    n_tokens++; /* the special token */
    for (uint32_t i = 0; i < 256; i++) {
        if (!is_token((uint8_t)i)) {
            tokens[n_tokens].bytes[0] = (uint8_t)i;
            tokens[n_tokens++].n = 1;
        }
    }
}

/* Writes ,"spelling":id, with JSON escapes where needed. */
static size_t entry(uint32_t id, char *out)
{
    char spelling[2 * VOCABULARY_BYTES];
    size_t n = byte_level_spell(tokens[id].bytes, tokens[id].n, spelling);
    size_t at = 0;

    out[at++] = id ? ',' : ' ';
    out[at++] = '"';
    for (size_t i = 0; i < n; i++) {
        if (spelling[i] == '"' || spelling[i] == '\\') {
            out[at++] = '\\';
        }
        out[at++] = spelling[i];
    }
    return at + (size_t)sprintf(out + at, "\":%u", id);
}

static char json[TOKENS * 40];

static size_t write_json(void)
{
    size_t at = (size_t)sprintf(
        json,
        "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":false},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"added_tokens\":[{\"id\":%d,\"content\":\"<end>\",\"special\":true,"
        "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false}],"
        "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{",
        SPECIAL);

    if (n_tokens == 0) {
        fill();
    }
    for (uint32_t i = 0; i < n_tokens; i++) {
        if (i != SPECIAL) {
            at += entry(i, json + at);
        }
    }
    return at + (size_t)sprintf(json + at, "}}}");
}

static void give_up(const char *why)
{
    (void)fprintf(stderr, "sluice-sim: vocabulary: %s\n", why);
    abort();
}

static struct tokenizer *parse(void)
{
    size_t n = write_json();
    struct tokenizer *t;
    struct error e;

    if (tokenizer_parse(&t, json, n, &e) != ST_OK) {
        give_up(e.text);
    }
    return t;
}

static void write_file(const char *dir, const char *name, const char *data,
                       size_t n, char path[PATH_BYTES])
{
    FILE *f;

    (void)snprintf(path, PATH_BYTES, "%s/%s", dir, name);
    f = fopen(path, "w");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        give_up("a file for the gateway cannot be written");
    }
}

static struct text_assets *load(void)
{
    char dir[] = "/tmp/sluice-sim-XXXXXX";
    char tokenizer[PATH_BYTES], chat[PATH_BYTES];
    struct text_assets *a;
    struct error e;

    if (!mkdtemp(dir)) {
        give_up("no directory for the gateway's files");
    }
    write_file(dir, "tokenizer.json", json, write_json(), tokenizer);
    write_file(dir, "chat_template.jinja", VOCABULARY_TEMPLATE,
               strlen(VOCABULARY_TEMPLATE), chat);
    if (text_assets_load(&a, dir, &e) != ST_OK) {
        give_up(e.text);
    }
    (void)unlink(tokenizer);
    (void)unlink(chat);
    (void)rmdir(dir);
    return a;
}

struct text_assets *vocabulary_assets(void)
{
    static struct text_assets *made;

    if (!made) {
        made = load();
    }
    return made;
}

const struct tokenizer *vocabulary_tokenizer(void)
{
    static struct tokenizer *made;

    if (!made) {
        made = parse();
    }
    return made;
}

const uint8_t *vocabulary_bytes(uint32_t id, size_t *n)
{
    if (n_tokens == 0) {
        fill();
    }
    *n = id < n_tokens ? tokens[id].n : 0;
    return id < n_tokens ? tokens[id].bytes : NULL;
}

/* Returns the bytes of a character with this first byte; 0: none begins so. */
static size_t length_of(uint8_t first)
{
    return first < 0x80                    ? 1
           : first >= 0xc2 && first < 0xe0 ? 2
           : first >= 0xe0 && first < 0xf0 ? 3
           : first >= 0xf0 && first < 0xf5 ? 4
                                           : 0;
}

/* Returns whether `byte` may be byte k (from 1) after this first one: The
 * Unicode Standard, table 3-7. */
static bool follows(uint8_t first, size_t k, uint8_t byte)
{
    uint8_t lo = 0x80, hi = 0xbf;

    if (k == 1) {
        lo = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : lo;
        hi = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : hi;
    }
    return byte >= lo && byte <= hi;
}

/* Returns how many bytes at the beginning of `in` are one character or the
 * longest part of one.  *whole: it is a character; *open: more bytes could
 * complete it. */
static size_t part(const uint8_t *in, size_t n, bool *whole, bool *open)
{
    size_t want = length_of(in[0]), k = 1;

    while (k < want && k < n && follows(in[0], k, in[k])) {
        k++;
    }
    *whole = k == want;
    *open = k < want && k == n;
    return k;
}

static size_t settle(struct plain_text *t, bool ended, char *out)
{
    size_t at = 0, bytes = 0;
    bool whole, open;

    while (at < t->n_held) {
        size_t k = part(t->held + at, t->n_held - at, &whole, &open);

        if (open && !ended) {
            break;
        }
        memcpy(out + bytes, whole ? (char *)t->held + at : "\xef\xbf\xbd",
               whole ? k : 3);
        bytes += whole ? k : 3;
        at += k;
    }
    t->n_held -= at;
    memmove(t->held, t->held + at, t->n_held);
    return bytes;
}

size_t plain_push(struct plain_text *t, uint32_t id, char *out)
{
    size_t n;
    const uint8_t *bytes = vocabulary_bytes(id, &n);

    if (n) {
        memcpy(t->held + t->n_held, bytes, n);
        t->n_held += n;
    }
    return settle(t, false, out);
}

size_t plain_finish(struct plain_text *t, char *out)
{
    return settle(t, true, out);
}
