/* process.h - The cost of another process, from /proc.
 *
 * Threading: any. */
#ifndef TESTS_BENCH_PROCESS_H
#define TESTS_BENCH_PROCESS_H

/* Returns the processor seconds of a process and its threads, 0 if it does not
 * exist. */
double process_cpu_s(int pid);

/* Returns the resident memory in bytes, 0 if the process does not exist. */
double process_rss(int pid);

#endif
