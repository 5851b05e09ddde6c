#include "common/model/document.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/json_bound.h"
#include "common/base/json_words.h"
#include "common/base/quote.h"
#include "common/model/model_limits.h"

/* Jansson's own messages are replaced: they name a source and a line that
 * mean nothing to the reader of a log. */
static enum status parse_error(const json_error_t *j, struct error *e)
{
    const char *what = "not JSON";

    switch (json_error_code(j)) {
    case json_error_invalid_utf8:
        what = "not UTF-8";
        break;
    case json_error_duplicate_key:
        what = "the same key twice";
        break;
    case json_error_premature_end_of_input:
        what = "JSON ends too early";
        break;
    case json_error_end_of_input_expected:
        what = "something follows the JSON value";
        break;
    case json_error_numeric_overflow:
        what = "a number is too large";
        break;
    case json_error_null_character:
    case json_error_null_byte_in_key:
        what = "a NUL character in a string";
        break;
    case json_error_out_of_memory:
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for the JSON");
    default:
        break;
    }
    return error_set(e, ST_INVALID_ARGUMENT, "%s, at byte %d: %s", what,
                     j->position, quote(j->text).text);
}

enum status document_parse(json_t **out, const char *text, size_t len,
                           struct error *e)
{
    static const struct json_bounds most = {
        DOCUMENT_DEPTH_MAX, DOCUMENT_VALUES_MAX, DOCUMENT_VALUES_MAX};
    json_error_t j;
    /* Before the parser: its memory and stack are bounded from here on. */
    enum status st = json_bound(text, len, &most, ST_INVALID_ARGUMENT, e);

    *out = NULL;
    if (st != ST_OK) {
        return st;
    }
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &j);
    if (*out == NULL) {
        return parse_error(&j, e);
    }
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return error_set(e, ST_INVALID_ARGUMENT, "JSON, but not an object");
    }
    return ST_OK;
}

enum status document_parse_python(json_t **out, const char *text, size_t len,
                                  struct error *e)
{
    char *copy;
    size_t n;
    enum status st = json_words(&copy, &n, text, len, e);

    *out = NULL;
    if (st == ST_OK) {
        st = document_parse(out, copy != NULL ? copy : text, n, e);
    }
    free(copy);
    return st;
}

enum status document_open(int *fd, uint64_t *bytes, const char *dir,
                          const char *name, struct error *e)
{
    char path[PATH_MAX];
    struct stat s;

    *fd = -1;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) {
        return error_set(e, ST_INVALID_ARGUMENT, "its path is too long");
    }
    /* O_NONBLOCK: opening a pipe would otherwise wait for a writer. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) {
        return error_set(e, errno == ENOENT ? ST_NOT_FOUND : ST_UNAVAILABLE,
                         "open: %s", strerror(errno));
    }
    /* Checked on the descriptor, as the name may point elsewhere by now. */
    if (fstat(*fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        close(*fd);
        *fd = -1;
        return error_set(e, ST_INVALID_ARGUMENT, "not a regular file");
    }
    *bytes = (uint64_t)s.st_size;
    return ST_OK;
}

enum status document_pread(int fd, void *to, size_t len, uint64_t offset,
                           struct error *e)
{
    char *at = to;

    while (len > 0) {
        ssize_t n = pread(fd, at, len, (off_t)offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set(e, ST_UNAVAILABLE, "read: %s", strerror(errno));
        }
        /* The file was truncated after its size was read. */
        if (n == 0) {
            return error_set(e, ST_DATA_LOSS,
                             "the file ends %zu bytes too early", len);
        }
        at += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return ST_OK;
}

enum status document_read(char **bytes, size_t *len, const char *dir,
                          const char *name, size_t max, struct error *e)
{
    uint64_t size = 0;
    int fd;
    enum status st = document_open(&fd, &size, dir, name, e);

    *bytes = NULL;
    *len = 0;
    if (st != ST_OK) {
        return st;
    }
    if (size > max) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "%llu bytes long, at most %zu are allowed",
                       (unsigned long long)size, max);
        goto out;
    }
    *bytes = malloc((size_t)size + 1);
    if (*bytes == NULL) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for %llu bytes",
                       (unsigned long long)size);
        goto out;
    }
    st = document_pread(fd, *bytes, (size_t)size, 0, e);
    if (st != ST_OK) {
        free(*bytes);
        *bytes = NULL;
        goto out;
    }
    /* = '\0';] For callers that use C strings; parsers use the length. */
    (*bytes)[size] = '\0';
    *len = (size_t)size;
out:
    close(fd);
    return st;
}
