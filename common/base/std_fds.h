/* std_fds.h - descriptors 0, 1 and 2 are never anybody else's, and what is
 * printed is not lost without a word.
 *
 * A program may be started with one of them closed (2>&-).  The next that it
 * opens then gets that number, and what is meant for people is written into
 * a socket's eventfd.
 *
 * Threading: std_fds_reserve() before any thread; std_out_...() by one.
 * Memory: none. */
#ifndef COMMON_BASE_STD_FDS_H
#define COMMON_BASE_STD_FDS_H

#include <stdbool.h>

#include "common/base/status.h"

/* Call first in main().  What is closed stays of no use: to read from or
 * write to it fails with EBADF, as before. */
void std_fds_reserve(void);

/* Writes what is buffered of standard output.  False: of all that was printed
 * so far some is lost; *why is the errno of the first call that saw it, 0 if
 * none did. */
MUST_CHECK bool std_out_flush(int *why);

/* The same, as the end of a program that prints and no more.  ST_INTERNAL:
 * "cannot write: ...", ST_CANCELLED if a signal was why. */
MUST_CHECK enum status std_out_end(struct error *e);

#endif
