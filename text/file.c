#include "text/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status check(int fd, size_t max, size_t *size, struct error *e)
{
    struct stat s;

    if (fstat(fd, &s) != 0) {
        return error_set(e, ST_UNAVAILABLE, "%s", strerror(errno));
    }
    if (!S_ISREG(s.st_mode)) {
        return error_set(e, ST_INVALID_ARGUMENT, "not a regular file");
    }
    *size = (size_t)s.st_size;
    if (*size > max) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%zu bytes long, at most %zu are allowed", *size, max);
    }
    return ST_OK;
}

/* Reads as far as the file goes, as it may shrink meanwhile. */
static enum status fill(int fd, char *data, size_t size, size_t *n,
                        struct error *e)
{
    *n = 0;
    while (*n < size) {
        ssize_t got = read(fd, data + *n, size - *n);
        if (got < 0 && errno != EINTR) {
            return error_set(e, ST_UNAVAILABLE, "%s", strerror(errno));
        }
        if (got == 0) {
            break;
        }
        *n += got > 0 ? (size_t)got : 0;
    }
    return ST_OK;
}

enum status file_read(const char *path, size_t max, char **data, size_t *n,
                      struct error *e)
{
    /* O_NONBLOCK: opening a FIFO must not block before check() rejects it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t size = 0;
    enum status st;

    *data = NULL;
    if (fd < 0) {
        return error_set(e, errno == ENOENT ? ST_NOT_FOUND : ST_UNAVAILABLE,
                         "%s", strerror(errno));
    }
    st = check(fd, max, &size, e);
    if (st == ST_OK) {
        *data = malloc(size + 1);
        st = *data == NULL
                 ? error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory")
                 : fill(fd, *data, size, n, e);
    }
    close(fd);
    if (st != ST_OK) {
        free(*data);
        *data = NULL;
    }
    return st;
}
