#include "small.h"

#include <stdint.h>

#include "text/byte_fallback.h"
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

json_t *fixture_fallback(void)
{
    static const char *const tokens[] = {"a",
                                         "b",
                                         "\xE2\x96\x81",
                                         "ab",
                                         "\xE2\x96\x81"
                                         "a",
                                         "\xC3\xA9",
                                         "a"
                                         "\xC3\xA9"};
    json_t *root = json_loads(
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":"
        "\" \"},\"content\":\"\\u2581\"},\"pre_tokenizer\":null,"
        "\"post_processor\":null,\"decoder\":{\"type\":\"Sequence\","
        "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
        "\"\\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
        "{\"type\":\"Fuse\"}]},\"added_tokens\":[],\"model\":{\"type\":"
        "\"BPE\",\"byte_fallback\":true,\"vocab\":{},\"merges\":[\"a b\","
        "\"\\u2581 a\",\"a \\u00e9\"]}}",
        0, NULL);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");

    for (int i = 0; i < 256; i++) {
        char token[BYTE_FALLBACK_LEN];

        byte_fallback_spell((uint8_t)i, token);
        json_object_setn_new(vocab, token, sizeof token, json_integer(i));
    }
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        json_object_set_new(vocab, tokens[i],
                            json_integer(256 + (json_int_t)i));
    }
    return root;
}
