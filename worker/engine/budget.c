#include "worker/engine/budget.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/option.h"

#define MIB        (1024.0 * 1024.0)
#define PATH_BYTES 4352 /* PATH_MAX, a prefix and a file name */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Parses "0.9" as a share, in decimal; anything else must be a size. */
static bool parse_memory(const struct budget_memory *m, uint64_t *bytes)
{
    char *end;
    double share = strtod(m->text, &end);

    if (*end == '\0' && strchr(m->text, '.') != NULL &&
        strpbrk(m->text, "xX") == NULL) {
        *bytes = (uint64_t)(share * (double)m->available);
        return share > 0 && share <= 1;
    }
    return option_bytes(m->text, bytes);
}

/* Reads --memory into *bytes, which keeps the default without the option.  A
 * pool that the machine does not have would be found out by a later request,
 * when the system kills a process. */
static enum status read_memory(const struct budget_memory *m, uint64_t *bytes,
                               struct error *e)
{
    if (m->text == NULL) {
        return ST_OK;
    }
    if (!parse_memory(m, bytes)) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "--memory %s: give a size such as 4GiB, or a share such as "
            "0.5 of the available memory",
            m->text);
    }
    if (*bytes > m->available) {
        return error_set(
            e, ST_RESOURCE_EXHAUSTED,
            "--memory %s is %.1f MiB, more than the %.1f MiB that %s; give "
            "less, or a share such as 0.5",
            m->text, (double)*bytes / MIB, (double)m->available / MIB,
            m->device ? "the device has"
                      : "this machine or its cgroup has available");
    }
    return ST_OK;
}

enum status budget_bytes(uint64_t *out, const struct budget_memory *m,
                         struct error *e)
{
    *out = (uint64_t)(BUDGET_SHARE * (double)m->available);
    return read_memory(m, out, e);
}

enum status budget_divide(struct budget *out, const struct budget_memory *m,
                          const struct pool_budget *need, struct error *e)
{
    uint64_t fixed = need->weight_bytes + need->scratch_bytes;
    uint64_t one = pool_split_sequence(&need->pool, need->pool.context);
    uint64_t bytes = least(fixed + BUDGET_SEQUENCES * one,
                           (uint64_t)(BUDGET_SHARE * (double)m->available));
    enum status st = read_memory(m, &bytes, e);

    st = st == ST_OK ? pool_split_budget(&out->pool, need, bytes, e) : st;
    if (st == ST_OK) {
        out->bytes = fixed + out->pool.bytes;
    }
    return st;
}

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
    used -= least(inactive + active, used);
    return limit - least(used, limit);
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
        left = least(left, left_in(g, dir));
    }
    return left;
}

uint64_t budget_available(const char *root)
{
    uint64_t kib, left = 1u << 30; /* without /proc, assume 1 GiB */

    if (read_number(root, "proc/meminfo", "MemAvailable:", &kib)) {
        left = kib * 1024;
    }
    for (size_t i = 0; i < sizeof cgroups / sizeof cgroups[0]; i++) {
        left = least(left, cgroup_left(root, &cgroups[i]));
    }
    return left;
}
