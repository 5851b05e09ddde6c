#include "client/load/drive/hooks.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/option.h"
#include "common/base/quote.h"

#define TIME_SIZE 32 /* of the text of a time */

enum hook_state { HOOK_PLANNED, HOOK_RUNS, HOOK_ENDED };

struct hook {
    enum hook_state state;
    int64_t due_us;
    const char *command;
    pid_t pid; /* 0: never started.  Reaped by hooks_free() */
    struct load_event event;
};

struct hooks {
    struct hook *hooks; /* [n] */
    unsigned n;
    void (*on_event)(void *arg, const struct load_event *e);
    void *arg;
};

/* ---- parsing ---- */

static bool parse(const char *text, int64_t *due_us, const char **command)
{
    size_t n = strcspn(text, " \t");
    char time[TIME_SIZE];
    uint64_t ms;

    if (n == 0 || n >= sizeof time) {
        return false;
    }
    memcpy(time, text, n);
    time[n] = '\0';
    *command = text + n + strspn(text + n, " \t");
    if (!option_ms(time, &ms) || ms > (uint64_t)INT64_MAX / 1000 ||
        **command == '\0') {
        return false;
    }
    *due_us = (int64_t)ms * 1000;
    return true;
}

enum status hooks_check(const char *text, struct error *e)
{
    const char *command;
    int64_t due_us;

    if (parse(text, &due_us, &command)) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--at %s: a time and a command are needed, such as "
                     "'10s kill -9 1234'",
                     quote(text).text);
}

struct hooks *hooks_new(const char *const *texts, unsigned n,
                        void (*on_event)(void *arg, const struct load_event *e),
                        void *arg)
{
    struct hooks *h = memory_must(calloc(1, sizeof *h));

    h->hooks = memory_must(calloc(n > 0 ? n : 1, sizeof *h->hooks));
    h->n = n;
    h->on_event = on_event;
    h->arg = arg;
    for (unsigned i = 0; i < n; i++) {
        struct hook *k = &h->hooks[i];

        if (!parse(texts[i], &k->due_us, &k->command)) {
            k->state = HOOK_ENDED;
        }
    }
    return h;
}

/* ---- running ---- */

static bool spawn(struct hook *k)
{
    char sh[] = "sh", c[] = "-c";
    char *command = memory_must(strdup(k->command)),
         *argv[] = {sh, c, command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP |
                                        POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    rc = posix_spawn(&k->pid, "/bin/sh", &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    free(command);
    return rc == 0;
}

static void report(const struct hooks *h, struct hook *k, enum hook_state to,
                   int exit_code)
{
    k->state = to;
    k->event.exit_code = exit_code;
    h->on_event(h->arg, &k->event);
}

static void begin(struct hooks *h, struct hook *k, int64_t now_us)
{
    k->event.at_us = now_us;
    snprintf(k->event.text, sizeof k->event.text, "%.*s", SAMPLE_WHY - 1,
             k->command);
    if (spawn(k)) {
        report(h, k, HOOK_RUNS, -1);
    } else {
        k->pid = 0;
        report(h, k, HOOK_ENDED, HOOKS_SIGNALLED - 1); /* as a shell's 127 */
    }
}

/* Looks for an exit, but leaves the process a zombie: until it is reaped, no
 * other process group can have its number. */
static void collect(struct hooks *h, struct hook *k, int options)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)k->pid, &info, WEXITED | WNOWAIT | options) == 0 &&
        info.si_pid == k->pid) {
        report(h, k, HOOK_ENDED,
               info.si_code == CLD_EXITED ? info.si_status
                                          : HOOKS_SIGNALLED + info.si_status);
    }
}

int64_t hooks_turn(struct hooks *h, int64_t now_us)
{
    int64_t due_us = INT64_MAX;

    for (unsigned i = 0; i < h->n; i++) {
        struct hook *k = &h->hooks[i];

        if (k->state == HOOK_PLANNED && k->due_us <= now_us) {
            begin(h, k, now_us);
        } else if (k->state == HOOK_PLANNED && k->due_us < due_us) {
            due_us = k->due_us;
        } else if (k->state == HOOK_RUNS) {
            collect(h, k, WNOHANG);
        }
    }
    return due_us;
}

void hooks_free(struct hooks **self)
{
    struct hooks *h = *self;

    if (h == NULL) {
        return;
    }
    for (unsigned i = 0; i < h->n; i++) {
        struct hook *k = &h->hooks[i];

        if (k->pid == 0) {
            continue;
        }
        kill(-k->pid, SIGKILL);
        if (k->state == HOOK_RUNS) {
            collect(h, k, 0);
        }
        waitpid(k->pid, NULL, 0);
    }
    free(h->hooks);
    free(h);
    *self = NULL;
}
