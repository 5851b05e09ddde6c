/* keys_bench.c - Whether the time of a key lookup depends on the key.
 *
 * Two classes of wrong keys of one length: the hash of class NEAR begins with
 * the first byte of an entry, the hash of class FAR with another byte.  Samples
 * of the classes alternate at random.  Welch's t between classes of equal times
 * is below 4.5 in magnitude (Goodwill et al., "A testing methodology for
 * side-channel resistance validation", 2011).
 *
 *     build/release/bin/keys_bench [SAMPLES]     default: 1000000 a class
 *
 * Exit code 1 if |t| is 4.5 or more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/keys/keys.h"

#define N_KEYS    256 /* entries */
#define N_CLASSES 2
#define N_WRONG   16 /* different keys of a class */
#define T_MAX     4.5

enum class { CLASS_NEAR, CLASS_FAR };

struct moments {
    double n, mean, m2; /* Welford's update */
};

struct bench {
    struct keys *keys;
    struct keys_new right;
    char near[N_WRONG][sizeof((struct keys_new *)0)->key];
    char far[N_WRONG][sizeof((struct keys_new *)0)->key];
    struct moments moments[N_CLASSES];
    uint64_t seed;
};

static uint64_t draw(struct bench *b)
{
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return b->seed;
}

static enum class class_draw(struct bench *b) {
    return draw(b) >> 7 & 1 ? CLASS_NEAR : CLASS_FAR;
}

static void new_key(struct keys_new *out)
{
    struct error e;

    if (keys_new_line(out, "bench", &e) != ST_OK) {
        fprintf(stderr, "keys_bench: %s\n", e.text);
        exit(2);
    }
}

static void make_keys(struct bench *b)
{
    size_t size = (size_t)N_KEYS * KEYS_LINE_BYTES, n = 0;
    char *text = malloc(size);
    struct error e;

    for (int i = 0; text != NULL && i < N_KEYS; i++) {
        new_key(&b->right);
        n += (size_t)snprintf(text + n, size - n, "%s\n", b->right.line);
    }
    if (text == NULL || keys_parse(&b->keys, text, n, &e) != ST_OK) {
        exit(2);
    }
    free(text);
}

/* Draws keys until their hashes begin as the class requires: one byte, two hex
 * digits, in common with the right entry, or none. */
static void make_wrong(struct bench *b)
{
    int n_near = 0, n_far = 0;

    while (n_near < N_WRONG || n_far < N_WRONG) {
        struct keys_new key;

        new_key(&key);
        if (memcmp(key.line, b->right.line, 2) == 0) {
            if (n_near < N_WRONG) {
                memcpy(b->near[n_near++], key.key, sizeof key.key);
            }
        } else if (n_far < N_WRONG) {
            memcpy(b->far[n_far++], key.key, sizeof key.key);
        }
    }
}

static double lookup_ns(struct bench *b, const char *key)
{
    struct timespec begin, end;
    struct tenant *volatile found;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    found = keys_find(b->keys, key, sizeof b->right.key - 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    (void)found;
    return (double)(end.tv_sec - begin.tv_sec) * 1e9 +
           (double)(end.tv_nsec - begin.tv_nsec);
}

static void add(struct moments *m, double x)
{
    double delta = x - m->mean;

    m->n++;
    m->mean += delta / m->n;
    m->m2 += delta * (x - m->mean);
}

static double welch_t(const struct moments *a, const struct moments *b)
{
    double va = a->m2 / (a->n - 1) / a->n, vb = b->m2 / (b->n - 1) / b->n;

    return (a->mean - b->mean) / sqrt(va + vb);
}

/* Copies the key, so that all classes read the same memory. */
static double sample(struct bench *b, enum class c)
{
    char key[sizeof b->right.key];
    size_t i = draw(b) % N_WRONG;

    memcpy(key, c == CLASS_NEAR ? b->near[i] : b->far[i], sizeof key);
    return lookup_ns(b, key);
}

/* Returns a time above which a sample was interrupted. */
static double crop_ns(struct bench *b)
{
    double best = 1e12;

    for (int i = 0; i < 10000; i++) {
        double ns = sample(b, class_draw(b));

        best = ns < best ? ns : best;
    }
    return 1.5 * best;
}

int main(int argc, char **argv)
{
    struct bench b = {.seed = UINT64_C(88172645463325252)};
    double n = argc > 1 ? strtod(argv[1], NULL) : 1e6, crop, t;

    make_keys(&b);
    make_wrong(&b);
    crop = crop_ns(&b);
    while (b.moments[CLASS_NEAR].n < n || b.moments[CLASS_FAR].n < n) {
        enum class c = class_draw(&b);
        double ns = sample(&b, c);

        if (ns <= crop) {
            add(&b.moments[c], ns);
        }
    }
    t = welch_t(&b.moments[CLASS_NEAR], &b.moments[CLASS_FAR]);
    printf("%d keys, %.0f samples a class: first byte right %.1f ns, wrong "
           "%.1f ns, t %+.2f\n",
           N_KEYS, n, b.moments[CLASS_NEAR].mean, b.moments[CLASS_FAR].mean, t);
    keys_free(&b.keys);
    return fabs(t) < T_MAX ? 0 : 1;
}
