/* cell.h - Numbers as short texts for a terminal.
 *
 * Threading, memory: none. */
#ifndef CLIENT_LOAD_REPORT_CELL_H
#define CLIENT_LOAD_REPORT_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/load/figures/histogram.h"

#define CELL_TEXT 96

struct cell {
    char text[CELL_TEXT];
};

/* Returns a time with its unit and three digits: "850 us", "12.1 ms", "1.20
 * s"; "lost" for HISTOGRAM_LOST. */
struct cell cell_time(double us);

/* Returns 12,034. */
struct cell cell_count(uint64_t n);

/* Returns a number with at least three digits: "0.123", "12.3", "5,120". */
struct cell cell_number(double v);

/* Returns a rate or a concurrency: as cell_number(), whole numbers without a
 * point. */
struct cell cell_load(double v);

/* Returns a share of 1 as "99.1 %"; never "100 %" if something is missing. */
struct cell cell_share(uint64_t k, uint64_t n);

/* Returns text with '?' for everything but printable ASCII; "-" for NULL. */
struct cell cell_plain(const char *text);

/* Returns a quantile of a histogram, or its mean for q < 0, as a time or a
 * number; "-" if there is none. */
struct cell cell_figure(const struct histogram *h, double q, bool is_time);

#endif
