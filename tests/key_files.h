/* key_files.h - Certificates for tests, in a folder of their own.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef TESTS_KEY_FILES_H
#define TESTS_KEY_FILES_H

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#define KEY_FILES_PATH 512

struct key_files {
    char dir[64];
};

static inline void key_files_path(const struct key_files *k, const char *file,
                                  const char *suffix, char out[KEY_FILES_PATH])
{
    snprintf(out, KEY_FILES_PATH, "%s/%s%s", k->dir, file, suffix);
}

static inline void key_files_write(const struct key_files *k, const char *file,
                                   const char *suffix, const char *text)
{
    char path[KEY_FILES_PATH];
    FILE *f;
    int rc;

    key_files_path(k, file, suffix, path);
    f = fopen(path, "w");
    assert(f != NULL);
    fputs(text, f);
    rc = fclose(f);
    assert(rc == 0);
    (void)rc;
    chmod(path, 0600);
}

static inline void key_files_begin(struct key_files *k)
{
    char *made;

    snprintf(k->dir, sizeof k->dir, "/tmp/sluice-keys-XXXXXX");
    made = mkdtemp(k->dir);
    assert(made != NULL);
    (void)made;
}

/* Writes FILE.cert with this name, role and key. */
static inline void key_files_cert(const struct key_files *k, const char *file,
                                  const char *name, const char *role,
                                  const char *public)
{
    char text[512];

    snprintf(text, sizeof text,
             "#   a comment\nmetadata\n    name = \"%s\"\n    role = "
             "\"%s\"\ncurve\n    public-key = \"%s\"\n",
             name, role, public);
    key_files_write(k, file, ".cert", text);
}

/* Makes NAME.key, and NAME.cert if it is trusted. */
static inline void key_files_make(const struct key_files *k, const char *name,
                                  const char *role, int trusted)
{
    char public[41], secret[41], text[512];
    int rc = zmq_curve_keypair(public, secret);

    assert(rc == 0);
    (void)rc;
    snprintf(text, sizeof text,
             "metadata\n    name = \"%s\"\n    role = \"%s\"\ncurve\n    "
             "public-key = \"%s\"\n    secret-key = \"%s\"\n",
             name, role, public, secret);
    key_files_write(k, name, ".key", text);
    if (trusted) {
        key_files_cert(k, name, name, role, public);
    }
}

static inline void key_files_remove(const struct key_files *k, const char *file,
                                    const char *suffix)
{
    char path[KEY_FILES_PATH];

    key_files_path(k, file, suffix, path);
    unlink(path);
}

/* Removes the folder. */
static inline void key_files_end(const struct key_files *k)
{
    DIR *d = opendir(k->dir);
    const struct dirent *e;

    assert(d != NULL);
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            key_files_remove(k, e->d_name, "");
        }
    }
    closedir(d);
    rmdir(k->dir);
}

#endif
