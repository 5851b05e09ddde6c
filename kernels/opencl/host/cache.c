#include "kernels/opencl/host/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC   "sluicecl"
#define VERSION 1

/* The beginning of a cache file, see program.h. */
struct head {
    char magic[8];
    uint32_t version, zero;
    struct cache_key key;
    uint64_t n, sum;
};

void cache_default(char dir[CACHE_PATH])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;

    dir[0] = '\0';
    if (cache != NULL && cache[0] == '/') {
        n = snprintf(dir, CACHE_PATH, "%s/sluice", cache);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(dir, CACHE_PATH, "%s/.cache/sluice", home);
    }
    /* A path that was cut off would name another folder. */
    if (n >= CACHE_PATH) {
        dir[0] = '\0';
    }
}

/* Writes "DIR/HASH.bin"; false if that is too long. */
static bool name_of(char out[CACHE_PATH], const char *dir,
                    const struct cache_key *key)
{
    int n = snprintf(out, CACHE_PATH, "%s/", dir);

    if (n < 0 || (size_t)n + 2 * sizeof key->v + 32 > CACHE_PATH) {
        return false;
    }
    for (size_t i = 0; i < sizeof key->v; i++) {
        n += snprintf(out + n, CACHE_PATH - (size_t)n, "%02x", key->v[i]);
    }
    snprintf(out + n, CACHE_PATH - (size_t)n, ".bin");
    return true;
}

/* The key is in the file too: a renamed file must not be used. */
static bool head_fits(const struct head *h, const struct cache_key *key)
{
    return memcmp(h->magic, MAGIC, sizeof h->magic) == 0 &&
           h->version == VERSION && h->zero == 0 &&
           memcmp(&h->key, key, sizeof *key) == 0 && h->n > 0 &&
           h->n <= CACHE_BYTES_MAX;
}

/* Reads the body; NULL if it is short, damaged, or has bytes behind it. */
static char *body_read(FILE *f, const struct head *h)
{
    size_t n = (size_t)h->n;
    char *bytes = malloc(n);

    if (bytes != NULL && (fread(bytes, 1, n, f) != n || fgetc(f) != EOF ||
                          XXH3_64bits(bytes, n) != h->sum)) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

enum cache_found cache_read(const char *dir, const struct cache_key *key,
                            char **bytes, size_t *n)
{
    char path[CACHE_PATH];
    struct head h;
    FILE *f;

    *bytes = NULL;
    if (!name_of(path, dir, key) || (f = fopen(path, "rbe")) == NULL) {
        return CACHE_ABSENT;
    }
    if (fread(&h, sizeof h, 1, f) == 1 && head_fits(&h, key)) {
        *bytes = body_read(f, &h);
        *n = (size_t)h.n;
    }
    fclose(f);
    return *bytes != NULL ? CACHE_HIT : CACHE_BROKEN;
}

/* Makes the folder and those above it. */
/* Errors show when the file is opened. */
static void make_folders(const char *dir)
{
    char path[CACHE_PATH];

    snprintf(path, sizeof path, "%s", dir);
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            mkdir(path, 0700);
            *at = '/';
        }
    }
    mkdir(path, 0700);
}

static bool all_written(int fd, const struct head *h, const char *bytes)
{
    const char *from = bytes;
    size_t left = (size_t)h->n;

    if (write(fd, h, sizeof *h) != (ssize_t)sizeof *h) {
        return false;
    }
    while (left > 0) {
        ssize_t n = write(fd, from, left);

        /* A full disk or a quota ends here; the program runs uncached. */
        if (n <= 0 && errno != EINTR) {
            return false;
        }
        from += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    /* Without it, a crash after rename() could leave an empty file. */
    return fsync(fd) == 0;
}

bool cache_write(const char *dir, const struct cache_key *key,
                 const char *bytes, size_t n)
{
    char path[CACHE_PATH], part[CACHE_PATH + 32];
    struct head h = {MAGIC, VERSION, 0, *key, n, XXH3_64bits(bytes, n)};
    bool written;
    int fd;

    if (n == 0 || n > CACHE_BYTES_MAX || !name_of(path, dir, key)) {
        return false;
    }
    make_folders(dir);
    /* The process id keeps two writers apart; rename() is atomic. */
    snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid());
    fd =
        open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return false;
    }
    written = all_written(fd, &h, bytes);
    written = close(fd) == 0 && written;
    if (!written || rename(part, path) != 0) {
        unlink(part);
        return false;
    }
    return true;
}
