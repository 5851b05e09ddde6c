/* isa_avx512.c - the inner loops, for AVX-512F and BW, and with the integer
 * products of VNNI where it is. */
#include "kernels/isa/isa.h"

#include "kernels/isa/int8.h"

#include "kernels/isa/simd_avx512.h"

#include "kernels/isa/simd_math.h"

#include "kernels/isa/isa_rows.inc"

#include "kernels/isa/isa_matmul.inc"

#include "kernels/isa/isa_codes.inc"

#include "kernels/isa/isa_quantised.inc"

#include "kernels/isa/isa_attend.inc"

#include "kernels/isa/isa_attend_quantised.inc"

#include "kernels/isa/isa_delta.inc"

#define AVX512(products)                                                      \
    {                                                                         \
        .name = "avx512", .int8 = &(products), .matmul = matmul,              \
        .matmul_quantised = matmul_quantised, .dequantise = dequantise,       \
        .attend = attend, .attend_quantised = attend_quantised, .conv = conv, \
        .delta = delta, .rms_norm = rms_norm, .l2_norm = l2_norm,             \
        .activate = activate, .accumulate = accumulate, .soft_cap = soft_cap, \
        .sigmoid_mul = sigmoid_mul, .weigh = weigh, .highest = highest,       \
        .exp_sum = exp_sum, .above = above, .widen = widen, .narrow = narrow, \
    }

const struct cpu_isa isa_avx512 = AVX512(int8_avx2);
const struct cpu_isa isa_avx512_vnni = AVX512(int8_vnni);
