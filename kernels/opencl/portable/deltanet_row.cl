/* deltanet_row.cl - what deltanet.cl and deltanet_replay.cl have in common: the
 * convolution, and a state's advance by a token.
 *
 * The bits of a replay equal those of the row because both are computed here.
 *
 *   u     inputs of a row's tokens, one channel, ld floats apart
 *   tail  [CONV - 1, C] KV_DTYPE; conv [C, CONV] f32
 *   s     [DK, DV] f32, of a value head
 *
 * Defines   WG 64 */
#define VALUES (HV / HK) /* value heads of a key head */
#define Z_AT   C
#define B_AT   (C + HV * DV)
#define A_AT   (B_AT + HV)
#define IN_LD  (A_AT + HV)
#define L2_EPS 1e-6f

/* A kept token: the channels of k and v, as in u behind q, then b and a. */
#define KEPT_AT (HK * DK)
#define KEPT_B  (C - KEPT_AT)
#define KEPT_LD (KEPT_B + 2 * HV)

/* Tokens of the row that are not in the state yet: their k [DK], d [DV] and
 * decay. */
typedef struct {
    __local float *k, *d, *decay;
    uint n;
} past_t;

/* Sums x of all work-items, in order. */
static float sum_of(__local float *part, float x)
{
    float sum = 0.0f;

    barrier(CLK_LOCAL_MEM_FENCE);
    part[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < WG; i++) {
        sum += part[i];
    }
    return sum;
}

/* Convolves channel c at the row's token i; u0 is the channel's input of its
 * first token, ld apart from the next. */
static float convolve(__global const float *u0, uint ld,
                      __global const kv_t *tail, __global const float *conv,
                      uint c, uint i)
{
    float sum = 0.0f;

    for (uint j = 0; j + 1 < CONV; j++) {
        const uint at = i + j;
        const float u = at < CONV - 1
                            ? kv_get(tail, (ulong)at * C + c)
                            : kv_rounded(u0[(ulong)(at - (CONV - 1)) * ld]);

        sum = fma(conv[c * CONV + j], u, sum);
    }
    sum = fma(conv[c * CONV + CONV - 1], u0[(ulong)i * ld], sum);
    return silu_of(sum);
}

/* to [DK] := the channels from c on, normalised to a unit vector, then
 * scaled. */
static void convolve_unit(__local float *to, __local float *part,
                          __global const float *u0, uint ld,
                          __global const kv_t *tail,
                          __global const float *conv, uint c, uint i,
                          float scale)
{
    const uint lane = get_local_id(0);
    float square = 0.0f, unit;

    for (uint d = lane; d < DK; d += WG) {
        to[d] = convolve(u0 + d, ld, tail, conv, c + d, i);
        square = fma(to[d], to[d], square);
    }
    unit = 1.0f / sqrt(sum_of(part, square) + L2_EPS);
    for (uint d = lane; d < DK; d += WG) {
        to[d] = to[d] * unit * scale;
    }
}

static float16 get_n(__global const float *p, uint n)
{
    float part[16];

    if (n >= 16) {
        return vload16(0, p);
    }
    for (uint j = 0; j < 16; j++) {
        part[j] = j < n ? p[j] : 0.0f;
    }
    return vload16(0, part);
}

static void put_n(__global float *p, float16 a, uint n)
{
    float part[16];

    if (n >= 16) {
        vstore16(a, 0, p);
        return;
    }
    vstore16(a, 0, part);
    for (uint j = 0; j < n; j++) {
        p[j] = part[j];
    }
}

/* Returns n elements from column j of row i of a state after the past. */
static float16 state_n(__global const float *s, const past_t *past, uint i,
                       uint j, uint n)
{
    float16 a = get_n(s + (ulong)i * DV + j, n);

    for (uint t = 0; t < past->n; t++) {
        float16 d;
        float each[16];

        for (uint c = 0; c < 16; c++) {
            each[c] = c < n ? past->d[t * DV + j + c] : 0.0f;
        }
        d = vload16(0, each);
        a = fma((float16)past->k[t * DK + i], d, past->decay[t] * a);
    }
    return a;
}

/* Advances columns j .. j + n of a state by one token; v becomes o.  If d is
 * not NULL, the state stays and d gets those columns of d. */
static void recur(__global float *s, const past_t *past, __local float *v,
                  __local const float *q, __local const float *k, float decay,
                  float beta, uint j, uint n, __local float *d_out)
{
    float16 part[4], out[4], d;
    float o[16];

    for (uint h = 0; h < 4; h++) {
        part[h] = 0.0f;
        out[h] = 0.0f;
    }
    for (uint i = 0; i < DK; i += 4) {
        #pragma unroll
        for (uint h = 0; h < 4; h++) {
            if (i + h < DK) {
                float16 a = decay * state_n(s, past, i + h, j, n);

                part[h] = fma((float16)k[i + h], a, part[h]);
            }
        }
    }
    for (uint i = 0; i < 16; i++) {
        o[i] = i < n ? v[j + i] : 0.0f;
    }
    d = beta * (vload16(0, o) - ((part[0] + part[1]) + (part[2] + part[3])));
    for (uint i = 0; i < DK; i += 4) {
        #pragma unroll
        for (uint h = 0; h < 4; h++) {
            if (i + h < DK) {
                float16 a = fma((float16)k[i + h], d,
                                decay * state_n(s, past, i + h, j, n));

                if (!d_out) {
                    put_n(s + (ulong)(i + h) * DV + j, a, n);
                }
                out[h] = fma((float16)q[i + h], a, out[h]);
            }
        }
    }
    vstore16((out[0] + out[1]) + (out[2] + out[3]), 0, o);
    for (uint i = 0; i < n; i++) {
        v[j + i] = o[i];
    }
    vstore16(d, 0, o);
    for (uint i = 0; d_out && i < n; i++) {
        d_out[j + i] = o[i];
    }
}

/* -exp(a_log) softplus(a + dt_bias). */
static float log_decay(float a, float dt_bias, float a_log)
{
    float x = a + dt_bias;

    return -exp_of(a_log) * (x > 20.0f ? x : log1p(exp_of(x)));
}
