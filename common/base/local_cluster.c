#include "common/base/local_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SCHEME "ipc://"

struct path {
    char text[512];
};

/* A directory that others can write could hold a record of theirs. */
static bool is_ours(const char *dir)
{
    struct stat s;

    return lstat(dir, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           (s.st_mode & 022) == 0;
}

/* Finds the directory of the record.  make: creates the one in /tmp. */
static bool find_dir(struct path *dir, bool make)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (runtime != NULL && runtime[0] == '/' &&
        strlen(runtime) < sizeof dir->text && is_ours(runtime)) {
        snprintf(dir->text, sizeof dir->text, "%s", runtime);
        return true;
    }
    snprintf(dir->text, sizeof dir->text, "/tmp/sluice-%u",
             (unsigned)geteuid());
    if (make && mkdir(dir->text, 0700) != 0 && errno != EEXIST) {
        return false;
    }
    return is_ours(dir->text);
}

static bool file_in(const struct path *dir, const char *name, struct path *file)
{
    return (size_t)snprintf(file->text, sizeof file->text, "%s/%s", dir->text,
                            name) < sizeof file->text;
}

static bool write_file(const char *path, const char *text)
{
    int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t n = strlen(text);
    bool done = fd >= 0 && write(fd, text, n) == (ssize_t)n;

    if (fd >= 0 && close(fd) != 0) {
        done = false;
    }
    return done;
}

void local_cluster_add(const char *endpoint)
{
    struct path dir, file, next;
    char name[64];

    snprintf(name, sizeof name, "sluice.serve.%ld", (long)getpid());
    if (strlen(endpoint) >= LOCAL_CLUSTER_BYTES || !find_dir(&dir, true) ||
        !file_in(&dir, "sluice.serve", &file) || !file_in(&dir, name, &next)) {
        return;
    }
    /* A reader sees the old record or the new one, whole. */
    if (!write_file(next.text, endpoint) || rename(next.text, file.text) != 0) {
        (void)unlink(next.text);
    }
}

/* Reads the record; returns false if there is none. */
static bool read_record(struct path *file, char out[LOCAL_CLUSTER_BYTES])
{
    struct path dir;
    ssize_t n = -1;
    int fd;

    if (!find_dir(&dir, false) || !file_in(&dir, "sluice.serve", file)) {
        return false;
    }
    fd = open(file->text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        n = read(fd, out, LOCAL_CLUSTER_BYTES - 1);
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

void local_cluster_remove(const char *endpoint)
{
    char recorded[LOCAL_CLUSTER_BYTES];
    struct path file;

    if (read_record(&file, recorded) && strcmp(recorded, endpoint) == 0) {
        (void)unlink(file.text);
    }
}

/* Connects to the socket, and closes the connection again. */
static bool answers(const char *endpoint)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = endpoint + strlen(SCHEME);
    int fd;
    bool yes;

    if (strncmp(endpoint, SCHEME, strlen(SCHEME)) != 0 ||
        strlen(path) >= sizeof at.sun_path) {
        return false;
    }
    memcpy(at.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    yes = fd >= 0 && connect(fd, (const void *)&at, sizeof at) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return yes;
}

bool local_cluster_find(char endpoint[LOCAL_CLUSTER_BYTES])
{
    struct path file;

    return read_record(&file, endpoint) && answers(endpoint);
}
