#include "common/model/tally.h"

#include "common/model/layout_types.h"
#include "common/model/weight_format.h"

/* Aligned as layout.c aligns, so that the sum is the shard's memory exactly. */
static void add(struct tally *t, uint64_t bytes)
{
    bytes += LAYOUT_ALIGN - 1;
    t->bytes += bytes - bytes % LAYOUT_ALIGN;
}

/* Returns how the checkpoints of a quantisation store a matrix: affine ones
 * quantise all but routers (quantise_list.h), FP8 those of layers but for
 * narrow ones, MXFP4 the experts. */
static struct tensor stored(const struct tally *t, uint64_t rows, uint32_t cols,
                            enum tally_use of)
{
    const struct quantisation *q = &t->quant;
    struct tensor m = {.format = WEIGHT_PLAIN,
                       .dtype = t->dtype,
                       .rows = (uint32_t)rows,
                       .cols = cols};

    if (q->format == WEIGHT_AFFINE && of != TALLY_ROUTER &&
        cols % q->group == 0) {
        m.bits = q->bits;
        m.group = q->group;
    } else if ((q->format == WEIGHT_FP8 &&
                (of == TALLY_LAYER || of == TALLY_EXPERTS)) ||
               (q->format == WEIGHT_MXFP4 && of == TALLY_EXPERTS &&
                cols % weight_format_group(WEIGHT_MXFP4) == 0)) {
        m.bits = weight_format_bits(q->format);
        m.group = weight_format_group(q->format);
    }
    m.format = m.bits > 0 ? q->format : WEIGHT_PLAIN;
    return m;
}

/* Codes, scales and biases are separate planes, each aligned. */
void tally_matrix(struct tally *t, uint64_t rows, uint32_t cols,
                  enum tally_use of)
{
    struct tensor m = stored(t, rows, cols, of);

    t->parameters += rows * cols;
    add(t, rows * tensor_row_bytes(&m));
    add(t, rows * tensor_scale_bytes(&m));
    add(t, m.format == WEIGHT_AFFINE ? rows * tensor_scale_bytes(&m) : 0);
}

/* Vectors become float32 in memory, whatever the file has. */
void tally_vector(struct tally *t, uint64_t n)
{
    t->parameters += n;
    add(t, n * sizeof(float));
}

void tally_mlp(struct tally *t, uint32_t hidden, uint32_t rows)
{
    tally_matrix(t, rows, hidden, TALLY_LAYER);
    tally_matrix(t, rows, hidden, TALLY_LAYER);
    tally_matrix(t, hidden, rows, TALLY_LAYER);
}
