#include "client/load/figures/confidence.h"

#include <math.h>

/* t for 1..30 degrees of freedom, 0.975. */
static const double table[] = {
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
    2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
    2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
    2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
};

#define TABLE (sizeof table / sizeof table[0])

double confidence_t(double freedom)
{
    const double limit = 1.95996;
    size_t i;
    double w;

    if (!(freedom > 1)) {
        return table[0];
    }
    if (freedom >= TABLE) {
        /* t - limit falls as 1 / freedom, to 0.001. */
        return limit + (table[TABLE - 1] - limit) * TABLE / freedom;
    }
    i = (size_t)freedom - 1;
    /* Linear in 1 / freedom, as tables of t are read. */
    w = (1 / (double)(i + 1) - 1 / freedom) /
        (1 / (double)(i + 1) - 1 / (double)(i + 2));
    return table[i] + (table[i + 1] - table[i]) * w;
}

/* Two passes: squares of microseconds would cancel in one. */
struct confidence confidence_of(const double *values, size_t n)
{
    struct confidence c = {.n = n};
    double mean = 0, squares = 0;

    for (size_t i = 0; i < n; i++) {
        mean += values[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    c.mean = mean;
    c.variance = n < 2 ? 0 : squares / (double)(n - 1);
    return c;
}

double confidence_half(const struct confidence *c)
{
    return confidence_t((double)c->n - 1) * sqrt(c->variance / (double)c->n);
}

/* Welch rather than Student: a faulty server has another variance.  The
 * degrees of freedom are by Welch and Satterthwaite. */
bool confidence_differ(const struct confidence *a, const struct confidence *b)
{
    double va, vb, v, freedom;

    if (a->n < 2 || b->n < 2) {
        return false;
    }
    va = a->variance / (double)a->n;
    vb = b->variance / (double)b->n;
    v = va + vb;
    if (!(v > 0)) {
        return a->mean != b->mean;
    }
    freedom =
        v * v / (va * va / (double)(a->n - 1) + vb * vb / (double)(b->n - 1));
    return fabs(a->mean - b->mean) > confidence_t(freedom) * sqrt(v);
}
