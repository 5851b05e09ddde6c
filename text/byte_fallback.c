#include "text/byte_fallback.h"

#include <string.h>

static const char digits[] = "0123456789ABCDEF";

void byte_fallback_spell(uint8_t byte, char out[BYTE_FALLBACK_LEN])
{
    memcpy(out, "<0x", 3);
    out[3] = digits[byte >> 4];
    out[4] = digits[byte & 15];
    out[5] = '>';
}

/* Capital letters only, as in the reference. */
static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int byte_fallback_byte(const char *s, size_t n)
{
    if (n != BYTE_FALLBACK_LEN || memcmp(s, "<0x", 3) != 0 || s[5] != '>' ||
        digit(s[3]) < 0 || digit(s[4]) < 0) {
        return -1;
    }
    return digit(s[3]) << 4 | digit(s[4]);
}

size_t byte_fallback_read(const char *s, size_t n, uint8_t *out)
{
    int byte = byte_fallback_byte(s, n);
    size_t w = 0;

    if (byte >= 0) {
        out[0] = (uint8_t)byte;
        return 1;
    }
    for (size_t i = 0; i < n; w++) {
        if (n - i >= BYTE_FALLBACK_SPACE_LEN &&
            memcmp(s + i, BYTE_FALLBACK_SPACE, BYTE_FALLBACK_SPACE_LEN) == 0) {
            out[w] = ' ';
            i += BYTE_FALLBACK_SPACE_LEN;
        } else {
            out[w] = (uint8_t)s[i++];
        }
    }
    return w;
}
