#include "small.h"

#include <stdint.h>

#include "text/byte_level.h"

json_t *fixture_small(void)
{
    json_t *root = json_loads(
        "{\"normalizer\":null,"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"use_regex\":false},\"post_processor\":null,"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{},"
        "\"merges\":[\"a b\",[\"ab\",\"c\"],\"\\u0120 a\"]}}",
        0, NULL);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");

    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        char letter[2];
        size_t n = byte_level_spell(&byte, 1, letter);
        json_object_setn_new(vocab, letter, n, json_integer(i));
    }
    json_object_set_new(vocab, "ab", json_integer(256));
    json_object_set_new(vocab, "abc", json_integer(257));
    json_object_set_new(vocab,
                        "\xC4\xA0"
                        "a",
                        json_integer(258));
    return root;
}
