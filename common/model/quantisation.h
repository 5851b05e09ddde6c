/* quantisation.h - The quantisation of a config.json.
 *
 * Read from `quantization` (MLX) and `quantization_config`:
 *
 *     no quant_method   MLX's affine form: group_size 32, 64 or 128, bits 4 or
 *                       8, mode absent or "affine".  A module's name may map
 *                       to false, true or another such object
 *     fp8               E4M3 in blocks of 128 x 128 (weight_block_size), each
 *                       with a scale.  Activations are not quantised, whatever
 *                       activation_scheme is
 *     mxfp4             experts alone
 *
 * An object that has neither quant_method nor a key of MLX's form is refused
 * by the tool and the algorithm that it names.
 *
 * The tensors decide which modules are quantised and how (layout.h), so lists
 * such as modules_to_not_convert are not read; every object is checked.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_MODEL_QUANTISATION_H
#define COMMON_MODEL_QUANTISATION_H

#include "common/model/config_types.h"
#include "common/model/field.h"

/* Faults if f's file, a hf_quant_config.json, names a quantisation of the
 * weights.  A cache that the file wants quantised is the worker's choice. */
void quantisation_refuse_modelopt(struct fields *f);

/* Fills q, all 0 without quantisation.  Faults go to f. */
void quantisation_parse(struct quantisation *q, struct fields *f);

#endif
