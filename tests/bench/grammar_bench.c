/* grammar_bench.c - compiles JSON Schemas and runs instances through their
 * masks.
 *
 *     grammar_bench TOKENIZER.json SCHEMAS.jsonl [NAME]
 *
 * Each line of SCHEMAS has `name`, `schema` and `tests`, a list of `valid` and
 * `data`, as MaskBench has them.  An instance is spelt with ", " and ": ", cut
 * into tokens, and accepted token by token, each of which the mask must allow;
 * the text must be complete at its end.  Prints how many schemas compile, how
 * many pass all their tests, the instances that are wrong, the reasons of
 * refusals, and the processor times of masks, of compilation, and of
 * compilation with the first mask.  NAME: only this schema, with the place
 * where a text leaves it.  Exit code 1 if an invalid instance is accepted. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/grammar/grammar_tokens.h"
#include "text/tokenizer.h"

#define IDS_MAX 200000

/* Times in microseconds. */
struct times {
    double *v; /* [n] */
    size_t n, cap;
};

struct bench {
    struct tokenizer *t;
    struct grammar_vocab *vocab;
    uint64_t *bits;
    uint32_t ids[IDS_MAX];
    const char *only;
    struct times masks, compiles, firsts;
    size_t schemas, refused, passed, valid, rejected, invalid, accepted;
    bool wrong; /* the schema at hand */
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void add_time(struct times *t, double us)
{
    if (t->n == t->cap) {
        t->cap = t->cap == 0 ? 4096 : 2 * t->cap;
        t->v = realloc(t->v, t->cap * sizeof *t->v);
        if (t->v == NULL) {
            abort();
        }
    }
    t->v[t->n++] = us;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_times(const char *name, struct times *t)
{
    if (t->n == 0) {
        return;
    }
    qsort(t->v, t->n, sizeof *t->v, ascending);
    printf("%-14s n %zu p50 %.1f p99 %.1f p99.9 %.1f max %.1f us\n", name, t->n,
           t->v[t->n / 2], t->v[t->n * 99 / 100], t->v[t->n * 999 / 1000],
           t->v[t->n - 1]);
}

/* Returns whether every token of ids[0..n) is allowed and the text is then
 * complete.  Sets *at to the token that was refused. */
static bool run(struct bench *b, struct constraint *c, size_t n, size_t *at)
{
    struct error e;

    for (*at = 0; *at < n; ++*at) {
        uint32_t id = b->ids[*at];
        double start = now_us();
        enum status st = constraint_mask(c, b->bits, &e);
        bool allowed;

        add_time(&b->masks, now_us() - start);
        if (b->only != NULL && b->masks.v[b->masks.n - 1] > 500) {
            size_t len;
            const char *text = constraint_text(c, &len);

            printf("  %.0f us after %.*s\n", b->masks.v[b->masks.n - 1],
                   (int)len, text);
        }
        if (st != ST_OK) {
            printf("mask: %s\n", e.text);
            return false;
        }
        allowed = b->bits[id / 64] >> (id % 64) & 1;
        st = constraint_accept(c, id, &e);
        if (st == ST_RESOURCE_EXHAUSTED) {
            printf("accept: %s\n", e.text);
            return false;
        }
        if ((st == ST_OK) != allowed) {
            printf("mask and accept differ at token %u\n", id);
            exit(2);
        }
        if (!allowed) {
            return false;
        }
    }
    return constraint_complete(c);
}

static void print_place(const struct constraint *c, const char *text,
                        bool valid)
{
    size_t n;

    constraint_text(c, &n);
    printf("  %s instance: %.*s <HERE> %s\n", valid ? "valid" : "invalid",
           (int)n, text, text + n);
}

static void run_test(struct bench *b, struct grammar *g, const char *name,
                     const json_t *test)
{
    bool valid = json_is_true(json_object_get(test, "valid")), ok;
    char *text = json_dumps(json_object_get(test, "data"),
                            JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    struct constraint *c;
    struct error e;
    size_t n, at;

    if (text == NULL || constraint_new(&c, g, &e) != ST_OK ||
        tokenizer_encode(b->t, text, strlen(text), 0, b->ids, IDS_MAX, &n,
                         &e) != ST_OK) {
        abort();
    }
    ok = run(b, c, n, &at);
    b->valid += valid;
    b->invalid += !valid;
    b->rejected += valid && !ok;
    b->accepted += !valid && ok;
    if (valid != ok) {
        b->wrong = true;
        printf("%s %s\n", valid ? "REJECTED" : "ACCEPTED", name);
    }
    if (b->only != NULL) {
        print_place(c, text, valid);
    }
    constraint_free(&c);
    free(text);
}

static void first_mask(struct bench *b, struct grammar *g)
{
    struct constraint *c;
    struct error e;

    if (constraint_new(&c, g, &e) != ST_OK ||
        constraint_mask(c, b->bits, &e) != ST_OK) {
        abort();
    }
    constraint_free(&c);
}

static void run_schema(struct bench *b, const json_t *line)
{
    static const struct grammar_style style = {.any_order = true,
                                               .spaces = true};
    const char *name = json_string_value(json_object_get(line, "name"));
    char *text = json_dumps(json_object_get(line, "schema"), JSON_ENCODE_ANY);
    const json_t *test;
    struct grammar *g;
    struct error e = {0};
    double start = now_us();
    enum status st;
    size_t i;

    b->schemas++;
    st = grammar_compile(&g, b->vocab, GRAMMAR_SCHEMA, text, strlen(text),
                         &style, &e);
    if (st == ST_OK) {
        add_time(&b->compiles, now_us() - start);
        first_mask(b, g);
        add_time(&b->firsts, now_us() - start);
        b->wrong = false;
        json_array_foreach(json_object_get(line, "tests"), i, test)
        {
            run_test(b, g, name, test);
        }
        b->passed += !b->wrong;
        if (now_us() - start > 2e6) {
            printf("SLOW %s %.0f ms\n", name, (now_us() - start) / 1e3);
        }
    } else {
        b->refused++;
        printf("REFUSED %s: %s: %s\n", name, status_name(st), e.text);
    }
    grammar_free(&g);
    free(text);
}

static void report(struct bench *b)
{
    printf("schemas %zu, refused %zu, passed %zu (%.2f %%)\n", b->schemas,
           b->refused, b->passed,
           100.0 * (double)b->passed / (double)(b->schemas + !b->schemas));
    printf("valid %zu, wrongly rejected %zu; invalid %zu, wrongly accepted "
           "%zu\n",
           b->valid, b->rejected, b->invalid, b->accepted);
    print_times("mask", &b->masks);
    print_times("compile", &b->compiles);
    print_times("first mask", &b->firsts);
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct error e;
    char *line = NULL;
    size_t cap = 0;
    FILE *f = argc > 2 ? fopen(argv[2], "r") : NULL;
    double start;

    if (f == NULL || tokenizer_load(&b.t, argv[1], &e) != ST_OK) {
        fprintf(stderr, "usage: grammar_bench TOKENIZER.json SCHEMAS.jsonl "
                        "[NAME]\n");
        return 2;
    }
    b.only = argc > 3 ? argv[3] : NULL;
    start = now_us();
    if (grammar_vocab_of(&b.vocab, b.t, NULL, 0, &e) != ST_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    printf("vocabulary of %u: %.0f us\n", tokenizer_vocab(b.t),
           now_us() - start);
    b.bits = calloc(grammar_vocab_words(b.vocab), sizeof *b.bits);
    while (b.bits != NULL && getline(&line, &cap, f) > 0) {
        json_t *j = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(j, "name"));

        if (j == NULL) { /* integers of more than 64 bits, U+0000 */
            b.schemas++;
            b.refused++;
            printf("REFUSED a line that is not read\n");
        }
        if (name != NULL && (b.only == NULL || strcmp(b.only, name) == 0)) {
            run_schema(&b, j);
        }
        json_decref(j);
    }
    report(&b);
    free(line);
    fclose(f);
    return b.accepted > 0;
}
