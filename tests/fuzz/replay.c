/* replay.c - Feeds files, and all files of folders, to a fuzz target.
 *
 *     x_fuzz_replay FILE|FOLDER...
 *
 * Exit code 1 if a file cannot be read or there is none. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int feed_file(const char *path, size_t size)
{
    /* No byte after the data, so that a sanitizer detects the first read past
     * the end. */
    uint8_t *data = malloc(size == 0 ? 1 : size);
    FILE *f = fopen(path, "rb");
    size_t n = 0;

    if (f != NULL && data != NULL) {
        n = fread(data, 1, size, f);
    }
    if (f != NULL) {
        fclose(f);
    }
    if (f == NULL || data == NULL || n != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        return -1;
    }
    (void)LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

/* Returns how many files were fed, negative if a file could not be read. */
static int feed(const char *path)
{
    struct stat s;
    struct dirent *entry;
    int sum = 0;
    DIR *dir;

    if (stat(path, &s) != 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return -1;
    }
    if (!S_ISDIR(s.st_mode)) {
        return feed_file(path, (size_t)s.st_size);
    }
    dir = opendir(path);
    while (dir != NULL && sum >= 0 && (entry = readdir(dir)) != NULL) {
        char name[4096];
        int got;
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        got = feed(name);
        sum = got < 0 ? got : sum + got;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return sum;
}

int main(int argc, char **argv)
{
    int sum = 0;

    for (int i = 1; i < argc; i++) {
        int got = feed(argv[i]);
        if (got < 0) {
            return 1;
        }
        sum += got;
    }
    printf("%d inputs\n", sum);
    return sum > 0 ? 0 : 1;
}
