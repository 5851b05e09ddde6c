/* instant_target.h - A target that answers in the next turn of the loop, in
 * real processes.
 *
 * Processes report through memory that they share with the test. */
#ifndef TESTS_UNIT_CLIENT_LOAD_DRIVE_INSTANT_TARGET_H
#define TESTS_UNIT_CLIENT_LOAD_DRIVE_INSTANT_TARGET_H

#include <sys/types.h>

#include "client/load/drive/target.h"

#define INSTANT_PROCESSES 64

struct instant_shared {
    pid_t pids[INSTANT_PROCESSES]; /* [n_open] */
    uint32_t n_open, n_closed, n_exits;
    uint32_t
        n_descriptors; /* open in the last process that opened its target */
};

/* Set before fork(). */
extern struct instant_shared *instant_shared;
extern uint32_t instant_chunks; /* in every answer */

void instant_share(void);

/* Endpoints: "instant"; "never" answers nothing; "refuses" cannot be opened.
 */
extern const struct target_ops instant_target;

#endif
