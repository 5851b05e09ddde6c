#include "common/base/memory.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/minmax.h"

#define PATH_BYTES 4352 /* PATH_MAX, a prefix and a file name */

/* ---- budgets ---- */

bool memory_take(struct memory_budget *b, size_t bytes)
{
    size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);

    do {
        if (used > b->max || bytes > b->max - used) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &b->used, &used, used + bytes, memory_order_relaxed,
        memory_order_relaxed));
    return true;
}

void memory_give(struct memory_budget *b, size_t bytes)
{
    atomic_fetch_sub_explicit(&b->used, bytes, memory_order_relaxed);
}

bool memory_is_short(const struct error *e)
{
    return e->code == ST_RESOURCE_EXHAUSTED &&
           strncmp(e->text, MEMORY_SENTENCE, sizeof MEMORY_SENTENCE - 1) == 0;
}

void *memory_must(void *p)
{
    static const char why[] = ": out of memory\n";

    if (p == NULL) {
        /* No stream: it may need memory. */
        (void)!write(STDERR_FILENO, program_invocation_short_name,
                     strlen(program_invocation_short_name));
        (void)!write(STDERR_FILENO, why, sizeof why - 1);
        _exit(MEMORY_EXIT);
    }
    return p;
}

/* ---- what is left ---- */

static bool read_number(const char *dir, const char *name, const char *key,
                        uint64_t *out)
{
    char path[PATH_BYTES], line[256];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        size_t len = strlen(key);

        if (strncmp(line, key, len) == 0) {
            found = sscanf(line + len, "%" SCNu64, out) == 1;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

/* The file names of a cgroup version. */
struct cgroup {
    const char *mount, *controller;
    const char *limit, *used;
    const char *inactive, *active; /* in memory.stat */
};

static const struct cgroup cgroups[] = {
    {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file ",
     "active_file "},
    {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes",
     "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
};

/* A cgroup counts the page cache as used, but the kernel drops it on demand.
 * Without this correction, the cached weight files of an earlier start would
 * take the memory of the next one. */
static uint64_t left_in(const struct cgroup *g, const char *dir)
{
    uint64_t limit, used = 0, inactive = 0, active = 0;

    if (!read_number(dir, g->limit, "", &limit)) {
        return UINT64_MAX; /* "max", or no such cgroup */
    }
    (void)read_number(dir, g->used, "", &used);
    (void)read_number(dir, "memory.stat", g->inactive, &inactive);
    (void)read_number(dir, "memory.stat", g->active, &active);
    used -= min_u64(inactive + active, used);
    return limit - min_u64(used, limit);
}

/* Returns the path in a line of /proc/self/cgroup, "4:cpu,memory:/path", if its
 * hierarchy has the controller.  Writes into the line. */
static const char *path_in(char *line, const char *controller)
{
    char *rest = line, *names, *path, *name;

    (void)strsep(&rest, ":");
    names = strsep(&rest, ":");
    path = strsep(&rest, "\n");
    while (path != NULL && (name = strsep(&names, ",")) != NULL) {
        if (strcmp(name, controller) == 0) {
            return path;
        }
    }
    return NULL;
}

/* Writes the cgroup of this process, relative to g's mount.  Writes "" if it
 * cannot be read, or is outside of the container's view. */
static void own_path(const char *root, const struct cgroup *g, char *out,
                     size_t size)
{
    char file[PATH_BYTES], line[PATH_BYTES];
    const char *path = NULL;
    FILE *f;

    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    f = fopen(file, "re");
    while (f != NULL && path == NULL && fgets(line, sizeof line, f) != NULL) {
        path = path_in(line, g->controller);
    }
    if (f != NULL) {
        fclose(f);
    }
    out[0] = '\0';
    if (path != NULL && strlen(path) < size && strstr(path, "/..") == NULL) {
        memcpy(out, path, strlen(path) + 1);
    }
}

/* Returns the least that this process's cgroup and its parents leave;
 * UINT64_MAX if none has a limit. */
static uint64_t cgroup_left(const char *root, const struct cgroup *g)
{
    char dir[PATH_BYTES], *path, *slash;
    uint64_t left;
    int n = snprintf(dir, sizeof dir, "%s%s", root, g->mount);

    assert(n > 0 && n < (int)sizeof dir);
    path = dir + n;
    own_path(root, g, path, sizeof dir - (size_t)n);
    left = left_in(g, dir);
    while ((slash = strrchr(path, '/')) != NULL) {
        *slash = '\0';
        left = min_u64(left, left_in(g, dir));
    }
    return left;
}

/* Returns what a limit of this process leaves; key is the line of
 * /proc/self/status with the KiB that count. */
static uint64_t limit_left(const char *root, const struct rlimit *r,
                           const char *key)
{
    uint64_t kib = 0;

    if (r->rlim_cur == RLIM_INFINITY) {
        return UINT64_MAX;
    }
    (void)read_number(root, "proc/self/status", key, &kib);
    return r->rlim_cur - min_u64(kib * 1024, r->rlim_cur);
}

uint64_t memory_left(const char *root)
{
    uint64_t kib, left = 1u << 30; /* without /proc, assume 1 GiB */
    struct rlimit r;

    if (read_number(root, "proc/meminfo", "MemAvailable:", &kib)) {
        left = kib * 1024;
    }
    for (size_t i = 0; i < sizeof cgroups / sizeof cgroups[0]; i++) {
        left = min_u64(left, cgroup_left(root, &cgroups[i]));
    }
    /* The names of resources have a type of their own in glibc, and are int
     * elsewhere, so that no variable holds them. */
    if (getrlimit(RLIMIT_AS, &r) == 0) {
        left = min_u64(left, limit_left(root, &r, "VmSize:"));
    }
    if (getrlimit(RLIMIT_DATA, &r) == 0) {
        left = min_u64(left, limit_left(root, &r, "VmData:"));
    }
    return left;
}
