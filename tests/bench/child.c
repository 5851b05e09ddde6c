#include "tests/bench/child.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t child_new(void)
{
    pid_t parent = getpid(), pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return pid;
}

int children_end(const pid_t *children, int n)
{
    int bad = 0;

    for (int i = 0; i < n; i++) {
        kill(children[i], SIGTERM);
    }
    for (int i = 0; i < n; i++) {
        int status = 0;
        bool well = waitpid(children[i], &status, 0) == children[i] &&
                    ((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
                     (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));

        bad += !well;
    }
    return bad;
}
