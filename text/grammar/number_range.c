/* number_range.c - Comparison of decimal digits as regular expressions. */
#include "text/grammar/number_range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 400 /* more than the integer part of any double */

/* A bound: sign, digits before and after the point; no trailing zeros after
 * it. */
struct decimal {
    bool negative;
    char whole[DIGITS_MAX], part[DIGITS_MAX];
    size_t n_whole, n_part;
};

static uint32_t digit(struct expr_pool *p, char lo, char hi)
{
    return lo > hi ? EXPR_NONE : expr_range(p, (uint8_t)lo, (uint8_t)hi);
}

static uint32_t digits(struct expr_pool *p, size_t least, uint32_t most)
{
    return expr_rep(p, digit(p, '0', '9'), (uint32_t)least, most);
}

static uint32_t whole_any(struct expr_pool *p)
{
    return expr_or(p, digit(p, '0', '0'),
                   expr_cat(p, digit(p, '1', '9'), digits(p, 0, EXPR_INF)));
}

static uint32_t minus(struct expr_pool *p, uint32_t e)
{
    return expr_cat(p, expr_byte(p, '-'), e);
}

static uint32_t point(struct expr_pool *p, uint32_t e)
{
    return expr_cat(p, expr_byte(p, '.'), e);
}

static uint32_t part_any(struct expr_pool *p)
{
    return expr_opt(p, point(p, digits(p, 1, EXPR_INF)));
}

uint32_t number_integer(struct expr_pool *p)
{
    return expr_cat(p, expr_opt(p, expr_byte(p, '-')), whole_any(p));
}

uint32_t number_decimal(struct expr_pool *p, bool exponent)
{
    uint32_t sign =
        expr_opt(p, expr_or(p, expr_byte(p, '+'), expr_byte(p, '-')));
    uint32_t e = expr_cat(p, expr_or(p, expr_byte(p, 'e'), expr_byte(p, 'E')),
                          expr_cat(p, sign, digits(p, 1, 2)));
    uint32_t all = expr_cat(p, number_integer(p), part_any(p));

    return exponent ? expr_cat(p, all, expr_opt(p, e)) : all;
}

void number_text(char out[NUMBER_TEXT], const json_t *v)
{
    if (json_is_integer(v)) {
        snprintf(out, NUMBER_TEXT, "%lld", (long long)json_integer_value(v));
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(out, NUMBER_TEXT, "%.*g", precision, json_real_value(v));
        if (strtod(out, NULL) == json_real_value(v)) {
            return;
        }
    }
}

/* Reads a number's text; the exponent moves the point. */
static void decimal_of(struct decimal *d, const json_t *v)
{
    char text[NUMBER_TEXT], all[NUMBER_TEXT];
    const char *s = text;
    long n = 0, at = -1, exponent = 0;

    memset(d, 0, sizeof *d);
    number_text(text, v);
    if (*s == '-') {
        d->negative = true;
        s++;
    }
    for (; *s != '\0' && *s != 'e'; s++) {
        if (*s == '.') {
            at = n;
        } else {
            all[n++] = *s;
        }
    }
    exponent = *s == 'e' ? strtol(s + 1, NULL, 10) : 0;
    at = (at < 0 ? n : at) + exponent;
    for (long i = at < 0 ? at : 0; i < n || i < at; i++) {
        char c = i < 0 || i >= n ? '0' : all[i];

        if (i >= at && d->n_part < DIGITS_MAX) {
            d->part[d->n_part++] = c;
        } else if (i < at && d->n_whole < DIGITS_MAX &&
                   (c != '0' || d->n_whole > 0)) {
            d->whole[d->n_whole++] = c;
        }
    }
    while (d->n_part > 0 && d->part[d->n_part - 1] == '0') {
        d->n_part--;
    }
    if (d->n_whole == 0) {
        d->whole[d->n_whole++] = '0';
    }
}

/* Returns digits that differ from s[0..n) first at place i, where they are from
 * lo to hi, and then `rest`. */
static uint32_t differs(struct expr_pool *p, const char *s, size_t i, char lo,
                        char hi, uint32_t rest)
{
    return expr_cat(p, expr_text(p, s, i), expr_cat(p, digit(p, lo, hi), rest));
}

/* Greater numbers have more digits, or as many and a greater one at the first
 * place that differs. */
static uint32_t whole_greater(struct expr_pool *p, const struct decimal *d)
{
    size_t n = d->n_whole;
    uint32_t e = expr_cat(p, digit(p, '1', '9'), digits(p, n, EXPR_INF));

    for (size_t i = 0; i < n; i++) {
        e = expr_or(p, e,
                    differs(p, d->whole, i, (char)(d->whole[i] + 1), '9',
                            digits(p, n - i - 1, (uint32_t)(n - i - 1))));
    }
    return e;
}

static uint32_t whole_less(struct expr_pool *p, const struct decimal *d)
{
    size_t n = d->n_whole;
    uint32_t e = EXPR_NONE;

    if (n > 1) {
        e = expr_or(
            p, digit(p, '0', '0'),
            expr_cat(p, digit(p, '1', '9'), digits(p, 0, (uint32_t)(n - 2))));
    }
    for (size_t i = 0; i < n; i++) {
        e = expr_or(p, e,
                    differs(p, d->whole, i, i == 0 && n > 1 ? '1' : '0',
                            (char)(d->whole[i] - 1),
                            digits(p, n - i - 1, (uint32_t)(n - i - 1))));
    }
    return e;
}

/* Returns digits that are not all zero. */
static uint32_t not_zero(struct expr_pool *p)
{
    return expr_cat(p, digits(p, 0, EXPR_INF),
                    expr_cat(p, digit(p, '1', '9'), digits(p, 0, EXPR_INF)));
}

/* Digits after the point compare from the left, whatever their number. */
static uint32_t part_at_least(struct expr_pool *p, const struct decimal *d,
                              bool strict)
{
    uint32_t rest = digits(p, 0, EXPR_INF), e;

    if (d->n_part == 0) {
        return strict ? point(p, not_zero(p)) : part_any(p);
    }
    e = expr_cat(p, expr_text(p, d->part, d->n_part),
                 strict ? not_zero(p) : rest);
    for (size_t i = 0; i < d->n_part; i++) {
        e = expr_or(p, e,
                    differs(p, d->part, i, (char)(d->part[i] + 1), '9', rest));
    }
    return point(p, e);
}

static uint32_t part_at_most(struct expr_pool *p, const struct decimal *d,
                             bool strict)
{
    uint32_t zeros = expr_rep(p, digit(p, '0', '0'), 0, EXPR_INF);
    uint32_t e = EXPR_NONE;

    if (d->n_part == 0) {
        return strict
                   ? EXPR_NONE
                   : expr_opt(p,
                              point(p, expr_cat(p, digit(p, '0', '0'), zeros)));
    }
    if (!strict) {
        e = expr_cat(p, expr_text(p, d->part, d->n_part), zeros);
    }
    for (size_t i = 0; i < d->n_part; i++) {
        e = expr_or(p, e,
                    differs(p, d->part, i, '0', (char)(d->part[i] - 1),
                            digits(p, 0, EXPR_INF)));
        if (i > 0) { /* fewer digits */
            e = expr_or(p, e, expr_text(p, d->part, i));
        }
    }
    return expr_opt(p, point(p, e));
}

static uint32_t magnitude_at_least(struct expr_pool *p, const struct decimal *d,
                                   bool strict)
{
    return expr_or(p, expr_cat(p, whole_greater(p, d), part_any(p)),
                   expr_cat(p, expr_text(p, d->whole, d->n_whole),
                            part_at_least(p, d, strict)));
}

static uint32_t magnitude_at_most(struct expr_pool *p, const struct decimal *d,
                                  bool strict)
{
    return expr_or(p, expr_cat(p, whole_less(p, d), part_any(p)),
                   expr_cat(p, expr_text(p, d->whole, d->n_whole),
                            part_at_most(p, d, strict)));
}

uint32_t number_at_least(struct expr_pool *p, const json_t *v, bool strict)
{
    uint32_t all = expr_cat(p, whole_any(p), part_any(p));
    struct decimal d;

    decimal_of(&d, v);
    return d.negative
               ? expr_or(p, all, minus(p, magnitude_at_most(p, &d, strict)))
               : magnitude_at_least(p, &d, strict);
}

uint32_t number_at_most(struct expr_pool *p, const json_t *v, bool strict)
{
    uint32_t all = expr_cat(p, whole_any(p), part_any(p));
    bool zero = json_number_value(v) == 0;
    struct decimal d, none = {.whole = "0", .n_whole = 1};

    decimal_of(&d, v);
    if (d.negative) {
        return minus(p, magnitude_at_least(p, &d, strict));
    }
    /* Minus zero is not below zero. */
    return expr_or(
        p, magnitude_at_most(p, &d, strict),
        minus(p, zero && strict ? magnitude_at_least(p, &none, true) : all));
}

uint32_t number_multiple(struct expr_pool *p, const json_t *v)
{
    double x = json_number_value(v), scaled = x;
    uint32_t zeros = expr_rep(p, digit(p, '0', '0'), 0, EXPR_INF), n = 0;
    char text[NUMBER_TEXT], power[NUMBER_TEXT];

    if (x >= 1 && x <= NUMBER_MULTIPLE_MAX && x == floor(x)) {
        return expr_and(p, number_integer(p),
                        expr_cat(p, expr_opt(p, expr_byte(p, '-')),
                                 expr_mod(p, (uint32_t)x, 0)));
    }
    if (!(x > 0 && x < 1)) {
        return EXPR_NONE;
    }
    number_text(text, v);
    while (scaled < 0.5 && n < 15) {
        scaled *= 10;
        n++;
    }
    snprintf(power, sizeof power, "1e-%02u", n);
    if (strtod(power, NULL) != x) {
        return EXPR_NONE;
    }
    return expr_cat(
        p, number_integer(p),
        expr_opt(p, point(p, expr_or(p, expr_cat(p, digits(p, 1, n), zeros),
                                     digit(p, '0', '0')))));
}
