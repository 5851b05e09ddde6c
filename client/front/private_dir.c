#include "client/front/private_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status private_dir_make(char dir[PRIVATE_DIR_SIZE], struct error *e)
{
    const char *bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};

    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (bases[i] != NULL && bases[i][0] == '/' &&
            (size_t)snprintf(dir, PRIVATE_DIR_SIZE, "%s/sluice-XXXXXX",
                             bases[i]) < PRIVATE_DIR_SIZE &&
            mkdtemp(dir) != NULL) {
            return ST_OK;
        }
    }
    return error_set(e, ST_UNAVAILABLE,
                     "cannot make a directory in XDG_RUNTIME_DIR, TMPDIR or "
                     "/tmp: %s",
                     strerror(errno));
}

void private_dir_remove(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') {
            unlinkat(dirfd(d), entry->d_name, 0);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    rmdir(dir);
}
