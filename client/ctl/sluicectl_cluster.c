/* sluicectl_cluster.c - The verb cluster: check and render a cluster file. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cluster/bundle_diff.h"
#include "client/cluster/cluster_check.h"
#include "client/cluster/cluster_fit.h"
#include "client/cluster/cluster_render.h"
#include "client/cluster/cluster_tenants.h"
#include "client/cluster/new_file.h"
#include "client/ctl/columns.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_cluster.h"
#include "common/base/memory.h"
#include "text/file.h"

/* ---- reading ---- */

static void run_checks(struct ctl_cluster *x, bool models_here)
{
    const struct fit_where where = {.base = x->base,
                                    .models_here = models_here};

    cluster_layout_make(&x->layout, &x->cluster);
    cluster_keys_needed(&x->needs, &x->layout);
    cluster_check(&x->layout, &x->faults);
    cluster_fit_check(&x->layout, &where, &x->faults, &x->notes);
    if (x->cluster.keys_dir.text != NULL) {
        cluster_keys_dir(x->keys_dir, &x->cluster, x->base);
        cluster_keys_check(&x->needs, x->keys_dir, x->cluster.keys_at,
                           &x->faults, &x->notes);
    }
    cluster_notes(&x->layout, &x->notes);
}

/* Returns the folder of the cluster file, "." without a slash. */
static void set_base(struct ctl_cluster *x, const char *path)
{
    char copy[CERTIFICATE_PATH_MAX];

    snprintf(copy, sizeof copy, "%s", path);
    snprintf(x->base, sizeof x->base, "%s", dirname(copy));
}

enum status ctl_cluster_open(struct ctl_cluster **out, const char *path,
                             bool models_here, struct error *e)
{
    struct ctl_cluster *x = memory_must(calloc(1, sizeof *x));
    enum status st;

    *out = x;
    x->path = path;
    set_base(x, path);
    st = cluster_load(&x->cluster, path, &x->faults, e);
    if (st == ST_OK && x->cluster.tree != NULL) {
        run_checks(x, models_here);
    }
    return st;
}

void ctl_cluster_close(struct ctl_cluster **x)
{
    cluster_keys_free(&(*x)->needs);
    cluster_layout_free(&(*x)->layout);
    cluster_free(&(*x)->cluster);
    free(*x);
    *x = NULL;
}

/* ---- faults ---- */

static json_t *json_faults(const struct faults *f)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < f->n; i++) {
        const struct fault *x = &f->item[i];
        json_t *row = json_object();

        json_object_set_new(row, "line", json_integer((json_int_t)x->at.line));
        json_object_set_new(row, "column",
                            json_integer((json_int_t)x->at.column));
        json_object_set_new(row, "text", json_text(x->text, strlen(x->text)));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void print_faults(FILE *to, const char *path, const struct faults *f)
{
    for (size_t i = 0; i < f->n; i++) {
        char line[FAULT_LINE];

        faults_line(line, path, &f->item[i]);
        fprintf(to, "%s\n", line);
    }
    if (f->n_more > 0) {
        fprintf(to, "%s: %zu more faults; at most %d are listed\n", path,
                f->n_more, FAULTS_MAX);
    }
}

int ctl_cluster_faults(const struct ctl *c, const struct ctl_cluster *x)
{
    size_t n = x->faults.n + x->faults.n_more;

    if (n == 0) {
        return CTL_OK;
    }
    if (c->o.json) {
        ctl_print_json(json_pack("{s:o}", "faults", json_faults(&x->faults)));
    } else {
        print_faults(stderr, x->path, &x->faults);
        fprintf(stderr, "%zu fault%s\n", n, n == 1 ? "" : "s");
    }
    return CTL_FAILED;
}

/* ---- the summary ---- */

static void row(struct columns *t, const struct cluster_host *h,
                const char *daemon, const char *name, const char *what,
                const char *at)
{
    columns_cell(t, "%s", h->name.text);
    columns_cell(t, "%s", h->address.text);
    columns_cell(t, "%s", daemon);
    columns_cell(t, "%s", name);
    columns_cell(t, "%s", what);
    columns_cell(t, "%s", at);
}

static void worker_row(struct columns *t, const struct instance *in)
{
    const struct cluster_worker *w = in->worker;
    char what[256], at[ENDPOINT_MAX] = "", device[LAYOUT_DEVICE_MAX];

    snprintf(what, sizeof what, "%.80s on %.40s%s%.40s", w->model.text,
             cluster_device(device, in), w->memory.text != NULL ? ", " : "",
             w->memory.text != NULL ? w->memory.text : "");
    if (w->layers.text != NULL) {
        snprintf(what + strlen(what), sizeof what - strlen(what),
                 ", layers %.20s", w->layers.text);
    } else if (w->stages.v > 1) {
        snprintf(what + strlen(what), sizeof what - strlen(what),
                 ", one of %u stages", (unsigned)w->stages.v);
    }
    if (in->stage_port > 0) {
        cluster_endpoint(at, in->host, in->stage_port);
    }
    row(t, in->host, "worker", in->name, what, at);
}

static void router_row(struct columns *t, const struct layout *l)
{
    const struct cluster_router *r = &l->cluster->router;
    char at[ENDPOINT_MAX], both[ENDPOINT_MAX + 16];

    cluster_endpoint(at, l->router_host, r->workers_port.v);
    snprintf(both, sizeof both, "%s, %u", at, (unsigned)r->clients_port.v);
    row(t, l->router_host, "router", r->name.text, "", both);
}

static void print_summary(const struct ctl_cluster *x)
{
    const struct cluster *c = &x->cluster;
    struct columns t;

    columns_init(&t, "HOST", "ADDRESS", "DAEMON", "NAME", "SERVES", "AT", NULL);
    router_row(&t, &x->layout);
    for (size_t i = 0; i < c->n_gateways; i++) {
        const struct cluster_gateway *g = &c->gateways[i];
        const struct cluster_host *h = cluster_host_find(c, g->host.text);
        char at[ENDPOINT_MAX];

        cluster_gateway_listen(at, g, h);
        row(&t, h, "gateway", g->name.text, "HTTP", at);
    }
    for (size_t i = 0; i < x->layout.n; i++) {
        worker_row(&t, &x->layout.instances[i]);
    }
    columns_print(&t, stdout);
    columns_fini(&t);
}

static int check(struct ctl *c, struct ctl_cluster *x)
{
    int rc = ctl_cluster_faults(c, x);

    if (rc != CTL_OK) {
        return rc;
    }
    if (c->o.json) {
        ctl_print_json(
            json_pack("{s:[],s:o}", "faults", "notes", json_faults(&x->notes)));
        return CTL_OK;
    }
    print_summary(x);
    if (x->notes.n > 0) {
        putchar('\n');
        print_faults(stdout, x->path, &x->notes);
    }
    return CTL_OK;
}

/* ---- render ---- */

static void on_key(void *arg, const struct curve_cert *cert)
{
    const struct ctl_cluster *x = arg;
    char roles[CERTIFICATE_ROLES_TEXT];

    printf("made %s/%s.key, role %s\n", x->keys_dir, cert->name,
           certificate_roles_text(roles, cert->identity.roles));
}

static void on_tenant(void *arg, const char *path)
{
    (void)arg;
    printf("made %s, an API key\n", path);
}

static enum status make_keys(struct ctl_cluster *x, struct error *e)
{
    enum status st = ST_OK;

    if (x->cluster.keys_dir.text == NULL) {
        cluster_path(x->keys_dir, sizeof x->keys_dir, x->base, "keys");
    } else {
        st = cluster_keys_make(&x->needs, x->keys_dir, on_key, x, e);
    }
    return st == ST_OK
               ? cluster_tenants_make(&x->cluster, x->keys_dir, on_tenant, x, e)
               : st;
}

/* Prints how the bundle differs from the one in its place. */
static void print_diff(const struct ctl_cluster *x, const char *path,
                       const struct bundle *b, const char *bytes, size_t n)
{
    struct bundle old = {0};
    char *was = NULL;
    size_t n_was = 0;
    struct error e;

    (void)x;
    if (file_read(path, BUNDLE_BYTES_MAX, &was, &n_was, &e) == ST_OK) {
        if (bundle_read(&old, was, n_was, &e) != ST_OK) {
            printf("  the earlier bundle is not readable: %s\n", e.text);
        }
        explicit_bzero(was, n_was);
    }
    if (n == n_was && was != NULL && bundle_diff(stdout, &old, b) == 0) {
        puts("  unchanged");
    } else if (n != n_was) {
        bundle_diff(stdout, &old, b);
    }
    (void)bytes;
    bundle_free(&old);
    free(was);
}

static enum status write_bundle(const struct ctl_cluster *x, const char *out,
                                const struct bundle *b, struct error *e)
{
    char path[CERTIFICATE_PATH_MAX];
    char *bytes;
    size_t n;
    enum status st = bundle_write(b, &bytes, &n, e);

    if (st != ST_OK) {
        return st;
    }
    snprintf(path, sizeof path, "%.4000s/%s.tar", out, b->host);
    printf("%s\n", path);
    print_diff(x, path, b, bytes, n);
    /* The bundle has a secret key. */
    st = new_file_replace(path, bytes, n, 0600, e);
    explicit_bzero(bytes, n);
    free(bytes);
    return st;
}

/* Opens what the bundles are made of. */
static enum status open_render(const struct ctl_cluster *x,
                               struct certificate_list lists[2],
                               char **api_keys, struct error *e)
{
    enum status st = ST_OK;

    if (x->cluster.keys_dir.text != NULL) {
        st = certificate_list(&lists[0], x->keys_dir, ".key", e);
        st = st == ST_OK ? certificate_list(&lists[1], x->keys_dir, ".cert", e)
                         : st;
    }
    if (st == ST_OK && x->cluster.n_tenants > 0) {
        st = cluster_tenants_text(&x->cluster, x->keys_dir, api_keys, e);
    }
    return st;
}

/* Makes the keys that are missing, and writes the bundle of each host. */
static enum status render_all(struct ctl_cluster *x, const char *out,
                              struct error *e)
{
    struct certificate_list lists[2] = {{0}, {0}};
    char *api_keys = NULL;
    enum status st = make_keys(x, e);

    st = st == ST_OK ? open_render(x, lists, &api_keys, e) : st;
    for (size_t i = 0; st == ST_OK && i < x->cluster.n_hosts; i++) {
        const struct cluster_host *h = &x->cluster.hosts[i];
        const struct render r = {
            .layout = &x->layout,
            .keys_dir = x->cluster.keys_dir.text != NULL ? x->keys_dir : NULL,
            .keys = &lists[0],
            .certs = &lists[1],
            .api_keys = api_keys};
        struct bundle b = {0};

        if (!cluster_render_has(&x->layout, h)) {
            continue;
        }
        st = cluster_render(&b, &r, h, e);
        st = st == ST_OK ? write_bundle(x, out, &b, e) : st;
        bundle_free(&b);
    }
    certificate_list_free(&lists[0]);
    certificate_list_free(&lists[1]);
    free(api_keys);
    return st;
}

/* Checks the host of --apply before anything is written. */
static int check_host(const struct ctl *c, const struct ctl_cluster *x)
{
    const struct cluster_host *h = cluster_host_find(&x->cluster, c->o.apply);

    if (c->o.apply == NULL ||
        (h != NULL && cluster_render_has(&x->layout, h))) {
        return CTL_OK;
    }
    return ctl_misuse(c,
                      "--apply %s: a host of the cluster file that runs a "
                      "daemon is required",
                      c->o.apply);
}

/* Renders all bundles, and installs that of --apply. */
static int render_to(struct ctl *c, struct ctl_cluster *x, char *out)
{
    char path[CERTIFICATE_PATH_MAX];
    struct error e;

    if (new_folder_make(out, "*", &e) != ST_OK || access(out, W_OK) != 0) {
        return ctl_fail(c, ST_UNAVAILABLE,
                        "cannot make or write the folder of the bundles; "
                        "--out DIR names another",
                        0);
    }
    if (render_all(x, out, &e) != ST_OK) {
        return ctl_fail(c, e.code, e.text, 0);
    }
    if (c->o.apply == NULL) {
        return CTL_OK;
    }
    snprintf(path, sizeof path, "%.3900s/%s.tar", out, c->o.apply);
    return ctl_cluster_apply(c, path);
}

static int render(struct ctl *c, struct ctl_cluster *x)
{
    char out[CERTIFICATE_PATH_MAX];
    int rc = ctl_cluster_faults(c, x);

    rc = rc == CTL_OK ? check_host(c, x) : rc;
    if (rc != CTL_OK) {
        return rc;
    }
    if (c->o.out != NULL) {
        snprintf(out, sizeof out, "%.3900s", c->o.out);
    } else {
        cluster_path(out, sizeof out, x->base, "bundles");
    }
    return render_to(c, x, out);
}

/* ---- the verb ---- */

static int with_file(struct ctl *c,
                     int (*run)(struct ctl *, struct ctl_cluster *))
{
    struct ctl_cluster *x;
    struct error e;
    int rc;

    if (ctl_cluster_open(&x, c->operands[1], c->o.models_here, &e) != ST_OK) {
        rc = ctl_fail(c, e.code, e.text, 0);
    } else {
        rc = run(c, x);
    }
    ctl_cluster_close(&x);
    return rc;
}

int ctl_cluster(struct ctl *c)
{
    const char *verb = c->n_operands > 0 ? c->operands[0] : "";

    if (c->n_operands != 2) {
        return ctl_misuse(c, "cluster requires two words: check FILE, render "
                             "FILE or apply BUNDLE");
    }
    if (strcmp(verb, "check") == 0) {
        return with_file(c, check);
    }
    if (strcmp(verb, "render") == 0) {
        return with_file(c, render);
    }
    if (strcmp(verb, "apply") == 0) {
        return ctl_cluster_apply(c, c->operands[1]);
    }
    return ctl_misuse(c, "cluster %s: check, render or apply is required",
                      verb);
}
