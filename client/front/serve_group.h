/* serve_group.h - A served model: router, workers and gateway as one group.
 *
 * The verbs that bring a model up share the words of their command lines and
 * the private directory of the sockets.
 *
 * Threading: one thread, which blocks until the group has ended.  Memory: the
 * caller's. */
#ifndef CLIENT_FRONT_SERVE_GROUP_H
#define CLIENT_FRONT_SERVE_GROUP_H

#include "client/front/group.h"
#include "client/front/serve_plan.h"

struct serve_hooks {
    const char *log_dir; /* NULL: standard error */
    FILE *progress;      /* NULL: standard output */
    /* Runs once when all programs are ready, with the arguments and the plan
     * of the group and the ready line of its last program. */
    void (*up)(void *arg, const struct serve_args *a,
               const struct serve_plan *plan, const char *line);
    /* As in struct group_options; may be NULL. */
    char *const *(*next_job)(void *arg, int code);
    void *arg;
};

/* Splits off the words after "--", which belong to the workers.  Returns the
 * argc of what is left. */
int serve_group_extra(int argc, char **argv, struct serve_args *a);

/* Takes the model: the only operand, or the option --model, NULL if it is not
 * given.  Returns ST_INVALID_ARGUMENT for none and for several, and the fault
 * of a model that cannot be served. */
MUST_CHECK enum status serve_group_model(struct serve_args *a,
                                         const char *option, int n_words,
                                         char **words, struct error *e);

/* Takes --workers and --stages; 0: not given.  Returns ST_INVALID_ARGUMENT if
 * both are given. */
MUST_CHECK enum status serve_group_workers(struct serve_args *a,
                                           uint32_t workers, uint32_t stages,
                                           struct error *e);

/* Runs the group to its end.  Fills the paths of *a, which are valid until the
 * return.  Returns errors as serve_plan_make() and group_run() do. */
MUST_CHECK enum status serve_group_run(struct serve_args *a,
                                       const struct serve_hooks *h,
                                       struct error *e);

#endif
