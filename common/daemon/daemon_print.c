/* The texts that a daemon prints instead of serving. */
#include "common/daemon/daemon.h"
#include "common/daemon/process_figures.h"
#include "common/wire/wire_limits.h"

static void print_help(const struct daemon *d)
{
    const struct option_program *p = d->program->options;

    fputs(p->usage, stdout);
    option_print(stdout, p->rows, p->n_rows);
    fputs(p->more, stdout);
}

static void print_version(const struct daemon *d)
{
    printf("%s %s\n", d->program->options->name, SLUICE_VERSION);
}

static void print_limits(const struct daemon *d)
{
    const struct limit_table *l = d->program->limits;

    wire_limits_print(stdout);
    for (; l->rows != NULL || l->print != NULL; l++) {
        if (l->print != NULL) {
            l->print(stdout);
        } else {
            limits_print(stdout, l->rows, *l->n_rows);
        }
    }
}

static void print_metrics(const struct daemon *d)
{
    d->program->list_metrics(stdout);
    process_figures_list(stdout);
}

static void print_config(const struct daemon *d)
{
    option_sources_print(stdout, &d->sources);
}

/* The first that is asked for is printed. */
static const struct {
    const char *option;
    void (*print)(const struct daemon *d);
} texts[] = {
    {"help", print_help},           {"version", print_version},
    {"limits", print_limits},       {"list_metrics", print_metrics},
    {"print_config", print_config},
};

bool daemon_print(const struct daemon *d)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const bool *asked = daemon_field(d, texts[i].option);

        if (*asked) {
            texts[i].print(d);
            return true;
        }
    }
    return false;
}
