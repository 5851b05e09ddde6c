/* sluicectl_apply.c - Installation of a bundle on its host, and its units. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cluster/bundle_apply.h"
#include "client/ctl/ctl_cluster.h"
#include "text/file.h"

#define SYSTEMD_RUNS "/run/systemd/system" /* as sd_booted() tests */

extern char **environ;

static void on_change(void *arg, enum apply_change what, const char *path)
{
    static const char signs[] = {
        [APPLY_NEW] = '+', [APPLY_CHANGED] = '~', [APPLY_REMOVED] = '-'};

    ++*(size_t *)arg;
    printf("  %c /%s\n", signs[what], path);
}

/* ---- units ---- */

/* Runs a command, whose last word is NULL, and prints it.  Returns whether it
 * succeeded. */
static bool run(const char *const argv[])
{
    int status = 0;
    pid_t pid;

    for (size_t i = 0; argv[i] != NULL; i++) {
        printf("%s%s", i > 0 ? " " : "", argv[i]);
    }
    putchar('\n');
    fflush(stdout);
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv,
                     environ) != 0) {
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Runs systemctl without waiting for the job: a stage is ready only when the
 * other stages are, which may be on hosts that have no bundle yet. */
static bool systemctl(const char *verb, const char *unit)
{
    return run(
        (const char *const[]){"systemctl", "--no-block", verb, unit, NULL});
}

static bool start_units(const struct bundle *b, const struct bundle *old)
{
    bool ok = run((const char *const[]){"systemctl", "daemon-reload", NULL});

    for (size_t i = 0; i < old->n_units; i++) {
        if (!bundle_has_unit(b, old->unit[i])) {
            ok = run((const char *const[]){"systemctl", "disable", "--now",
                                           old->unit[i], NULL}) &&
                 ok;
        }
    }
    for (size_t i = 0; i < b->n_units; i++) {
        const char *unit = b->unit[i];
        /* A unit that is new may run already, with other files. */
        const char *verb =
            bundle_unit_differs(b, old, unit) ? "restart" : "reload-or-restart";

        ok = run((const char *const[]){"systemctl", "enable", "--quiet", unit,
                                       NULL}) &&
             systemctl(verb, unit) && ok;
    }
    return ok;
}

/* Prints the commands that do what the units do, for a machine without
 * systemd. */
static void print_commands(const struct bundle *b)
{
    puts("systemd does not run here; these commands start the daemons:");
    for (size_t i = 0; i < b->n_units; i++) {
        const char *unit = b->unit[i], *at = strchr(unit, '@');
        int n = (int)(strlen(unit) - strlen(".service"));

        printf("  setpriv --reuid sluice --regid sluice --init-groups ");
        if (at != NULL) {
            printf("sluice-worker --config /etc/sluice/worker-%.*s.conf\n",
                   n - (int)(at + 1 - unit), at + 1);
        } else {
            printf("%.*s\n", n, unit);
        }
    }
}

static void print_units(const struct bundle *b)
{
    puts("nothing was started below another root; on its machine run:");
    puts("  systemctl daemon-reload");
    for (size_t i = 0; i < b->n_units; i++) {
        printf("  systemctl enable --now %s\n", b->unit[i]);
    }
}

static bool run_units(const struct ctl *c, const struct bundle *b,
                      const struct bundle *old)
{
    if (c->o.dry_run) {
        return true;
    }
    if (strcmp(c->o.root, "/") != 0) {
        print_units(b);
    } else if (access(SYSTEMD_RUNS, F_OK) != 0) {
        print_commands(b);
    } else {
        return start_units(b, old);
    }
    return true;
}

/* ---- apply ---- */

static int apply(const struct ctl *c, const struct bundle *b)
{
    size_t n_changed = 0;
    const struct apply how = {.root = c->o.root,
                              .dry_run = c->o.dry_run,
                              .changed = on_change,
                              .arg = &n_changed};
    struct bundle old;
    struct error e;
    bool started = true;
    enum status st = bundle_installed(&old, c->o.root, &e);

    if (st == ST_OK) {
        printf("host %s of cluster %s: %zu files, %zu unit%s%s\n", b->host,
               b->cluster, b->n, b->n_units, b->n_units == 1 ? "" : "s",
               c->o.dry_run ? "; dry run, nothing is written" : "");
        st = bundle_apply(b, &old, &how, &e);
    }
    if (st == ST_OK) {
        printf("%zu file%s changed\n", n_changed, n_changed == 1 ? "" : "s");
        started = run_units(c, b, &old);
        st = started ? bundle_apply_done(b, &how, &e) : ST_OK;
    }
    bundle_free(&old);
    if (st != ST_OK) {
        return ctl_fail(c, st, e.text, 0);
    }
    return started ? CTL_OK
                   : ctl_fail(c, ST_UNAVAILABLE,
                              "the files are installed, but a unit did not "
                              "start; journalctl -u UNIT has its log",
                              0);
}

int ctl_cluster_apply(struct ctl *c, const char *path)
{
    struct bundle b;
    struct error e;
    char *bytes;
    size_t n;
    enum status st = file_read(path, BUNDLE_BYTES_MAX, &bytes, &n, &e);
    int rc;

    if (st == ST_OK) {
        st = bundle_read(&b, bytes, n, &e);
        explicit_bzero(bytes, n);
        free(bytes);
    }
    if (st != ST_OK) {
        st = error_wrap(&e, "%s", path);
        return ctl_fail(c, st, e.text, 0);
    }
    rc = apply(c, &b);
    bundle_free(&b);
    return rc;
}
