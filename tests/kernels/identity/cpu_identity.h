/* cpu_identity.h - A fault of the made-up mixer, for the canary. */
#ifndef TESTS_KERNELS_IDENTITY_CPU_IDENTITY_H
#define TESTS_KERNELS_IDENTITY_CPU_IDENTITY_H

/* The backend whose identity layers compute wrongly; NULL: none. */
extern const void *cpu_identity_broken;

#endif
