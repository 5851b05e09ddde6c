/* try_products.c - matrix products and norms; see opencl_try.h. */
#include "tests/kernels/opencl_try.h"

const struct try_case try_products[] = {{0}};
