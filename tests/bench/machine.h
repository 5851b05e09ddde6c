/* machine.h - what this machine can do, measured now: the limits that a
 * benchmark states its figures as shares of.
 *
 * Threading: each starts n_threads threads and joins them. */
#ifndef TESTS_BENCH_MACHINE_H
#define TESTS_BENCH_MACHINE_H

#include <stdint.h>

/* Seconds since some moment. */
double machine_now(void);

/* Bytes a second read from memory, far more of it than caches hold. */
double machine_read_bandwidth(uint32_t n_threads);

/* Multiplications and additions a second in float32, operands in registers;
 * 0 where this is not known how to measure. */
double machine_f32_peak(uint32_t n_threads);

/* The same of 8-bit operands, summed in 32 bits. */
double machine_int8_peak(uint32_t n_threads);

/* The best of three of any of these: a limit is what nothing disturbed. */
double machine_best(double (*measure)(uint32_t n_threads), uint32_t n_threads);

#endif
