/* reference_math.h - values, products and norms of the reference.
 *
 * Values are decoded by the table of common/model/weights.h, in double, without
 * the code of common/model/weight_format.c.
 *
 * Threading: one thread; a table of halves is made at first use. */
#ifndef TESTS_KERNELS_REFERENCE_MATH_H
#define TESTS_KERNELS_REFERENCE_MATH_H

#include "tests/kernels/reference.h"

#define REFERENCE_WIDE 16384 /* widest intermediate vector */

/* out = W x (+ bias), with the operands x as they are. */
void reference_product(const struct tensor *w, const float *bias,
                       const double *x, double *out);
/* The same with the operands of r: of 8 bits with r->int8. */
void reference_project(const struct reference *r, const struct tensor *w,
                       const float *bias, const double *x, double *out);
/* The same over rows [first, first + n) of W; bias and out are theirs. */
void reference_project_rows(const struct reference *r, const struct tensor *w,
                            uint32_t first, uint32_t n, const float *bias,
                            const double *x, double *out);

/* out = x / sqrt(mean x^2 + eps) * gamma */
void reference_norm(const double *x, const float *gamma, uint32_t n, float eps,
                    double *out);
/* Computes the norm before a product, whose operands are rounded. */
void reference_norm_operands(const struct reference *r, const double *x,
                             const float *gamma, double *out);
/* Rounds to the dtype of a product's operands, in place. */
void reference_round_operands(const struct reference *r, double *x, uint32_t n);

double reference_sigmoid(double x);

/* x += y, or norm(y) with gamma. */
void reference_add(const struct reference *r, double *x, const double *y,
                   const float *gamma);

#endif
