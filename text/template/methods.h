/* methods.h - Methods of strings, lists, dicts and `loop`.
 *
 * Threading: constant data. */
#ifndef TEXT_TEMPLATE_METHODS_H
#define TEXT_TEMPLATE_METHODS_H

#include "text/template/builtin.h"

/* Returns whether any kind of value has this method. */
bool template_method_exists(struct str name);

/* Returns the method of a value; NULL if it has none of this name. */
const struct builtin *template_method_find(struct value v, struct str name);

#endif
