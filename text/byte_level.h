/* byte_level.h - GPT-2's spelling of bytes as printable letters.
 *
 * A byte that prints in Latin-1 is its own letter.  The other 68, in order,
 * are U+0100..U+0143 (a space is "Ġ").  Vocabularies and merges use this
 * spelling.
 *
 * Threading: no state.  Memory: all is borrowed. */
#ifndef TEXT_BYTE_LEVEL_H
#define TEXT_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the letter of a byte, U+0021..U+0143. */
int32_t byte_level_letter(uint8_t byte);

/* Returns the byte of a letter, -1 if c is no letter. */
int byte_level_byte(int32_t c);

/* Writes the letters of n bytes to out, which has room for 2 * n.  Returns
 * the length. */
size_t byte_level_spell(const uint8_t *bytes, size_t n, char *out);

/* Reads letters back to bytes.  out has room for n; s is valid UTF-8.
 * Returns false if a character is no letter. */
bool byte_level_read(const char *s, size_t n, uint8_t *out, size_t *out_n);

#endif
