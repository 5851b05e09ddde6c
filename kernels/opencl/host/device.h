/* device.h - which OpenCL devices there are, and the one that is wanted.
 *
 * Devices are numbered from 0 over all platforms in the order of the ICD
 * loader.  A wish is
 *
 *     "opencl"   the first GPU, else the first accelerator; never a CPU
 *     "3"        the device of that number
 *     "h200"     the one whose name, or platform's name, has this in it,
 *                whatever the case; several: a sentence that lists them
 *
 * Threading: none.  Memory: nothing is kept.  Limits: OPENCL_DEVICES_MAX. */
#ifndef KERNELS_OPENCL_HOST_DEVICE_H
#define KERNELS_OPENCL_HOST_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"

#define OPENCL_DEVICES_MAX 64

struct opencl_device {
    cl_platform_id platform;
    cl_device_id id;
    uint32_t index;
    char platform_name[128], name[128], version[128], driver[128];
    cl_device_type type;
    uint64_t memory;  /* bytes of the device */
    uint64_t largest; /* bytes of one allocation, at most */
    size_t group_max; /* work-items of a work-group */
    uint32_t units;   /* compute units */
    uint32_t nvidia;  /* 0: another maker's; else 10 * major + minor: 90 */
    bool host_memory; /* shares the host's memory */
    bool caches;      /* its driver keeps on disk what it compiled */
};

/* ST_NOT_FOUND, with a sentence: no such device, no device, no loader. */
MUST_CHECK enum status opencl_device_find(struct opencl_device *out,
                                          const char *wish, struct error *e);

/* All of them, at most `most`; how many. */
uint32_t opencl_devices(struct opencl_device *out, uint32_t most);

/* A table for people; a sentence if there is none. */
void opencl_devices_print(FILE *out);

/* "CL_OUT_OF_RESOURCES (-5)"; text is used for what has no name. */
const char *opencl_error_name(cl_int code, char *text, size_t size);

#endif
