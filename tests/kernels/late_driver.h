/* late_driver.h - an OpenCL driver that is as late as the rules allow.
 *
 * The linker puts the functions of late_driver.c in front of the driver's
 * (-Wl,--wrap).  Commands of the queue that is held begin only when the host
 * waits, so that a command of another queue that should have waited for them,
 * and does not, runs before them.  Other queues, and those of other contexts,
 * are not touched.
 *
 * Threading: one thread. */
#ifndef TESTS_KERNELS_LATE_DRIVER_H
#define TESTS_KERNELS_LATE_DRIVER_H

#include "kernels/opencl/host/opencl.h"

enum late_held { LATE_NONE, LATE_STEPS, LATE_COPIES };

struct late_driver {
    cl_command_queue steps; /* the steps' queue of the watched backend */
    enum late_held held;
    bool by_hand;     /* a wait of the host does not let them begin */
    bool no_barriers; /* planted: barriers of the steps' queue are dropped */
    bool no_markers;  /* planted: copies ignore their wait lists */
    uint32_t fail_in; /* the n-th copy from now on ends with fail_code; 0: no */
    cl_int fail_code;
    uint32_t n_waits; /* the host waited for an event that had not
                       * ended */
};

extern struct late_driver late_driver;

/* Lets the held commands begin. */
void late_driver_open(void);

#endif
