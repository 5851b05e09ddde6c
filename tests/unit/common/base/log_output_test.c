#include "common/base/log_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static char dir[] = "/tmp/log_output.XXXXXX";
static char path[64], moved[64], fifo[64], nowhere[64];

static enum status start(const char *level, const char *file,
                         const char *requests, struct error *e)
{
    struct log_options o = {level, file, requests};

    return log_start(&o, e);
}

/* Returns the text of a file, in a static buffer. */
static const char *text_of(const char *name)
{
    static char text[4096];
    FILE *f = fopen(name, "r");
    size_t n;

    assert_non_null(f);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static void refuses_unknown_words(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(start("loud", NULL, NULL, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(
        e.text, "--log-level loud: must be debug, info, warn, error or off");
    assert_int_equal(start("info", NULL, "some", &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "--log-requests some: must be all, failed or none");
    assert_int_equal(start("info", nowhere, NULL, &e), ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "/nobody/log: cannot open: No such file"));
    /* A pipe that nobody reads is no wait. */
    assert_int_equal(start("info", fifo, NULL, &e), ST_UNAVAILABLE);
}

static void chooses_requests(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(start("info", NULL, "failed", &e), ST_OK);
    assert_false(log_wants_request(false));
    assert_true(log_wants_request(true));
    assert_int_equal(start("info", NULL, "none", &e), ST_OK);
    assert_false(log_wants_request(true));
    assert_int_equal(start("warn", NULL, "all", &e), ST_OK);
    assert_false(log_wants_request(true));
    assert_int_equal(start("info", NULL, "all", &e), ST_OK);
    assert_true(log_wants_request(false));
}

static void opens_its_file_again(void **state)
{
    struct stat s;
    struct error e;

    (void)state;
    umask(0);
    assert_int_equal(start("info", path, NULL, &e), ST_OK);
    log_info("first", "a=1");
    assert_int_equal(rename(path, moved), 0);
    log_info("second", "a=2");
    log_reopen();
    log_info("third", "a=3");
    assert_non_null(strstr(text_of(moved), "Z info first a=1\n"));
    assert_non_null(strstr(text_of(moved), "Z info second a=2\n"));
    assert_null(strstr(text_of(moved), "third"));
    assert_non_null(strstr(text_of(path), "info log-reopened file="));
    assert_non_null(strstr(text_of(path), "Z info third a=3\n"));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
}

static void keeps_its_file_if_it_cannot(void **state)
{
    (void)state;
    assert_int_equal(remove(moved), 0);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    log_reopen();
    log_info("fourth", "a=4");
    assert_int_equal(rmdir(path), 0);
    assert_non_null(strstr(text_of(moved), "error log-kept file="));
    assert_non_null(strstr(text_of(moved), "why=\"Is a directory\""));
    assert_non_null(strstr(text_of(moved), "info fourth a=4\n"));
}

/* Reads all of a pipe, and returns whether text is in it. */
static bool read_for(int fd, const char *text)
{
    static char all[1 << 20];
    size_t used = 0;
    ssize_t n;

    while ((n = read(fd, all + used, sizeof all - 1 - used)) > 0) {
        used += (size_t)n;
    }
    all[used] = '\0';
    return strstr(all, text) != NULL;
}

static void a_full_pipe_drops_lines_and_reports_them(void **state)
{
    int fd = open(fifo, O_RDONLY | O_NONBLOCK);
    struct error e;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(start("info", fifo, NULL, &e), ST_OK);
    for (int i = 0; i < 5000; i++) { /* more than a pipe holds */
        log_info("line", "number=%d %0100d", i, 0);
    }
    assert_false(read_for(fd, "log-dropped"));
    log_info("line", "number=%d", 5000);
    assert_true(read_for(fd, "log-dropped lines="));
    log_info("line", "number=%d", 5001);
    assert_false(read_for(fd, "log-dropped"));
    log_info("line", "number=%d", 5002);
    assert_true(read_for(fd, "number=5002\n"));
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(moved, sizeof moved, "%s/log.1", dir);
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    snprintf(nowhere, sizeof nowhere, "%s/nobody/log", dir);
    return mkfifo(fifo, 0600);
}

static int tear_down(void **state)
{
    (void)state;
    remove(path);
    remove(moved);
    remove(fifo);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_unknown_words),
        cmocka_unit_test(chooses_requests),
        cmocka_unit_test(opens_its_file_again),
        cmocka_unit_test(keeps_its_file_if_it_cannot),
        cmocka_unit_test(a_full_pipe_drops_lines_and_reports_them),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
