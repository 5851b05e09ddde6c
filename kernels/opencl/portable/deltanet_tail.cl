/* deltanet_tail.cl - moves the tails of slots on by inputs that rows have kept,
 * behind the replay of the states, which reads the old tails.
 *
 *   tail            of the pool, from the start of its memory
 *   kept            [layers, keep_tokens, KEPT_LD] f32, see deltanet.cl
 *   kept_q          [layers, keep_tokens, HK, DK] KV_DTYPE
 *   places, asks    see common.cl
 *
 * Launch    a work-item per (channel, layer from first_layer on, ask), in
 *           groups of WG
 * Defines   WG
 * Numerics  exact: an input is rounded once */
#define KEPT_AT (HK * DK)
#define KEPT_LD (C - KEPT_AT + 2 * HV)

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
deltanet_tail(__global kv_t *tail, __global const float *kept, ulong kept_at,
              __global const kv_t *kept_q, ulong kept_q_at,
              __global const ulong *places, ulong places_at,
              __global const uint *asks, ulong asks_at, uint first_layer,
              uint keep_tokens)
{
    const uint c = get_global_id(0), layer = first_layer + get_group_id(1);
    __global const ulong *at = PLACES(places + places_at, layer);
    __global const uint *ask = ASK(asks + asks_at, get_group_id(2));
    const ulong first = (ulong)layer * keep_tokens + ask[ASK_KEPT];
    const uint n = ask[ASK_TOKENS];

    if (c >= C) {
        return;
    }
    tail += at[PLACE_TAIL] + ask[ASK_SLOT] * kv_per((uint)at[PLACE_PAGE]);
    /* Upwards, so that no row is read after it is written. */
    for (uint j = 0; j + 1 < CONV; j++) {
        const uint from = n + j;
        const ulong token = first + from - (CONV - 1);

        tail[(ulong)j * C + c] =
            from < CONV - 1 ? tail[(ulong)from * C + c]
            : c < KEPT_AT   ? kept_q[kept_q_at + token * KEPT_AT + c]
                          : kv_of(kept[kept_at + token * KEPT_LD + c - KEPT_AT]);
    }
}
