/* machine_bench - what this machine can do, as one line of JSON.
 *
 *     machine_bench
 *
 * {"threads": N, "read_bandwidth": [1 thread, N], "f32": [..], "int8": [..]}:
 * bytes, or operations (a multiply-add is two), a second.  The best of three
 * each: a limit is what nothing else disturbed. */
#include <stdio.h>

#include "kernels/cpu/threads.h"
#include "tests/bench/machine.h"

#define TRIES 3

static double best(double (*measure)(uint32_t n_threads), uint32_t n_threads)
{
    double most = 0.0;

    for (int i = 0; i < TRIES; i++) {
        double rate = measure(n_threads);

        most = rate > most ? rate : most;
    }
    return most;
}

static void print(const char *name, double (*measure)(uint32_t n_threads),
                  uint32_t n_threads)
{
    printf(", \"%s\": [%.0f, %.0f]", name, best(measure, 1),
           best(measure, n_threads));
}

int main(void)
{
    uint32_t n_threads = threads_default();

    printf("{\"threads\": %u", n_threads);
    print("read_bandwidth", machine_read_bandwidth, n_threads);
    print("f32", machine_f32_peak, n_threads);
    print("int8", machine_int8_peak, n_threads);
    printf("}\n");
    return 0;
}
