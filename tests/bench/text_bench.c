/* text_bench.c - tests whether the time of an encode grows linearly with the
 * text.
 *
 *     text_bench TOKENIZER.json [KIB [SPLIT]]
 *
 * Uses texts that make naive tokenizers quadratic.  For each it measures the
 * processor time for KIB (1024) and for twice as much, as the median of RUNS
 * alternating turns.  It prints the ratio of the times, the ratio of the steps
 * taken (pops and moves of the merge queue, calls of the matcher), and the
 * rate.  SPLIT is a split expression to use in place of a Qwen tokenizer's own,
 * without normalizer.  Exit code 1 if a ratio is over 2.2, or KIB takes more
 * than a second per MiB.
 *
 * A word of a megabyte needs some 24 MiB of working memory, which exceeds the
 * cache at a length that depends on the machine and its load.  Around that
 * length the time grows faster than the steps, and beyond it as fast as they
 * do. */
#include <jansson.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/encoder.h"
#include "text/tokenizer.h"

#define RUNS 9

struct bench {
    struct tokenizer *t;
    char *text;
    uint32_t *ids; /* [cap] */
    size_t cap;
};

/* Figures of one length of one text. */
struct figures {
    double s[RUNS];
    uint64_t steps;
};

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum status encode(const struct bench *b, size_t n, double *s,
                          uint64_t *steps, struct error *e)
{
    struct id_sink out = {.ids = b->ids, .cap = b->cap};
    struct encoder c;
    double start = cpu_s();
    enum status st = encoder_init(&c, b->t, e);

    if (st != ST_OK) {
        return st;
    }
    st = encoder_run(&c, b->text, n, 0, &out, e);
    *steps = c.bpe.queue.steps + c.words.split.matches;
    encoder_fini(&c);
    *s = cpu_s() - start;
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(struct figures *f)
{
    qsort(f->s, RUNS, sizeof f->s[0], by_value);
    return f->s[RUNS / 2];
}

static void fill(char *text, size_t n, const char *unit)
{
    size_t len = strlen(unit);

    for (size_t i = 0; i < n; i++) {
        text[i] = unit[i % len];
    }
    /* Do not cut a character at the end. */
    for (size_t i = n / len * len; i < n; i++) {
        text[i] = ' ';
    }
}

static const struct row {
    const char *name, *unit;
    bool tail; /* end in a letter, so that spaces are examined twice */
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

static bool measure(const struct bench *b, const struct row *r, size_t n)
{
    struct figures one, two;
    double t1, t2, mib = (double)n / (1 << 20), steps;
    struct error e;

    for (int i = 0; i < 2 * RUNS; i++) {
        struct figures *f = i % 2 == 0 ? &one : &two;
        size_t len = i % 2 == 0 ? n : 2 * n;

        fill(b->text, len, r->unit);
        b->text[len - 1] = r->tail ? 'x' : b->text[len - 1];
        if (encode(b, len, &f->s[i / 2], &f->steps, &e) != ST_OK) {
            fprintf(stderr, "%s: %s\n", r->name, e.text);
            return false;
        }
    }
    t1 = median(&one);
    t2 = median(&two);
    steps = (double)two.steps / (double)one.steps;
    printf("%-26s %9.2f %9.2f %6.2f %6.2f %8.1f\n", r->name, t1 * 1e3, t2 * 1e3,
           t2 / t1, steps, mib / t1);
    return t2 <= 2.2 * t1 && steps <= 2.2 && t1 <= mib;
}

static enum status load(struct bench *b, const char *path, const char *split,
                        struct error *e)
{
    json_t *root, *steps, *first;
    char *text = NULL;
    enum status st;

    if (split == NULL) {
        return tokenizer_load(&b->t, path, e);
    }
    root = json_load_file(path, 0, NULL);
    steps = json_object_get(json_object_get(root, "pre_tokenizer"),
                            "pretokenizers");
    first = json_object_get(json_array_get(steps, 0), "pattern");
    if (json_object_set_new(first, "Regex", json_string(split)) == 0 &&
        json_object_set_new(root, "normalizer", json_null()) == 0) {
        text = json_dumps(root, JSON_COMPACT);
    }
    json_decref(root);
    if (text == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: not split as a Qwen tokenizer is", path);
    }
    st = tokenizer_parse(&b->t, text, strlen(text), e);
    free(text);
    return st;
}

int main(int argc, char **argv)
{
    size_t n = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1024) << 10;
    struct bench b;
    struct error e;
    bool ok = true;

    if (argc < 2 || n == 0 || n > (4u << 20)) {
        fprintf(stderr,
                "usage: text_bench TOKENIZER.json [KIB, to 4096 [SPLIT]]\n");
        return 2;
    }
    /* glibc returns blocks of 32 MiB and more to the kernel each time, but not
     * smaller ones; that jump is not the tokenizer's. */
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    if (load(&b, argv[1], argc > 3 ? argv[3] : NULL, &e) != ST_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    b.cap = tokenizer_bound(b.t, 2 * n);
    b.text = malloc(2 * n);
    b.ids = malloc(b.cap * sizeof *b.ids);
    if (b.text == NULL || b.ids == NULL) {
        return 2;
    }
    printf("%-26s %9s %9s %6s %6s %8s\n", "text", "n, ms", "2n, ms", "ratio",
           "steps", "MiB/s");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ok = measure(&b, &rows[i], n) && ok;
    }
    free(b.ids);
    free(b.text);
    tokenizer_free(&b.t);
    return ok ? 0 : 1;
}
