/* profile.h - where a device's time goes.
 *
 * Each kernel's calls, time, bytes (what must move at least, as its operator
 * says) and rate, and the rate's share of what the device was measured to
 * read; the slowest in all first.
 *
 * Threading: as opencl.h.  Memory: none kept; the measurement borrows some. */
#ifndef KERNELS_OPENCL_HOST_PROFILE_H
#define KERNELS_OPENCL_HOST_PROFILE_H

#include "kernels/opencl/host/opencl.h"

/* Measures the read bandwidth: before the weights take the room. */
MUST_CHECK enum status opencl_profile_new(struct opencl *c, struct error *e);

/* Nothing if the profile is off. */
void opencl_profile_print(struct opencl *c, FILE *out);

#endif
