/* byte_fallback.h - The spelling of vocabularies that come from SentencePiece.
 *
 * A space is U+2581 ("▁the" is " the"), other characters are themselves.  A
 * character that is no token is spelt by its bytes, as the tokens "<0x00>" to
 * "<0xFF>".
 *
 * Threading: no state.  Memory: all is borrowed. */
#ifndef TEXT_BYTE_FALLBACK_H
#define TEXT_BYTE_FALLBACK_H

#include <stddef.h>
#include <stdint.h>

#define BYTE_FALLBACK_SPACE     "\xE2\x96\x81" /* U+2581 */
#define BYTE_FALLBACK_SPACE_LEN 3
#define BYTE_FALLBACK_LEN       6 /* bytes of "<0xNN>" */

/* Writes the token of a byte to out, without NUL. */
void byte_fallback_spell(uint8_t byte, char out[BYTE_FALLBACK_LEN]);

/* Returns the byte of s[0..n), -1 if s is no token of a byte. */
int byte_fallback_byte(const char *s, size_t n);

/* Writes what a token stands for in text to out, which has room for n.
 * Returns the length. */
size_t byte_fallback_read(const char *s, size_t n, uint8_t *out);

#endif
