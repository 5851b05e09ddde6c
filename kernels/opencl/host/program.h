/* program.h - from .cl files to programs, with a cache on disk.
 *
 * A program is common.cl and one file of kernels/opencl (with nv.cl between
 * them if its name begins with nv_), which are bytes of this executable, built
 * with some defines.  #line makes the compiler name
 * them.  Programs are kept until the end: the same file with the same defines
 * is built once.
 *
 * Cache.  DIR/HASH.bin, HASH being XXH3-128 over the device, its platform and
 * driver, the options and the source:
 *
 *     "sluicecl" | u32 1 | u32 0 | hash [16] | u64 bytes | XXH3-64 of them |
 *     the bytes: what CL_PROGRAM_BINARIES gave
 *
 * A file appears whole or not at all (rename).  One that is short, long,
 * damaged, another's, or that the driver refuses is built anew and replaced;
 * a folder that cannot be written costs time and nothing else.  A driver that
 * caches is left to it: PoCL, asked for a binary, compiles every kernel once
 * more for any work-group, which takes longer than all the rest.
 *
 * Between binary and build there is one step on NVIDIA: what is held back in
 * the PTX (ptx.h) is let go.  A program with PROGRAM_OWN_SET among its defines
 * is nothing without it: it is refused where there is nothing to let go.
 *
 * Threading: as opencl.h.  Memory: opencl_programs_new() and _get(). */
#ifndef KERNELS_OPENCL_HOST_PROGRAM_H
#define KERNELS_OPENCL_HOST_PROGRAM_H

#include "common/base/embedded.h"
#include "kernels/opencl/host/device.h"

#define OPENCL_PROGRAMS_MAX 1024 /* any forms of matrices, see matmul.h */
#define PROGRAM_OWN_SET     "-DWGMMA=1"

struct opencl_programs;

/* For tests and for people. */
struct opencl_programs_counts {
    uint32_t built, read; /* from source; from the cache */
    uint32_t refused;     /* files of the cache that were not usable */
    uint32_t unwritten;   /* programs that could not be kept */
};

/* options are those of every program.  dir NULL: $XDG_CACHE_HOME/sluice, else
 * $HOME/.cache/sluice; "": no cache.  files ends in a row of zeros. */
MUST_CHECK enum status opencl_programs_new(struct opencl_programs **out,
                                           cl_context context,
                                           const struct opencl_device *device,
                                           const struct embedded *files,
                                           const char *options, const char *dir,
                                           struct error *e);
void opencl_programs_free(struct opencl_programs **p);

/* *out is borrowed.  ST_INTERNAL: the compiler refused it, with the beginning
 * of what it said; ST_NOT_FOUND: no such file. */
MUST_CHECK enum status opencl_programs_get(struct opencl_programs *p,
                                           cl_program *out, const char *file,
                                           const char *defines,
                                           struct error *e);

void opencl_programs_counts(const struct opencl_programs *p,
                            struct opencl_programs_counts *out);

#endif
