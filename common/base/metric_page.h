/* metric_page.h - Series of many tables as one page for Prometheus.
 *
 *     metric_page_clear(&page);
 *     metric_page_add(&page, &series);
 *     fwrite(page.text, 1, page.n, to);
 *
 * The text has the exposition format 0.0.4: for each row HELP, TYPE, and the
 * samples of all series.  A histogram has the samples _bucket (cumulative, with
 * the label le), _sum and _count.
 *
 * Threading: none.  Memory: a page allocates when it grows, and keeps its
 * memory when cleared, so that the next page of the same size allocates
 * nothing.  Limits: those of the tables that are added. */
#ifndef COMMON_BASE_METRIC_PAGE_H
#define COMMON_BASE_METRIC_PAGE_H

#include "common/base/metric.h"

#define METRIC_PAGE_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Zeroed: empty. */
struct metric_page {
    char *text; /* [n], not ended by a NUL; NULL until something is added */
    size_t n, size;
    bool broken; /* memory was short: the text must not be used */
};

void metric_page_clear(struct metric_page *p);
void metric_page_fini(struct metric_page *p);

/* Adds any text. */
void metric_page_text(struct metric_page *p, const char *text);

/* Adds all rows of the series, those that are 0 too.  Values of labels may be
 * any text: backslash, quote and newline are escaped. */
void metric_page_add(struct metric_page *p, const struct metric_series *s);

#endif
