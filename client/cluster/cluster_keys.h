/* cluster_keys.h - The keys that a cluster file needs, and those that exist.
 *
 * | who | role | name |
 * | the router | router | router: name |
 * | a gateway | client | its name |
 * | a worker | worker | its instance's name |
 * | an admin | admin | its name |
 *
 * The keys' folder is on the admin's machine: NAME.key and NAME.cert of each.
 *
 * Threading: none.  Memory: lists on the heap; aborts without memory. */
#ifndef CLIENT_CLUSTER_CLUSTER_KEYS_H
#define CLIENT_CLUSTER_CLUSTER_KEYS_H

#include "client/cluster/certificate.h"
#include "client/cluster/cluster_layout.h"

struct key_need {
    const char *name;                /* borrowed from the layout */
    uint8_t role;                    /* one of BY_* */
    const struct cluster_host *host; /* NULL: an admin */
    struct place at;
};

struct key_needs {
    struct key_need *item; /* [n] in the order of the table above */
    size_t n;
};

/* Lists the needs; none without `keys`. */
void cluster_keys_needed(struct key_needs *out, const struct layout *l);
void cluster_keys_free(struct key_needs *k);

/* Writes the keys' folder, which may be relative to the cluster file's. */
void cluster_keys_dir(char out[CERTIFICATE_PATH_MAX], const struct cluster *c,
                      const char *base);

/* Compares the needs with the files in dir.  Adds a fault for each file that is
 * no certificate, lacks the role or the secret, or has another name than its
 * file; a note with the number of keys that render will make. */
void cluster_keys_check(const struct key_needs *k, const char *dir,
                        struct place at, struct faults *f,
                        struct faults *notes);

/* Makes the keys that are missing; made() is called for each. */
MUST_CHECK enum status
cluster_keys_make(const struct key_needs *k, const char *dir,
                  void (*made)(void *arg, const struct curve_cert *c),
                  void *arg, struct error *e);

#endif
