/* turns_bench.c - the time of a short text beside long ones of other clients.
 *
 *     turns_bench TOKENIZER.json
 *
 * Two text threads encode TEXTS texts of a MiB.  A text of 16 bytes follows,
 * and the time until it is encoded is printed: alone, beside texts that are
 * all of one client, and beside texts of a client each.  Each figure is the
 * median of RUNS, with the longest. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "router/text/text_threads.h"
#include "text/tokenizer.h"

#define RUNS  9
#define TEXTS 60
#define BYTES (1u << 20)

#define SHORT 1 /* tag and client of the short text */

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void submit(struct text_seam *s, uint64_t client, const char *unit,
                   size_t n)
{
    struct text_job *j = text_job_new(TEXT_ENCODE, client);
    size_t len = strlen(unit);

    j->job.turn.client = client;
    j->text = malloc(n);
    for (size_t i = 0; j->text != NULL && i < n; i++) {
        j->text[i] = unit[i % len];
    }
    j->n_text = n;
    if (j->text == NULL || s->ops->submit(s, &j) != ST_OK) {
        abort();
    }
}

static struct text_job *wait_job(struct text_threads *t)
{
    struct text_seam *s = text_threads_seam(t);
    struct pollfd p = {.fd = text_threads_fd(t), .events = POLLIN};
    struct text_job *j;

    while ((j = s->ops->poll(s)) == NULL) {
        (void)poll(&p, 1, -1);
        text_threads_quiet(t);
    }
    return j;
}

/* Returns the time of the short text behind n long ones, of one client or of
 * a client each.  The long texts are dropped then. */
static double run(const struct text_model *model, int n, bool each)
{
    struct text_threads *t;
    struct text_seam *s;
    double begin, took = 0;
    struct error e;

    if (text_threads_new(&t, model, 1, 2, &e) != ST_OK) {
        abort();
    }
    s = text_threads_seam(t);
    for (int i = 0; i < n; i++) {
        submit(s, SHORT + 1 + (each ? (uint64_t)i : 0),
               "Once upon a time there was 17 ", BYTES);
    }
    nanosleep(&(struct timespec){.tv_nsec = n > 0 ? 20000000 : 0}, NULL);
    begin = now_s();
    submit(s, SHORT, "Once upon a time", 16);
    while (took == 0) {
        struct text_job *j = wait_job(t);

        took = j->tag == SHORT ? now_s() - begin : 0;
        text_job_free(&j);
    }
    text_threads_free(&t);
    return took;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static double measure(const struct text_model *m, const char *name, int n,
                      bool each, double alone)
{
    double s[RUNS];

    for (int i = 0; i < RUNS; i++) {
        s[i] = run(m, n, each);
    }
    qsort(s, RUNS, sizeof s[0], by_value);
    printf("%-26s %10.2f ms, longest %10.2f ms", name, s[RUNS / 2] * 1e3,
           s[RUNS - 1] * 1e3);
    printf(alone > 0 ? ", ratio %.0f\n" : "\n", s[RUNS / 2] / alone);
    return s[RUNS / 2];
}

int main(int argc, char **argv)
{
    struct tokenizer *tokenizer;
    struct text_model model;
    struct error e;
    double alone;

    if (argc != 2) {
        fprintf(stderr, "usage: turns_bench TOKENIZER.json\n");
        return 2;
    }
    if (tokenizer_load(&tokenizer, argv[1], &e) != ST_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    model = (struct text_model){"m", tokenizer};
    alone = measure(&model, "alone", 0, false, 0);
    (void)measure(&model, "beside 60, one client", TEXTS, false, alone);
    (void)measure(&model, "beside 60 clients", TEXTS, true, alone);
    tokenizer_free(&tokenizer);
    return 0;
}
