/* metric_family.h - The series of a set with labels, gathered for printing.
 *
 *     metric_family_clear(&f);
 *     m = metric_family_add(&f, (const char *[]){"w1", "blocks"});
 *     m->free_pages = 7;
 *     metric_page_add(&page, metric_family_series(&f, &series));
 *
 * The owner of the figures keeps them where it likes; a family is filled when
 * they are printed.
 *
 * Threading: none.  Memory: grows to the largest gathering and keeps its
 * memory when cleared.  Limits: the caller bounds the number of series. */
#ifndef COMMON_BASE_METRIC_FAMILY_H
#define COMMON_BASE_METRIC_FAMILY_H

#include "common/base/metric.h"

struct metric_family {
    const struct metric_set *set;
    char *labels; /* [labels_n], as in struct metric_series */
    size_t labels_n, labels_size;
    uint64_t *values; /* [n][metric_width()] */
    size_t n, size;
};

/* Makes an empty family of a set with labels. */
void metric_family_init(struct metric_family *f, const struct metric_set *set);
void metric_family_fini(struct metric_family *f);

/* Removes all series. */
void metric_family_clear(struct metric_family *f);

/* Adds a series with one value per label of the set.  Returns its figures, all
 * 0: the struct of the table, valid until the next call. */
void *metric_family_add(struct metric_family *f, const char *const *labels);

/* Fills *out with the series, borrowed until the next call, and returns it. */
const struct metric_series *metric_family_series(const struct metric_family *f,
                                                 struct metric_series *out);

#endif
