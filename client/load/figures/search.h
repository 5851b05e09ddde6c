/* search.h - Search for the largest load that meets the objectives.
 *
 * A load is a rate or a concurrency.  The search doubles from `first` until a
 * trial misses (or halves until one meets), then bisects until the bracket is
 * at most `tolerance` wide.  A trial meets if the lower bound of the share of
 * good requests (Wilson, 95 %) is at least `attain`, misses if the upper bound
 * is below, and is repeated otherwise, up to `repeats` times in all; samples of
 * repeats count together, and then the share itself decides.  An invalid trial
 * (the generator's lag) ends the search: the machine cannot make that load.
 *
 * At the end the largest load that met is run again, and 1.15 times it: the
 * first must meet, the second must miss.  If not, the bracket is corrected and
 * the search goes on.  It ends unconfirmed after SEARCH_TRIALS trials, or if
 * `max` meets.
 *
 *     struct search s;
 *     search_init(&s, &options);
 *     while (search_next(&s, &load)) search_take(&s, good, wanted, valid);
 *
 * Threading: none.  Memory: no pointers.  Pure. */
#ifndef CLIENT_LOAD_FIGURES_SEARCH_H
#define CLIENT_LOAD_FIGURES_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#define SEARCH_TRIALS   64
#define SEARCH_BEYOND_X 1.15 /* times the result, which must miss */

enum search_kind {
    SEARCH_BRACKET,
    SEARCH_BISECT,
    SEARCH_CONFIRM,
    SEARCH_BEYOND
};
enum search_verdict { SEARCH_OPEN, SEARCH_MEETS, SEARCH_MISSES };

struct search_options {
    double first;
    double min, max;  /* 0: first / 1024 or 1; none */
    double tolerance; /* 0.05 */
    double attain;    /* 0.99 */
    uint32_t repeats; /* runs of one load at most, 1.. */
    bool whole;       /* loads are whole numbers: concurrency */
};

struct search_trial {
    double load;
    uint64_t n_good, n_wanted; /* summed over its runs */
    uint32_t n_runs;
    enum search_kind kind;
    enum search_verdict verdict;
};

struct search {
    struct search_options options;
    struct search_trial trials[SEARCH_TRIALS]; /* [n_trials] */
    uint32_t n_trials;
    double low, high; /* largest that met, smallest that missed; 0: none */
    bool done, confirmed, invalid;
    bool capped;           /* max meets: the largest load is above it */
    enum search_kind kind; /* the current trial's */
    double load;
};

void search_init(struct search *s, const struct search_options *o);

/* Sets the load of the next run, and again the same until search_take().
 * Returns false when the search is over: search_result() is then 0 if no load
 * meets. */
bool search_next(struct search *s, double *load);
void search_take(struct search *s, uint64_t n_good, uint64_t n_wanted,
                 bool valid);

/* Returns the largest load that met; less than the truth if not confirmed. */
double search_result(const struct search *s);

/* Bounds of a share k of n, Wilson, 95 %. */
void search_bounds(uint64_t k, uint64_t n, double *low, double *high);

#endif
