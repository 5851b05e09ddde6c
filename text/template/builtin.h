/* builtin.h - The form of filters, tests, methods and functions.
 *
 * All have one form: a name, the names of the parameters, and a function of
 * the value on the left and the arguments.  A template that uses a name
 * outside of the tables is refused when it is compiled.
 *
 *     filters     value | name(args)       filters.h
 *     tests       value is name(args)      tests.h
 *     methods     value.name(args)         methods.h
 *     functions   name(args)               functions.h; "in" is the time
 *
 * Threading: constant data. */
#ifndef TEXT_TEMPLATE_BUILTIN_H
#define TEXT_TEMPLATE_BUILTIN_H

#include "text/template/value.h"

#define BUILTIN_PARAMS 6

struct named {
    struct str name;
    struct value value;
};

struct args {
    const struct value *items; /* [n] by position */
    size_t n;
    const struct named *named; /* [n_named] by name */
    size_t n_named;
    struct value slot[BUILTIN_PARAMS]; /* one a parameter; VALUE_MISSING */
};

typedef struct value builtin_fn(struct heap *h, struct value in,
                                const struct args *a);

struct builtin {
    const char *name;
    const char *params; /* "a b c" fill the slots; "*": any, without slots */
    builtin_fn *run;
};

struct builtins {
    const struct builtin *rows;
    size_t n;
};

/* Finds a name in a table; NULL if it is not there. */
const struct builtin *builtin_find(const struct builtins *table,
                                   struct str name);

/* Puts the arguments into slots and calls the function.  Fails if there are
 * too many or a name is not a parameter's. */
struct value builtin_call(struct heap *h, const struct builtin *b,
                          struct value in, const struct args *a);

/* Calls a filter or test whose name is an argument, as map('upper'): its
 * arguments are those from `from` on. */
struct value builtin_call_named(struct heap *h, const struct builtin *b,
                                struct value in, const struct args *a,
                                size_t from);

/* Get a slot, with a default if it is missing; fail if its kind is wrong. */
int64_t args_int(struct heap *h, const struct args *a, size_t slot,
                 int64_t otherwise);
bool args_bool(const struct args *a, size_t slot, bool otherwise);
struct str args_str(struct heap *h, const struct args *a, size_t slot,
                    const char *otherwise);

/* Fails if the slot is missing. */
struct value args_need(struct heap *h, const struct args *a, size_t slot,
                       const char *name);

/* Returns v's string; fails with `what` in front if it is none. */
struct str need_str(struct heap *h, struct value v, const char *what);
int64_t need_int(struct heap *h, struct value v, const char *what);

#endif
