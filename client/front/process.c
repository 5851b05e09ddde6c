#include "client/front/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NO_START 2

/* ---- in the child, between fork and exec ---- */

static void reset_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Handlers end with exec; an ignored signal would stay ignored. */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
}

/* out and err: descriptors of the output, or -1: dropped, and as it is. */
static void become(char *const argv[], pid_t parent, int out, int err)
{
    int null = open("/dev/null", O_RDWR);

    reset_signals();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent may have died before prctl(). */
    if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(out >= 0 ? out : null, STDOUT_FILENO) < 0 ||
        (err >= 0 && dup2(err, STDERR_FILENO) < 0)) {
        _exit(EXIT_NO_START);
    }
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NO_START);
}

/* ---- in the parent ---- */

static void close_pair(int pair[2])
{
    if (pair[0] >= 0) {
        close(pair[0]);
        close(pair[1]);
    }
}

/* Only the read end is non-blocking: the child's end is its own. */
static bool make_pipe(int pair[2])
{
    if (pipe2(pair, O_CLOEXEC) != 0) {
        pair[0] = pair[1] = -1;
        return false;
    }
    return fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0;
}

static enum status fork_child(struct process *p, char *const argv[], int out,
                              int err, struct error *e)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0) {
        become(argv, parent, out, err);
    }
    *p = (struct process){.pid = pid, .out = -1, .err = -1};
    if (pid < 0) {
        p->pid = 0;
        return error_set(e, ST_RESOURCE_EXHAUSTED, "cannot start a process: %s",
                         strerror(errno));
    }
    return ST_OK;
}

enum status process_start_bare(struct process *p, char *const argv[],
                               struct error *e)
{
    return fork_child(p, argv, -1, -1, e);
}

enum status process_start(struct process *p, char *const argv[],
                          struct error *e)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    enum status st;

    *p = (struct process){.out = -1, .err = -1};
    if (make_pipe(out) && make_pipe(err)) {
        st = fork_child(p, argv, out[1], err[1], e);
    } else {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "cannot make a pipe: %s",
                       strerror(errno));
    }
    if (st != ST_OK) {
        close_pair(out);
        close_pair(err);
        return st;
    }
    close(out[1]);
    close(err[1]);
    p->out = out[0];
    p->err = err[0];
    return ST_OK;
}

void process_close(struct process *p)
{
    if (p->out >= 0) {
        close(p->out);
    }
    if (p->err >= 0) {
        close(p->err);
    }
    p->out = p->err = -1;
}

bool process_exited(struct process *p, int *code, int *signal)
{
    int status;

    if (p->pid <= 0 || waitpid(p->pid, &status, WNOHANG) != p->pid) {
        return false;
    }
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    *signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    p->pid = 0;
    return true;
}

void process_find(const char *name, char *path, size_t size)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash;

    if (n > 0) {
        exe[n] = '\0';
        slash = strrchr(exe, '/');
        if (slash != NULL) {
            slash[1] = '\0';
            if ((size_t)snprintf(path, size, "%s%s", exe, name) < size &&
                access(path, X_OK) == 0) {
                return;
            }
        }
    }
    snprintf(path, size, "%s", name);
}
