/* Tests programs and their cache on disk, and the selection of devices.  The
 * compiler is the driver's own. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/opencl/host/cache.h"
#include "kernels/opencl/host/program.h"
#include "kernels/opencl/host/ptx.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

static const char good[] = "__kernel void one(__global uint *out)\n"
                           "{\n"
                           "    out[0] = ONE;\n"
                           "}\n";
static const char bad[] = "__kernel void two(__global uint *out)\n"
                          "{\n"
                          "    out[0] = nonsense;\n"
                          "}\n";
static const char rest[] = "__kernel void two(__global uint *out)\n"
                           "{\n"
                           "    one(out);\n"
                           "}\n";
static const struct embedded files[] = {
    {"common.cl", "\n", 1},
    {"rest.cl", rest, sizeof rest - 1},
    {"good.cl", good, sizeof good - 1},
    {"bad.cl", bad, sizeof bad - 1},
    {NULL, NULL, 0},
};

struct fixture {
    struct opencl_device device;
    cl_context context;
    char dir[64]; /* folder of the cache */
    char above[64];
};

static int set_up(void **state)
{
    static struct fixture f;
    struct error e;

    snprintf(f.above, sizeof f.above, "/tmp/sluice-cache-XXXXXX");
    assert_non_null(mkdtemp(f.above));
    snprintf(f.dir, sizeof f.dir, "%.40s/a/b", f.above);
    assert_int_equal(opencl_device_find(&f.device, test_device_or("0"), &e),
                     ST_OK);
    f.device.caches = false; /* this test is about our cache */
    f.context = clCreateContext(NULL, 1, &f.device.id, NULL, NULL, NULL);
    assert_non_null(f.context);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[128];

    clReleaseContext(f->context);
    snprintf(command, sizeof command, "rm -rf '%s'", f->above);
    return system(command);
}

/* Gets good.cl with this define of ONE; returns the counters. */
static struct opencl_programs_counts get(const struct fixture *f,
                                         const char *dir, const char *one)
{
    struct opencl_programs_counts counts;
    struct opencl_programs *p;
    cl_program program, again;
    struct error e;

    assert_int_equal(opencl_programs_new(&p, f->context, &f->device, files,
                                         "-cl-std=CL1.2", dir, &e),
                     ST_OK);
    assert_int_equal(opencl_programs_get(p, &program, "good", one, &e), ST_OK);
    assert_int_equal(opencl_programs_get(p, &again, "good", one, &e), ST_OK);
    assert_ptr_equal(program, again);
    opencl_programs_counts(p, &counts);
    opencl_programs_free(&p);
    assert_null(p);
    return counts;
}

static void expect(struct opencl_programs_counts c, uint32_t built,
                   uint32_t read, uint32_t refused, uint32_t unwritten)
{
    assert_int_equal(c.built, built);
    assert_int_equal(c.read, read);
    assert_int_equal(c.refused, refused);
    assert_int_equal(c.unwritten, unwritten);
}

/* Returns the only file of the cache, with its full path. */
static char *cached_path(const struct fixture *f)
{
    static char path[256];
    char command[128];
    FILE *p;

    snprintf(command, sizeof command, "ls -d '%s'/*", f->dir);
    p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(path, sizeof path, p));
    path[strcspn(path, "\n")] = '\0';
    assert_null(fgets(command, sizeof command, p)); /* no second file */
    pclose(p);
    return path;
}

static void empty(const struct fixture *f)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
}

static void test_kept(void **state)
{
    struct fixture *f = *state;

    expect(get(f, f->dir, "-DONE=1"), 1, 0, 0, 0);
    expect(get(f, f->dir, "-DONE=1"), 0, 1, 0, 0);
    expect(get(f, f->dir, "-DONE=2"), 1, 0, 0, 0);
    expect(get(f, "", "-DONE=1"), 1, 0, 0, 0); /* no cache */
    empty(f);
}

/* The cache is off for a driver with its own. */
static void test_left_to_driver(void **state)
{
    struct fixture *f = *state;

    f->device.caches = true;
    expect(get(f, f->dir, "-DONE=3"), 1, 0, 0, 0);
    expect(get(f, f->dir, "-DONE=3"), 1, 0, 0, 0);
    f->device.caches = false;
    expect(get(f, f->dir, "-DONE=3"), 1, 0, 0, 0);
    empty(f);
}

static void flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    int c;

    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    c = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(c ^ 0x10, file), EOF);
    assert_int_equal(fclose(file), 0);
}

/* Damages every field of the head, and the body at both ends. */
static void test_damaged(void **state)
{
    static const long at[] = {0, 8, 12, 16, 31, 32, 40, 48, -1};
    struct fixture *f = *state;

    get(f, f->dir, "-DONE=1");
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        flip(cached_path(f), at[i]);
        expect(get(f, f->dir, "-DONE=1"), 1, 0, 1, 0);
        expect(get(f, f->dir, "-DONE=1"), 0, 1, 0, 0);
    }
    empty(f);
}

static void test_cut(void **state)
{
    static const long lengths[] = {0, 1, 47, 48, 49, -1};
    struct fixture *f = *state;
    struct stat s;

    get(f, f->dir, "-DONE=1");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const char *path = cached_path(f);

        assert_int_equal(stat(path, &s), 0);
        assert_int_equal(
            truncate(path, lengths[i] < 0 ? s.st_size - 1 : lengths[i]), 0);
        expect(get(f, f->dir, "-DONE=1"), 1, 0, 1, 0);
    }
    assert_int_equal(stat(cached_path(f), &s), 0);
    assert_int_equal(truncate(cached_path(f), s.st_size + 1), 0);
    expect(get(f, f->dir, "-DONE=1"), 1, 0, 1, 0);
    expect(get(f, f->dir, "-DONE=1"), 0, 1, 0, 0);
    empty(f);
}

/* A complete entry under another name, and one that no driver accepts. */
static void test_foreign(void **state)
{
    struct fixture *f = *state;
    struct cache_key key;
    char mine[256], command[600];
    unsigned byte;

    get(f, f->dir, "-DONE=1");
    snprintf(mine, sizeof mine, "%s", cached_path(f));
    for (size_t i = 0; i < sizeof key.v; i++) {
        assert_int_equal(sscanf(strrchr(mine, '/') + 1 + 2 * i, "%2x", &byte),
                         1);
        key.v[i] = (uint8_t)byte;
    }
    assert_true(cache_write(f->dir, &key, "no program", 10));
    expect(get(f, f->dir, "-DONE=1"), 1, 0, 1, 0);
    key.v[0] ^= 1;
    assert_true(cache_write(f->dir, &key, "another", 7));
    snprintf(command, sizeof command, "cd '%s' && mv $(ls | grep -v '%s') %s",
             f->dir, strrchr(mine, '/') + 1, strrchr(mine, '/') + 1);
    assert_int_equal(system(command), 0);
    expect(get(f, f->dir, "-DONE=1"), 1, 0, 1, 0);
    expect(get(f, f->dir, "-DONE=1"), 0, 1, 0, 0);
    empty(f);
}

/* A file in place of the folder: no user can write there, not even root. */
static void test_unwritable(void **state)
{
    struct fixture *f = *state;
    char dir[128];
    int fd;

    snprintf(dir, sizeof dir, "%s/taken", f->above);
    fd = open(dir, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    expect(get(f, dir, "-DONE=1"), 1, 0, 0, 1);
    snprintf(dir, sizeof dir, "%s/taken/below", f->above);
    expect(get(f, dir, "-DONE=1"), 1, 0, 0, 1);
}

static void test_limits(void **state)
{
    struct fixture *f = *state;
    struct cache_key key = {{1}};
    char *bytes;
    size_t n;
    char *large = calloc(1, CACHE_BYTES_MAX + 1);

    assert_non_null(large);
    assert_true(cache_write(f->dir, &key, large, CACHE_BYTES_MAX));
    assert_int_equal(cache_read(f->dir, &key, &bytes, &n), CACHE_HIT);
    assert_int_equal(n, CACHE_BYTES_MAX);
    free(bytes);
    assert_false(cache_write(f->dir, &key, large, CACHE_BYTES_MAX + 1));
    assert_false(cache_write(f->dir, &key, large, 0));
    key.v[3] = 7;
    assert_int_equal(cache_read(f->dir, &key, &bytes, &n), CACHE_ABSENT);
    free(large);
    empty(f);
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    struct opencl_programs *p;
    cl_program program;
    struct error e;

    assert_int_equal(
        opencl_programs_new(&p, f->context, &f->device, files, "", f->dir, &e),
        ST_OK);
    assert_int_equal(opencl_programs_get(p, &program, "bad", "", &e),
                     ST_INTERNAL);
    assert_non_null(strstr(e.text, "kernels/opencl/portable/bad.cl"));
    assert_non_null(strstr(e.text, "nonsense")); /* the compiler's message */
    assert_non_null(strstr(e.text, "CL_BUILD_PROGRAM_FAILURE"));
    assert_int_equal(opencl_programs_get(p, &program, "none", "", &e),
                     ST_NOT_FOUND);
    /* This program is unusable without released instructions. */
    assert_int_equal(opencl_programs_get(p, &program, "good",
                                         "-DONE=1 " PROGRAM_OWN_SET, &e),
                     ST_INTERNAL);
    assert_non_null(strstr(e.text, "good.cl: its binary is not PTX"));
    opencl_programs_free(&p);
}

/* "a+b" is a before b; both must exist. */
static void test_two_files(void **state)
{
    struct fixture *f = *state;
    struct opencl_programs *p;
    cl_program both, first;
    cl_kernel k;
    struct error e;

    assert_int_equal(
        opencl_programs_new(&p, f->context, &f->device, files, "", f->dir, &e),
        ST_OK);
    assert_int_equal(opencl_programs_get(p, &both, "good+rest", "-DONE=1", &e),
                     ST_OK);
    k = clCreateKernel(both, "two", NULL);
    assert_non_null(k);
    clReleaseKernel(k);
    assert_int_equal(opencl_programs_get(p, &first, "good", "-DONE=1", &e),
                     ST_OK);
    assert_ptr_not_equal(first, both);
    assert_int_equal(opencl_programs_get(p, &both, "none+rest", "", &e),
                     ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "kernels/opencl/portable/none.cl"));
    assert_int_equal(opencl_programs_get(p, &both, "good+none", "", &e),
                     ST_NOT_FOUND);
    opencl_programs_free(&p);
    empty(f);
}

static void test_default_folder(void **state)
{
    char dir[CACHE_PATH];

    (void)state;
    setenv("XDG_CACHE_HOME", "/x/cache", 1);
    setenv("HOME", "/h", 1);
    cache_default(dir);
    assert_string_equal(dir, "/x/cache/sluice");
    unsetenv("XDG_CACHE_HOME");
    cache_default(dir);
    assert_string_equal(dir, "/h/.cache/sluice");
    setenv("XDG_CACHE_HOME", "relative", 1); /* the standard: ignore relative
                                              * paths */
    cache_default(dir);
    assert_string_equal(dir, "/h/.cache/sluice");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    cache_default(dir);
    assert_string_equal(dir, "");
}

static void released(const char *from, const char *to)
{
    char text[256];
    size_t n = strlen(from);

    memset(text, '#', sizeof text);
    memcpy(text, from, n);
    assert_true(ptx_release(text, &n, n + 1) == (to != NULL));
    to = to ? to : from;
    assert_int_equal(n, strlen(to));
    assert_memory_equal(text, to, n);
    assert_int_equal(text[n], '#');
}

/* Held-back lines are released, and the target becomes sm_90a. */
static void test_release(void **state)
{
    (void)state;
    released(".version 8.3\n.target sm_90\n.address_size 64\n\t//@wgmma.x;\n"
             "//@wgmma.y;\n// a comment\n",
             ".version 8.3\n.target sm_90a\n.address_size 64\n\t   wgmma.x;\n"
             "   wgmma.y;\n// a comment\n");
    released(".target sm_90a\n//@x;\n", ".target sm_90a\n   x;\n");
    released("//@x;\n.target sm_90", "   x;\n.target sm_90a");
    released(".target sm_90\n// nothing\n", NULL);
    released(".target sm_80\n//@x;\n", NULL);
    released("", NULL);
}

static void expect_none(const char *wish, const char *words)
{
    struct opencl_device d;
    struct error e;

    assert_int_equal(opencl_device_find(&d, wish, &e), ST_NOT_FOUND);
    if (strstr(e.text, words) == NULL) {
        fail_msg("%s: %s", wish, e.text);
    }
}

/* "opencl:N" is the GPU of that rank; what is no number is part of a name. */
static void test_numbered_gpus(void **state)
{
    struct opencl_device all[OPENCL_DEVICES_MAX], d;
    uint32_t n = opencl_devices(all, OPENCL_DEVICES_MAX), rank = 0;
    char wish[32];
    struct error e;

    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        if ((all[i].type & CL_DEVICE_TYPE_GPU) != 0) {
            snprintf(wish, sizeof wish, "opencl:%u", rank++);
            assert_int_equal(opencl_device_find(&d, wish, &e), ST_OK);
            assert_ptr_equal(d.id, all[i].id);
        }
    }
    expect_none("opencl:63", "OpenCL devices are GPUs");
    expect_none("opencl:", "has this text in its name");
    expect_none("opencl:1x", "has this text in its name");
    expect_none("opencl:12345", "has this text in its name");
}

static void test_wishes(void **state)
{
    struct opencl_device all[OPENCL_DEVICES_MAX], d;
    uint32_t n = opencl_devices(all, OPENCL_DEVICES_MAX);
    char wish[160];
    struct error e;

    (void)state;
    assert_true(n > 0);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(wish, sizeof wish, "%u", i);
        assert_int_equal(opencl_device_find(&d, wish, &e), ST_OK);
        assert_ptr_equal(d.id, all[i].id);
        assert_true(d.memory > 0 && d.largest > 0 && d.largest <= d.memory);
    }
    snprintf(wish, sizeof wish, "%u", n);
    expect_none(wish, "numbered from 0");
    expect_none("an abacus", "has this text in its name");
    expect_none("99999999999999999999", "numbered from 0");
    expect_none("", "none of the");
    if (n == 1) {
        snprintf(wish, sizeof wish, "%.5s", all[0].name);
        assert_int_equal(opencl_device_find(&d, wish, &e), ST_OK);
    }
    if (n == 1 && (all[0].type & CL_DEVICE_TYPE_CPU) != 0) {
        expect_none("opencl", "0 of the 1 OpenCL devices are GPUs");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_left_to_driver),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_two_files),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_numbered_gpus),
        cmocka_unit_test(test_wishes),
        cmocka_unit_test(test_default_folder),
    };

    test_device_or("0");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
