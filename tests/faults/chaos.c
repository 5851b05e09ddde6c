/* chaos - A TCP proxy that injects faults on command: delay, rate
 * limits, loss, one-way loss, resets, flipped bits, duplicated and reordered
 * messages.
 *
 *     chaos --seed 7 w1=0:7070 c1=7171:7071 raw=0:9000,plain
 *     ready seed=7 w1=40123 c1=7171 raw=40124
 *
 * LISTEN and TARGET are ports of 127.0.0.1, or of the two addresses after
 * --hosts, which stands behind --seed N:
 *
 *     chaos --seed 7 --hosts 10.0.0.9 10.0.0.1 w1=0:7070
 *
 * After the ready line it reads commands from standard input, one per line, and
 * answers each with a line (chaos_command.h).  It exits at end of input. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/faults/chaos_command.h"

#define EXIT_SETUP 2

static int usage(const char *why)
{
    fprintf(stderr,
            "chaos: %s\n"
            "usage: chaos --seed N [--hosts LISTEN TARGET] "
            "NAME=LISTEN:TARGET[,plain]...\n",
            why);
    return EXIT_SETUP;
}

/* Raises the limit of descriptors: a connection has two sockets. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Runs the complete lines read so far, and keeps the rest. */
static size_t answer_lines(struct chaos_proxy *p, char *text, size_t n)
{
    char answer[CHAOS_ANSWER], *end;

    while ((end = memchr(text, '\n', n)) != NULL) {
        size_t line = (size_t)(end - text) + 1;

        *end = '\0';
        chaos_command(p, text, answer);
        puts(answer);
        n -= line;
        memmove(text, end + 1, n);
    }
    fflush(stdout);
    return n;
}

static void run(struct chaos_proxy *p)
{
    char text[4096];
    size_t n = 0;

    for (;;) {
        ssize_t more;

        if (!chaos_proxy_turn(p, STDIN_FILENO)) {
            continue;
        }
        more = read(STDIN_FILENO, text + n, sizeof text - n);
        if (more <= 0) {
            return;
        }
        n = answer_lines(p, text, n + (size_t)more);
        if (n == sizeof text) {
            return; /* longer than any command */
        }
    }
}

static void say_ready(const struct chaos_proxy *p, const char *seed)
{
    printf("ready seed=%s", seed);
    for (unsigned i = 0; i < chaos_proxy_routes(p); i++) {
        printf(" %s=%u", chaos_proxy_name(p, i), chaos_proxy_listen(p, i));
    }
    putchar('\n');
    fflush(stdout);
}

/* Reads --hosts.  Returns the index of the first route, 0 on an error. */
static int take_hosts(struct chaos_proxy *p, int argc, char **argv)
{
    struct in_addr listen, target;

    if (argc < 4 || strcmp(argv[3], "--hosts") != 0) {
        return 3;
    }
    if (argc < 6 || inet_pton(AF_INET, argv[4], &listen) != 1 ||
        inet_pton(AF_INET, argv[5], &target) != 1) {
        return 0;
    }
    chaos_proxy_hosts(p, listen, target);
    return 6;
}

int main(int argc, char **argv)
{
    struct chaos_proxy *p;
    struct error e;
    char *end = NULL;
    int first;
    uint64_t seed = argc > 2 ? strtoull(argv[2], &end, 10) : 0;

    if (argc < 3 || strcmp(argv[1], "--seed") != 0 || *end != '\0') {
        return usage("--seed N is required first");
    }
    allow_descriptors();
    p = chaos_proxy_new(seed);
    first = take_hosts(p, argc, argv);
    if (first == 0) {
        chaos_proxy_free(&p);
        return usage("--hosts needs two IPv4 addresses");
    }
    for (int i = first; i < argc; i++) {
        if (chaos_route(p, argv[i], &e) != ST_OK) {
            chaos_proxy_free(&p);
            return usage(e.text);
        }
    }
    say_ready(p, argv[2]);
    run(p);
    chaos_proxy_free(&p);
    return EXIT_SUCCESS;
}
