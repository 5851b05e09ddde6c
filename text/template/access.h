/* access.h - Attributes and elements of values, as Jinja2 finds them.
 *
 * Threading: one thread's.  Memory: the heap's. */
#ifndef TEXT_TEMPLATE_ACCESS_H
#define TEXT_TEMPLATE_ACCESS_H

#include "text/template/value.h"

/* Return v.name and v[key] by Jinja2's rules; undefined if there is none.
 * Fail on an undefined v. */
struct value access_attribute(struct heap *h, struct value v, struct str name);
struct value access_item(struct heap *h, struct value v, struct value key);

/* Returns v.a.b.0 for the path "a.b.0", as filters take it. */
struct value access_path(struct heap *h, struct value v, struct value path);

/* Returns element or character i of a sequence, from the end if negative;
 * false if there is none. */
bool access_at(struct heap *h, struct value v, int64_t i, struct value *out);

#endif
