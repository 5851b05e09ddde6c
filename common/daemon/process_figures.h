/* process_figures.h - Figures of the process, which every daemon has on its
 * metrics page: CPU time, memory, descriptors, start, and the version.
 *
 * The names beginning with process_ are those of Prometheus's own clients, so
 * that dashboards made for any program show them.  They are read from /proc
 * when a page is made; a figure that cannot be read is left out.
 *
 * Threading: any.  Memory: nothing is kept.  Limits: none. */
#ifndef COMMON_DAEMON_PROCESS_FIGURES_H
#define COMMON_DAEMON_PROCESS_FIGURES_H

#include <stdio.h>

#include "common/base/metric_page.h"

/* Prints the rows for --list-metrics, as metric_list(). */
void process_figures_list(FILE *to);

/* Adds the figures to a page.  program: the name of the daemon. */
void process_figures_page(struct metric_page *page, const char *program);

#endif
