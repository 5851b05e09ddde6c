#include "tests/bench/process.h"

#include <stdio.h>
#include <unistd.h>

double process_cpu_s(int pid)
{
    char path[64];
    unsigned long user = 0, system = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "r");
    if (f != NULL) {
        if (fscanf(f,
                   "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u "
                   "%*u %lu %lu",
                   &user, &system) != 2) {
            user = system = 0;
        }
        fclose(f);
    }
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double process_rss(int pid)
{
    char path[64];
    unsigned long pages = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    f = fopen(path, "r");
    if (f != NULL) {
        if (fscanf(f, "%*u %lu", &pages) != 1) {
            pages = 0;
        }
        fclose(f);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}
