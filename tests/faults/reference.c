#include "tests/faults/reference.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "sluice-streams 1"

static void *room(void *at, size_t *have, size_t need, size_t size)
{
    if (need > *have) {
        *have = need > 2 * *have ? need : 2 * *have;
        at = realloc(at, *have * size);
        assert(at != NULL);
    }
    return at;
}

/* Returns a hash; FNV-1a. */
static uint64_t hash(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x100000001b3u;
    }
    return h;
}

static uint64_t logprobs_of(const struct client_chunk *c, size_t i)
{
    uint64_t h = 0xcbf29ce484222325u;

    if (c->logprobs == NULL) {
        return 0;
    }
    h = hash(h, &c->logprobs[i], sizeof c->logprobs[i]);
    if (c->n_top > 0) {
        h = hash(h, c->top_tokens + i * c->n_top,
                 c->n_top * sizeof *c->top_tokens);
        h = hash(h, c->top_logprobs + i * c->n_top,
                 c->n_top * sizeof *c->top_logprobs);
    }
    return h;
}

/* Makes room for n more tokens and text bytes. */
static void widen(struct stream_of_choice *s, size_t n_tokens, size_t n_text)
{
    size_t same = s->tokens_room;

    s->tokens =
        room(s->tokens, &same, s->n_tokens + n_tokens + 1, sizeof *s->tokens);
    s->logprobs = room(s->logprobs, &s->tokens_room, s->n_tokens + n_tokens + 1,
                       sizeof *s->logprobs);
    s->text = room(s->text, &s->text_room, s->n_text + n_text + 1, 1);
}

void stream_append(struct stream_of_choice *to, const struct client_chunk *c)
{
    widen(to, c->n_tokens, c->n_text);
    for (size_t i = 0; i < c->n_tokens; i++) {
        to->logprobs[to->n_tokens] = logprobs_of(c, i);
        to->tokens[to->n_tokens++] = c->tokens[i];
    }
    if (c->n_text > 0) {
        memcpy(to->text + to->n_text, c->text, c->n_text);
        to->n_text += c->n_text;
    }
    to->finish = c->finish;
    to->stop_string = c->stop_string;
}

/* Returns whether the text of c continues the expected text. */
static bool text_is_right(const struct reading *r,
                          const struct stream_of_choice *wanted,
                          const struct client_stop *stops,
                          const struct client_chunk *c)
{
    size_t left = wanted->n_text - r->n_text;
    size_t n = c->n_text < left ? c->n_text : left, held = c->n_text - n;

    if (n > 0 && memcmp(c->text, wanted->text + r->n_text, n) != 0) {
        return false;
    }
    return held == 0 ||
           (c->finish == SLUICE__V1__FINISH__FINISH_CANCELLED &&
            wanted->stop_string >= 0 && stops != NULL &&
            held < stops[wanted->stop_string].n &&
            memcmp(c->text + n, stops[wanted->stop_string].text, held) == 0);
}

void reading_chunk(struct reading *r, const struct stream_of_choice *wanted,
                   const struct client_stop *stops,
                   const struct client_chunk *c)
{
    for (size_t i = 0; i < c->n_tokens; i++) {
        size_t at = r->n_tokens++;

        if (at >= wanted->n_tokens) {
            r->doubled++;
        } else if (c->tokens[i] != wanted->tokens[at] ||
                   logprobs_of(c, i) != wanted->logprobs[at]) {
            r->wrong++;
        }
    }
    if (!text_is_right(r, wanted, stops, c)) {
        r->wrong++;
    }
    r->n_text += c->n_text;
    if (r->n_text > wanted->n_text) {
        r->n_text = wanted->n_text; /* count a difference once */
    }
}

void reading_end(struct reading *r, const struct stream_of_choice *wanted,
                 int finish, int stop_string)
{
    if (r->n_tokens < wanted->n_tokens) {
        r->lost += wanted->n_tokens - r->n_tokens;
    }
    if (r->n_text != wanted->n_text || finish != wanted->finish ||
        stop_string != wanted->stop_string) {
        r->wrong++;
    }
}

static void write_one(FILE *to, uint32_t entry, uint32_t choice,
                      const struct stream_of_choice *s)
{
    fprintf(to, "%" PRIu32 " %" PRIu32 " %d %d %zu %zu", entry, choice,
            s->finish, s->stop_string, s->n_tokens, s->n_text);
    for (size_t i = 0; i < s->n_tokens; i++) {
        fprintf(to, " %" PRIu32 " %" PRIx64, s->tokens[i], s->logprobs[i]);
    }
    fputc(' ', to);
    for (size_t i = 0; i < s->n_text; i++) {
        fprintf(to, "%02x", (unsigned char)s->text[i]);
    }
    fputc('\n', to);
}

enum status streams_write(const struct streams *s, const struct entry *entries,
                          const char *path, uint32_t longest, struct error *e)
{
    FILE *to = fopen(path, "w");
    bool bad;

    if (to == NULL) {
        return error_set(e, ST_INTERNAL, "%s: %s", path, strerror(errno));
    }
    fprintf(to, HEADER " %" PRIu32 "\n", longest);
    for (uint32_t k = 0; k < CATALOGUE; k++) {
        for (uint32_t c = 0; c < entries[k].request.n; c++) {
            write_one(to, k, c, &s->of[k][c]);
        }
    }
    bad = ferror(to) != 0;
    if (fclose(to) != 0 || bad) {
        return error_set(e, ST_INTERNAL, "%s: cannot be written", path);
    }
    return ST_OK;
}

/* Returns false if the line was not written by write_one(). */
static bool read_rest(FILE *from, struct stream_of_choice *s, size_t n_tokens,
                      size_t n_text)
{
    unsigned byte;

    widen(s, n_tokens, n_text);
    for (size_t i = 0; i < n_tokens; i++) {
        if (fscanf(from, "%" SCNu32 " %" SCNx64, &s->tokens[i],
                   &s->logprobs[i]) != 2) {
            return false;
        }
    }
    s->n_tokens = n_tokens;
    if (fgetc(from) != ' ') {
        return false;
    }
    for (size_t i = 0; i < n_text; i++) {
        if (fscanf(from, "%2x", &byte) != 1) {
            return false;
        }
        s->text[i] = (char)byte;
    }
    s->n_text = n_text;
    return true;
}

enum status streams_read(struct streams *s, const char *path, uint32_t longest,
                         struct error *e)
{
    FILE *from = fopen(path, "r");
    uint32_t entry, choice, of = 0;
    int finish, stop_string, n;
    size_t n_tokens, n_text;
    bool good;

    memset(s, 0, sizeof *s);
    if (from == NULL) {
        return error_set(e, ST_INTERNAL, "%s: %s", path, strerror(errno));
    }
    good = fscanf(from, HEADER " %" SCNu32, &of) == 1 && of == longest;
    while (good && (n = fscanf(from, "%" SCNu32 " %" SCNu32 " %d %d %zu %zu",
                               &entry, &choice, &finish, &stop_string,
                               &n_tokens, &n_text)) != EOF) {
        good = n == 6 && entry < CATALOGUE && choice < CATALOGUE_CHOICES &&
               n_tokens <= CATALOGUE_LONGEST && n_text <= 1u << 20 &&
               read_rest(from, &s->of[entry][choice], n_tokens, n_text);
        if (good) {
            s->of[entry][choice].finish = finish;
            s->of[entry][choice].stop_string = stop_string;
        }
    }
    fclose(from);
    if (!good) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: not written by --record with --longest %" PRIu32,
                         path, longest);
    }
    return ST_OK;
}

void streams_free(struct streams *s)
{
    for (size_t k = 0; k < CATALOGUE; k++) {
        for (size_t c = 0; c < CATALOGUE_CHOICES; c++) {
            free(s->of[k][c].tokens);
            free(s->of[k][c].logprobs);
            free(s->of[k][c].text);
        }
    }
    memset(s, 0, sizeof *s);
}
