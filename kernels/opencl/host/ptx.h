/* ptx.h - instructions that the OpenCL compiler does not know.
 *
 * On NVIDIA a program's binary is PTX.  A line in it that begins with
 * PTX_HELD_BACK, a comment to the compiler, holds an instruction of the
 * architecture's own set (sm_90a); let go, the binary is built again.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef KERNELS_OPENCL_HOST_PTX_H
#define KERNELS_OPENCL_HOST_PTX_H

#include <stdbool.h>
#include <stddef.h>

#define PTX_HELD_BACK "//@"

/* In place: ".target sm_90" becomes ".target sm_90a" and held-back lines are
 * let go.  room: bytes at ptx, at least one more than *n.  False: there is
 * nothing to let go, or no target line, and nothing was changed. */
bool ptx_release(char *ptx, size_t *n, size_t room);

#endif
