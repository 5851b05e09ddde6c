/* The short form of tests/fuzz/openai_fuzz.c: mutants of its seeds, the same in
 * each run. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/cmocka.h"

#define SEEDS   "tests/fuzz/corpus/openai_fuzz"
#define BYTES   4096
#define MUTANTS 2000 /* of each seed */

static uint32_t random_state;

static size_t draw(size_t n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

/* Replaces text[at..at + cut) of the *n bytes. */
static void splice(uint8_t *text, size_t *n, size_t at, size_t cut,
                   const char *piece)
{
    size_t length = strlen(piece);

    cut = cut < *n - at ? cut : *n - at;
    if (*n - cut + length > BYTES) {
        return;
    }
    memmove(text + at + length, text + at + cut, *n - at - cut);
    memcpy(text + at, piece, length);
    *n = *n - cut + length;
}

/* Returns the length of the token at text[at..n): to the next delimiter. */
static size_t token(const uint8_t *text, size_t at, size_t n)
{
    size_t i = at;

    while (i < n && strchr(",:[]{}", text[i]) == NULL) {
        i++;
    }
    return i - at;
}

static void mutate(uint8_t *text, size_t *n)
{
    static const char *const pieces[] = {
        "null",        "-1",         "1e308",
        "[]",          "{}",         "\"\\u0000\"",
        "true",        "1.5",        "9223372036854775808",
        "[[[[",        "\"",         "\\",
        "\"\\ud800\"", "[{}]",       "{\"type\":\"function\"}",
        "\"auto\"",    "4294967296", "",
        ",",           "}"};
    size_t at = 1 + draw(*n - 1);
    const char *piece = pieces[draw(sizeof pieces / sizeof pieces[0])];

    switch (draw(4)) {
    case 0:
        text[at] = (uint8_t)draw(256);
        break;
    case 1:
        splice(text, n, at, draw(20), "");
        break;
    default: /* a value, or a key, becomes another one */
        while (at > 1 && strchr(",:[]{}", text[at - 1]) == NULL) {
            at--;
        }
        splice(text, n, at, token(text, at, *n), piece);
        break;
    }
}

static void run_mutants(const uint8_t *seed, size_t n_seed)
{
    random_state = 1; /* folders list their files in any order */
    for (int i = 0; i < MUTANTS; i++) {
        uint8_t text[BYTES];
        size_t n = n_seed;

        memcpy(text, seed, n);
        for (size_t changes = 1 + draw(3); changes > 0 && n > 1; changes--) {
            mutate(text, &n);
        }
        (void)LLVMFuzzerTestOneInput(text, n);
    }
}

static void mutants_are_refused_or_within_limits(void **state)
{
    DIR *dir = opendir(SEEDS);
    int n_seeds = 0;

    (void)state;
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        uint8_t seed[BYTES];
        char path[512];
        FILE *f;

        if (d->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", SEEDS, d->d_name);
        f = fopen(path, "rb");
        assert_non_null(f);
        run_mutants(seed, fread(seed, 1, sizeof seed, f));
        fclose(f);
        n_seeds++;
    }
    closedir(dir);
    assert_true(n_seeds >= 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutants_are_refused_or_within_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
