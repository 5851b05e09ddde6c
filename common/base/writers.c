#include "common/base/writers.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#define OF_OTHERS 022u /* write bits of group and others */

enum status writers_check(const char *path, struct error *e)
{
    struct stat info;
    struct statvfs mount;
    unsigned mode;

    if (stat(path, &info) != 0 || (info.st_mode & OF_OTHERS) == 0 ||
        (statvfs(path, &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0)) {
        return ST_OK;
    }
    mode = (unsigned)info.st_mode & 07777;
    return error_set(
        e, ST_INVALID_ARGUMENT,
        "mode %03o lets other users add keys; chmod go-w sets %03o", mode,
        mode & ~OF_OTHERS);
}
