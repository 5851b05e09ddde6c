#include "worker/engine/budget.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* A page of 1 MiB holds 32 tokens, so a sequence of 1024 needs 32 blocks;
 * a slot takes 4 pages. */
static const struct pool_budget hybrid = {.weight_bytes = 100 * MIB,
                                          .scratch_bytes = 10 * MIB,
                                          .pool = {.page_bytes = MIB,
                                                   .pages_per_slot = 4,
                                                   .pages_per_block = 1,
                                                   .block_tokens = 32,
                                                   .context = 1024,
                                                   .max_rows = 64}};

static struct budget b;
static struct error e;

static enum status divide(const char *text, uint64_t available,
                          const struct pool_budget *n)
{
    struct budget_memory m = {.text = text, .available = available};

    return budget_divide(&b, &m, n, &e);
}

static void takes_64_sequences_of_the_context(void **state)
{
    (void)state;
    assert_int_equal(divide(NULL, 100 * GIB, &hybrid), ST_OK);
    assert_int_equal(b.pool.n_pages, 64 * 36);
    assert_int_equal(b.pool.slot_cap, 64);
    assert_int_equal(b.bytes, (110 + 64 * 36) * MIB);
}

static void takes_at_most_a_quarter(void **state)
{
    (void)state;
    assert_int_equal(divide(NULL, 4 * GIB, &hybrid), ST_OK);
    assert_int_equal(b.bytes, GIB);
    assert_int_equal(b.pool.n_pages, 1024 - 110);
    assert_int_equal(b.pool.slot_cap, 64);
}

static void fits_one_sequence_and_no_less(void **state)
{
    (void)state;
    assert_int_equal(divide("146MiB", 100 * GIB, &hybrid), ST_OK);
    assert_int_equal(b.pool.n_pages, 36);
    assert_int_equal(b.pool.slot_cap, 9);
    assert_int_equal(divide("145MiB", 100 * GIB, &hybrid),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "budget of 145.0 MiB"));
    assert_non_null(strstr(e.text, "give at least 146.0 MiB"));
}

static void divides(const struct pool_budget *n, const char *text,
                    uint32_t n_pages, uint32_t slot_cap)
{
    assert_int_equal(divide(text, 100 * GIB, n), ST_OK);
    assert_int_equal(b.pool.n_pages, n_pages);
    assert_int_equal(b.pool.slot_cap, slot_cap);
    assert_int_equal(b.bytes, n->weight_bytes + n->scratch_bytes +
                                  n_pages * n->pool.page_bytes);
}

/* A stage without linear layers, from the blocks of one whole sequence on. */
static void knows_shards_without_slots(void **state)
{
    struct pool_budget n = hybrid;

    (void)state;
    n.pool.pages_per_slot = 0;
    divides(&n, "142MiB", 32, 0);
    divides(&n, "4GiB", 4096 - 110, 0);
    divides(&n, NULL, 64 * 32, 0);
    assert_int_equal(divide("141MiB", 100 * GIB, &n), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens 32.0 MiB"));
}

/* A stage without attention: a sequence takes one slot, whatever its length. */
static void knows_shards_without_blocks(void **state)
{
    struct pool_budget n = hybrid;

    (void)state;
    n.pool.page_bytes = 4 * MIB;
    n.pool.pages_per_slot = 1;
    n.pool.pages_per_block = 0;
    divides(&n, "114MiB", 1, 1);
    divides(&n, "117MiB", 1, 1);
    divides(&n, "118MiB", 2, 2);
    divides(&n, "366MiB", 64, 64);
    divides(&n, "510MiB", 100, 64);
    divides(&n, NULL, 64, 64);
    assert_int_equal(divide("113MiB", 100 * GIB, &n), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "one sequence of 1024 tokens 4.0 MiB"));
}

static void reads_sizes_and_shares(void **state)
{
    static const char *const bad[] = {"0.0", "1.1",  "lots",  "-1GiB",
                                      "",    "0x.8", "0X.8p0"};

    (void)state;
    assert_int_equal(divide("0.5", 2 * GIB, &hybrid), ST_OK);
    assert_true(b.bytes <= GIB && b.bytes > GIB - 4 * MIB);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(divide(bad[i], GIB, &hybrid), ST_INVALID_ARGUMENT);
    }
    assert_true(budget_available("") > MIB);
}

/* More than the machine, or the device, has. */
static void refuses_what_is_not_there(void **state)
{
    struct budget_memory m = {.text = "2GiB", .available = 2 * GIB};

    (void)state;
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_OK);
    m.available--;
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text,
                        "--memory 2GiB is 2048.0 MiB, more than the 2048.0 MiB "
                        "that this machine or its cgroup has available; give "
                        "less, or a share such as 0.5");
    m.device = true;
    m.available = GIB;
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "1024.0 MiB that the device has"));
    m.text = "1.0";
    assert_int_equal(budget_divide(&b, &m, &hybrid, &e), ST_OK);
}

static enum status alone(const char *text, uint64_t *bytes)
{
    struct budget_memory m = {.text = text, .available = 2 * GIB};

    return budget_bytes(bytes, &m, &e);
}

/* Before the layers are assigned: --memory, or a quarter of the available
 * memory. */
static void reads_a_budget_alone(void **state)
{
    uint64_t bytes;

    (void)state;
    assert_int_equal(alone(NULL, &bytes), ST_OK);
    assert_int_equal(bytes, GIB / 2);
    assert_int_equal(alone("0.75", &bytes), ST_OK);
    assert_int_equal(bytes, 3 * GIB / 2);
    assert_int_equal(alone("2GiB", &bytes), ST_OK);
    assert_int_equal(bytes, 2 * GIB);
    assert_int_equal(alone("3GiB", &bytes), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(alone("1.1", &bytes), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "--memory 1.1: give a size such as 4GiB"));
}

/* ---- available memory, with files in place of /proc and /sys ---- */

static char machine[] = "/tmp/sluice-budget-XXXXXX";

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
    assert_int_equal(budget_available(machine), mib * MIB);
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

#define ON_A_MACHINE(test) cmocka_unit_test_teardown(test, empty)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_64_sequences_of_the_context),
        cmocka_unit_test(takes_at_most_a_quarter),
        cmocka_unit_test(fits_one_sequence_and_no_less),
        cmocka_unit_test(knows_shards_without_slots),
        cmocka_unit_test(knows_shards_without_blocks),
        cmocka_unit_test(reads_sizes_and_shares),
        cmocka_unit_test(refuses_what_is_not_there),
        cmocka_unit_test(reads_a_budget_alone),
        ON_A_MACHINE(takes_what_the_machine_has),
        ON_A_MACHINE(a_container_bounds_it),
        ON_A_MACHINE(page_cache_is_not_taken),
        ON_A_MACHINE(groups_above_bound_it_too),
        ON_A_MACHINE(a_path_may_not_be_there),
        ON_A_MACHINE(version_1_bounds_it),
    };

    return cmocka_run_group_tests(tests, make_machine, drop_machine);
}
