#include "common/base/near.h"

#include <string.h>

#include "common/base/minmax.h"

#define PREFIX_MIN 3 /* shorter words begin too many names */

struct near near_to(const char *word, size_t n)
{
    return (struct near){.word = word, .n = n, .distance = n / 3 + 1};
}

static char letter(char c)
{
    return c == '-' ? '_' : c;
}

/* Returns the optimal string alignment distance (Damerau and Levenshtein,
 * without overlapping swaps).  Row i of the matrix needs rows i - 1 and i - 2
 * only. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][NEAR_WORD_MAX + 1];

    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *last = rows[(i - 1) % 3];
        const size_t *swap = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            char x = letter(a[i - 1]), y = letter(b[j - 1]);

            now[j] = min_size(last[j - 1] + (x != y),
                              min_size(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && x == letter(b[j - 2]) &&
                letter(a[i - 2]) == y) {
                now[j] = min_size(now[j], swap[j - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

static int begins(const char *name, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (letter(name[i]) != letter(word[i])) {
            return 0;
        }
    }
    return 1;
}

void near_offer(struct near *s, const char *name)
{
    size_t m = strlen(name), d;

    if (s->n > NEAR_WORD_MAX || m > NEAR_WORD_MAX) {
        return;
    }
    d = distance(s->word, s->n, name, m);
    /* A word cut short may be far by its letters, but is meant. */
    if (s->n >= PREFIX_MIN && s->n <= m && begins(name, s->word, s->n)) {
        d = min_size(d, 1);
    }
    if (d < s->distance) {
        s->distance = d;
        s->best = name;
    }
}
