/* Cluster files: any bytes are refused with faults, or give a cluster that can
 * be checked and, without a fault, written as configuration. */
#include <stdlib.h>
#include <string.h>

#include "client/cluster/cluster_check.h"
#include "client/cluster/cluster_conf.h"
#include "common/base/option_file.h"
#include "tests/fuzz/fuzz.h"

static struct faults faults;

/* Checks that a daemon can read the text. */
static void check_text(char *text)
{
    struct option_file f;
    struct error e;

    FUZZ_CHECK(option_file_parse(&f, "x", text, strlen(text), &e) == ST_OK);
    option_file_fini(&f);
    free(text);
}

static void write_all(const struct layout *l)
{
    const struct cluster *c = l->cluster;

    check_text(cluster_conf_router(l));
    for (size_t i = 0; i < c->n_gateways; i++) {
        check_text(cluster_conf_gateway(l, &c->gateways[i]));
        free(cluster_conf_unit(&c->gateways[i].unit));
    }
    for (size_t i = 0; i < l->n; i++) {
        check_text(cluster_conf_worker(l, &l->instances[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct cluster c;
    struct layout l;

    memset(&faults, 0, sizeof faults);
    cluster_parse(&c, (const char *)data, n, &faults);
    FUZZ_CHECK(c.tree != NULL || faults.n > 0);
    cluster_layout_make(&l, &c);
    cluster_check(&l, &faults);
    for (size_t i = 0; i < faults.n; i++) {
        FUZZ_CHECK(faults.item[i].text[0] != '\0');
    }
    if (faults.n == 0) {
        write_all(&l);
        cluster_notes(&l, &faults);
    }
    cluster_layout_free(&l);
    cluster_free(&c);
    return 0;
}
