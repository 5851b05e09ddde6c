#include "tests/faults/chaos_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static const char *program;

struct rig rig;

/* ---- the proxy ---- */

const char *rig_tell(const char *command)
{
    fprintf(rig.in, "%s\n", command);
    fflush(rig.in);
    assert_non_null(fgets(rig.answer, sizeof rig.answer, rig.out));
    rig.answer[strcspn(rig.answer, "\n")] = '\0';
    return rig.answer;
}

void rig_ok(const char *command)
{
    if (strncmp(rig_tell(command), "ok", 2) != 0) {
        fail_msg("%s: %s", command, rig.answer);
    }
}

unsigned long rig_stat(const char *route, const char *key)
{
    char text[64];
    const char *at;

    snprintf(text, sizeof text, "%s stats", route);
    rig_ok(text);
    snprintf(text, sizeof text, " %s=", key);
    at = strstr(rig.answer, text);
    assert_non_null(at);
    return strtoul(at + strlen(text), NULL, 10);
}

int64_t rig_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void rig_until(const char *route, const char *key, unsigned long n)
{
    int64_t end = rig_now_ms() + patience_ms();

    while (rig_stat(route, key) < n) {
        if (rig_now_ms() > end) {
            fail_msg("%s stays below %lu: %s", key, n, rig.answer);
        }
        poll(NULL, 0, 2);
    }
}

static unsigned port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    return ntohs(at.sin_port);
}

static void start(unsigned router_port)
{
    int in[2], out[2];
    char plain[32], z[32];
    char *argv[] = {(char *)(uintptr_t)program,
                    (char[]){"--seed"},
                    (char[]){"7"},
                    plain,
                    z,
                    NULL};
    posix_spawn_file_actions_t actions;

    snprintf(plain, sizeof plain, "plain=0:%u,plain", port_of(rig.listener));
    snprintf(z, sizeof z, "z=0:%u", router_port);
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    assert_int_equal(
        posix_spawn(&rig.pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    rig.in = fdopen(in[1], "w");
    rig.out = fdopen(out[0], "r");
    assert_non_null(fgets(rig.answer, sizeof rig.answer, rig.out));
    assert_int_equal(
        sscanf(rig.answer, "ready seed=7 plain=%u z=%u", &rig.plain, &rig.z),
        2);
}

static void set_int(void *socket, int option, int value)
{
    assert_int_equal(zmq_setsockopt(socket, option, &value, sizeof value), 0);
}

/* No limit of queued messages, and no wait for them at the end. */
static void *socket_make(int type)
{
    void *socket = zmq_socket(rig.context, type);
    int64_t most = 8 << 20;

    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most);
    set_int(socket, ZMQ_SNDHWM, 0);
    set_int(socket, ZMQ_RCVHWM, 0);
    set_int(socket, ZMQ_LINGER, 0);
    set_int(socket, ZMQ_RCVTIMEO, patience_ms());
    return socket;
}

int rig_setup(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char endpoint[64];
    size_t n = sizeof endpoint;

    (void)state;
    rig.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(rig.listener, (struct sockaddr *)&any, sizeof any),
                     0);
    assert_int_equal(listen(rig.listener, 16), 0);
    rig.context = zmq_ctx_new();
    rig.router = socket_make(ZMQ_ROUTER);
    assert_int_equal(zmq_bind(rig.router, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(
        zmq_getsockopt(rig.router, ZMQ_LAST_ENDPOINT, endpoint, &n), 0);
    start((unsigned)strtoul(strrchr(endpoint, ':') + 1, NULL, 10));
    rig.dealer = socket_make(ZMQ_DEALER);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", rig.z);
    assert_int_equal(zmq_connect(rig.dealer, endpoint), 0);
    return 0;
}

/* The proxy exits at the end of its standard input. */
int rig_teardown(void **state)
{
    int status;

    (void)state;
    zmq_close(rig.dealer);
    fclose(rig.in);
    assert_int_equal(waitpid(rig.pid, &status, 0), rig.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fclose(rig.out);
    close(rig.listener);
    zmq_close(rig.router);
    zmq_ctx_term(rig.context);
    return 0;
}

bool rig_program(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CHAOS\n", argv[0]);
        return false;
    }
    program = argv[1];
    signal(SIGPIPE, SIG_IGN);
    return true;
}
