/* functions.h - Global functions.
 *
 * The value on the left of a call is the Unix time in seconds.
 *
 * Threading: constant data. */
#ifndef TEXT_TEMPLATE_FUNCTIONS_H
#define TEXT_TEMPLATE_FUNCTIONS_H

#include "text/template/builtin.h"

/* Finds a function; NULL if it is not known. */
const struct builtin *function_find(struct str name);

#endif
