/* confidence.h - Intervals of a mean from few values.
 *
 * Threading, memory: none.  Pure. */
#ifndef CLIENT_LOAD_FIGURES_CONFIDENCE_H
#define CLIENT_LOAD_FIGURES_CONFIDENCE_H

#include <stdbool.h>
#include <stddef.h>

struct confidence {
    double mean, variance; /* variance: n - 1 degrees of freedom */
    size_t n;
};

/* Returns mean and variance of values[0..n); both 0 if there are too few. */
struct confidence confidence_of(const double *values, size_t n);

/* Returns the two-sided 95 % quantile of Student's t, for any real number of
 * degrees of freedom of at least 1. */
double confidence_t(double freedom);

/* Returns half the width of the 95 % interval of the mean; n >= 2. */
double confidence_half(const struct confidence *c);

/* Returns whether the means of a and b differ, by Welch's test with 95 %
 * confidence.  False if either has fewer than two values. */
bool confidence_differ(const struct confidence *a, const struct confidence *b);

#endif
