/* crew.h - The generator processes of a run, and their samples.
 *
 * crew_start() forks; each process opens its target, runs its share of the plan
 * with a loop of its own and writes samples and pulses to a pipe.  All
 * processes begin at one moment of the monotonic clock, after all have
 * connected.  The parent has no thread and no ZeroMQ context when it calls
 * crew_start().
 *
 * A process that dies ends the run with an error: samples are missing.
 * Processes ignore SIGINT, SIGTERM and SIGHUP: the parent decides.  The kernel
 * kills them when the parent dies.
 *
 * Threading: the parent's thread.  Memory: CREW_PIPE_BYTES of samples wait in a
 * process whose parent is slow; beyond that it stops and the run is invalid. */
#ifndef CLIENT_LOAD_DRIVE_CREW_H
#define CLIENT_LOAD_DRIVE_CREW_H

#include "client/load/drive/generator.h"

#define CREW_MAX        64
#define CREW_PIPE_BYTES (64u << 20)
#define CREW_BEGIN_US   50000 /* from the last connection to time 0 */

struct crew_options {
    struct plan *plan; /* loaded; each process restarts it with its share */
    const struct plan_options *plan_options;
    const struct prompt_options *prompt_options;
    const struct target_options *target_options;
    struct generator_options generator; /* shared by all; a closed loop ends at
                                           the plan's duration */
    uint32_t n_processes;
};

struct crew;

/* Starts the processes and waits until all have connected and prepared their
 * first requests.  generator: ops, shares, times and bounds; crew_start() sets
 * the rest.  Returns the first error of a process. */
MUST_CHECK enum status
crew_start(struct crew **out, const struct crew_options *o, struct error *e);

/* Returns the monotonic time of the run's time 0. */
int64_t crew_began_us(const struct crew *c);

/* Fills the descriptors to poll, [n <= CREW_MAX]. */
int crew_items(const struct crew *c, struct pollfd *items);

/* Reads what has come and passes it on.  Returns false when all processes have
 * ended; *status is then ST_OK, or the error of one. */
bool crew_turn(struct crew *c,
               void (*on_sample)(void *arg, const struct sample *s,
                                 const uint32_t *gaps),
               void (*on_pulse)(void *arg, const struct pulse *p), void *arg,
               enum status *status, struct error *e);

/* Ends the run early: nothing more is started; at_once also cancels. */
void crew_stop(struct crew *c, bool at_once);

/* Kills processes that still run. */
void crew_free(struct crew **c);

#endif
