#include "tests/golden/kv_draw.h"

#include <string.h>

static void draw_request(struct kv_request *r, struct dice *d)
{
    static const char *const dtypes[] = {"f32", "bf16", "f16"};

    *r = (struct kv_request){.dtype = dtypes[dice_below(d, 3)]};
    switch (dice_below(d, 3)) {
    case 1:
        r->scheme = "affine";
        r->bits = 4.0 * (1 + dice_below(d, 2));
        r->group = 32u << dice_below(d, 3);
        break;
    case 2:
        r->scheme = "turboquant";
        r->bits = 2.0 + 0.5 * dice_below(d, 5);
        break;
    default:
        break;
    }
}

/* Draws until a request fits; a plain one always does. */
struct kv_format kv_draw(const struct random_shape *r, struct dice *d)
{
    struct model_config c = {.shape = r->shape};
    struct kv_request request;
    struct kv_format f;
    struct error e;

    memcpy(c.mixers, r->mixers, r->shape.n_layers * sizeof *r->mixers);
    do {
        draw_request(&request, d);
    } while (kv_format_choose(&f, &c, &request, &e) != ST_OK);
    return f;
}
