/* report_file.c - A result in a file that is whole or absent. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/load/report/report.h"

#define PATH_BYTES 4096

enum status report_fault(struct error *e)
{
    return error_set(e, ST_UNAVAILABLE, "%s",
                     errno != 0 ? strerror(errno) : "not all was written");
}

/* A device or a pipe cannot be renamed onto. */
static bool is_plain(const char *path)
{
    struct stat s;

    return stat(path, &s) != 0 || S_ISREG(s.st_mode);
}

/* errno: 0 first, because a stream keeps that it has failed, and not why. */
static enum status write_open(FILE *to, report_fn *write_to,
                              const struct result *r, struct error *e)
{
    errno = 0;
    return write_to(to, r, e);
}

static enum status write_to_part(const char *path, const char *part,
                                 report_fn *write_to, const struct result *r,
                                 struct error *e)
{
    FILE *to = fopen(part, "we");
    enum status st;

    if (to == NULL) {
        return report_fault(e);
    }
    st = write_open(to, write_to, r, e);
    if (fclose(to) != 0 && st == ST_OK) {
        st = report_fault(e);
    }
    if (st == ST_OK && part != path && rename(part, path) != 0) {
        st = report_fault(e);
    }
    if (st != ST_OK && part != path) {
        unlink(part);
    }
    return st;
}

enum status report_write(const char *path, report_fn *write_to,
                         const struct result *r, struct error *e)
{
    char part[PATH_BYTES];
    bool whole = is_plain(path);
    int n = snprintf(part, sizeof part, "%s.part", path);

    if (strcmp(path, "-") == 0) {
        return write_open(stdout, write_to, r, e) == ST_OK
                   ? ST_OK
                   : error_wrap(e, "cannot write standard output");
    }
    if (n < 0 || (size_t)n >= sizeof part) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "cannot write a file whose name has %d bytes; at most "
                         "%d are possible",
                         n - 5, PATH_BYTES - 6);
    }
    return write_to_part(path, whole ? part : path, write_to, r, e) == ST_OK
               ? ST_OK
               : error_wrap(e, "cannot write %s", path);
}
