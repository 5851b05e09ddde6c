#include "client/load/plan/words.h"

#include <stdlib.h>
#include <string.h>

#include "client/load/plan/draw.h"
#include "client/load/plan/prompt_buffer.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/base/utf8.h"
#include "text/file.h"
#include "text/text_limits.h"

#define COMMON_MIN  16    /* words of one token that are variety enough */
#define COUNT_BYTES 65536 /* encoded at a time */
#define TEST_TOKENS 4096  /* of the text that tests whether costs add up */
#define GUESS_BYTES 4     /* of a token, in any text */

/* Lower case, without punctuation: most vocabularies have each as one token,
 * with a blank before it and without. */
static const char common_words[] =
    "a the of and to in is it you that he was for on are with as his they be "
    "at "
    "one have this from or had by not but what all were we when your can said "
    "there use an each which she do how their if will up other about out many "
    "then them these so some her would make like him into time has look two "
    "more write go see number no way could people my than first water been "
    "call who oil its now find long down day did get come made may part over "
    "new sound take only little work know place year live me back give most "
    "very after thing our just name good sentence man think say great where "
    "help through much before line right too mean old any same tell boy follow "
    "came want show also around form three small set put end does another well "
    "large must big even such because turn here why ask went men read need "
    "land different home us move try kind hand picture again change off play "
    "spell air away animal house point page letter mother answer found study "
    "still learn should world high every near add food between own below "
    "country plant last school father keep tree never start city earth eye "
    "light thought head under story saw left few while along might close "
    "something seem next hard open example begin life always those both paper "
    "together got group often run important until children side feet car mile "
    "night walk white sea began grow took river four carry state once book "
    "hear stop without second later miss idea enough eat face watch far really "
    "almost let above girl sometimes mountain cut young talk soon list song "
    "being leave family";

/* ---- counting ---- */

bool words_encode(struct words *w, const char *text, size_t n,
                  const uint32_t **ids, size_t *n_ids)
{
    struct error e;
    size_t bound;

    *n_ids = 0;
    if (w->tokenizer == NULL || n > TEXT_ENCODE_BYTES) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    bound = tokenizer_bound(w->tokenizer, n);
    if (bound > w->ids_size) {
        w->ids_size = bound;
        w->ids = memory_must(realloc(w->ids, bound * sizeof *w->ids));
    }
    *ids = w->ids;
    return tokenizer_encode(w->tokenizer, text, n, 0, w->ids, w->ids_size,
                            n_ids, &e) == ST_OK;
}

/* Returns the bytes to encode at once: all, or as far as a blank. */
static size_t part_of(const char *text, size_t n)
{
    size_t part = COUNT_BYTES;

    if (n <= COUNT_BYTES) {
        return n;
    }
    while (part > 0 && text[part] != ' ') {
        part--;
    }
    return part > 0 ? part : n;
}

size_t words_count(struct words *w, const char *text, size_t n)
{
    size_t total = 0;

    while (n > 0) {
        size_t part = part_of(text, n), n_ids = 0;
        const uint32_t *ids;

        if (!words_encode(w, text, part, &ids, &n_ids)) {
            n_ids = (part + GUESS_BYTES - 1) / GUESS_BYTES;
        }
        total += n_ids;
        text += part;
        n -= part;
    }
    return total;
}

static uint32_t at_least_one(size_t n)
{
    return n > 0 ? (uint32_t)n : 1;
}

/* Returns the tokens of a word, at least 1, so that a text always ends. */
static uint32_t cost_of(struct words *w, const char *text, struct word *word,
                        bool first)
{
    char copy[WORDS_WORD_BYTES_MAX + 1] = " ";

    if (w->tokenizer == NULL) {
        return text == common_words ? 1 : (word->n + 5u) / 6;
    }
    if (!first && word->cost > 0) {
        return word->cost;
    }
    memcpy(copy + 1, text + word->at, word->n);
    if (first) {
        return at_least_one(words_count(w, copy + 1, word->n));
    }
    word->cost = (uint16_t)at_least_one(words_count(w, copy, word->n + 1u));
    return word->cost;
}

/* ---- lists ---- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the bytes of the word at text, without a part of a character. */
static size_t word_length(const char *text, size_t n)
{
    size_t len = 0;

    while (len < n && !is_blank(text[len])) {
        size_t more = utf8_length((const uint8_t *)text + len, n - len);

        if (len + more > WORDS_WORD_BYTES_MAX) {
            break;
        }
        len += more;
    }
    return len;
}

/* Lists the words of text[0..n), which is UTF-8. */
static struct word *list_words(const char *text, size_t n, size_t *n_words)
{
    struct word *list = NULL;
    size_t size = 0, at = 0;

    *n_words = 0;
    while (at < n) {
        size_t len = word_length(text + at, n - at);

        if (len == 0) {
            at++; /* a blank */
            continue;
        }
        if (*n_words == size) {
            size = size == 0 ? 512 : 2 * size;
            list = memory_must(realloc(list, size * sizeof *list));
        }
        list[(*n_words)++] =
            (struct word){.at = (uint32_t)at, .n = (uint16_t)len};
        at += len;
    }
    return list;
}

/* Keeps the common words of one token, if these are enough. */
static void choose_common(struct words *w)
{
    size_t n = 0;

    w->common = list_words(common_words, sizeof common_words - 1, &w->n_common);
    w->all_one = w->tokenizer == NULL;
    if (w->all_one) {
        return;
    }
    for (size_t i = 0; i < w->n_common; i++) {
        struct word *word = &w->common[i];

        if (cost_of(w, common_words, word, false) == 1 &&
            cost_of(w, common_words, word, true) == 1) {
            struct word spare = w->common[n];

            w->common[n++] = *word;
            *word = spare;
        }
    }
    w->all_one = n >= COMMON_MIN;
    w->n_common = w->all_one ? n : w->n_common;
}

static enum status load_file(struct words *w, const char *path, struct error *e)
{
    size_t n, bad;
    enum status st = file_read(path, WORDS_FILE_BYTES_MAX, &w->file, &n, e);

    if (st == ST_OK && !utf8_valid(w->file, n, &bad)) {
        st = error_set(e, ST_INVALID_ARGUMENT, "byte %zu is not UTF-8", bad);
    } else if (st == ST_OK && memchr(w->file, '\0', n) != NULL) {
        st = error_set(e, ST_INVALID_ARGUMENT, "the text has a NUL");
    }
    if (st == ST_OK) {
        w->list = list_words(w->file, n, &w->n_list);
        if (w->n_list == 0) {
            st = error_set(e, ST_INVALID_ARGUMENT, "the text has no word");
        }
    }
    return st == ST_OK ? st : error_wrap(e, "text %s", quote(path).text);
}

/* A tokenizer whose words do not follow blanks merges across them. */
static bool costs_add_up(struct words *w)
{
    struct prompt sample = {0};
    bool ok;

    words_write(w, 1, TEST_TOKENS, true, &sample);
    ok = words_count(w, sample.text, sample.n_text) == TEST_TOKENS;
    prompt_fini(&sample);
    return ok;
}

enum status words_init(struct words *w, const struct tokenizer *t,
                       const char *file, struct error *e)
{
    enum status st = ST_OK;

    memset(w, 0, sizeof *w);
    w->tokenizer = t;
    choose_common(w);
    if (file != NULL) {
        st = load_file(w, file, e);
    }
    if (st == ST_OK) {
        w->adds_up = t == NULL || costs_add_up(w);
    } else {
        words_fini(w);
    }
    return st;
}

void words_fini(struct words *w)
{
    free(w->common);
    free(w->file);
    free(w->list);
    free(w->ids);
    memset(w, 0, sizeof *w);
}

/* ---- writing ---- */

/* A text as it is written. */
struct writer {
    struct words *words;
    struct prompt *out;
    struct draw draw;
    uint32_t left; /* tokens */
    bool first;    /* no word yet, and none before */
};

static size_t pick(struct draw *d, size_t n)
{
    return (size_t)((draw_u64(d) >> 32) * n >> 32);
}

static void put(struct writer *wr, const char *text, const struct word *word)
{
    char *to = prompt_buffer_text(wr->out, word->n + 1u);

    if (!wr->first) {
        *to++ = ' ';
        wr->out->n_text++;
    }
    memcpy(to, text + word->at, word->n);
    wr->out->n_text += word->n;
    wr->first = false;
}

/* Appends a word unless it has too many tokens. */
static bool try_word(struct writer *wr, const char *text, struct word *word)
{
    uint32_t cost = cost_of(wr->words, text, word, wr->first);

    if (cost > wr->left) {
        return false;
    }
    put(wr, text, word);
    wr->left -= cost;
    return true;
}

static void write_units(struct writer *wr)
{
    const struct words *w = wr->words;

    for (; wr->left > 0; wr->left--) {
        put(wr, common_words, &w->common[pick(&wr->draw, w->n_common)]);
    }
}

/* Appends the common word with the most tokens that still fits, so that the
 * rest is as small as words allow. */
static bool write_last(struct writer *wr)
{
    struct words *w = wr->words;
    struct word *best = NULL;
    uint32_t most = 0;

    for (size_t i = 0; i < w->n_common; i++) {
        uint32_t cost = cost_of(w, common_words, &w->common[i], wr->first);

        if (cost <= wr->left && cost > most) {
            best = &w->common[i];
            most = cost;
        }
    }
    return best != NULL && try_word(wr, common_words, best);
}

static void write_common(struct writer *wr)
{
    struct words *w = wr->words;
    uint32_t longest = 0;

    if (w->all_one) {
        write_units(wr);
        return;
    }
    for (size_t i = 0; i < w->n_common; i++) {
        uint32_t cost = cost_of(w, common_words, &w->common[i], false);

        longest = cost > longest ? cost : longest;
    }
    while (
        wr->left > longest &&
        try_word(wr, common_words, &w->common[pick(&wr->draw, w->n_common)])) {
    }
    while (wr->left > 0 && write_last(wr)) {
    }
}

static void write_file(struct writer *wr)
{
    struct words *w = wr->words;
    size_t i = pick(&wr->draw, w->n_list);

    while (wr->left > 0 && try_word(wr, w->file, &w->list[i])) {
        i = i + 1 < w->n_list ? i + 1 : 0;
    }
}

void words_write(struct words *w, uint64_t seed, uint32_t n, bool first,
                 struct prompt *out)
{
    struct writer wr = {.words = w, .out = out, .left = n, .first = first};

    draw_seed(&wr.draw, seed);
    if (w->n_list > 0) {
        write_file(&wr);
    }
    write_common(&wr);
}
