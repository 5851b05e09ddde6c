/* attention.cl - an attention layer between its two products.
 *
 *   attention_prepare, for each token at position p:
 *     query[t, h] = rotate(norm(q[t, h], q_norm), p), times scale[p]
 *     k, v of p's place in the cache = kv(rotate(norm(k[t, h], k_norm), p)),
 *                                      kv(v[t, h])
 *     with LATE_NORM norm(rotate(..)); with WHOLE_NORM the mean of squares
 *     that a norm divides by is over all heads of q, or of k
 *   attention, for each token at position p and query head h:
 *     s_j = query . k_j / sqrt(HD), or times ATTN_SCALE; with ATTN_CAP
 *     s_j = ATTN_CAP tanh(s_j / ATTN_CAP); j = 0 .. p, with WINDOW the last
 *     WINDOW of those;  w = softmax(s and sink[h], if there are sinks)
 *     y[t, h] = operand(sum_j w_j v_j (* sigmoid(gate[t, h])))
 *
 *   in     [T, IN_LD]  f32: q, each head followed by its gate if GATED; k; v
 *   query  [T, NH, HD] f32
 *   y      [T, NH, HD] operand dtype
 *   kv     of the layer, see kv.cl
 *   q_norm, k_norm [HD] f32 or absent; with WHOLE_NORM [NH HD], [NKV HD]
 *   rope   [context, ROTATED/2, 2] f32: cosine, sine
 *   scale  [context] f32 or absent: 1
 *   sinks  [NH] f32 or absent
 *   table  the row's window table that names the layer's pages, if WINDOW
 *   part, tickets: unused here; for kernels that split the context
 *
 * With TurboQuant, query is rotated as the keys are, and y is rotated back at
 * the end.
 *
 * Launch    prepare: a group of WG per (head of NH + NKV, token);
 *           attention: one per (TILE_ROWS tokens, query head)
 * Defines   WG 64, TILE_ROWS 1..4, OPERAND_DTYPE, ROTATED, WINDOW (0: none),
 *           LATE_NORM, WHOLE_NORM (0 or 1),
 *           ATTN_CAP (0: none), ATTN_SCALE (unless 1 / sqrt(HD)); those of
 *           kv.cl
 * Needs     HD a multiple of 2; (2 TILE_ROWS HD + 66 TILE_ROWS + 2 BOOK) * 4
 *           bytes of local memory
 * Numerics  float32; scores: lane j of 16 sums dimensions j, j + 16, .. by
 *           fma, then fold16; softmax and y in turns of 64 absolute positions,
 *           y in order of position.  A token's bits depend on no other token */
#define SPAN  64 /* positions of a turn */
#define GROUP (NH / NKV)
#define Q_LD  (GATED ? 2 * HD : HD)
#define K_AT  (NH * Q_LD)
#define V_AT  (K_AT + NKV * HD)
#define IN_LD (V_AT + NKV * HD)

/* Blocks of a row, from that of position `origin` on. */
typedef struct {
    __global const int *blocks;
    uint origin;
} table_t;

static table_t table_of(__global const int *meta, __global const int *row,
                        uint table)
{
    __global const int *blocks = meta + META_BLOCKS;
    table_t t = {blocks + row[ROW_BLOCKS], 0};

#if WINDOW > 0
    blocks += row[ROW_FIRST_SAVE] + row[ROW_SAVES] * 2;
    t.origin = (uint)blocks[0] * BLOCK_TOKENS;
    t.blocks = blocks + 2 + table * (uint)blocks[1];
#endif
    return t;
}

#define KEY_PLACE(t, page, p, h) \
    key_place((t).blocks, page, (p) - (t).origin, h)
#define VALUE_PLACE(t, page, p, h) \
    value_place((t).blocks, page, (p) - (t).origin, h)

/* The first position that a token at p sees. */
static uint first_seen(uint p)
{
    return WINDOW > 0 && p >= WINDOW ? p - WINDOW + 1 : 0;
}

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

/* Returns the factor of a norm over n values of all work-items' squares. */
static float norm_factor(__local float *part, float square, uint n)
{
    return 1.0f / sqrt(sum_of(part, square) / (float)n + EPS);
}

/* head [HD] := norm(from), whose q or k, `all`, has n heads, ld apart; gamma of
 * the head may be absent. */
static void norm_head(__local float *head, __local float *part,
                      __global const float *from, __global const float *all,
                      uint n, uint ld, __global const float *gamma,
                      ulong gamma_at)
{
    const uint lane = get_local_id(0);
    float square = 0.0f, scale;

#if WHOLE_NORM
    for (uint h = 0; h < n; h++) {
        for (uint d = lane; d < HD; d += WG) {
            square = fma(all[h * ld + d], all[h * ld + d], square);
        }
    }
    scale = norm_factor(part, square, n * HD);
#else
    for (uint d = lane; d < HD; d += WG) {
        square = fma(from[d], from[d], square);
    }
    scale = norm_factor(part, square, HD);
#endif
    for (uint d = lane; d < HD; d += WG) {
        head[d] = gamma_at == ABSENT ? from[d]
                                     : from[d] * scale * gamma[gamma_at + d];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static void rotate_head(__local float *head, __global const float *turn)
{
    for (uint i = get_local_id(0); i < ROTATED / 2; i += WG) {
        float a = head[i], b = head[i + ROTATED / 2];
        float cosine = turn[2 * i], sine = turn[2 * i + 1];

        head[i] = a * cosine - b * sine;
        head[i + ROTATED / 2] = b * cosine + a * sine;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* head := norm(rotate(from)); gamma may be absent. */
static void late_norm_head(__local float *head, __local float *part,
                           __global const float *from,
                           __global const float *gamma, ulong gamma_at,
                           __global const float *turn)
{
    const uint lane = get_local_id(0);
    float square = 0.0f, scale;

    for (uint d = lane; d < HD; d += WG) {
        head[d] = from[d];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    rotate_head(head, turn);
    for (uint d = lane; d < HD; d += WG) {
        square = fma(head[d], head[d], square);
    }
    scale = norm_factor(part, square, HD);
    for (uint d = lane; d < HD && gamma_at != ABSENT; d += WG) {
        head[d] = head[d] * scale * gamma[gamma_at + d];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_prepare(__global float *query, ulong query_at, __global cache_t *kv,
                  ulong kv_at, uint page, __global const float *in,
                  ulong in_at, __global const float *q_norm, ulong q_norm_at,
                  __global const float *k_norm, ulong k_norm_at,
                  __global const float *rope, ulong rope_at,
                  __global const float *scale, ulong scale_at,
                  __global const int *meta, uint n_tokens, uint table)
{
    __local float head[HD], part[2 * WG], book[2 * BOOK];
    const uint lane = get_local_id(0), h = get_group_id(0);
    const uint t = get_group_id(1), kh = h - NH; /* index among key heads */
    const bool is_query = h < NH;
    const uint p = TOKEN(meta, t)[TOKEN_POSITION];
    const table_t of =
        table_of(meta, ROW(meta, TOKEN(meta, t)[TOKEN_ROW]), table);
    __global const float *from = in + in_at + (ulong)t * IN_LD;

    __global const float *all = from + (is_query ? 0 : K_AT);
    __global const float *one = all + (is_query ? h * Q_LD : kh * HD);
    __global const float *turn = rope + rope_at + (ulong)p * ROTATED;
    __global const float *gamma = is_query ? q_norm : k_norm;
    ulong gamma_at = is_query ? q_norm_at : k_norm_at;

    kv += kv_at;
    if (WHOLE_NORM && gamma_at != ABSENT) {
        gamma_at += (is_query ? h : kh) * HD;
    }
    if (LATE_NORM) {
        late_norm_head(head, part, one, gamma, gamma_at, turn);
    } else {
        norm_head(head, part, one, all, is_query ? NH : NKV,
                  is_query ? Q_LD : HD, gamma, gamma_at);
        rotate_head(head, turn);
    }
    for (uint d = lane; d < HD && is_query && scale_at != ABSENT; d += WG) {
        head[d] *= scale[scale_at + p];
    }
#if KV_SCHEME == 0
    for (uint d = lane; d < HD && !is_query; d += WG) {
        kv[KEY_PLACE(of, page, p, kh).codes + d] = kv_of(head[d]);
        kv[VALUE_PLACE(of, page, p, kh).codes + d] =
            kv_of(from[V_AT + kh * HD + d]);
    }
#else
    /* Queries take part for the barriers, and to be rotated. */
    book_load(book);
    key_put(kv, KEY_PLACE(of, page, p, kh), !is_query, head, part, book);
#endif
    for (uint d = lane; d < HD && is_query; d += WG) {
        query[query_at + ((ulong)t * NH + h) * HD + d] = head[d];
    }
#if KV_SCHEME != 0
    for (uint d = lane; d < HD; d += WG) {
        head[d] = is_query ? 0.0f : from[V_AT + kh * HD + d];
    }
    value_put(kv, VALUE_PLACE(of, page, p, kh), !is_query, head, part, book);
#endif
}

/* ---- one turn ---- */

/* Loads n < 16 values, and zeros behind. */
static float16 local_rest(__local const float *x, uint n)
{
    float part[16];

    for (uint j = 0; j < 16; j++) {
        part[j] = j < n ? x[j] : 0.0f;
    }
    return vload16(0, part);
}

/* Dimensions behind the last multiple of 16, and zeros. */
#define REST_AT (HD / 16 * 16)

static float16 key_rest(__global const cache_t *kv, place_t at,
                        __local const float *book)
{
    float part[16];

    for (uint j = 0; j < 16; j++) {
        part[j] = j < HD % 16 ? key_get(kv, at, REST_AT + j, book) : 0.0f;
    }
    return vload16(0, part);
}

static float16 value_rest(__global const cache_t *kv, place_t at,
                          __local const float *book)
{
    float part[16];

    for (uint j = 0; j < 16; j++) {
        part[j] = j < HD % 16 ? value_get(kv, at, REST_AT + j, book) : 0.0f;
    }
    return vload16(0, part);
}

/* s[i, lane] = q[i] . k at this work-item's position, for n queries. */
static void scores(__local float *s, __local const float *q, uint n,
                   __global const cache_t *kv, place_t at,
                   __local const float *book)
{
    const uint lane = get_local_id(0);
#ifdef ATTN_SCALE
    const float scale = key_factor(kv, at) * ATTN_SCALE;
#else
    const float scale = key_factor(kv, at) / sqrt((float)HD);
#endif
    float16 acc[TILE_ROWS];

    for (uint i = 0; i < TILE_ROWS; i++) {
        acc[i] = 0.0f;
    }
    for (uint d = 0; d + 16 <= HD; d += 16) {
        float16 k = key_get16(kv, at, d, book);

        for (uint i = 0; i < TILE_ROWS; i++) {
            acc[i] = fma(vload16(0, q + i * HD + d), k, acc[i]);
        }
    }
    if (HD % 16 != 0) {
        float16 k = key_rest(kv, at, book);

        for (uint i = 0; i < TILE_ROWS; i++) {
            acc[i] = fma(local_rest(q + i * HD + REST_AT, HD % 16), k, acc[i]);
        }
    }
    for (uint i = 0; i < n; i++) {
        const float score = fold16(acc[i]) * scale;

        s[i * SPAN + lane] =
            ATTN_CAP > 0.0f ? capped(score, ATTN_CAP) : score;
    }
}

/* The positions of a turn that a query sees, from its begin. */
typedef struct {
    uint first, end;
} seen_t;

static seen_t seen_in(uint p, uint begin)
{
    const uint low = first_seen(p);
    seen_t s;

    s.end = p + 1 > begin ? min(p + 1 - begin, (uint)SPAN) : 0;
    s.first = low > begin ? min(low - begin, s.end) : 0;
    return s;
}

/* y[i, d .. d + 16) := y * factor + sum over the seen positions of s v. */
static void values(__local float *y, __local const float *s, float factor,
                   seen_t seen, uint begin, uint d, __global const cache_t *kv,
                   table_t of, uint page, uint kh, __local const float *book)
{
    const uint n = min(HD - d, 16u);
    float16 acc = n == 16 ? vload16(0, y + d) : local_rest(y + d, n);

    acc *= factor;
    for (uint j = seen.first; j < seen.end; j++) {
        const place_t at = VALUE_PLACE(of, page, begin + j, kh);
        float16 v = n == 16 ? value_get16(kv, at, d, book)
                            : value_rest(kv, at, book);

        acc = fma((float16)(s[j] * value_factor(kv, at)), v, acc);
    }
    if (n == 16) {
        vstore16(acc, 0, y + d);
    } else {
        float part[16];

        vstore16(acc, 0, part);
        for (uint j = 0; j < n; j++) {
            y[d + j] = part[j];
        }
    }
}

/* Turns query i's scores of the turn into weights, and updates its top and
 * total. */
static void weigh(__local float *s, seen_t seen, __local float *top,
                  __local float *total, __local float *factor)
{
    float high = *top, before = *top, sum = 0.0f;

    for (uint j = seen.first; j < seen.end; j++) {
        high = fmax(high, s[j]);
    }
    for (uint j = seen.first; j < seen.end; j++) {
        s[j] = exp_of(s[j] - high);
        sum += s[j];
    }
    *factor = seen.end > seen.first ? exp_of(before - high) : 1.0f;
    *total = *total * *factor + sum;
    *top = high;
}

/* Returns a sum of values in dimension d, past hadamard(). */
static float turned_back(float sum, uint d)
{
#if KV_SCHEME == 2
    return sum * (TURBO_UNIT * sign_of(signs_v, d));
#else
    return sum;
#endif
}

/* ---- n tokens of one row, from token t ---- */

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention(__global operand_t *y, ulong y_at, __global float *part,
          ulong part_at, __global uint *tickets, ulong tickets_at,
          __global const float *query, ulong query_at, __global const float *in,
          ulong in_at, __global const cache_t *kv, ulong kv_at, uint page,
          __global const int *meta, uint first_token, uint n_tokens,
          uint n_splits, __global const float *sinks, ulong sinks_at,
          uint table)
{
    __local float q[TILE_ROWS * HD], acc[TILE_ROWS * HD];
    __local float s[TILE_ROWS * SPAN], book[2 * BOOK];
    __local float top[TILE_ROWS], total[TILE_ROWS], factor[TILE_ROWS];
    const uint lane = get_local_id(0), h = get_group_id(1), kh = h / GROUP;
    const uint chunks = (HD + 15) / 16;
    const uint end = first_token + n_tokens;
    uint t = first_token + get_group_id(0) * TILE_ROWS;
    const uint stop = min(t + TILE_ROWS, end);

    kv += kv_at;
    book_load(book);
    while (t < stop) {
        const uint r = TOKEN(meta, t)[TOKEN_ROW];
        const uint p = TOKEN(meta, t)[TOKEN_POSITION];
        __global const int *row = ROW(meta, r);
        const table_t of = table_of(meta, row, table);
        const uint row_end = row[ROW_FIRST] + row[ROW_TOKENS];
        const uint n = min(stop, row_end) - t, low = first_seen(p);

        for (uint d = lane; d < TILE_ROWS * HD; d += WG) {
            const uint i = min(d / HD, n - 1);

            q[d] = query[query_at + ((ulong)(t + i) * NH + h) * HD + d % HD];
            acc[d] = 0.0f;
        }
        if (lane < TILE_ROWS) {
            /* A sink is a score that comes first, without a value. */
            top[lane] = sinks_at == ABSENT ? -INFINITY : sinks[sinks_at + h];
            total[lane] = sinks_at == ABSENT ? 0.0f : 1.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint begin = low / SPAN * SPAN; begin < p + n; begin += SPAN) {
            if (begin + lane >= low && begin + lane < p + n) {
                scores(s, q, n, kv, KEY_PLACE(of, page, begin + lane, kh),
                       book);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane < n) {
                weigh(s + lane * SPAN, seen_in(p + lane, begin), top + lane,
                      total + lane, factor + lane);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint task = lane; task < n * chunks; task += WG) {
                const uint i = task / chunks;

                values(acc + i * HD, s + i * SPAN, factor[i],
                       seen_in(p + i, begin), begin, task % chunks * 16, kv,
                       of, page, kh, book);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#if KV_SCHEME == 2
        hadamard(acc, n);
#endif
        for (uint d = lane; d < n * HD; d += WG) {
            const uint i = d / HD;
            float v = turned_back(acc[d], d % HD) / total[i];

            if (GATED) {
                v *= sigmoid_of(in[in_at + (ulong)(t + i) * IN_LD + h * Q_LD +
                                   HD + d % HD]);
            }
            y[y_at + ((ulong)(t + i) * NH + h) * HD + d % HD] = operand_of(v);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        t += n;
    }
}
