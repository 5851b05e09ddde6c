/* The duties of a daemon besides the work of its node: signals, the service
 * manager, metrics, the ready line. */
#include <inttypes.h>
#include <signal.h>

#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/base/log_output.h"
#include "common/daemon/daemon.h"
#include "common/daemon/malloc_bounds.h"
#include "common/daemon/process_figures.h"

void daemon_descriptors(uint64_t least, const char *figures, const char *each,
                        const char *option)
{
    uint64_t limit = descriptors_raise();

    if (limit < least) {
        log_warn("descriptors-few",
                 "limit=%" PRIu64 " %s why=\"each %s needs one: raise the hard "
                 "limit (ulimit -n, LimitNOFILE=) or lower %s\"",
                 limit, figures, each, option);
    }
}

enum status daemon_keys(struct daemon *d, struct error *e)
{
    const char *const *key = daemon_field(d, "key");
    const char *const *trust = daemon_field(d, "trust");

    return curve_keys_load(&d->keys, *key, *trust, e);
}

void daemon_disconnect(struct daemon *d)
{
    transport_free(&d->transport);
    curve_keys_free(&d->keys);
}

enum status daemon_metrics(struct daemon *d, struct error *e)
{
    const char *const *listen = daemon_field(d, "metrics");
    const bool *anyone = daemon_field(d, "metrics_anyone");
    enum status st;

    if (*listen == NULL) {
        return ST_OK;
    }
    st = scrape_new(&d->scrape, *listen, *anyone, e);
    return st == ST_OK ? st : error_wrap(e, "--metrics");
}

void daemon_node(struct daemon *d, const struct node_ops *ops, void *node)
{
    loop_init(&d->loop, d->transport, ops, node);
    loop_notify(&d->loop, &d->notify);
}

static void reload(struct daemon *d)
{
    notify_reloading(&d->notify, loop_now_us());
    log_reopen();
    if (d->program->reload != NULL) {
        d->program->reload(d->parts);
    }
    if (d->transport != NULL) {
        transport_reread_keys(d->transport);
    }
    notify_reloaded(&d->notify);
}

bool daemon_signal(struct daemon *d)
{
    int signal = loop_signal_read(d->signals);

    if (signal == SIGHUP) {
        reload(d);
    } else if (signal != 0) {
        notify_stopping(&d->notify);
    }
    return signal != 0 && signal != SIGHUP;
}

static void on_signal(void *arg, int fd)
{
    struct daemon *d = arg;

    (void)fd;
    if (daemon_signal(d)) {
        d->program->stop(d->parts);
    }
}

/* A supervisor waits for this line, and stdout may be a pipe. */
static void print_state(const struct daemon *d, const char *state)
{
    printf("%s %s %s: ", d->program->options->name, SLUICE_VERSION, state);
    d->program->print_state(d->parts);
    putchar('\n');
    fflush(stdout);
}

/* The lines come before the message to the manager: who is started by that
 * message may read the address from the log. */
static void get_ready(struct daemon *d)
{
    print_state(d, "ready");
    if (d->scrape != NULL) {
        printf("%s metrics: http://%s/metrics\n", d->program->options->name,
               scrape_address(d->scrape));
        fflush(stdout);
    }
    notify_ready(&d->notify);
}

/* Runs turns until the program is up.  Returns false if it stops before. */
static bool wait_until_up(struct daemon *d)
{
    const struct daemon_program *p = d->program;
    enum loop_end end;

    if (p->is_up == NULL) {
        return true;
    }
    end = loop_until(&d->loop, p->is_up, d->parts, DAEMON_READY_US);
    if (end == LOOP_LATE) {
        print_state(d, "waiting for the router");
        end = loop_until(&d->loop, p->is_up, d->parts, LOOP_FOREVER);
    }
    return end == LOOP_DONE;
}

static void render(void *arg, struct metric_page *page)
{
    const struct daemon *d = arg;

    d->program->render(d->parts, page);
    process_figures_page(page, d->program->options->name);
}

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

/* Runs turns to the end.  What a burst has left in the heap goes back. */
static void run(struct daemon *d)
{
    while (loop_until(&d->loop, never, NULL, MALLOC_TRIM_US) == LOOP_LATE) {
        malloc_bounds_trim();
    }
}

void daemon_serve(struct daemon *d)
{
    const struct daemon_program *p = d->program;

    /* After the sources of the program, whose work comes first in a turn. */
    loop_add(&d->loop, d->signals, on_signal, d);
    if (d->scrape != NULL) {
        scrape_render(d->scrape, render, d);
        if (p->is_ready != NULL) {
            scrape_probe(d->scrape, p->is_ready, d->parts);
        }
        loop_add(&d->loop, scrape_fd(d->scrape), scrape_ready, d->scrape);
    }
    if (wait_until_up(d)) {
        get_ready(d);
        run(d);
    }
}
