/* ptx.h - instructions that the OpenCL compiler does not support.
 *
 * On NVIDIA a program's binary is PTX.  A line in it that begins with
 * PTX_HELD_BACK, a comment to the compiler, holds an instruction of the
 * architecture-specific set (sm_90a).  ptx_release() removes the prefix, and
 * the binary is then built again.
 *
 * Threading: no state.  Memory: the caller's. */
#ifndef KERNELS_OPENCL_HOST_PTX_H
#define KERNELS_OPENCL_HOST_PTX_H

#include <stdbool.h>
#include <stddef.h>

#define PTX_HELD_BACK "//@"

/* Turns, in place, ".target sm_90" into ".target sm_90a" and held-back lines
 * into instructions.  room: bytes at ptx, at least *n + 1.  Returns false and
 * changes nothing if there is no held-back line or no target line. */
bool ptx_release(char *ptx, size_t *n, size_t room);

#endif
