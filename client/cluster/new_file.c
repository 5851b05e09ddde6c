#include "client/cluster/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

enum status new_file_fill(int fd, const char *bytes, size_t n, struct error *e)
{
    int fault = 0;

    while (n > 0 && fault == 0) {
        ssize_t done = write(fd, bytes, n);

        if (done < 0 && errno != EINTR) {
            fault = errno;
        } else if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
    if (fault == 0 && fsync(fd) != 0) {
        fault = errno;
    }
    if (close(fd) != 0 && fault == 0) {
        fault = errno;
    }
    return fault == 0 ? ST_OK
                      : error_set(e, ST_UNAVAILABLE, "cannot write: %s",
                                  strerror(fault));
}

static enum status create_file(const char *path, const char *bytes, size_t n,
                               mode_t mode, struct error *e)
{
    int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    enum status st;

    if (fd < 0 && errno == EEXIST) {
        return error_set(e, ST_ALREADY_EXISTS, "%s exists", path);
    }
    if (fd < 0) {
        return error_set(e, ST_UNAVAILABLE, "%s: cannot create: %s", path,
                         strerror(errno));
    }
    (void)!fchmod(fd, mode); /* whatever the umask is */
    st = new_file_fill(fd, bytes, n, e);
    if (st != ST_OK) {
        unlink(path);
        return error_wrap(e, "%s", path);
    }
    return ST_OK;
}

enum status new_file_write(const char *path, const char *bytes, size_t n,
                           mode_t mode, struct error *e)
{
    return create_file(path, bytes, n, mode, e);
}

enum status new_file_replace(const char *path, const char *bytes, size_t n,
                             mode_t mode, struct error *e)
{
    char temporary[PATH_BYTES];
    enum status st;

    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >=
        sizeof temporary) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: the path is too long",
                         path);
    }
    unlink(temporary); /* left by a run that was killed */
    st = create_file(temporary, bytes, n, mode, e);
    if (st == ST_OK && rename(temporary, path) != 0) {
        st = error_set(e, ST_UNAVAILABLE, "%s: cannot replace: %s", path,
                       strerror(errno));
        unlink(temporary);
    }
    return st;
}

enum status new_folder_make(const char *dir, const char *ignored,
                            struct error *e)
{
    char path[PATH_BYTES], text[64];
    enum status st;

    if (mkdir(dir, 0700) != 0) {
        return errno == EEXIST ? ST_OK
                               : error_set(e, ST_UNAVAILABLE,
                                           "%s: cannot make the directory: %s",
                                           dir, strerror(errno));
    }
    snprintf(path, sizeof path, "%s/.gitignore", dir);
    snprintf(text, sizeof text, "%s\n", ignored);
    st = new_file_write(path, text, strlen(text), 0644, e);
    return st == ST_OK ? st : error_wrap(e, "%s", path);
}
