#include "common/daemon/process_figures.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Fields of /proc/self/stat after the name of the program, which may contain
 * blanks: proc(5) counts the state as field 3. */
struct stat_fields {
    uint64_t utime, stime, start; /* 14, 15, 22: in ticks */
    uint64_t vsize, rss;          /* 23, 24: bytes, pages */
};

static bool read_text(const char *path, char *text, size_t cap)
{
    FILE *f = fopen(path, "re");
    size_t n;

    if (f == NULL) {
        return false;
    }
    n = fread(text, 1, cap - 1, f);
    fclose(f);
    text[n] = '\0';
    return n > 0;
}

static bool read_stat(struct stat_fields *s)
{
    char text[1024];
    const char *end;

    if (!read_text("/proc/self/stat", text, sizeof text)) {
        return false;
    }
    end = strrchr(text, ')');
    return end != NULL &&
           sscanf(end + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64
                  " %" SCNu64 " %*d %*d %*d %*d %*d %*d %" SCNu64 " %" SCNu64
                  " %" SCNu64,
                  &s->utime, &s->stime, &s->start, &s->vsize, &s->rss) == 5;
}

static bool get_cpu(double *out)
{
    struct stat_fields s;

    if (!read_stat(&s)) {
        return false;
    }
    *out = (double)(s.utime + s.stime) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static bool get_resident(double *out)
{
    struct stat_fields s;

    if (!read_stat(&s)) {
        return false;
    }
    *out = (double)s.rss * (double)sysconf(_SC_PAGESIZE);
    return true;
}

static bool get_virtual(double *out)
{
    struct stat_fields s;

    if (!read_stat(&s)) {
        return false;
    }
    *out = (double)s.vsize;
    return true;
}

/* The kernel counts the start from the boot of the machine. */
static bool get_start(double *out)
{
    char text[8192];
    struct stat_fields s;
    const char *at;
    uint64_t boot;

    if (!read_stat(&s) || !read_text("/proc/stat", text, sizeof text)) {
        return false;
    }
    at = strstr(text, "\nbtime ");
    if (at == NULL || sscanf(at, "\nbtime %" SCNu64, &boot) != 1) {
        return false;
    }
    *out = (double)boot + (double)s.start / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static bool get_open_fds(double *out)
{
    DIR *d = opendir("/proc/self/fd");
    int n = -1; /* the one that reads the folder */

    if (d == NULL) {
        return false;
    }
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    closedir(d);
    *out = n;
    return true;
}

static bool get_max_fds(double *out)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return false;
    }
    *out = (double)limit.rlim_cur;
    return true;
}

static bool get_one(double *out)
{
    *out = 1;
    return true;
}

static const struct {
    const char *name, *kind, *help, *labels;
    bool (*get)(double *out);
} figures[] = {
    {"process_cpu_seconds_total", "counter", "user and system CPU time", NULL,
     get_cpu},
    {"process_resident_memory_bytes", "gauge", "resident memory", NULL,
     get_resident},
    {"process_virtual_memory_bytes", "gauge", "virtual memory", NULL,
     get_virtual},
    {"process_start_time_seconds", "gauge",
     "start of the process since 1970-01-01 UTC", NULL, get_start},
    {"process_open_fds", "gauge", "open file descriptors", NULL, get_open_fds},
    {"process_max_fds", "gauge", "limit of open file descriptors", NULL,
     get_max_fds},
    {"sluice_build_info", "gauge", "1, with the version of the program",
     "program,version", get_one},
};

#define N_FIGURES (sizeof figures / sizeof *figures)

void process_figures_list(FILE *to)
{
    for (size_t i = 0; i < N_FIGURES; i++) {
        fprintf(to, "%s\t%s\t%s%s%s\n", figures[i].name, figures[i].kind,
                figures[i].help, figures[i].labels != NULL ? "\t" : "",
                figures[i].labels != NULL ? figures[i].labels : "");
    }
}

void process_figures_page(struct metric_page *page, const char *program)
{
    char text[512], labels[128] = "";
    double value;

    for (size_t i = 0; i < N_FIGURES; i++) {
        if (!figures[i].get(&value)) {
            continue;
        }
        if (figures[i].labels != NULL) {
            snprintf(labels, sizeof labels, "{program=\"%s\",version=\"%s\"}",
                     program, SLUICE_VERSION);
        }
        snprintf(text, sizeof text, "# HELP %s %s\n# TYPE %s %s\n%s%s %.15g\n",
                 figures[i].name, figures[i].help, figures[i].name,
                 figures[i].kind, figures[i].name, labels, value);
        metric_page_text(page, text);
    }
}
