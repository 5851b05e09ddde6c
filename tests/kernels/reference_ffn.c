/* reference_ffn.c - the feed-forward: an MLP, or experts. */
#include <math.h>
#include <string.h>

#include "tests/kernels/reference_math.h"

#define WIDE REFERENCE_WIDE

/* Returns what a gate and an up value give. */
static double activated(const struct model_shape *s, double gate, double up)
{
    double limit = (double)s->activation.limit;
    double root = sqrt(2.0 / acos(-1.0));

    switch (s->activation.kind) {
    case ACTIVATION_SILU:
        return gate * reference_sigmoid(gate) * up;
    case ACTIVATION_GELU:
        return 0.5 * gate *
               (1.0 + tanh(root * (gate + 0.044715 * gate * gate * gate))) * up;
    default:
        gate = fmin(gate, limit);
        up = fmax(-limit, fmin(up, limit));
        return gate * reference_sigmoid((double)s->activation.alpha * gate) *
               (up + 1.0);
    }
}

/* out = down(activated(gate n, up n)), of n_dim intermediate values. */
static void mlp(const struct reference *r, const struct mlp_weights *w,
                const double *n, double *out)
{
    double gate[WIDE], up[WIDE];

    reference_project(r, &w->gate, NULL, n, gate);
    reference_project(r, &w->up, NULL, n, up);
    for (uint32_t i = 0; i < w->gate.rows; i++) {
        gate[i] = activated(&r->w->shape, gate[i], up[i]);
    }
    reference_round_operands(r, gate, w->gate.rows);
    reference_project(r, &w->down, NULL, gate, out);
}

void reference_mlp(const struct reference *r, uint32_t layer, double *x)
{
    const struct layer_weights *w = &r->w->layers[layer];
    double n[WIDE], out[WIDE];

    reference_norm_operands(r, x, w->post_norm, n);
    mlp(r, &w->mlp, n, out);
    reference_add(r, x, out, w->ffn_norm);
}

/* Chooses the top_k greatest logits, equal ones by lower index; returns how
 * much the least of them is above the greatest other. */
static double choose(const double *logits, uint32_t n, uint32_t top_k,
                     uint32_t *chosen)
{
    bool taken[WIDE] = {false};
    double least = 0.0, other = -(double)INFINITY;

    for (uint32_t i = 0; i < top_k; i++) {
        uint32_t best = n;

        for (uint32_t e = 0; e < n; e++) {
            if (!taken[e] && (best == n || logits[e] > logits[best])) {
                best = e;
            }
        }
        taken[best] = true;
        chosen[i] = best;
        least = logits[best];
    }
    for (uint32_t e = 0; e < n; e++) {
        other = taken[e] ? other : fmax(other, logits[e]);
    }
    return least - other;
}

/* Turns the logits of the chosen into weights: a softmax over them, or over
 * all experts. */
static void weigh(const struct model_shape *s, const double *logits,
                  const uint32_t *chosen, double *weights)
{
    double top = -(double)INFINITY, sum = 0.0;

    for (uint32_t e = 0; e < s->n_experts; e++) {
        top = fmax(top, logits[e]);
    }
    for (uint32_t e = 0; !s->top_k_normed && e < s->n_experts; e++) {
        sum += exp(logits[e] - top);
    }
    for (uint32_t i = 0; i < s->top_k; i++) {
        weights[i] = exp(logits[chosen[i]] - top);
        sum += s->top_k_normed ? weights[i] : 0.0;
    }
    for (uint32_t i = 0; i < s->top_k; i++) {
        weights[i] /= sum;
    }
}

/* out = expert e of n [H]. */
static void expert(const struct reference *r, const struct expert_weights *w,
                   uint32_t e, const double *n, double *out)
{
    const struct model_shape *s = &r->w->shape;
    const uint32_t wide = 2 * s->expert_dim, at = e * wide;
    double both[WIDE], h[WIDE];

    reference_project_rows(r, &w->gate_up, at, wide,
                           w->gate_up_bias ? w->gate_up_bias + at : NULL, n,
                           both);
    for (uint32_t i = 0; i < s->expert_dim; i++) {
        h[i] = s->gate_up_alternate
                   ? activated(s, both[2 * i], both[2 * i + 1])
                   : activated(s, both[i], both[s->expert_dim + i]);
    }
    reference_round_operands(r, h, s->expert_dim);
    reference_project_rows(r, &w->down, e * s->hidden, s->hidden,
                           w->down_bias ? w->down_bias + e * s->hidden : NULL,
                           h, out);
}

/* y += weight times out */
static void accumulate(const struct model_shape *s, double *y, double weight,
                       const double *out)
{
    for (uint32_t i = 0; i < s->hidden; i++) {
        y[i] += weight * out[i];
    }
}

/* Adds the shared expert.  exact is n with operands that are not rounded. */
static void add_shared(const struct reference *r,
                       const struct expert_weights *w, const double *exact,
                       const double *n, double *y)
{
    double out[WIDE], gate = 0.0;

    mlp(r, &w->shared, n, out);
    if (w->shared_gate.data) {
        reference_product(&w->shared_gate, NULL, exact, &gate);
    }
    accumulate(&r->w->shape, y,
               w->shared_gate.data ? reference_sigmoid(gate) : 1.0, out);
}

static void experts(struct reference *r, uint32_t layer, double *x)
{
    const struct model_shape *s = &r->w->shape;
    const struct layer_weights *l = &r->w->layers[layer];
    const struct expert_weights *w = &l->experts;
    double exact[WIDE], n[WIDE], logits[WIDE], weights[WIDE], out[WIDE];
    double y[WIDE] = {0.0};
    uint32_t chosen[WIDE];

    reference_norm(x, l->post_norm, s->hidden, s->norm_eps, exact);
    reference_norm_operands(r, x, l->post_norm, n);
    reference_product(&w->router, w->router_bias, exact, logits);
    r->margin = choose(logits, s->n_experts, s->top_k, chosen);
    if (r->routed) {
        r->routed(r->routed_arg, r, layer, logits, chosen);
    }
    weigh(s, logits, chosen, weights);
    for (uint32_t i = 0; i < s->top_k; i++) {
        expert(r, w, chosen[i], n, out);
        accumulate(s, y, weights[i], out);
    }
    if (s->shared_dim > 0) {
        add_shared(r, w, exact, n, y);
    }
    reference_add(r, x, y, l->ffn_norm);
}

void reference_ffn(struct reference *r, uint32_t layer, double *x)
{
    if (r->w->layers[layer].ffn == FFN_EXPERTS) {
        experts(r, layer, x);
    } else {
        reference_mlp(r, layer, x);
    }
}
