#include "kernels/opencl/host/ptx.h"

#include <string.h>

static char *find_bytes(char *at, size_t n, const char *what)
{
    return memmem(at, n, what, strlen(what));
}

bool ptx_release(char *ptx, size_t *n, size_t room)
{
    static const char target[] = ".target sm_90";
    char *held = find_bytes(ptx, *n, PTX_HELD_BACK);
    char *at = find_bytes(ptx, *n, target), *behind;

    if (held == NULL || at == NULL || room <= *n) {
        return false;
    }
    behind = at + strlen(target);
    /* A compiler may already target sm_90a. */
    if (behind == ptx + *n || *behind != 'a') {
        memmove(behind + 1, behind, (size_t)(ptx + *n - behind));
        *behind = 'a';
        ++*n;
    }
    while ((held = find_bytes(ptx, *n, PTX_HELD_BACK)) != NULL) {
        /* Blanks keep every other byte, and so the size, as it is. */
        memset(held, ' ', strlen(PTX_HELD_BACK));
    }
    return true;
}
