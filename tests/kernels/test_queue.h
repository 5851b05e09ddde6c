/* test_queue.h - a queue for tests that call OpenCL themselves, on the device
 * of test_device.h. */
#ifndef TESTS_KERNELS_TEST_QUEUE_H
#define TESTS_KERNELS_TEST_QUEUE_H

#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

struct test_queue {
    struct opencl_device device;
    cl_context context;
    cl_command_queue queue;
};

static inline void test_queue_open(struct test_queue *q)
{
    struct error e;

    assert_int_equal(opencl_device_find(&q->device, test_device_or("0"), &e),
                     ST_OK);
    q->context = clCreateContext(NULL, 1, &q->device.id, NULL, NULL, NULL);
    assert_non_null(q->context);
    q->queue = clCreateCommandQueue(q->context, q->device.id, 0, NULL);
    assert_non_null(q->queue);
}

static inline void test_queue_close(struct test_queue *q)
{
    clReleaseCommandQueue(q->queue);
    clReleaseContext(q->context);
}

#endif
