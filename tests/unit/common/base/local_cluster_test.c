/* The record of the newest cluster of `sluice serve`: found only if it is ours
 * and somebody serves it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/local_cluster.h"
#include "tests/unit/cmocka.h"

static char dir[64], endpoint[LOCAL_CLUSTER_BYTES];

static int start(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/local_cluster.XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", dir, 1), 0);
    snprintf(endpoint, sizeof endpoint, "ipc://%s/clients", dir);
    return 0;
}

static int stop(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/clients", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* nothing else is left */
    return 0;
}

/* Listens where the endpoint is. */
static int serve(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(snprintf(at.sun_path, sizeof at.sun_path, "%s/clients", dir) <
                (int)sizeof at.sun_path);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (void *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static void a_served_record_is_found(void **state)
{
    char found[LOCAL_CLUSTER_BYTES];
    int fd = serve();

    (void)state;
    assert_false(local_cluster_find(found));
    local_cluster_add(endpoint);
    assert_true(local_cluster_find(found));
    assert_string_equal(found, endpoint);
    local_cluster_remove("ipc:///another"); /* a newer one stays */
    assert_true(local_cluster_find(found));
    close(fd);
    assert_false(local_cluster_find(found)); /* as after SIGKILL */
    local_cluster_remove(endpoint);
}

static void a_directory_of_others_is_not_read(void **state)
{
    char found[LOCAL_CLUSTER_BYTES];
    int fd = serve();

    (void)state;
    local_cluster_add(endpoint);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_false(local_cluster_find(found) && strcmp(found, endpoint) == 0);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_true(local_cluster_find(found));
    local_cluster_remove(endpoint);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_served_record_is_found, start, stop),
        cmocka_unit_test_setup_teardown(a_directory_of_others_is_not_read,
                                        start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
