/* drive_rig.h - A generator and a virtual target, driven through virtual time.
 *
 * Keeps every sample. */
#ifndef TESTS_UNIT_CLIENT_LOAD_DRIVE_DRIVE_RIG_H
#define TESTS_UNIT_CLIENT_LOAD_DRIVE_DRIVE_RIG_H

#include "client/load/drive/generator.h"
#include "tests/unit/client/load/drive/virtual_target.h"

#define RIG_TICKS_MAX \
    10000000                 /* ticks of a run: more is a loop without an end */
#define RIG_START_US 5000000 /* monotonic time of the run's time 0 */

struct rig {
    struct generator_options options; /* set before rig_begin() */
    struct virtual_rules rules;
    struct target *target;
    struct generator *generator;
    int64_t now_us;                /* monotonic */
    int64_t pause_at_us, pause_us; /* the generator itself stops; run's time */
    struct sample *samples;        /* [n] */
    size_t n, size;
    uint64_t n_gaps;
    struct pulse last;
    uint32_t n_pulses;
    int64_t lag_max_us;
    uint64_t n_ticks;
    size_t memory_peak; /* between ticks */
};

void rig_begin(struct rig *r, struct plan *plan);

/* Runs until the run's time, or to its end.  Returns whether it has ended. */
bool rig_run_until(struct rig *r, int64_t at_us);
void rig_run(struct rig *r);
void rig_end(struct rig *r);

/* Counts samples with an outcome. */
size_t rig_count(const struct rig *r, enum outcome outcome);

#endif
