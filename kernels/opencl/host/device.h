/* device.h - lists the OpenCL devices and selects one.
 *
 * Devices are numbered from 0 over all platforms in the order of the ICD
 * loader.  A selector is
 *
 *     "opencl"   the first GPU, else the first accelerator; never a CPU
 *     "opencl:2" the third of these, counted from 0
 *     "3"        the device with that number
 *     "h200"     the device whose name, or platform's name, contains this text,
 *                ignoring case; several matches are an error that lists them
 *
 * Threading: no state.  Memory: nothing is kept.  Limits:
 * OPENCL_DEVICES_MAX. */
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
    uint64_t largest; /* bytes of the largest allocation, as stated; of an open
                       * device, as tried */
    size_t group_max; /* work-items of a work-group */
    uint32_t units;   /* compute units */
    uint32_t nvidia;  /* 10 * major + minor, as 90; 0: not NVIDIA */
    bool host_memory; /* shares the host's memory */
    bool caches;      /* its driver caches compiled kernels on disk */
};

/* Finds the device that the selector `selector` names.  Returns ST_NOT_FOUND
 * and a text if there is no such device, no device at all, or no loader. */
MUST_CHECK enum status opencl_device_find(struct opencl_device *out,
                                          const char *selector,
                                          struct error *e);

/* Fills out with all devices, at most `most`; returns their number. */
uint32_t opencl_devices(struct opencl_device *out, uint32_t most);

/* Prints a table for people, or a sentence if there is no device. */
void opencl_devices_print(FILE *out);

/* Returns a name such as "CL_OUT_OF_RESOURCES (-5)"; codes without a name are
 * formatted in text [size]. */
const char *opencl_error_name(cl_int code, char *text, size_t size);

#endif
