#include "client/load/report/cell.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Prints v with three digits before and after the point together. */
static void three(struct cell *c, double v, const char *unit)
{
    int places = v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;

    snprintf(c->text, sizeof c->text, "%.*f%s", places, v, unit);
}

struct cell cell_time(double us)
{
    struct cell c = {""};

    if (us >= (double)HISTOGRAM_LOST) {
        snprintf(c.text, sizeof c.text, "lost");
    } else if (us < 999.5) {
        snprintf(c.text, sizeof c.text, "%.0f us", us);
    } else if (us < 999500) {
        three(&c, us / 1e3, " ms");
    } else {
        three(&c, us / 1e6, " s");
    }
    return c;
}

struct cell cell_count(uint64_t n)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    struct cell c = {""};
    size_t at = 0;

    for (int i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0) {
            c.text[at++] = ',';
        }
        c.text[at++] = digits[i];
    }
    return c;
}

struct cell cell_number(double v)
{
    struct cell c = {""};

    if (v >= 999.5 && v < 1e18) {
        return cell_count((uint64_t)(v + 0.5));
    }
    if (v != 0 && v < 0.9995) {
        snprintf(c.text, sizeof c.text, "%.3f", v);
    } else {
        three(&c, v, "");
    }
    return c;
}

struct cell cell_load(double v)
{
    return v >= 0 && v < 1e18 && v == floor(v) ? cell_count((uint64_t)v)
                                               : cell_number(v);
}

/* 99.996 % would print as 100.00 %: a single failure must show. */
struct cell cell_share(uint64_t k, uint64_t n)
{
    double percent = n == 0 ? 0 : 100 * (double)k / (double)n;
    struct cell c = {"-"};

    if (n > 0 && k == n) {
        snprintf(c.text, sizeof c.text, "100 %%");
    } else if (n > 0) {
        snprintf(c.text, sizeof c.text, "%.2f %%", fmin(percent, 99.99));
    }
    return c;
}

struct cell cell_plain(const char *text)
{
    struct cell c = {"-"};

    if (text == NULL || text[0] == '\0') {
        return c;
    }
    snprintf(c.text, sizeof c.text, "%s", text);
    for (char *p = c.text; *p != '\0'; p++) {
        *p = *p < ' ' || *p > '~' ? '?' : *p;
    }
    return c;
}

struct cell cell_figure(const struct histogram *h, double q, bool is_time)
{
    struct cell none = {"-"};
    double v;

    if (h->n == 0 && (q < 0 || h->lost == 0)) {
        return none;
    }
    v = q < 0 ? histogram_mean(h) : (double)histogram_quantile(h, q);
    return is_time ? cell_time(v) : cell_number(v);
}
