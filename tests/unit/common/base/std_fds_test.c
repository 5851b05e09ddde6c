/* A program that is started with its standard descriptors closed. */
#include "common/base/std_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

/* Runs in its own process.  Returns a bit for each descriptor that went
 * wrong, 0 if none did. */
static int with_closed(int closed)
{
    char c = 'x';
    int wrong = 0;

    for (int fd = 0; fd < 3; fd++) {
        if (closed & 1 << fd) {
            (void)close(fd);
        }
    }
    std_fds_reserve();
    wrong |= open("/dev/null", O_RDWR) < 3 ? 1 : 0;
    for (int fd = 0; fd < 3; fd++) {
        if (closed & 1 << fd) {
            errno = 0;
            wrong |= (fd == 0 ? read(fd, &c, 1) : write(fd, &c, 1)) >= 0
                         ? 2 << fd
                         : 0;
            wrong |= errno != EBADF ? 16 << fd : 0;
        }
    }
    return wrong;
}

static void nobody_gets_what_is_closed(void **state)
{
    (void)state;
    for (int closed = 0; closed < 8; closed++) {
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
            _exit(with_closed(closed));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* Open descriptors are left as they are. */
static void an_open_one_stays(void **state)
{
    int ends[2], kept = dup(STDIN_FILENO);
    char c = 0;

    (void)state;
    assert_true(kept >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    std_fds_reserve();
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(read(STDIN_FILENO, &c, 1), 1);
    assert_int_equal(c, 'x');
    assert_int_equal(dup2(kept, STDIN_FILENO), STDIN_FILENO);
    (void)close(kept);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_gets_what_is_closed),
        cmocka_unit_test(an_open_one_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
