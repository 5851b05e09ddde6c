/* chaos_rig.h - the proxy as a process, between sockets of a test.
 *
 * One rig at a time, made anew for each test.  Checks are cmocka's. */
#ifndef TESTS_FAULTS_CHAOS_RIG_H
#define TESTS_FAULTS_CHAOS_RIG_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include <zmq.h>

#include "tests/unit/cmocka.h"

#define RIG_PATIENCE_MS 20000

/* A proxy with route "plain" to our listener and "z" to our ROUTER. */
struct rig {
    pid_t pid;
    FILE *in, *out;
    int listener;
    unsigned plain, z; /* its ports */
    void *context, *router, *dealer;
    char answer[1100];
};

extern struct rig rig;

/* argv[1] is the proxy; false: it is not there. */
bool rig_program(int argc, char **argv);

int rig_setup(void **state);
int rig_teardown(void **state);

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

/* Say a command; its answer, until the next. */
const char *rig_tell(const char *command);
/* One that must succeed. */
void rig_ok(const char *command);

/* A figure of `ROUTE stats`, now, or when it has come to n. */
unsigned long rig_stat(const char *route, const char *key);
void rig_until(const char *route, const char *key, unsigned long n);

int64_t rig_now_ms(void);

#endif
