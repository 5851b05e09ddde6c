/* load_verdict.h - The exit code of a result.
 *
 *   0  measured, and every check passed
 *   1  a run failed, outputs differ, memory leaked, or no request succeeded
 *   2  usage
 *   3  a run is no measurement, because the generator was late
 *   4  the objectives of --slo were missed
 *   130  interrupted
 *
 * Threading: none.  Pure. */
#ifndef CLIENT_LOAD_LOAD_VERDICT_H
#define CLIENT_LOAD_LOAD_VERDICT_H

#include "client/load/figures/result.h"

enum load_exit {
    LOAD_OK = 0,
    LOAD_FAILED = 1,
    LOAD_USAGE = 2,
    LOAD_INVALID = 3,
    LOAD_MISSED = 4,
    LOAD_INTERRUPTED = 130
};

/* Returns the exit code of a result whose runs all ended. */
enum load_exit load_verdict(const struct result *r);

#endif
