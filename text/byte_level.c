#include "text/byte_level.h"

#include "text/unicode.h"

/* The ranges are the bytes that do not print in Latin-1: 0..32, 127..160 and
 * 173. */
int32_t byte_level_letter(uint8_t byte)
{
    if (byte <= 32) {
        return 256 + byte;
    }
    if (byte >= 127 && byte <= 160) {
        return 289 + (byte - 127);
    }
    return byte == 173 ? 323 : byte;
}

int byte_level_byte(int32_t c)
{
    if (c >= 256 && c <= 288) {
        return c - 256;
    }
    if (c >= 289 && c <= 322) {
        return c - 289 + 127;
    }
    if (c == 323) {
        return 173;
    }
    return c >= 0 && c <= 255 && byte_level_letter((uint8_t)c) == c ? c : -1;
}

size_t byte_level_spell(const uint8_t *bytes, size_t n, char *out)
{
    size_t w = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t c = byte_level_letter(bytes[i]);
        if (c < 0x80) {
            out[w++] = (char)c;
        } else {
            out[w++] = (char)(0xC0 | (c >> 6));
            out[w++] = (char)(0x80 | (c & 0x3F));
        }
    }
    return w;
}

bool byte_level_read(const char *s, size_t n, uint8_t *out, size_t *out_n)
{
    size_t len;

    *out_n = 0;
    for (size_t at = 0; at < n; at += len) {
        int byte = byte_level_byte(unicode_at(s, n, at, &len));
        if (byte < 0) {
            return false;
        }
        out[(*out_n)++] = (uint8_t)byte;
    }
    return true;
}
