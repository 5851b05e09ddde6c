#include "client/cluster/bundle_apply.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cluster/new_file.h"
#include "text/file.h"

#define KEYS_DIR "keys"

struct target {
    const struct apply *how;
    struct bundle *old;
    int root;     /* descriptor of the root */
    bool owners;  /* set owners */
    gid_t sluice; /* the group, with owners */
};

/* ---- the group ---- */

/* Looks up the group in the root's own file, which no service of this machine
 * replaces. */
static bool find_group(const char *root, gid_t *gid)
{
    char path[4096];
    struct group *g;
    FILE *f;

    if (strcmp(root, "/") == 0) {
        g = getgrnam("sluice");
        *gid = g != NULL ? g->gr_gid : 0;
        return g != NULL;
    }
    snprintf(path, sizeof path, "%.4000s/etc/group", root);
    f = fopen(path, "re");
    if (f == NULL) {
        return false;
    }
    while ((g = fgetgrent(f)) != NULL && strcmp(g->gr_name, "sluice") != 0) {
        continue;
    }
    if (g != NULL) {
        *gid = g->gr_gid;
    }
    fclose(f);
    return g != NULL;
}

static bool has_secret(const struct bundle *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->file[i].secret) {
            return true;
        }
    }
    return false;
}

static enum status find_owners(struct target *t, const struct bundle *b,
                               struct error *e)
{
    bool slash = strcmp(t->how->root, "/") == 0;

    if (geteuid() != 0) {
        return slash && !t->how->dry_run
                   ? error_set(e, ST_PERMISSION_DENIED,
                               "apply writes /etc/sluice and must run as root; "
                               "--root DIR writes to another folder")
                   : ST_OK;
    }
    t->owners = true;
    if (has_secret(b) && !find_group(t->how->root, &t->sluice) &&
        !t->how->dry_run) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "the group sluice does not exist, to which keys "
                         "belong; install the packages first, or make it with "
                         "groupadd --system sluice");
    }
    return ST_OK;
}

/* ---- folders ---- */

static enum status cannot(const char *what, const char *path, struct error *e)
{
    return error_set(e,
                     errno == ELOOP || errno == ENOTDIR ? ST_FAILED_PRECONDITION
                                                        : ST_UNAVAILABLE,
                     "%s: cannot %s: %s", path, what,
                     errno == ELOOP || errno == ENOTDIR
                         ? "a folder of the path is a link or a file"
                         : strerror(errno));
}

/* Opens the folder of path[0..n) below `at`, and makes it if `make`. */
static int open_folder(const struct target *t, int at, const char *name,
                       bool make)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    bool keys = strcmp(name, KEYS_DIR) == 0;
    int fd = openat(at, name, flags);

    if (fd >= 0 || errno != ENOENT || !make ||
        mkdirat(at, name, keys ? 0750 : 0755) != 0) {
        return fd;
    }
    fd = openat(at, name, flags);
    /* fchmod(): whatever the umask is. */
    if (fd >= 0 && (fchmod(fd, keys ? 0750 : 0755) != 0 ||
                    (t->owners && fchown(fd, 0, keys ? t->sluice : 0) != 0))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Opens the folder that holds the file of path, and points *name at the file's
 * own name.  Returns -1 with errno. */
static int open_parent(const struct target *t, const char *path, bool make,
                       const char **name)
{
    int at = dup(t->root);

    *name = path;
    for (const char *slash = strchr(path, '/'); at >= 0 && slash != NULL;
         slash = strchr(*name, '/')) {
        char part[BUNDLE_PATH_MAX];
        int next;

        snprintf(part, sizeof part, "%.*s", (int)(slash - *name), *name);
        next = open_folder(t, at, part, make);
        close(at);
        at = next;
        *name = slash + 1;
    }
    return at;
}

/* ---- files ---- */

static enum status write_in(const struct target *t, int dir, const char *name,
                            const struct bundle_file *f, struct error *e)
{
    char temporary[BUNDLE_PATH_MAX + 8];
    mode_t mode = f->secret ? 0640 : 0644;
    enum status st;
    int fd;

    snprintf(temporary, sizeof temporary, "%s.new", name);
    unlinkat(dir, temporary, 0); /* left by a run that was killed */
    fd = openat(dir, temporary,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return cannot("create", f->path, e);
    }
    if ((t->owners && fchown(fd, 0, f->secret ? t->sluice : 0) != 0) ||
        fchmod(fd, mode) != 0) {
        st = cannot("set the owner", f->path, e);
        close(fd);
    } else {
        st = new_file_fill(fd, f->bytes, f->n, e);
        st = st == ST_OK ? ST_OK : error_wrap(e, "%s", f->path);
    }
    if (st == ST_OK && renameat(dir, temporary, dir, name) != 0) {
        st = cannot("replace", f->path, e);
    }
    if (st != ST_OK) {
        unlinkat(dir, temporary, 0); /* it may have a secret */
    }
    return st;
}

/* Returns whether the open file has the file's bytes. */
static bool has_bytes(int fd, const struct bundle_file *f)
{
    char *bytes = malloc(f->n + 1);
    bool same = bytes != NULL && read(fd, bytes, f->n + 1) == (ssize_t)f->n &&
                memcmp(bytes, f->bytes, f->n) == 0;

    free(bytes);
    return same;
}

/* Returns whether the file on disk is as the bundle has it. */
static bool is_same(const struct target *t, const struct bundle_file *f)
{
    const char *name;
    struct stat s;
    int dir = open_parent(t, f->path, false, &name);
    int fd = dir >= 0 ? openat(dir, name,
                               O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                      : -1;
    bool same = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
                (s.st_mode & 0777) == (f->secret ? 0640 : 0644) &&
                (!t->owners ||
                 (s.st_uid == 0 && s.st_gid == (f->secret ? t->sluice : 0))) &&
                has_bytes(fd, f);

    if (fd >= 0) {
        close(fd);
    }
    if (dir >= 0) {
        close(dir);
    }
    return same;
}

static enum status install(const struct target *t, const struct bundle_file *f,
                           struct error *e)
{
    const char *name;
    enum status st;
    int dir;

    if (t->how->dry_run) {
        return ST_OK;
    }
    dir = open_parent(t, f->path, true, &name);
    if (dir < 0) {
        return cannot("open the folder", f->path, e);
    }
    st = write_in(t, dir, name, f, e);
    close(dir);
    return st;
}

static void uninstall(const struct target *t, const char *path)
{
    const char *name;
    int dir = open_parent(t, path, false, &name);

    if (dir >= 0) {
        unlinkat(dir, name, 0);
        close(dir);
    }
}

static void report(const struct target *t, enum apply_change what,
                   const char *path)
{
    if (t->how->changed != NULL) {
        t->how->changed(t->how->arg, what, path);
    }
}

/* Keeps a file of another origin, the first time, as a link: the file itself
 * stays until it is replaced. */
static void keep_original(const struct target *t, const char *path)
{
    const char *name;
    char kept[BUNDLE_PATH_MAX + 8];
    struct stat s;
    int dir = open_parent(t, path, false, &name);

    if (dir < 0) {
        return;
    }
    snprintf(kept, sizeof kept, "%s.orig", name);
    if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(s.st_mode)) {
        (void)!linkat(dir, name, dir, kept, 0); /* not over an earlier one */
    }
    close(dir);
}

/* Marks in the earlier bundle each file that changes, and adds the units. */
static void mark_all(const struct target *t, const struct bundle *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct bundle_file *f = &b->file[i];
        bool new_one = bundle_find(t->old, f->path) == NULL;

        if (is_same(t, f)) {
            continue;
        }
        report(t, new_one ? APPLY_NEW : APPLY_CHANGED, f->path);
        if (new_one && !t->how->dry_run) {
            keep_original(t, f->path);
        }
        bundle_mark(t->old, f->path);
    }
    for (size_t i = 0; i < b->n_units; i++) {
        if (!bundle_has_unit(t->old, b->unit[i])) {
            bundle_add_unit(t->old, b->unit[i]);
        }
    }
    memcpy(t->old->cluster, b->cluster, sizeof b->cluster);
    memcpy(t->old->host, b->host, sizeof b->host);
}

static enum status install_all(const struct target *t, const struct bundle *b,
                               struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; i < b->n && st == ST_OK; i++) {
        if (!is_same(t, &b->file[i])) {
            st = install(t, &b->file[i], e);
        }
    }
    return st;
}

static void remove_gone(const struct target *t, const struct bundle *b)
{
    for (size_t i = 0; i < t->old->n; i++) {
        const char *path = t->old->file[i].path;

        if (bundle_find(b, path) == NULL) {
            report(t, APPLY_REMOVED, path);
            if (!t->how->dry_run) {
                uninstall(t, path);
            }
        }
    }
}

static enum status keep_manifest(const struct target *t, const struct bundle *b,
                                 struct error *e)
{
    struct bundle_file f = {.path = BUNDLE_INSTALLED};
    enum status st;

    bundle_manifest(b, &f.bytes, &f.n);
    if (b->n > BUNDLE_FILES_MAX || f.n > BUNDLE_FILE_BYTES) {
        st = error_set(e, ST_OUT_OF_RANGE,
                       "this bundle and the one before have %zu files "
                       "together; at most %u are allowed: apply one in between "
                       "that has fewer",
                       b->n, BUNDLE_FILES_MAX);
    } else {
        st = is_same(t, &f) ? ST_OK : install(t, &f, e);
    }
    free(f.bytes);
    return st;
}

/* ---- the interface ---- */

enum status bundle_installed(struct bundle *out, const char *root,
                             struct error *e)
{
    char path[4096];
    char *text;
    size_t n;
    enum status st;

    *out = (struct bundle){0};
    snprintf(path, sizeof path, "%.4000s/" BUNDLE_INSTALLED, root);
    if (access(path, F_OK) != 0) {
        return ST_OK;
    }
    st = file_read(path, BUNDLE_FILE_BYTES, &text, &n, e);
    if (st == ST_OK) {
        st = bundle_manifest_parse(out, text, n, e);
        free(text);
    }
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", path);
}

static enum status check_origin(const struct bundle *b,
                                const struct bundle *old, struct error *e)
{
    if (old->host[0] == '\0' || (strcmp(old->host, b->host) == 0 &&
                                 strcmp(old->cluster, b->cluster) == 0)) {
        return ST_OK;
    }
    return error_set(e, ST_FAILED_PRECONDITION,
                     "the bundle is of host %s of cluster %s, but this machine "
                     "has that of host %s of cluster %s; remove "
                     "/etc/sluice/keys, /etc/sluice/trust and "
                     "/" BUNDLE_INSTALLED " to change it",
                     b->host, b->cluster, old->host, old->cluster);
}

static enum status open_target(struct target *t, const struct bundle *b,
                               struct error *e)
{
    enum status st = find_owners(t, b, e);

    if (st != ST_OK) {
        return st;
    }
    t->root = open(t->how->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return t->root >= 0 ? ST_OK : cannot("open the folder", t->how->root, e);
}

enum status bundle_apply(const struct bundle *b, struct bundle *old,
                         const struct apply *how, struct error *e)
{
    struct target t = {.how = how, .old = old};
    enum status st = check_origin(b, old, e);

    st = st == ST_OK ? open_target(&t, b, e) : st;
    if (st != ST_OK) {
        return st;
    }
    mark_all(&t, b);
    st = keep_manifest(&t, old, e);
    st = st == ST_OK ? install_all(&t, b, e) : st;
    if (st == ST_OK) {
        remove_gone(&t, b);
    }
    close(t.root);
    return st;
}

enum status bundle_apply_done(const struct bundle *b, const struct apply *how,
                              struct error *e)
{
    struct target t = {.how = how};
    enum status st = open_target(&t, b, e);

    if (st == ST_OK) {
        st = keep_manifest(&t, b, e);
        close(t.root);
    }
    return st;
}

static bool differs(const struct bundle *b, const struct bundle *old,
                    const char *path)
{
    const struct bundle_file *is = bundle_find(b, path);
    const struct bundle_file *was = bundle_find(old, path);

    return (is == NULL) != (was == NULL) ||
           (is != NULL && strcmp(is->hash, was->hash) != 0);
}

/* Writes the path of a unit's configuration. */
static void conf_path(char out[BUNDLE_PATH_MAX], const char *unit)
{
    const char *at = strchr(unit, '@');
    size_t n = strlen(unit) - strlen(".service");

    if (at != NULL) {
        snprintf(out, BUNDLE_PATH_MAX, "etc/sluice/worker-%.*s.conf",
                 (int)(unit + n - at - 1), at + 1);
    } else {
        snprintf(out, BUNDLE_PATH_MAX, "etc/sluice/%.*s.conf",
                 (int)(n - strlen("sluice-")), unit + strlen("sluice-"));
    }
}

/* A port that listens keeps its key until the program restarts
 * (common/wire/curve_keys.h). */
static bool listening_key_differs(const struct bundle *b,
                                  const struct bundle *old, const char *unit,
                                  const char *conf)
{
    static const char before[] = "\nkey = /";
    const struct bundle_file *f = bundle_find(b, conf);
    const char *key =
        f != NULL && f->bytes != NULL ? strstr(f->bytes, before) : NULL;
    char path[BUNDLE_PATH_MAX];

    if (key == NULL || (strcmp(unit, "sluice-router.service") != 0 &&
                        strstr(f->bytes, "\nstage-listen = ") == NULL)) {
        return false;
    }
    key += strlen(before);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(key, "\n"), key);
    return differs(b, old, path);
}

bool bundle_unit_differs(const struct bundle *b, const struct bundle *old,
                         const char *unit)
{
    char drop_in[BUNDLE_PATH_MAX], conf[BUNDLE_PATH_MAX];

    snprintf(drop_in, sizeof drop_in, "etc/systemd/system/%s.d/50-cluster.conf",
             unit);
    conf_path(conf, unit);
    return differs(b, old, drop_in) || differs(b, old, conf) ||
           listening_key_differs(b, old, unit, conf);
}
