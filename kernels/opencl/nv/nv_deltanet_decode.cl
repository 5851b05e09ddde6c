/* nv_deltanet_decode.cl - the Gated DeltaNet of generated rows, everything
 * between its two products, in one launch.
 *
 *     c_t = silu(sum_j conv[.][j] qkv_{t-CONV+1+j})       channel by channel
 *     q = c_q / sqrt(sum c_q^2 + 1e-6) / sqrt(DK),  k the same, unscaled
 *     beta = sigmoid(b),  g = exp(-exp(a_log) softplus(a + dt_bias))
 *     S = g S;  d = beta (v - k^T S);  S = S + k d^T;  o = q^T S
 *     y = o / sqrt(mean(o^2) + EPS) * norm * silu(z)
 *
 *   y        [T, HV, DV]             operand dtype
 *   kept     [.., KEPT_LD] f32, kept_q [.., HK, DK] kv dtype: of the layer, the
 *            inputs of rows that keep (deltanet.cl)
 *   tickets  [n_rows, HK]            u32; 0 before and after
 *   state    of the layer: slot s is [HV, DK, DV] f32 at s * page
 *   tail     of the layer: slot s is [CONV - 1, C] kv dtype, the oldest row
 *            first, at the bytes of s * page floats
 *   in       [T, C + HV DV + 2 HV]   f32: qkv, z, b, a
 *   conv     [C, CONV], a_log, dt_bias [HV], norm [DV]   f32
 *
 * nv_deltanet_row.cl precedes this file.  A work-group keeps the state of a
 * value head in registers from the first token of the row to the last, so the
 * state is read and written once.  All value heads of a key head read the tail
 * of q and k.  The last of them to have read the tail, by ticket, moves it on.
 * With SAVES, where the row has a save, state and tail are also written to the
 * save's page; hardly any step has one, and the checks cost registers.
 *
 * With KEEPS, a row may keep: it writes its inputs to kept and kept_q, and
 * neither state nor tail.  Such rows have several tokens; AHEAD of them are
 * convolved at a time, so that they wait for memory once.
 *
 * Launch    WG = 256; groups (HV, n_rows)
 * Defines   DK = DV = 128; CONV 2..8; SAVES, KEEPS 0 or 1; AHEAD, 1 with SAVES
 * Needs     sm_80; state 16-byte aligned
 * Numerics  nv_deltanet_row.cl's; no bit depends on n_rows */
#define IN_LD (C + HV * DV + 2 * HV)

/* Writes the tail after n tokens, to the same place or another. */
INLINE void move_tail(__global kv_t *to, __global const kv_t *tail,
                      __global const float *in, const int n,
                      const uint channel)
{
#pragma unroll
    for (int j = 0; j < HISTORY; j++) {
        to[(ulong)j * C + channel] =
            kv_of(before(in + channel, IN_LD, tail, n, HISTORY - j, channel));
    }
}

/* Handles one head of a token with one warp: lane l has elements 4l.. of x, z
 * and norm. */
INLINE void norm_gate(__global operand_t *y, const float4 x, const float4 z,
                      const float4 norm, const uint lane)
{
    const float sum =
        warp_sum(fma(x.s0, x.s0, x.s1 * x.s1) + fma(x.s2, x.s2, x.s3 * x.s3));
    const float scale = 1.0f / sqrt(sum / (float)DV + EPS);

    y[4 * lane] = operand_of(x.s0 * scale * norm.s0 * silu_of(z.s0));
    y[4 * lane + 1] = operand_of(x.s1 * scale * norm.s1 * silu_of(z.s1));
    y[4 * lane + 2] = operand_of(x.s2 * scale * norm.s2 * silu_of(z.s2));
    y[4 * lane + 3] = operand_of(x.s3 * scale * norm.s3 * silu_of(z.s3));
}

#if KEEPS
/* Writes the inputs of n tokens of a value head, the first of its key head also
 * q and k. */
INLINE void keep_inputs(__global float *kept, __global kv_t *kept_q,
                        __global const float *in, const uint n,
                        const uint head, const uint lane)
{
    const uint q = head / HEADS * DK + lane, v = 2 * HK * DK + head * DV;

    for (uint t = 0; t < n; t++) {
        __global const float *now = in + t * (ulong)IN_LD;
        __global float *to = kept + t * (ulong)KEPT_LD;

        if (lane >= LANES - DV) {
            const uint i = v + lane - (LANES - DV);

            to[i - KEPT_AT] = now[i];
        } else if (head % HEADS == 0 && lane < DK) {
            kept_q[t * (ulong)KEPT_AT + q] = kv_of(now[q]);
            to[q] = now[KEPT_AT + q];
        }
        if (lane < 2) {
            to[KEPT_B + lane * HV + head] =
                now[C + HV * DV + lane * HV + head];
        }
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
deltanet_decode(__global operand_t *y, const ulong y_at,
                __global float *kept, const ulong kept_at,
                __global kv_t *kept_q, const ulong kept_q_at,
                __global uint *tickets, const ulong tickets_at,
                __global float *state, const ulong state_at,
                __global kv_t *tail, const ulong tail_at, const uint page,
                __global const float *in, const ulong in_at,
                __global const float *conv, const ulong conv_at,
                __global const float *a_log, const ulong a_log_at,
                __global const float *dt_bias, const ulong dt_bias_at,
                __global const float *norm, const ulong norm_at,
                __global const int *meta, const uint first_row,
                const uint n_rows)
{
    __local float qk[AHEAD][2 * DK], squares[AHEAD][2][4], gates[AHEAD][2];
    __local float v[AHEAD][DV] __attribute__((aligned(16)));
    __local float4 sums[2][QUADS][DV / 4];
    __local uint turn;
    const uint lane = get_local_id(0), warp = lane / 32;
    const uint head = get_group_id(0), index = get_group_id(1);
    const uint key_head = head / HEADS;
    __global const int *row = ROW(meta, first_row + index);
    const uint first = (uint)row[ROW_FIRST], n = (uint)row[ROW_TOKENS];
    const uint slot = (uint)row[ROW_SLOT];
    const uint quad = warp / 4;
    const uint col = warp % 4 * 32 + lane % 8 * 4;
    const uint from = quad * 4 + lane % 32 / 8; /* rows from + STRIDE i */
    const uint q_channel = key_head * DK + lane;
    const uint k_channel = HK * DK + q_channel;
    const uint v_lane = LANES - DV; /* the last DV work-items convolve v */
    const uint v_channel = 2 * HK * DK + head * DV + lane - v_lane;
    const ulong place =
        state_at + (ulong)head * (DK * DV) + from * DV + col;
    __global float4 *mine =
        (__global float4 *)(state + place + (ulong)slot * page);
#if SAVES
    __global kv_t *tails = tail + tail_at;
    uint save = 0, save_at = SAVE_TOKENS(meta, row, save);
#endif
#if KEEPS
    const uint keep = (uint)row[ROW_KEEP];
#else
    const uint keep = 0;
#endif
    float4 s[ROWS];

    tail += tail_at + slot * kv_per(page);
    in += in_at + (ulong)first * IN_LD;
    conv += conv_at;
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        s[i] = mine[i * (STRIDE * DV / 4)];
    }

    for (uint t = 0; t < n; t++) {
        __global const float *now = in + t * (ulong)IN_LD + C;
        const uint slice = t % AHEAD;
        __local const float *q = qk[slice] + from, *k = q + DK;
        float4 z, gamma, m, out = 0.0f, d;

        if (warp == 0) {
            z = *(__global const float4 *)(now + head * DV + 4 * lane);
            gamma = *(__global const float4 *)(norm + norm_at + 4 * lane);
        }
        if (slice == 0) {
#pragma unroll
            for (uint i = 0; i < AHEAD; i++) {
                const uint at = t + i < n ? t + i : n - 1;
                __global const float *gate =
                    in + at * (ulong)IN_LD + C + HV * DV + head;

                if (lane < DK) {
                    const float a = convolve(in + q_channel, IN_LD, tail, conv,
                                             (int)at, q_channel);
                    const float b = convolve(in + k_channel, IN_LD, tail, conv,
                                             (int)at, k_channel);
                    const float qq = warp_sum(a * a), kk = warp_sum(b * b);

                    qk[i][lane] = a;
                    qk[i][DK + lane] = b;
                    if (lane % 32 == 0) {
                        squares[i][0][warp] = qq;
                        squares[i][1][warp] = kk;
                    }
                }
                if (lane >= v_lane) {
                    v[i][lane - v_lane] =
                        convolve(in + v_channel, IN_LD, tail, conv, (int)at,
                                 v_channel);
                }
                if (lane == LANES - 1) {
                    gates[i][0] = sigmoid_of(gate[0]);
                    gates[i][1] =
                        decay_of(gate[HV], dt_bias[dt_bias_at + head],
                                 a_log[a_log_at + head]);
                }
            }
        }
#if SAVES
        if (t + 1 == save_at) { /* before the ticket */
            __global kv_t *to =
                tails + SAVE_PAGE(meta, row, save) * kv_per(page);

            if (lane >= v_lane) {
                move_tail(to, tail, in, (int)save_at, v_channel);
            }
            if (lane < DK && head % HEADS == 0) {
                move_tail(to, tail, in, (int)save_at, q_channel);
                move_tail(to, tail, in, (int)save_at, k_channel);
            }
        }
#endif
        if (slice == 0) {
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (lane == 0 && t + 1 == n && !keep) {
            turn = atomic_inc(tickets + tickets_at + index * HK + key_head);
        }

        const float beta = gates[slice][0], decay = gates[slice][1];
        const float q_scale = unit_scale(squares[slice][0]) / sqrt((float)DK);
        const float k_scale = unit_scale(squares[slice][1]);

        m = rows_sum(decayed(s, decay, k, k_scale));
        if (lane % 32 < 8) {
            sums[0][quad][col / 4] = m;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        m = quads_sum(sums[0], col / 4);
        d = beta * (*(__local const float4 *)(v[slice] + col) - m);
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            s[i] = scaled(k[STRIDE * i] * k_scale, d, s[i]);
            out = scaled(q[STRIDE * i] * q_scale, s[i], out);
        }
        out = rows_sum(out);
        if (lane % 32 < 8) {
            sums[1][quad][col / 4] = out;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (warp == 0) {
            norm_gate(y + y_at + ((ulong)(first + t) * HV + head) * DV,
                      quads_sum(sums[1], lane), z, gamma, lane);
        }
#if SAVES
        if (t + 1 == save_at) {
            __global float4 *to =
                (__global float4 *)(state + place +
                                    SAVE_PAGE(meta, row, save) * page);

#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                to[i * (STRIDE * DV / 4)] = s[i];
            }
            save++;
            save_at = SAVE_TOKENS(meta, row, save);
        }
#endif
    }
#if KEEPS
    if (keep > 0) {
        keep_inputs(kept + kept_at + (keep - 1) * (ulong)KEPT_LD,
                    kept_q + kept_q_at + (keep - 1) * (ulong)KEPT_AT, in, n,
                    head, lane);
        return;
    }
#endif
#pragma unroll
    for (uint i = 0; i < ROWS; i++) {
        mine[i * (STRIDE * DV / 4)] = s[i];
    }
    if (lane >= v_lane) {
        move_tail(tail, tail, in, (int)n, v_channel);
    }
    if (turn + 1 < HEADS) {
        return;
    }
    if (lane < DK) {
        move_tail(tail, tail, in, (int)n, q_channel);
        move_tail(tail, tail, in, (int)n, k_channel);
    }
    if (lane == 0) {
        tickets[tickets_at + index * HK + key_head] = 0;
    }
}
