/* test_device.h - the device on which a test of kernels runs.
 *
 * SLUICE_TEST_DEVICE names the device as --device does.  If it is unset, the
 * device is "cpu", or the first OpenCL device for a test of that backend alone.
 * A test whose device does not exist is skipped: exit code 77. */
#ifndef TESTS_KERNELS_TEST_DEVICE_H
#define TESTS_KERNELS_TEST_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/device.h"

#define TEST_SKIPPED 77

static inline const char *test_device_or(const char *other)
{
    const char *name = getenv("SLUICE_TEST_DEVICE");
    struct opencl_device d;
    struct error e;

    name = name != NULL && name[0] != '\0' ? name : other;
    if (strcmp(name, "cpu") != 0 && opencl_device_find(&d, name, &e) != ST_OK) {
        printf("skipped: %s\n", e.text);
        exit(TEST_SKIPPED);
    }
    return name;
}

static inline const char *test_device(void)
{
    return test_device_or("cpu");
}

static inline bool test_device_is_cpu(void)
{
    return strcmp(test_device(), "cpu") == 0;
}

static inline bool test_device_is_nvidia(void)
{
    struct opencl_device d;
    struct error e;

    return !test_device_is_cpu() &&
           opencl_device_find(&d, test_device(), &e) == ST_OK && d.nvidia > 0;
}

#endif
