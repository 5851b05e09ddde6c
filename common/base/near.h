/* near.h - The known name that is nearest to a mistyped word.
 *
 *     struct near near = near_to("max-token", 9);
 *
 *     near_offer(&near, "max_tokens");
 *     near_offer(&near, "max_rows");
 *     near.best is "max_tokens"
 *
 * The distance counts letters inserted, omitted, replaced, or swapped with
 * their neighbour.  A name is near if the distance is at most a third of the
 * word, or if it begins with the word.  '-' equals '_'.
 *
 * Threading: none.  Memory: names and word are borrowed.  Limits: a word
 * longer than NEAR_WORD_MAX is near to nothing. */
#ifndef COMMON_BASE_NEAR_H
#define COMMON_BASE_NEAR_H

#include <stddef.h>

#define NEAR_WORD_MAX 40

struct near {
    const char *word; /* [n] */
    size_t n;
    const char *best; /* the nearest name offered; NULL: none is near */
    size_t distance;  /* a nearer name has less */
};

/* Returns a search for word[0..n), without any name yet. */
struct near near_to(const char *word, size_t n);

/* Compares with one name.  Of equal names the first wins. */
void near_offer(struct near *s, const char *name);

#endif
