/* daemon.h - The scaffold of a daemon: sluice-router, sluice-worker and
 * sluice-gateway.  A daemon fills in a table, and its main() is one call.
 *
 *     options --> check --> print ---------------> exit
 *                   |
 *                  log --> command --------------> exit
 *                            |
 *                         signals --> assemble --> serve --> end
 *                                         |                   |
 *                                         +---> dismantle <---+
 *
 *     serve: turns of the loop until is_up(); the ready line; turns until the
 *            node stops.  If is_up() takes DAEMON_READY_US, a line reports it.
 *
 * Options are found by their names: every daemon has help, version, limits,
 * list_metrics, print_config, log_level, log_file, key, trust, metrics and
 * metrics_anyone, and may have log_requests.
 *
 * Errors are printed to standard error as "NAME: TEXT", and end the program
 * with DAEMON_EXIT_SETUP.
 *
 * Threading: the main thread.  Memory: one struct daemon, beside the parts of
 * the program, in main(). */
#ifndef COMMON_DAEMON_DAEMON_H
#define COMMON_DAEMON_DAEMON_H

#include <stdio.h>

#include "common/base/limit.h"
#include "common/base/notify.h"
#include "common/base/option_sources.h"
#include "common/scrape/scrape.h"
#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"

#define DAEMON_EXIT_SETUP 2
#define DAEMON_READY_US   1000000 /* a longer wait for is_up() is reported */

/* A step of the start; parts are the program's.  Returns ST_CANCELLED if a
 * signal asked for the end: the program then exits with success. */
typedef enum status daemon_step_fn(void *parts, struct error *e);

/* Does what an option asks for instead of serving, and sets *done; *done stays
 * false if there is no such option. */
typedef enum status daemon_command_fn(void *parts, bool *done, struct error *e);

/* A daemon.  Members may be NULL, except those marked "not NULL". */
struct daemon_program {
    const struct option_program *options; /* not NULL */
    const struct limit_table *limits;     /* not NULL; after those of wire */
    void (*list_metrics)(FILE *to);       /* not NULL */

    daemon_step_fn *check;      /* checks and completes the options */
    daemon_command_fn *print;   /* before help and the like */
    daemon_command_fn *command; /* with an open log; checks first */
    daemon_step_fn *assemble;   /* not NULL; ends with daemon_node() */
    /* Frees in the reverse order; also what assemble() has made before it
     * failed.  Calls daemon_disconnect() where the transport goes. */
    void (*dismantle)(void *parts); /* not NULL */

    /* Returns whether the program has reached its peers, so that it is ready.
     * NULL: it is ready from the start. */
    bool (*is_up)(const void *parts);
    scrape_probe_fn *is_ready; /* answers /ready; NULL: always ready */
    scrape_render_fn *render;  /* makes /metrics; not NULL */
    notify_status_fn *status;  /* not NULL */
    /* Prints the rest of the line "NAME VERSION STATE: "; not NULL. */
    void (*print_state)(const void *parts);
    void (*reload)(void *parts); /* SIGHUP, beside the log and trusted keys */
    void (*stop)(void *parts);   /* SIGTERM or SIGINT; not NULL */
    /* Follows the last turn: logs figures.  Returns the exit code. */
    int (*end)(void *parts); /* not NULL */
};

/* In the order in which it is made. */
struct daemon {
    const struct daemon_program *program;
    void *parts; /* the program's; argument of its functions */
    void *args;  /* the struct of its options */
    struct option_sources sources;
    struct notify notify;
    int signals;
    struct curve_keys *keys;     /* NULL: none */
    struct transport *transport; /* made by the program, in assemble() */
    struct scrape *scrape;       /* NULL: no --metrics */
    struct loop loop;
};

/* Runs the program.  args is the struct of its options, a part of parts.
 * Returns the exit code. */
int daemon_main(struct daemon *d, const struct daemon_program *program,
                void *parts, void *args, int argc, char **argv);

/* ---- for assemble() and dismantle() ---- */

/* Raises the soft limit of descriptors to the hard one.  At that limit no peer
 * can connect, whatever the options are, so it is logged if it is less than
 * least: figures are the options as text, each and option name what a
 * descriptor is for and what bounds it ("peer", "--max-peers"). */
void daemon_descriptors(uint64_t least, const char *figures, const char *each,
                        const char *option);

/* Loads --key and --trust into d->keys. */
MUST_CHECK enum status daemon_keys(struct daemon *d, struct error *e);

/* Binds --metrics, if it is given. */
MUST_CHECK enum status daemon_metrics(struct daemon *d, struct error *e);

/* Starts the loop with d->transport and a node.  The program may add sources to
 * d->loop then. */
void daemon_node(struct daemon *d, const struct node_ops *ops, void *node);

/* Frees the transport, which sends Goodbye, and the keys. */
void daemon_disconnect(struct daemon *d);

/* Reads a signal, for a start that takes long.  Reloads on SIGHUP.  Returns
 * whether the program is to stop, which it has then reported to the service
 * manager. */
bool daemon_signal(struct daemon *d);

/* ---- shared by the files of this room ---- */

/* Returns the field of the option of that name, or NULL if the program has no
 * such option. */
const void *daemon_field(const struct daemon *d, const char *name);

/* Prints the text that --help, --version, --limits, --list-metrics or
 * --print-config asks for.  Returns whether one does. */
bool daemon_print(const struct daemon *d);

/* Adds the last sources to the loop, and runs it to its end. */
void daemon_serve(struct daemon *d);

#endif
