#include "router/base/named_numbers.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(TENANT_NAME_MAX <= MODEL_NAME_MAX, "a name fits");

const struct named_numbers_rule weight_rule = {
    "--tenant-weight", "TENANT", "tenant", TENANT_NAME_MAX, TENANT_WEIGHT_MAX};

const struct named_numbers_rule places_rule = {
    "--places", "MODEL", "model", MODEL_NAME_MAX, ROUTER_WORKERS_MAX};

static enum status parse(struct named_numbers *w,
                         const struct named_numbers_rule *r, const char *item,
                         struct error *e)
{
    const char *equals = strrchr(item, '=');
    size_t n = equals != NULL ? (size_t)(equals - item) : 0;
    unsigned long number = 0;
    char *end = NULL;

    if (n >= 1 && n <= r->name_max && equals[1] >= '0' && equals[1] <= '9') {
        number = strtoul(equals + 1, &end, 10);
    }
    if (end == NULL || *end != '\0' || number < 1 || number > r->most) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s %.60s: must be %s=N, %s of 1 to %zu bytes and N "
                         "from 1 to %u",
                         r->option, item, r->form, r->form, r->name_max,
                         r->most);
    }
    memcpy(w->name[w->n], item, n);
    w->name[w->n][n] = '\0';
    if (named_number(w->of, w->n, w->name[w->n], 0) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s: %s %s is there twice",
                         r->option, r->what, w->name[w->n]);
    }
    w->of[w->n] = (struct named_number){w->name[w->n], (uint32_t)number};
    w->n++;
    return ST_OK;
}

enum status named_numbers_parse(struct named_numbers *out,
                                const struct named_numbers_rule *r,
                                const struct option_list *list, struct error *e)
{
    enum status st = ST_OK;

    memset(out, 0, sizeof *out);
    for (unsigned i = 0; st == ST_OK && i < list->n; i++) {
        st = parse(out, r, list->item[i], e);
    }
    return st;
}

uint32_t named_number(const struct named_number *of, uint32_t n,
                      const char *name, uint32_t unset)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(of[i].name, name) == 0) {
            return of[i].number;
        }
    }
    return unset;
}
