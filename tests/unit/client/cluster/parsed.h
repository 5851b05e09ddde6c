/* parsed.h - A cluster file of a test, and what is wrong with it.
 *
 * Threading: none.  Memory: one static cluster. */
#ifndef TESTS_UNIT_CLIENT_CLUSTER_PARSED_H
#define TESTS_UNIT_CLIENT_CLUSTER_PARSED_H

#include <stdio.h>
#include <string.h>

#include "client/cluster/cluster_layout.h"
#include "tests/unit/cmocka.h"

static struct cluster cluster;
static struct layout layout;
static struct faults faults, notes;

/* A file without faults, for tests that change one line. */
#define PARSED_HEAD                            \
    "cluster: demo\n"                          \
    "keys: {dir: keys}\n"                      \
    "hosts:\n"                                 \
    "  a: {address: 10.0.0.1}\n"               \
    "  b: {address: 10.0.0.2, memory: 4GiB}\n" \
    "models:\n"                                \
    "  m: {path: /srv/m}\n"

/* Parses text; parsed_free() frees. */
static inline void parsed(const char *text)
{
    memset(&faults, 0, sizeof faults);
    memset(&notes, 0, sizeof notes);
    cluster_parse(&cluster, text, strlen(text), &faults);
    cluster_layout_make(&layout, &cluster);
}

static inline void parsed_free(void)
{
    cluster_layout_free(&layout);
    cluster_free(&cluster);
}

/* Asserts that fault i is at the place and reads so. */
static inline void assert_fault(size_t i, unsigned line, unsigned column,
                                const char *text)
{
    assert_true(i < faults.n);
    assert_string_equal(faults.item[i].text, text);
    assert_int_equal(faults.item[i].at.line, line);
    assert_int_equal(faults.item[i].at.column, column);
}

/* Asserts that there is no fault, and prints the first otherwise. */
static inline void assert_no_fault(void)
{
    if (faults.n > 0) {
        print_error("%u:%u: %s\n", faults.item[0].at.line,
                    faults.item[0].at.column, faults.item[0].text);
    }
    assert_int_equal(faults.n, 0);
}

#endif
