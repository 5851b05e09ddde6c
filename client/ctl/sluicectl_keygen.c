/* sluicectl_keygen.c - The verbs keygen and keys: certificates of CURVE keys.
 *
 * Neither needs a router. */
#include <stdio.h>
#include <string.h>

#include "client/cluster/certificate.h"
#include "client/cluster/cluster_file.h"
#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"

/* Finds the number after the highest of a name in dir, keys and certificates
 * both, and the roles of that certificate. */
static enum status next_number(const char *dir, const char *name,
                               unsigned *number, uint8_t *roles,
                               struct error *e)
{
    static const char *const suffixes[] = {".key", ".cert"};
    enum status st = ST_OK;

    *number = 0;
    for (size_t i = 0; i < 2 && st == ST_OK; i++) {
        struct certificate_list list;
        const struct certificate_entry *newest;

        st = certificate_list(&list, dir, suffixes[i], e);
        newest = st == ST_OK ? certificate_newest(&list, name) : NULL;
        if (newest != NULL && certificate_number(newest->file) > *number) {
            *number = certificate_number(newest->file);
        }
        if (newest != NULL && newest->readable) {
            *roles = newest->cert.identity.roles;
        }
        certificate_list_free(&list);
    }
    if (st == ST_OK && *number == 0) {
        return error_set(e, ST_NOT_FOUND,
                         "%s has no key named %s; keygen without --rotate "
                         "makes the first",
                         dir, name);
    }
    return st;
}

/* Sets the name of a rotation and, without --role, the roles of the last
 * key. */
static enum status rotated(const struct ctl *c, char name[], size_t size,
                           uint8_t *roles, struct error *e)
{
    unsigned number;
    uint8_t last = 0;
    enum status st = next_number(c->o.dir, c->operands[0], &number, &last, e);

    if (st != ST_OK) {
        return st;
    }
    if (number >= CERTIFICATE_NUMBER_MAX) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%s has %d keys already; remove old ones",
                         c->operands[0], CERTIFICATE_NUMBER_MAX);
    }
    *roles = *roles != 0 ? *roles : last;
    snprintf(name, size, "%s+%u", c->operands[0], number + 1);
    return ST_OK;
}

static void print_made(const struct ctl *c, const struct curve_cert *cert)
{
    char roles[CERTIFICATE_ROLES_TEXT], key[CERTIFICATE_KEY_TEXT];

    certificate_roles_text(roles, cert->identity.roles);
    certificate_key_text(key, cert->identity.key);
    if (c->o.json) {
        json_t *j = json_object();

        json_object_set_new(j, "name", json_string(cert->name));
        json_object_set_new(j, "role", json_string(roles));
        json_object_set_new(j, "public_key", json_string(key));
        json_object_set_new(j, "dir", json_string(c->o.dir));
        ctl_print_json(j);
        return;
    }
    printf("%s/%s.key   secret, stays on this machine or %s's\n", c->o.dir,
           cert->name, cert->identity.name);
    printf("%s/%s.cert  public, for the --trust of its peers\n", c->o.dir,
           cert->name);
    printf("role %s, public key %s\n", roles, key);
}

int ctl_keygen(struct ctl *c)
{
    char name[CERTIFICATE_NAME_TEXT];
    struct curve_cert made;
    uint8_t roles = 0;
    struct error e;
    enum status st;

    if (c->n_operands != 1) {
        return ctl_misuse(c, "keygen requires one name");
    }
    if (cluster_name_check(c->operands[0], &e) != ST_OK ||
        (c->o.role != NULL &&
         certificate_roles(c->o.role, &roles, &e) != ST_OK)) {
        return ctl_misuse(c, "%s", e.text);
    }
    if (roles == 0 && !c->o.rotate) {
        return ctl_misuse(c, "--role is required: router, worker, client or "
                             "admin, or several with commas");
    }
    snprintf(name, sizeof name, "%s", c->operands[0]);
    st = c->o.rotate ? rotated(c, name, sizeof name, &roles, &e) : ST_OK;
    if (st == ST_OK && roles == 0) {
        return ctl_misuse(c,
                          "--role is required: the last key of %s is not "
                          "readable",
                          c->operands[0]);
    }
    st = st == ST_OK
             ? certificate_write(&made, c->o.dir, name, roles, c->o.force, &e)
             : st;
    if (st != ST_OK) {
        return ctl_fail(c, st, e.text, 0);
    }
    print_made(c, &made);
    return CTL_OK;
}

/* ---- keys ---- */

/* Returns what is wrong with an entry besides its contents, or "". */
static const char *fault_of(const struct certificate_list *l, size_t i)
{
    const struct certificate_entry *entry = &l->item[i];
    size_t n = strlen(entry->cert.name);

    if (!entry->readable) {
        return entry->fault;
    }
    if (entry->cert.identity.roles == 0) {
        return "has no role; make it again with keygen --force";
    }
    if (strncmp(entry->file, entry->cert.name, n) != 0 ||
        strcmp(entry->file + n, ".cert") != 0) {
        return "the file has another name than the certificate";
    }
    if (entry->cert.has_secret) {
        return "has a secret key, which no peer needs; replace it by the "
               "public certificate";
    }
    for (size_t k = 0; k < i; k++) {
        if (l->item[k].readable &&
            memcmp(l->item[k].cert.identity.key, entry->cert.identity.key,
                   KEY_BYTES) == 0) {
            return "another certificate has the same key";
        }
    }
    return "";
}

static json_t *json_entry(const struct certificate_list *l, size_t i)
{
    const struct certificate_entry *entry = &l->item[i];
    char roles[CERTIFICATE_ROLES_TEXT], key[CERTIFICATE_KEY_TEXT];
    json_t *j = json_object();

    json_object_set_new(j, "file", json_text(entry->file, strlen(entry->file)));
    if (entry->readable) {
        certificate_roles_text(roles, entry->cert.identity.roles);
        json_object_set_new(j, "name", json_string(entry->cert.name));
        json_object_set_new(j, "role", json_string(roles));
        json_object_set_new(
            j, "public_key",
            json_string(certificate_key_text(key, entry->cert.identity.key)));
    }
    json_object_set_new(j, "fault",
                        json_text(fault_of(l, i), strlen(fault_of(l, i))));
    return j;
}

static void print_entries(const struct certificate_list *l)
{
    struct columns t;

    columns_init(&t, "NAME", "ROLE", "PUBLIC KEY", "FAULT", NULL);
    for (size_t i = 0; i < l->n; i++) {
        const struct certificate_entry *entry = &l->item[i];
        char roles[CERTIFICATE_ROLES_TEXT] = "-",
             key[CERTIFICATE_KEY_TEXT] = "-";

        if (entry->readable) {
            certificate_roles_text(roles, entry->cert.identity.roles);
            certificate_key_text(key, entry->cert.identity.key);
        }
        columns_cell(&t, "%s",
                     entry->readable ? entry->cert.name : entry->file);
        columns_cell(&t, "%s", roles);
        columns_cell(&t, "%s", key);
        columns_cell(&t, "%s", fault_of(l, i));
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

int ctl_keys(struct ctl *c)
{
    const char *trust = c->o.trust != NULL ? c->o.trust : ".";
    const char *dir = c->n_operands > 0 ? c->operands[0] : trust;
    struct certificate_list list;
    json_t *rows = json_array();
    int rc = CTL_OK;
    struct error e;
    enum status st;

    if (c->n_operands > 1) {
        json_decref(rows);
        return ctl_misuse(c, "keys requires one folder at most");
    }
    st = certificate_list(&list, dir, ".cert", &e);
    for (size_t i = 0; st == ST_OK && i < list.n; i++) {
        rc = fault_of(&list, i)[0] != '\0' ? CTL_FAILED : rc;
        json_array_append_new(rows, json_entry(&list, i));
    }
    if (st != ST_OK) {
        rc = ctl_fail(c, st, e.text, 0);
    } else if (c->o.json) {
        ctl_print_json(json_pack("{s:O}", "keys", rows));
    } else {
        print_entries(&list);
    }
    json_decref(rows);
    certificate_list_free(&list);
    return rc;
}
