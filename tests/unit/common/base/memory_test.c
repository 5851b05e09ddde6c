#include "common/base/memory.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#define MIB (1ull << 20)

/* ---- available memory, with files in place of /proc and /sys ---- */

static char machine[] = "/tmp/sluice-memory-XXXXXX";

static int drop(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s;
    (void)kind;
    return f->level > 0 ? remove(path) : 0;
}

static int empty(void **state)
{
    (void)state;
    return nftw(machine, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_machine(void **state)
{
    (void)state;
    return mkdtemp(machine) == NULL;
}

static int drop_machine(void **state)
{
    return empty(state) != 0 || rmdir(machine) != 0;
}

/* Writes a file and the directories above it. */
__attribute__((format(printf, 3, 4))) static void
put(const char *dir, const char *name, const char *fmt, ...)
{
    char path[512], *at = path + strlen(machine) + 1;
    va_list ap;
    FILE *f;

    snprintf(path, sizeof path, "%s%s/%s", machine, dir, name);
    while ((at = strchr(at, '/')) != NULL) {
        *at = '\0';
        mkdir(path, 0700);
        *at++ = '/';
    }
    f = fopen(path, "w");
    assert_non_null(f);
    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
    fclose(f);
}

static void put_memory(unsigned mib)
{
    put("/proc", "meminfo", "MemTotal: 99999999 kB\nMemAvailable: %u kB\n",
        mib * 1024);
}

#define NO_LIMIT 0

/* Writes a cgroup of version 2, in MiB. */
static void put_group(const char *path, unsigned limit, unsigned used,
                      unsigned inactive, unsigned active)
{
    char dir[256];

    snprintf(dir, sizeof dir, "/sys/fs/cgroup%s", path);
    if (limit == NO_LIMIT) {
        put(dir, "memory.max", "max\n");
    } else {
        put(dir, "memory.max", "%llu\n", limit * MIB);
    }
    put(dir, "memory.current", "%llu\n", used * MIB);
    put(dir, "memory.stat",
        "anon 4096\nfile 4096\ninactive_file %llu\nactive_file %llu\n",
        inactive * MIB, active * MIB);
}

static void available_is(unsigned mib)
{
    assert_int_equal(memory_left(machine), mib * MIB);
}

static void takes_what_the_machine_has(void **state)
{
    (void)state;
    available_is(1024); /* no source of information */
    put_memory(4000);
    available_is(4000);
    put("/proc", "self/cgroup", "0::/\n");
    available_is(4000);
    put_group("", NO_LIMIT, 100, 0, 0);
    available_is(4000);
}

/* A container sees its own cgroup as the root. */
static void a_container_bounds_it(void **state)
{
    (void)state;
    put_memory(4000);
    put("/proc", "self/cgroup", "0::/\n");
    put_group("", 300, 200, 0, 0);
    available_is(100);
    put_group("", 5000, 200, 0, 0);
    available_is(4000);
    put_group("", 300, 301, 0, 0); /* a limit that was lowered */
    available_is(0);
}

/* The page cache is dropped on demand, so it does not count. */
static void page_cache_is_not_taken(void **state)
{
    (void)state;
    put_memory(4000);
    put("/proc", "self/cgroup", "0::/\n");
    put_group("", 300, 295, 200, 60);
    available_is(265);
    put_group("", 300, 250, 200,
              60); /* the figures are from different moments */
    available_is(300);
}

/* systemd's MemoryMax= of a service or of a slice. */
static void groups_above_bound_it_too(void **state)
{
    (void)state;
    put_memory(4000);
    put("/proc", "self/cgroup", "0::/system.slice/x.service\n");
    put_group("/system.slice/x.service", 300, 200, 0, 0);
    available_is(100);
    put_group("/system.slice", 1000, 950, 0, 0);
    available_is(50);
    put_group("/system.slice", NO_LIMIT, 950, 0, 0);
    available_is(100);
    put_group("/system.slice/x.service", NO_LIMIT, 200, 0, 0);
    available_is(4000);
    put_group("/system.slice", 1000, 950, 100, 0);
    available_is(150);
    put_group("/system.slice/y.service", 10, 10, 0, 0); /* of another process */
    available_is(150);
}

/* The host's path in a container; a path outside of the mount. */
static void a_path_may_not_be_there(void **state)
{
    static const char *const lines[] = {"0::/docker/0123\n", "0::/../other\n",
                                        "nonsense\n\n:\n0:\n0::"};

    (void)state;
    put_memory(4000);
    put_group("", 300, 200, 0, 0);
    put("/sys/fs/other", "memory.max", "1\n");
    available_is(100); /* no /proc/self/cgroup at all */
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        put("/proc", "self/cgroup", "%s", lines[i]);
        available_is(100);
    }
}

static void version_1_bounds_it(void **state)
{
    static const char top[] = "/sys/fs/cgroup/memory";
    static const char own[] = "/sys/fs/cgroup/memory/jobs/a";

    (void)state;
    put_memory(4000);
    put("/proc", "self/cgroup",
        "9:name=systemd:/x\n5:memoryless:/y\n4:cpu,memory:/jobs/a\n0::/z\n");
    put(own, "memory.limit_in_bytes", "%llu\n", 300 * MIB);
    put(own, "memory.usage_in_bytes", "%llu\n", 250 * MIB);
    available_is(50);
    put(own, "memory.stat",
        "inactive_file 1\nactive_file 1\n"
        "total_inactive_file %llu\ntotal_active_file %llu\n",
        100 * MIB, 30 * MIB);
    available_is(180);
    put(top, "memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put(top, "memory.usage_in_bytes", "%llu\n", 900 * MIB);
    available_is(180);
    put(top, "jobs/memory.limit_in_bytes", "%llu\n", 20 * MIB);
    available_is(20);
}

/* Sets both soft limits, because the names of resources have a type of their
 * own in glibc, so that no variable holds them.  Returns false if one is lower.
 */
static bool limit_process(const struct rlimit *as, const struct rlimit *data)
{
    return setrlimit(RLIMIT_AS, as) == 0 && setrlimit(RLIMIT_DATA, data) == 0;
}

/* The process has more memory in use than in the file. */
static void a_limit_of_the_process_bounds_it(void **state)
{
    static const char *const lines[] = {"VmSize:", "VmData:"};
    const rlim_t high = 1ull << 50; /* sanitizers use much */
    struct rlimit as, data;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &as), 0);
    assert_int_equal(getrlimit(RLIMIT_DATA, &data), 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct rlimit r[] = {as, data};

        r[i].rlim_cur = high;
        put("/proc", "self/status", "Name: x\n%s\t %llu kB\n", lines[i],
            (high - 70 * MIB) / 1024);
        put_memory(4000);
        available_is(4000);
        if (!limit_process(&r[0], &r[1])) {
            skip(); /* a lower limit of whoever runs the test */
        }
        available_is(70);
        put_memory(60);
        available_is(60);
        assert_true(limit_process(&as, &data));
    }
}

/* ---- budgets ---- */

static void a_budget_ends_at_its_maximum(void **state)
{
    struct memory_budget b = {.max = 100};

    (void)state;
    assert_true(memory_take(&b, 100));
    assert_false(memory_take(&b, 1));
    assert_true(memory_take(&b, 0));
    memory_give(&b, 40);
    assert_false(memory_take(&b, 41));
    assert_true(memory_take(&b, 40));
    assert_false(memory_take(&b, SIZE_MAX));
    memory_give(&b, 100);
    assert_int_equal(b.used, 0);
    b.used = 101; /* a maximum that was lowered */
    assert_false(memory_take(&b, 0));
}

static void out_of_memory_is_a_sentence(void **state)
{
    char text[64] = "";
    int pipes[2], code;
    pid_t child;

    (void)state;
    assert_ptr_equal(memory_must(text), text);
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        (void)dup2(pipes[1], STDERR_FILENO);
        (void)memory_must(NULL);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(WEXITSTATUS(code), MEMORY_EXIT);
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    assert_string_equal(text, "memory_test: out of memory\n");
    close(pipes[0]);
    close(pipes[1]);
}

#define ON_A_MACHINE(test) cmocka_unit_test_teardown(test, empty)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(takes_what_the_machine_has),
        ON_A_MACHINE(a_container_bounds_it),
        ON_A_MACHINE(page_cache_is_not_taken),
        ON_A_MACHINE(groups_above_bound_it_too),
        ON_A_MACHINE(a_path_may_not_be_there),
        ON_A_MACHINE(version_1_bounds_it),
        ON_A_MACHINE(a_limit_of_the_process_bounds_it),
        cmocka_unit_test(a_budget_ends_at_its_maximum),
        cmocka_unit_test(out_of_memory_is_a_sentence),
    };

    return cmocka_run_group_tests(tests, make_machine, drop_machine);
}
