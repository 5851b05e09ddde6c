/* text_bench.c - does the time of an encode grow as the text does?
 *
 *     text_bench TOKENIZER.json [KIB]
 *
 * For texts that make naive tokenizers quadratic: time of KIB (1024) and of
 * twice as much, their ratio, and the rate.  Exit code 1 if a ratio is over
 * 2.2 or KIB takes more than a second per MiB. */
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/tokenizer.h"

#define RUNS 5

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The best of RUNS, in seconds; negative if it failed. */
static double encode_s(const struct tokenizer *t, const char *text, size_t n,
                       uint32_t *ids, size_t cap)
{
    double best = -1;
    struct error e;
    size_t n_ids;

    for (int i = 0; i < RUNS; i++) {
        double start = now_s(), took;
        if (tokenizer_encode(t, text, n, 0, ids, cap, &n_ids, &e) != ST_OK) {
            fprintf(stderr, "%s\n", e.text);
            return -1;
        }
        took = now_s() - start;
        best = best < 0 || took < best ? took : best;
    }
    return best;
}

static void fill(char *text, size_t n, const char *unit)
{
    size_t len = strlen(unit);

    for (size_t i = 0; i < n; i++) {
        text[i] = unit[i % len];
    }
    /* No cut character at the end. */
    for (size_t i = n / len * len; i < n; i++) {
        text[i] = ' ';
    }
}

static const struct row {
    const char *name, *unit;
    bool tail; /* end in a letter: spaces are then looked at twice */
} rows[] = {
    {"a", "a", false},
    {"spaces", " ", false},
    {"spaces, then a letter", " ", true},
    {"newlines and spaces", "\n ", true},
    {"emoji", "\xF0\x9F\x98\x80", false},
    {"one word", "pneumonoultramicroscopic", false},
    {"ab", "ab", false},
    {"a and space", "a ", false},
    {"digits", "1234567890", false},
    {"marks out of order", "\xCC\x81\xCC\xA3", false},
    {"Hangul, to be composed", "\xE1\x84\x80\xE1\x85\xA1", false},
    {"control tokens cut short", "<|im_star", false},
    {"prose", "The sluice opens only when there is room downstream. ", false},
};

static bool measure(const struct tokenizer *t, const struct row *r, size_t n,
                    char *text, uint32_t *ids, size_t cap)
{
    double t1, t2, mib = (double)n / (1 << 20);

    fill(text, n, r->unit);
    text[n - 1] = r->tail ? 'x' : text[n - 1];
    t1 = encode_s(t, text, n, ids, cap);
    fill(text, 2 * n, r->unit);
    text[2 * n - 1] = r->tail ? 'x' : text[2 * n - 1];
    t2 = encode_s(t, text, 2 * n, ids, cap);
    printf("%-26s %9.2f %9.2f %6.2f %8.1f\n", r->name, t1 * 1e3, t2 * 1e3,
           t2 / t1, mib / t1);
    return t1 >= 0 && t2 >= 0 && t2 <= 2.2 * t1 && t1 <= mib;
}

int main(int argc, char **argv)
{
    size_t n = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1024) << 10;
    struct tokenizer *t;
    struct error e;
    size_t cap;
    char *text;
    uint32_t *ids;
    bool ok = true;

    if (argc < 2 || n == 0 || n > (4u << 20)) {
        fprintf(stderr, "usage: text_bench TOKENIZER.json [KIB, to 4096]\n");
        return 2;
    }
    /* glibc gives blocks of 32 MiB and more back to the kernel each time, and
     * smaller ones not: that step is not the tokenizer's. */
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    if (tokenizer_load(&t, argv[1], &e) != ST_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    cap = tokenizer_bound(t, 2 * n);
    text = malloc(2 * n);
    ids = malloc(cap * sizeof *ids);
    if (text == NULL || ids == NULL) {
        return 2;
    }
    printf("%-26s %9s %9s %6s %8s\n", "text", "n, ms", "2n, ms", "ratio",
           "MiB/s");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ok = measure(t, &rows[i], n, text, ids, cap) && ok;
    }
    free(ids);
    free(text);
    tokenizer_free(&t);
    return ok ? 0 : 1;
}
