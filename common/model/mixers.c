#include <stdio.h>
#include <string.h>

#include "common/model/mixer.h"

const struct mixer *const mixer_rows[MIXER_KINDS] = {
#define MIXER(kind, row, memory) [MIXER_##kind] = &mixer_##row,
#include "common/model/mixer_list.h"
#undef MIXER
};

enum mixer_kind mixer_find(const char *type)
{
    int kind = 0;

    while (kind < MIXER_KINDS &&
           (type == NULL || mixer_rows[kind]->type == NULL ||
            strcmp(mixer_rows[kind]->type, type) != 0)) {
        kind++;
    }
    return (enum mixer_kind)kind;
}

const struct rope_shape *shape_rope(const struct model_shape *s,
                                    enum mixer_kind k)
{
    static const struct rope_shape none = {.kind = ROPE_DEFAULT};

    return mixer_rows[k]->rope != NULL ? mixer_rows[k]->rope(s) : &none;
}

static bool in_slot(int kind)
{
    return mixer_memory((enum mixer_kind)kind) == MIXER_IN_SLOT;
}

const char *mixer_types(char out[MIXER_TEXT_MAX])
{
    size_t at = 0;
    int left = 0;

    out[0] = '\0';
    for (int kind = 0; kind < MIXER_KINDS; kind++) {
        left += mixer_rows[kind]->type != NULL;
    }
    for (int turn = 0; turn < 2; turn++) {
        for (int kind = 0; kind < MIXER_KINDS && at < MIXER_TEXT_MAX; kind++) {
            if (mixer_rows[kind]->type != NULL &&
                in_slot(kind) == (turn == 1)) {
                left--;
                at += (size_t)snprintf(out + at, MIXER_TEXT_MAX - at, "%s%s",
                                       mixer_rows[kind]->type,
                                       left > 1    ? ", "
                                       : left == 1 ? " and "
                                                   : "");
            }
        }
    }
    return out;
}

static uint32_t count(const struct model_config *c, int kind, uint32_t begin,
                      uint32_t end)
{
    uint32_t n = 0;

    for (uint32_t i = begin; i < end; i++) {
        n += c->mixers[i] == (enum mixer_kind)kind;
    }
    return n;
}

const char *mixer_counts(const struct model_config *c, uint32_t begin,
                         uint32_t end, char out[MIXER_TEXT_MAX])
{
    size_t at = 0;

    out[0] = '\0';
    for (int turn = 0; turn < 2; turn++) {
        for (int kind = 0; kind < MIXER_KINDS && at < MIXER_TEXT_MAX; kind++) {
            const struct mixer *m = mixer_rows[kind];
            bool named = m->always || count(c, kind, 0, c->shape.n_layers) > 0;

            if (named && in_slot(kind) == (turn == 0)) {
                at += (size_t)snprintf(out + at, MIXER_TEXT_MAX - at, "%s%u %s",
                                       at > 0 ? ", " : "",
                                       count(c, kind, begin, end), m->name);
            }
        }
    }
    return out;
}
