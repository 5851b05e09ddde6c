#include "gateway/http/target.h"

#include <string.h>
#include <strings.h>

#include "common/base/quote.h"
#include "common/base/utf8.h"

static bool refuse(struct http_refusal *r, const char *target, const char *why)
{
    return http_refuse(r, 400, "the path %s %s", quote(target).text, why);
}

/* Returns -1 if c is no hexadecimal digit. */
static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at;

    if (c >= 'A' && c <= 'F') {
        c = (char)(c - 'A' + 'a');
    }
    at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* Slash, backslash, dot and percent sign would give the path a second reading
 * after another decoding. */
static bool is_ambiguous(char c)
{
    return strchr("/\\.%", c) != NULL || (c > 0 && c < ' ') || c == 0x7f;
}

/* Returns the byte that the escape at text stands for, -1 if it is none. */
static int escaped(const char *text)
{
    int high = hex(text[1]), low = high < 0 ? -1 : hex(text[2]);

    return low < 0 ? -1 : high * 16 + low;
}

/* Runs before decode(), so that an error shows the path as it came. */
static const char *check_escapes(const char *path, bool slash_may)
{
    while ((path = strchr(path, '%')) != NULL) {
        int c = escaped(path);

        if (c < 0) {
            return "has a percent sign without two hexadecimal digits";
        }
        if (is_ambiguous((char)c) && !(slash_may && c == '/')) {
            return "encodes a character that must not be encoded";
        }
        path += 3;
    }
    return NULL;
}

/* The result is never longer than the source. */
static const char *decode(char *path)
{
    char *to = path;

    for (const char *from = path; *from != '\0'; from++) {
        if (*from == '%') {
            *to++ = (char)escaped(from);
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return utf8_valid(path, strlen(path), NULL) ? NULL : "is not UTF-8";
}

static bool is_dots(const char *segment, size_t n)
{
    return (n == 1 && segment[0] == '.') ||
           (n == 2 && segment[0] == '.' && segment[1] == '.');
}

static const char *check_segments(const char *path)
{
    for (const char *at = path; at != NULL; at = strchr(at + 1, '/')) {
        size_t n = strcspn(at + 1, "/");

        if (n == 0 && at[1] == '/') {
            return "has an empty segment";
        }
        if (is_dots(at + 1, n)) {
            return "has a dot segment; send the path without it";
        }
    }
    return NULL;
}

static const char *check(const char *path)
{
    if (path[0] != '/') {
        return "does not begin with a slash; send the path only";
    }
    /* Backslash is a slash for some servers; "#" ends a path for others. */
    if (strpbrk(path, "\"#<>[]\\^`{|}") != NULL) {
        return "has a character that must be percent-encoded";
    }
    return check_segments(path);
}

static bool has_prefix(const char *path, const char *const *prefixes)
{
    bool has = false;

    for (; prefixes != NULL && *prefixes != NULL; prefixes++) {
        has = has || strncmp(path, *prefixes, strlen(*prefixes)) == 0;
    }
    return has;
}

/* Returns the length of "http://" or "https://" in front of target, 0 if it has
 * neither. */
static size_t scheme_of(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < 2; i++) {
        if (strncasecmp(target, schemes[i], strlen(schemes[i])) == 0) {
            return strlen(schemes[i]);
        }
    }
    return 0;
}

bool http_target_cut_host(char *target, const char *host,
                          struct http_refusal *r)
{
    size_t scheme = scheme_of(target), n, rest;

    if (scheme == 0) {
        return true;
    }
    n = strcspn(target + scheme, "/?");
    if (n == 0 ||
        (host != NULL &&
         (strlen(host) != n || strncasecmp(target + scheme, host, n) != 0))) {
        return http_refuse(
            r, 400,
            "the request is for the host %s, and its Host header "
            "names another; send the same in both",
            quote_bytes(target + scheme, n).text);
    }
    rest = scheme + n;
    if (target[rest] != '/') { /* no path is the path "/" */
        target[--rest] = '/';
    }
    memmove(target, target + rest, strlen(target + rest) + 1);
    return true;
}

bool http_target_parse(char *target, const char *const *names_under,
                       size_t *query, struct http_refusal *r)
{
    bool slash_may = has_prefix(target, names_under);
    char *mark = strchr(target, '?');
    const char *why;

    *query = mark == NULL ? 0 : (size_t)(mark + 1 - target);
    if (mark != NULL) {
        *mark = '\0';
    }
    if (strcmp(target, "*") == 0) {
        return true;
    }
    /* Checked before decoding: what decoding adds is none of these, except a
     * slash in a name, which must not make an empty or a dot segment. */
    why = check(target);
    why = why == NULL ? check_escapes(target, slash_may) : why;
    why = why == NULL ? decode(target) : why;
    why = why == NULL && slash_may ? check_segments(target) : why;
    return why == NULL || refuse(r, target, why);
}
