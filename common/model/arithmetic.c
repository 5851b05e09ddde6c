#include "common/model/arithmetic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

const char *arithmetic_cpu(char out[ARITHMETIC_SIZE], enum weight_format f,
                           bool int8)
{
    /* Without such weights both options compute the same. */
    bool integers = int8 && f != WEIGHT_PLAIN && f != WEIGHT_FP8;

    snprintf(out, ARITHMETIC_SIZE, "cpu-%s-%d", integers ? "int8" : "float",
             ARITHMETIC_REVISION);
    return out;
}

const char *arithmetic_device(char out[ARITHMETIC_SIZE], const char *text)
{
    /* Drivers have long names; a hash keeps the id short. */
    snprintf(out, ARITHMETIC_SIZE, "opencl-%08" PRIx32 "-%d",
             (uint32_t)XXH3_64bits(text, strlen(text)), ARITHMETIC_REVISION);
    return out;
}
