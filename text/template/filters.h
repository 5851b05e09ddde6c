/* filters.h - Filters and tests.
 *
 * Filters of text and numbers are in filters_text.c, those of lists in
 * filters_list.c, tests in tests.c.
 *
 * Threading: constant data. */
#ifndef TEXT_TEMPLATE_FILTERS_H
#define TEXT_TEMPLATE_FILTERS_H

#include "text/template/builtin.h"

extern const struct builtins filters_of_text, filters_of_lists;

/* Find a name; NULL if it is not known. */
const struct builtin *filter_find(struct str name);
const struct builtin *test_find(struct str name);

#endif
