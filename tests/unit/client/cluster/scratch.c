#include "tests/unit/client/cluster/scratch.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char scratch[64];

int scratch_make(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    snprintf(scratch, sizeof scratch, "%.30s/sluice-XXXXXX",
             base != NULL ? base : "/tmp");
    return mkdtemp(scratch) == NULL;
}

static int remove_one(const char *path, const struct stat *s, int flag,
                      struct FTW *at)
{
    (void)s;
    (void)flag;
    (void)at;
    return remove(path);
}

int scratch_remove(void **state)
{
    (void)state;
    return nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *out = paths[next++ % 4];

    snprintf(out, sizeof paths[0], "%s/%s", scratch, name);
    return out;
}

void scratch_write(const char *name, const char *text, mode_t mode)
{
    const char *path = scratch_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ||
        fchmod(fd, mode) != 0) {
        perror(path);
        abort();
    }
    close(fd);
}

const char *scratch_read(const char *name)
{
    static char text[65536];
    int fd = open(scratch_path(name), O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return n >= 0 ? text : NULL;
}

mode_t scratch_mode(const char *name)
{
    struct stat s;

    return lstat(scratch_path(name), &s) == 0 ? s.st_mode & 0777 : 0;
}
