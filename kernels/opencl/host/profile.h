/* profile.h - the time of each kernel on a device.
 *
 * Lists each kernel's calls, time, bytes (the least that must move, as its
 * operator states) and rate, and the rate as a share of the measured read
 * bandwidth.  Kernels with the largest total time come first.
 *
 * Threading: as opencl.h.
 * Memory: nothing is kept; the measurement borrows some. */
#ifndef KERNELS_OPENCL_HOST_PROFILE_H
#define KERNELS_OPENCL_HOST_PROFILE_H

#include "kernels/opencl/host/opencl.h"

/* Measures the read bandwidth, before the weights occupy the memory. */
MUST_CHECK enum status opencl_profile_new(struct opencl *c, struct error *e);

/* Prints the table, or nothing if the profile is off. */
void opencl_profile_print(struct opencl *c, FILE *out);

#endif
