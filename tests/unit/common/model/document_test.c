/* An untrusted JSON file: each fault has its own message and place. */
#include "common/model/document.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static char dir[] = "/tmp/sluice-document.XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[PATH_MAX];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void check(const char *text, size_t len, const char *what)
{
    struct error e = {0};
    json_t *j;

    if (document_parse(&j, text, len, &e) != ST_INVALID_ARGUMENT ||
        strstr(e.text, what) == NULL || j != NULL) {
        fail_msg("\"%s\": wanted \"%s\", got \"%s\"", text, what, e.text);
    }
}

#define CHECK(text, what) check(text, sizeof text - 1, what)

static void says_what_is_wrong(void **state)
{
    (void)state;
    CHECK("{\"a\": \"\xff\"}", "not UTF-8");
    CHECK("{\"a\": 1, \"a\": 2}", "the same key twice");
    CHECK("{\"a\": 1", "ends too early");
    CHECK("{} {}", "something follows");
    CHECK("{\"a\": 1e999}", "a number is too large");
    CHECK("{\"a\": 99999999999999999999}", "a number is too large");
    CHECK("{\"a\": \"\\u0000\"}", "a NUL");
    CHECK("{\"a\\u0000\": 1}", "a NUL");
    CHECK("{a: 1}", "not JSON");
    CHECK("[1]", "not an object");
    CHECK("\"text\"", "not an object");
    CHECK("7", "not an object");
}

static void takes_an_object(void **state)
{
    struct error e;
    json_t *j;

    (void)state;
    assert_int_equal(document_parse(&j, "{\"a\": [1, {}]}", 14, &e), ST_OK);
    assert_int_equal(json_array_size(json_object_get(j, "a")), 2);
    json_decref(j);
}

static void reads_a_whole_file(void **state)
{
    struct error e;
    size_t n;
    char *b;

    (void)state;
    write_file("six", "sixsix");
    assert_int_equal(document_read(&b, &n, dir, "six", 6, &e), ST_OK);
    assert_int_equal(n, 6);
    assert_string_equal(b, "sixsix");
    free(b);
    assert_int_equal(document_read(&b, &n, dir, "six", 5, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "5 are allowed"));
    assert_null(b);
    write_file("none", "");
    assert_int_equal(document_read(&b, &n, dir, "none", 0, &e), ST_OK);
    assert_int_equal(n, 0);
    free(b);
}

static void opens_only_files(void **state)
{
    char path[PATH_MAX], longer[PATH_MAX];
    struct error e;
    uint64_t bytes;
    int fd;

    (void)state;
    assert_int_equal(document_open(&fd, &bytes, dir, "absent", &e),
                     ST_NOT_FOUND);
    assert_int_equal(document_open(&fd, &bytes, dir, "six/no", &e),
                     ST_UNAVAILABLE);
    assert_int_equal(document_open(&fd, &bytes, dir, ".", &e),
                     ST_INVALID_ARGUMENT);
    snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(document_open(&fd, &bytes, dir, "pipe", &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(fd, -1);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(document_open(&fd, &bytes, dir, longer, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "too long"));
}

static void reads_no_further_than_there_is(void **state)
{
    struct error e;
    char three[4] = "";
    uint64_t bytes;
    int fd;

    (void)state;
    assert_int_equal(document_open(&fd, &bytes, dir, "six", &e), ST_OK);
    assert_int_equal(bytes, 6);
    assert_int_equal(document_pread(fd, three, 3, 3, &e), ST_OK);
    assert_string_equal(three, "six");
    assert_int_equal(document_pread(fd, three, 3, 4, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "1 bytes too early"));
    close(fd);
    assert_int_equal(document_pread(-1, three, 3, 0, &e), ST_UNAVAILABLE);
}

static int start(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int stop(void **state)
{
    static const char *const names[] = {"six", "none", "pipe"};
    char path[PATH_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(takes_an_object),
        cmocka_unit_test(reads_a_whole_file),
        cmocka_unit_test(opens_only_files),
        cmocka_unit_test(reads_no_further_than_there_is),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
