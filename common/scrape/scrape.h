/* scrape.h - The endpoint for Prometheus and for probes of a supervisor.
 *
 *     /metrics   the daemon's metrics
 *     /ready     200 if the daemon is ready for work, else 503
 *     /live      200: the loop takes turns; a stalled daemon answers nothing
 *
 *     accept --> read the request --> make the page --> write --> drain, close
 *
 * The endpoint is a source of common/wire/loop.h: scrape_fd() becomes readable
 * when there is work, and scrape_ready() does a bounded part of it.  It never
 * blocks and needs no clock.
 *
 * A peer that stalls, floods or sends garbage costs the daemon next to nothing.
 * Each connection ends after SCRAPE_LIFE_MS at most.  Requests longer than
 * SCRAPE_REQUEST_MAX are refused.  At most SCRAPE_ACCEPTS_MAX connections are
 * accepted per SCRAPE_TICK_MS, and SCRAPE_CONNECTIONS_MAX are open; others wait
 * in the backlog of the kernel.
 *
 * There are no keys, so only loopback addresses are bound, and web pages of
 * other hosts are refused (scrape_is_foreign), unless the caller allows anyone.
 *
 * Threading: one thread, which also runs the render function.  Memory: one
 * page per connection, kept for the next one; the steady state does not
 * allocate.  Limits: the constants below. */
#ifndef COMMON_SCRAPE_SCRAPE_H
#define COMMON_SCRAPE_SCRAPE_H

#include <stdbool.h>

#include "common/base/limit.h"
#include "common/base/metric_page.h"
#include "common/base/status.h"

#define SCRAPE_CONNECTIONS_MAX 8
#define SCRAPE_ACCEPTS_MAX     8     /* in SCRAPE_TICK_MS */
#define SCRAPE_DRAIN_MAX       65536 /* bytes skipped after the answer */
#define SCRAPE_TICK_MS         250
#define SCRAPE_LIFE_MS         5000

struct scrape;

extern const struct limit_row scrape_limits[];
extern const size_t scrape_limits_n;

/* Adds all metrics of the program to the page, which is empty. */
typedef void scrape_render_fn(void *arg, struct metric_page *page);

/* Returns whether the program is ready for work. */
typedef bool scrape_probe_fn(const void *arg);

/* Listens on "HOST:PORT": HOST is an IPv4 address, an IPv6 address in brackets
 * or localhost; PORT 0: the kernel chooses.  anyone: addresses other than
 * loopback are allowed.  Returns ST_INVALID_ARGUMENT if the address is
 * malformed, ST_FAILED_PRECONDITION if it is not allowed, and ST_UNAVAILABLE if
 * it cannot be bound. */
MUST_CHECK enum status scrape_new(struct scrape **out, const char *listen,
                                  bool anyone, struct error *e);
/* Closes everything.  No-op for NULL. */
void scrape_free(struct scrape **s);

/* Sets the function that makes the page; before the first scrape_ready(). */
void scrape_render(struct scrape *s, scrape_render_fn *render, void *arg);

/* Sets the function that answers /ready; before the first scrape_ready().
 * Without it the program is always ready. */
void scrape_probe(struct scrape *s, scrape_probe_fn *probe, const void *arg);

/* Returns the address as HOST:PORT, with the port that is bound. */
const char *scrape_address(const struct scrape *s);

/* Returns the descriptor to wait for. */
int scrape_fd(const struct scrape *s);

/* Does the work that is due; arg is the struct scrape.  For loop_add(). */
void scrape_ready(void *arg, int fd);

#endif
