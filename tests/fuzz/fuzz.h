/* fuzz.h - Interface of a fuzz target, and its report of a failure.
 *
 * A target is one file x_fuzz.c with LLVMFuzzerTestOneInput(), a line in
 * CMakeLists.txt, and seeds in corpus/x_fuzz/.  Inputs that a fuzzer finds
 * are added to those seeds. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Aborts whether or not assertions of the code under test are enabled. */
#define FUZZ_CHECK(x)                                               \
    do {                                                            \
        if (!(x)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
            abort();                                                \
        }                                                           \
    } while (0)

#endif
