/* machine.h - measures this machine now: the limits that a benchmark states its
 * figures as shares of.
 *
 * Threading: each call starts n_threads threads and joins them. */
#ifndef TESTS_BENCH_MACHINE_H
#define TESTS_BENCH_MACHINE_H

#include <stdint.h>

/* Returns seconds on a monotonic clock. */
double machine_now(void);

/* Measures bytes/s read from memory, far beyond the caches. */
double machine_read_bandwidth(uint32_t n_threads);

/* Measures multiplications and additions per second in float32, with operands
 * in registers; 0 if this processor is not supported. */
double machine_f32_peak(uint32_t n_threads);

/* Measures the same for 8-bit operands, summed in 32 bits. */
double machine_int8_peak(uint32_t n_threads);

/* Takes the best of three of any of these: a limit is an undisturbed figure. */
double machine_best(double (*measure)(uint32_t n_threads), uint32_t n_threads);

#endif
