/* quantise_list.h - The tensors of a quantised model, and the rows of the
 * source that each is made of.
 *
 * A matrix that the model multiplies with becomes affine if its columns are a
 * multiple of the group; else, and for routers, the gates of shared experts and
 * the MTP layer's fc, it stays plain.  The rest of the MTP layer is quantised
 * as other layers are, if the config drafts.  FP8 becomes affine, or plain in
 * the model's dtype; the scales of its blocks have no successor.  The experts
 * of a layer become mlp.switch_mlp.{gate,up,down}_proj.weight [E, rows, cols],
 * as MLX has them, whether the source has them apart or fused.  All other
 * tensors are copied.
 *
 * Threading: none.  Memory: borrows checkpoint; owns names and parts. */
#ifndef CLIENT_CTL_QUANTISE_LIST_H
#define CLIENT_CTL_QUANTISE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/checkpoint.h"
#include "common/model/config.h"

/* Rows [first, first + rows) of a stored matrix. */
struct quantise_part {
    const struct checkpoint_tensor *source;
    const struct checkpoint_tensor *scales; /* FP8: of its blocks; else NULL */
    uint64_t first;
    uint32_t rows;
};

enum quantise_form { QUANTISE_COPY, QUANTISE_PLAIN, QUANTISE_AFFINE };

struct quantise_tensor {
    char *name;
    enum quantise_form form;
    const struct checkpoint_tensor *like;  /* NULL: not a tensor of the model */
    const struct safetensors_tensor *info; /* a copy's, in file */
    uint32_t file;                         /* that it is written to */
    uint32_t rank;
    uint64_t dims[3]; /* elements; unused in a copy */
    enum dtype dtype; /* elements, or scales and biases */
    uint32_t n_parts;
    struct quantise_part *parts; /* [n_parts], rows in order */
};

struct quantise_list {
    uint32_t n, room;
    struct quantise_tensor *tensors; /* [n], by file, in the source's order */
};

/* Makes the list for groups of `group`.  Release it with quantise_list_fini(),
 * also after an error.  Returns ST_UNIMPLEMENTED for experts whose gate and up
 * rows alternate, and the errors of layout_make(). */
MUST_CHECK enum status quantise_list_make(struct quantise_list *l,
                                          const struct model_config *config,
                                          const struct checkpoint *files,
                                          uint32_t group, struct error *e);

void quantise_list_fini(struct quantise_list *l);

#endif
