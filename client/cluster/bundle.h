/* bundle.h - Everything that one host needs, as one tar file.
 *
 *     manifest
 *     etc/sluice/router.conf, gateway.conf, worker-INSTANCE.conf   0644
 *     etc/sluice/api-keys                            0640 root:sluice
 *     etc/sluice/keys/NAME.key                       0640 root:sluice
 *     etc/sluice/trust/NAME.cert                     0644
 *     etc/systemd/system/UNIT.d/50-cluster.conf      0644
 *
 * The manifest is text, one item a line:
 *
 *     sluice-bundle 1
 *     cluster NAME
 *     host NAME
 *     unit UNIT                  systemd starts it
 *     file MODE GROUP SHA256 PATH
 *
 * Writing is reproducible: equal files give equal bytes.  Reading trusts
 * nothing: a path outside the list above, a link, a file that the manifest does
 * not have, or has with another hash, is an error.
 *
 * Threading: none.  Memory: a bundle owns its files; aborts without memory.
 * Limits: BUNDLE_FILES_MAX, BUNDLE_FILE_BYTES, BUNDLE_BYTES_MAX. */
#ifndef CLIENT_CLUSTER_BUNDLE_H
#define CLIENT_CLUSTER_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define BUNDLE_FILES_MAX  8192
#define BUNDLE_FILE_BYTES (1u << 20)
#define BUNDLE_BYTES_MAX  (64u << 20)
#define BUNDLE_PATH_MAX   160
#define BUNDLE_NAME_MAX   64
#define BUNDLE_HASH_TEXT  65

struct bundle_file {
    char path[BUNDLE_PATH_MAX]; /* without a slash in front */
    bool secret;                /* 0640 root:sluice; else 0644 root:root */
    char hash[BUNDLE_HASH_TEXT];
    char *bytes; /* [n]; NULL in a manifest alone */
    size_t n;
};

struct bundle {
    char cluster[BUNDLE_NAME_MAX], host[BUNDLE_NAME_MAX];
    struct bundle_file *file; /* [n] by path */
    size_t n;
    char (*unit)[BUNDLE_NAME_MAX]; /* [n_units] in the order of starting */
    size_t n_units;
};

/* Adds a file; copies bytes[0..n).  The path must be an allowed one. */
void bundle_add(struct bundle *b, const char *path, const char *bytes,
                size_t n);

/* Adds a unit. */
void bundle_add_unit(struct bundle *b, const char *unit);

/* Sorts the files by path, after the last bundle_add(). */
void bundle_sort(struct bundle *b);

void bundle_free(struct bundle *b);

/* Returns the file of that path, or NULL. */
const struct bundle_file *bundle_find(const struct bundle *b, const char *path);

/* Gives the file of that path a hash that no file has; adds it, without bytes,
 * if it is not there. */
void bundle_mark(struct bundle *b, const char *path);

/* Returns whether the bundle has the unit. */
bool bundle_has_unit(const struct bundle *b, const char *unit);

/* Returns whether a bundle may have a file of that path. */
bool bundle_path_allowed(const char *path);

/* Writes the manifest.  The caller frees *text. */
void bundle_manifest(const struct bundle *b, char **text, size_t *n);

/* Parses a manifest: files without bytes.  Returns ST_INVALID_ARGUMENT and the
 * line's fault. */
MUST_CHECK enum status bundle_manifest_parse(struct bundle *out,
                                             const char *text, size_t n,
                                             struct error *e);

/* Writes the tar.  The caller frees *bytes. */
MUST_CHECK enum status bundle_write(const struct bundle *b, char **bytes,
                                    size_t *n, struct error *e);

/* Reads a tar.  Returns ST_INVALID_ARGUMENT and the fault. */
MUST_CHECK enum status bundle_read(struct bundle *out, const char *bytes,
                                   size_t n, struct error *e);

#endif
