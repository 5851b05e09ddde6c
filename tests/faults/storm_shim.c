/* storm_shim - A storm of signals for one process.  The preloaded library
 * handles SIGUSR1 without SA_RESTART, and its thread sends that signal to every
 * other thread each millisecond.  The file $STORM_SHIM.PID has the number of
 * signals received; it is rewritten every hundred signals.
 *
 * Threading: the library's thread blocks all signals, so that it receives none
 * meant for the program.  Memory: none. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_uint arrived;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&arrived, 1);
}

static void strike(void)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *one;

    while (threads != NULL && (one = readdir(threads)) != NULL) {
        long thread = strtol(one->d_name, NULL, 10);

        if (thread > 0 && thread != syscall(SYS_gettid)) {
            syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
        }
    }
    if (threads != NULL) {
        closedir(threads);
    }
}

static void say(const char *path)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%u\n", atomic_load(&arrived));
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0) {
        (void)!pwrite(fd, text, (size_t)n, 0);
        close(fd);
    }
}

static void *storm(void *arg)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[512];

    snprintf(path, sizeof path, "%s.%d", (const char *)arg, (int)getpid());
    for (unsigned i = 0;; i++) {
        strike();
        if (i % 100 == 0) {
            say(path);
        }
        nanosleep(&pause, NULL);
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    char *path = getenv("STORM_SHIM");
    sigset_t all, before;
    pthread_t thread;

    if (path == NULL || sigaction(SIGUSR1, &action, NULL) != 0) {
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, storm, path) == 0) {
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
