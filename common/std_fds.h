/* std_fds.h - descriptors 0, 1 and 2 are never anybody else's.
 *
 * A program may be started with one of them closed (2>&-).  The next that it
 * opens then gets that number, and what is meant for people is written into
 * a socket's eventfd.
 *
 * Threading: before any thread.  Memory: none. */
#ifndef COMMON_STD_FDS_H
#define COMMON_STD_FDS_H

/* Call first in main().  What is closed stays of no use: to read from or
 * write to it fails with EBADF, as before. */
void std_fds_reserve(void);

#endif
