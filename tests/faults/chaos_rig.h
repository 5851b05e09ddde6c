/* chaos_rig.h - The proxy as a process, between sockets of a test.
 *
 * One rig at a time, created for each test.  Failures are cmocka's. */
#ifndef TESTS_FAULTS_CHAOS_RIG_H
#define TESTS_FAULTS_CHAOS_RIG_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include <zmq.h>

#include "tests/patience.h"
#include "tests/unit/cmocka.h"

/* A proxy with the route "plain" to the test's listener, and "z" to its
 * ROUTER. */
struct rig {
    pid_t pid;
    FILE *in, *out;
    int listener;
    unsigned plain, z; /* ports of the two routes */
    void *context, *router, *dealer;
    char answer[1100];
};

extern struct rig rig;

/* Takes the proxy's path from argv[1].  Returns false if it does not exist. */
bool rig_program(int argc, char **argv);

int rig_setup(void **state);
int rig_teardown(void **state);

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

/* Sends a command.  Returns its answer, valid until the next call. */
const char *rig_tell(const char *command);
/* Sends a command that must succeed. */
void rig_ok(const char *command);

/* Return a counter of `ROUTE stats`: now, or as soon as it is n. */
unsigned long rig_stat(const char *route, const char *key);
void rig_until(const char *route, const char *key, unsigned long n);

int64_t rig_now_ms(void);

#endif
