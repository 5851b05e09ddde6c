/* std_fds.h - Reservation of descriptors 0, 1 and 2, and output errors.
 *
 * A program may be started with one of these descriptors closed (2>&-).  The
 * next file that the program opens would get that number, and messages for
 * people would be written to, for example, the eventfd of a socket.
 *
 * Threading: call std_fds_reserve() before any thread starts, std_out_...()
 * from one thread.  Memory: none. */
#ifndef COMMON_BASE_STD_FDS_H
#define COMMON_BASE_STD_FDS_H

#include <stdbool.h>

#include "common/base/status.h"

/* Opens each closed descriptor of the three so that no other file gets its
 * number.  Reading and writing fail with EBADF, as before.  Call first in
 * main(). */
void std_fds_reserve(void);

/* Writes the buffered part of standard output.  Returns false if any output
 * so far was lost, and sets *why to the errno of the first call that failed,
 * 0 if none did. */
MUST_CHECK bool std_out_flush(int *why);

/* Ends a program that only prints: as std_out_flush().  Returns ST_INTERNAL
 * and "cannot write: ...", or ST_CANCELLED if a signal was the cause. */
MUST_CHECK enum status std_out_end(struct error *e);

#endif
