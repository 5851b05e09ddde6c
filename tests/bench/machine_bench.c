/* machine_bench - measures this machine, and prints one line of JSON.
 *
 *     machine_bench
 *
 * {"threads": N, "read_bandwidth": [1 thread, N], "f32": [..], "int8": [..]}:
 * bytes/s, or operations/s (a multiply-add is two).  Each is machine_best(). */
#include <stdio.h>

#include "kernels/cpu/threads.h"
#include "tests/bench/machine.h"

static void print(const char *name, double (*measure)(uint32_t n_threads),
                  uint32_t n_threads)
{
    printf(", \"%s\": [%.0f, %.0f]", name, machine_best(measure, 1),
           machine_best(measure, n_threads));
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
