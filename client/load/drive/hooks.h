/* hooks.h - Commands that a run executes at given times: faults on purpose.
 *
 * "10s kill -9 1234": a time since the start of the run, then a command for
 * /bin/sh -c.  A command has a process group of its own, so Ctrl-C does not
 * reach it, no standard input, and writes to standard error.  hooks_free()
 * kills the group of every command, with all that it left running; a command
 * keeps a program beyond the run with setsid.
 *
 * Threading: one thread.  Memory: a process per command; an exit is collected
 * by hooks_turn(). */
#ifndef CLIENT_LOAD_DRIVE_HOOKS_H
#define CLIENT_LOAD_DRIVE_HOOKS_H

#include "client/load/figures/sample.h"
#include "common/base/status.h"

#define HOOKS_SIGNALLED 128 /* exit code of a signal: 128 + its number */

struct hooks;

/* Checks a hook as given on the command line.  Returns ST_INVALID_ARGUMENT and
 * a sentence with a valid value. */
MUST_CHECK enum status hooks_check(const char *text, struct error *e);

/* Takes hooks that hooks_check() accepts; others never run.  on_event runs
 * when a command starts, with exit_code -1, and with its exit code when the
 * command has ended or was killed by hooks_free(). */
struct hooks *hooks_new(const char *const *texts, unsigned n,
                        void (*on_event)(void *arg, const struct load_event *e),
                        void *arg);

/* Starts the commands that are due and collects exits.  now_us: since the
 * start of the run.  Never blocks.  Returns when the next one is due,
 * INT64_MAX if none is. */
int64_t hooks_turn(struct hooks *h, int64_t now_us);

/* Kills what still runs. */
void hooks_free(struct hooks **h);

#endif
