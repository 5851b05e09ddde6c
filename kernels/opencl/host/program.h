/* program.h - builds programs from .cl files, with a cache on disk.
 *
 * A program is common.cl, weights.cl and one file of kernels/opencl, with nv.cl
 * before it if the file's name begins with nv_.  "a+b" names two files, a
 * before b, that are both of portable/ or both of nv/.  The files are embedded
 * in this executable and built with defines; #line lets the compiler name them.
 * Programs live as long as opencl_programs: the same file with the same defines
 * is built once.
 *
 * Cache.  The file is DIR/HASH.bin; HASH is XXH3-128 over the device, its
 * platform and driver, the options and the source:
 *
 *     "sluicecl" | u32 1 | u32 0 | hash [16] | u64 bytes | XXH3-64 of them |
 *     the bytes: what CL_PROGRAM_BINARIES gave
 *
 * - A file appears whole or not at all (rename).
 * - A file that is short, long, damaged, foreign, or rejected by the driver is
 *   built anew and replaced.
 * - A folder that cannot be written costs time, nothing else.
 * - The cache is off for a driver with its own.  PoCL, asked for a binary,
 *   compiles every kernel again for any work-group size, which takes longer
 *   than everything else.
 *
 * On NVIDIA, PTX instructions that were held back (ptx.h) are released between
 * binary and build.  A program with PROGRAM_OWN_SET among its defines needs
 * them, and is rejected where there is nothing to release.
 *
 * Threading: as opencl.h.
 * Memory: opencl_programs_new() and _get() allocate. */
#ifndef KERNELS_OPENCL_HOST_PROGRAM_H
#define KERNELS_OPENCL_HOST_PROGRAM_H

#include "common/base/embedded.h"
#include "kernels/opencl/host/device.h"

#define OPENCL_PROGRAMS_MAX 1024 /* any matrix forms, see matmul.h */
#define PROGRAM_OWN_SET     "-DWGMMA=1"

struct opencl_programs;

/* Counters for tests and diagnostics. */
struct opencl_programs_counts {
    uint32_t built, read; /* built from source; read from the cache */
    uint32_t refused;     /* cached files that were unusable */
    uint32_t unwritten;   /* programs that could not be cached */
};

/* Creates an empty set of programs.  options apply to every program.  dir NULL:
 * $XDG_CACHE_HOME/sluice, else $HOME/.cache/sluice; "": no cache. files ends in
 * a row of zeros. */
MUST_CHECK enum status opencl_programs_new(struct opencl_programs **out,
                                           cl_context context,
                                           const struct opencl_device *device,
                                           const struct embedded *files,
                                           const char *options, const char *dir,
                                           struct error *e);
void opencl_programs_free(struct opencl_programs **p);

/* Returns the program of a file and its defines in *out, which is borrowed.
 * Returns ST_INTERNAL with the first words of the compiler's log if the
 * compiler rejects the file, ST_NOT_FOUND if there is no such file. */
MUST_CHECK enum status opencl_programs_get(struct opencl_programs *p,
                                           cl_program *out, const char *file,
                                           const char *defines,
                                           struct error *e);

void opencl_programs_counts(const struct opencl_programs *p,
                            struct opencl_programs_counts *out);

#endif
