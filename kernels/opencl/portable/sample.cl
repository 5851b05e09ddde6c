/* sample.cl - draws a token from a row of logits: steps 1 to 8 of
 * common/sampling/sampling.h.
 *
 *     sample_adjust    adjusted[i] = bias and penalties of logits[i]
 *     sample_scan      for each part of PART ids: the best id; all finite?
 *     sample_sum       for logprobs, each part's sum of exponentials
 *     sample_draw      the token
 *     sample_logprobs  logprobs of the token and of the best ids, from logits
 *
 *   logits, adjusted  [n, V] f32; times [n, V] uint, any contents
 *   asks    [n, ASK_WORDS] int, parameters of the rows from the host, followed
 *           by their lists: biases' ids and values, ids of prompt ++ generated
 *   found   [n, PARTS, 5] uint or f32 bits: the best, its id, 1 if not finite;
 *           of logits: the highest, sum exp(l - highest)
 *   tokens  [n] uint: V where the logits are not finite
 *   lps     [n, LP_WORDS]: logprob, then n_top of (id, logprob)
 *
 * Launch    groups of WG: (PARTS, n) for scan and sum, else (1, n); adjust:
 *           rows from `first`
 * Defines   WG, a power of two, 16..128
 * Needs     16 WG ulong of local memory (16 KiB for 128); no 64-bit atomics,
 *           no float64
 * Numerics  weights p equal the cpu's bit for bit.  Masses are sums of p in
 *           multiples of 2^-MASS_BITS, which are integers: exact in any order.
 *           The cpu sums doubles; the two differ only where u times the mass
 *           is within some 2^-40 of the mass from an edge */
#define PART      4096
#define PARTS     ((V + PART - 1) / PART)
#define FOUND     5
#define TOP_MOST  20 /* TOP_LOGPROBS_MAX */
#define LP_WORDS  (1 + 2 * TOP_MOST)
#if V <= 1 << 19
#define MASS_BITS 44 /* V weights, each at most 1, fit in 63 bits */
#else
#define MASS_BITS 31
#endif

#define ASK_WORDS      20
#define ASK_FLAGS      0
#define ASK_FACTOR     1 /* f32: 1 / temperature; 0: greedy */
#define ASK_TOP_K      2
#define ASK_TOP_P      3 /* f32 */
#define ASK_MIN_P      4 /* f32 */
#define ASK_REPETITION 5 /* f32 */
#define ASK_PRESENCE   6 /* f32 */
#define ASK_FREQUENCY  7 /* f32 */
#define ASK_SEED       8 /* two words, lower first */
#define ASK_CHOICE     10
#define ASK_INDEX      11
#define ASK_N_TOP      12
#define ASK_BIASES     13 /* word of asks: ids, then values */
#define ASK_N_BIASES   14
#define ASK_IDS        15 /* word of asks */
#define ASK_N_IDS      16
#define ASK_N_PROMPT   17

#define FLAG_BIAS     1
#define FLAG_PENALTY  2
#define FLAG_LOGPROBS 4
#define FLAG_ADJUST   (FLAG_BIAS | FLAG_PENALTY)

/* ---- bias and penalties ---- */

static float penalised(float l, uint times, __global const int *ask)
{
    const float repetition = as_float(ask[ASK_REPETITION]);

    l = l > 0.0f ? l / repetition : l * repetition;
    if (times > 0) {
        l -= as_float(ask[ASK_FREQUENCY]) * (float)times;
        l -= as_float(ask[ASK_PRESENCE]);
    }
    return l;
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
sample_adjust(__global float *adjusted, ulong adjusted_at,
              __global uint *times, ulong times_at,
              __global const float *logits, ulong logits_at,
              __global const int *asks, ulong asks_at, uint first)
{
    const uint lane = get_local_id(0), i = first + get_group_id(1);
    __global const int *ask = asks + asks_at + i * ASK_WORDS;
    __global const int *ids = asks + asks_at + ask[ASK_IDS];
    __global const int *biases = asks + asks_at + ask[ASK_BIASES];
    __global const float *raw = logits + logits_at + (ulong)i * V;
    __global float *l = adjusted + adjusted_at + (ulong)i * V;
    __global uint *seen = times + times_at + (ulong)i * V;
    const uint flags = ask[ASK_FLAGS], n_biases = ask[ASK_N_BIASES];
    const uint end = flags & FLAG_PENALTY ? ask[ASK_N_IDS] : 0;

    if (!(flags & FLAG_ADJUST)) {
        return;
    }
    for (uint j = lane; j < V; j += WG) {
        l[j] = raw[j];
    }
    for (uint j = lane; j < end; j += WG) {
        seen[ids[j]] = 0;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (lane == 0) {
        for (uint j = 0; j < n_biases; j++) {
            l[biases[j]] += as_float(biases[n_biases + j]);
        }
    }
    for (uint j = ask[ASK_N_PROMPT] + lane; j < end; j += WG) {
        atomic_inc(&seen[ids[j]]);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint j = lane; j < end; j += WG) {
        const uint id = ids[j], n = atomic_xchg(&seen[id], UINT_MAX);

        if (n != UINT_MAX) { /* only the first work-item: each id once */
            l[id] = penalised(l[id], n, ask);
        }
    }
}

/* ---- the best ---- */

/* Returns whether (a, i) ranks before (b, j); equals rank by lower id. */
static bool better(float a, uint i, float b, uint j)
{
    return a > b || (a == b && i < j);
}

/* Returns l [V] from which row i is drawn. */
static __global const float *drawn_from(__global const float *logits,
                                        __global const float *adjusted,
                                        __global const int *ask, uint i)
{
    return (ask[ASK_FLAGS] & FLAG_ADJUST ? adjusted : logits) + (ulong)i * V;
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
sample_scan(__global uint *found, ulong found_at,
            __global const float *logits, ulong logits_at,
            __global const float *adjusted, ulong adjusted_at,
            __global const int *asks, ulong asks_at)
{
    __local float tops[WG];
    __local uint ids[WG], bads[WG];
    const uint lane = get_local_id(0), part = get_group_id(0);
    const uint i = get_group_id(1);
    __global const float *l =
        drawn_from(logits + logits_at, adjusted + adjusted_at,
                   asks + asks_at + i * ASK_WORDS, i);
    const uint end = min((part + 1) * PART, (uint)V);
    float top = -INFINITY;
    uint id = end, bad = 0;

    for (uint j = part * PART + lane; j < end; j += WG) {
        bad |= !isfinite(l[j]);
        if (better(l[j], j, top, id)) {
            top = l[j];
            id = j;
        }
    }
    tops[lane] = top;
    ids[lane] = id;
    bads[lane] = bad;
    for (uint n = WG / 2; n > 0; n /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < n) {
            bads[lane] |= bads[lane + n];
            if (better(tops[lane + n], ids[lane + n], tops[lane], ids[lane])) {
                tops[lane] = tops[lane + n];
                ids[lane] = ids[lane + n];
            }
        }
    }
    if (lane == 0) {
        __global uint *out = found + found_at + (i * PARTS + part) * FOUND;

        out[0] = as_uint(tops[0]);
        out[1] = ids[0];
        out[2] = bads[0];
    }
}

/* For logprobs: sums over the model's own logits. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
sample_sum(__global uint *found, ulong found_at, __global const float *logits,
           ulong logits_at, __global const int *asks, ulong asks_at)
{
    __local float part_of[WG];
    const uint lane = get_local_id(0), part = get_group_id(0);
    const uint i = get_group_id(1);
    __global const float *l = logits + logits_at + (ulong)i * V;
    const uint end = min((part + 1) * PART, (uint)V);
    float top = -INFINITY, sum = 0.0f;

    if (!(asks[asks_at + i * ASK_WORDS + ASK_FLAGS] & FLAG_LOGPROBS)) {
        return;
    }
    for (uint j = part * PART + lane; j < end; j += WG) {
        top = fmax(top, l[j]);
    }
    part_of[lane] = top;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < WG; j++) {
        top = fmax(top, part_of[j]);
    }
    for (uint j = part * PART + lane; j < end; j += WG) {
        sum += exp_of(l[j] - top);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    part_of[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        __global uint *out = found + found_at + (i * PARTS + part) * FOUND;

        sum = 0.0f;
        for (uint j = 0; j < WG; j++) {
            sum += part_of[j];
        }
        out[3] = as_uint(top);
        out[4] = as_uint(sum);
    }
}

/* ---- a row's choice in progress ---- */

struct draw {
    __global const float *l; /* [V] */
    float best, factor, min_p;
    uint key, last; /* kept: keys below, and of equals ids up to last */
};

enum weight { EACH, MASS, TIES };

/* Maps a logit to a key: better logits have smaller keys, and zeros of either
 * sign the same key. */
static uint key_of(float l)
{
    const uint bits = as_uint(l + 0.0f);

    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

static float of_key(uint key)
{
    return as_float(key >> 31 ? key : ~key & 0x7fffffffu);
}

static ulong mass_of(const struct draw *d, float l)
{
    const float p = exp_of((l - d->best) * d->factor);

    return p < d->min_p ? 0 : (ulong)(p * (float)(1ul << MASS_BITS));
}

/* Returns the weight of an id: 0 if it is not kept, else 1, its mass, or 1 if
 * it has the last key. */
static ulong weight_of(const struct draw *d, uint id, enum weight by)
{
    const float l = d->l[id];
    const uint key = key_of(l);

    if (key > d->key || (key == d->key && id > d->last)) {
        return 0;
    }
    return by == MASS ? mass_of(d, l) : by == EACH || key == d->key;
}

/* A pass over the row:
 *
 *     TOTAL  sums[0] = the weight of all ids
 *     FIND   the first id, in order, at which the running sum exceeds need,
 *            which is less than the sum of all: [begin, end) is cut into WG
 *            pieces; sums = the piece with that id, what is left of need
 *     DIGIT  sums[b] = the weight of ids whose key continues prefix with
 *            digit b */
enum kind { TOTAL, FIND, DIGIT };

struct pass {
    enum kind kind;
    enum weight by;
    ulong need;
    uint begin, end, length; /* ids of a piece */
    uint prefix, shift;
};

static void count_digits(const struct draw *d, const struct pass *s,
                         __local ulong *bins)
{
    const uint lane = get_local_id(0);

    for (uint b = 0; b < 16; b++) {
        bins[b * WG + lane] = 0;
    }
    for (uint j = lane; j < V; j += WG) {
        const ulong key = key_of(d->l[j]);

        if (key >> (s->shift + 4) == s->prefix) {
            bins[(key >> s->shift & 15) * WG + lane] +=
                weight_of(d, j, s->by);
        }
    }
}

static void count_piece(const struct draw *d, const struct pass *s,
                        __local ulong *bins)
{
    const uint lane = get_local_id(0);
    const uint from = min(s->begin + lane * s->length, s->end);
    const uint to = min(from + s->length, s->end);
    ulong sum = 0;

    for (uint j = from; j < to; j++) {
        sum += weight_of(d, j, s->by);
    }
    bins[lane] = sum;
}

static void run_pass(const struct draw *d, const struct pass *s,
                     __local ulong *bins, __local ulong *sums)
{
    const uint lane = get_local_id(0);
    const uint bin = s->kind == DIGIT ? lane : 0;
    ulong left = s->need, sum = 0;
    uint at = 0;

    if (s->kind == DIGIT) {
        count_digits(d, s, bins);
    } else {
        count_piece(d, s, bins);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (s->kind == FIND && lane == 0) {
        while (at < WG - 1 && bins[at] <= left) {
            left -= bins[at++];
        }
        sums[0] = at;
        sums[1] = left;
    } else if (s->kind != FIND && lane < (s->kind == DIGIT ? 16 : 1)) {
        for (uint j = 0; j < WG; j++) {
            sum += bins[bin * WG + j];
        }
        sums[bin] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static struct pass over_all(enum kind kind, enum weight by, ulong need)
{
    return (struct pass){kind, by, need, 0, V, (V + WG - 1) / WG, 0, 28};
}

/* Fixes four more bits of the last kept key, from the sums; returns false if
 * they are the last four. */
static bool next_digit(struct draw *d, struct pass *s, __local ulong *sums)
{
    uint at = 0;
    ulong each;

    while (at < 16 && sums[at] < s->need) {
        s->need -= sums[at++];
    }
    if (at == 16) {
        return false; /* all ids weigh less: all stay */
    }
    s->prefix = s->prefix << 4 | at;
    if (s->shift > 0) {
        s->shift -= 4;
        return true;
    }
    /* Ids with this key weigh the same; the lower ids stay. */
    d->last = s->prefix == d->key ? d->last : UINT_MAX;
    d->key = s->prefix;
    if (sums[at] > s->need) {
        each = s->by == EACH ? 1 : mass_of(d, of_key(d->key));
        *s = over_all(FIND, TIES, (s->need - 1) / each);
        return true;
    }
    return false;
}

/* Narrows to the piece that sums name; returns false once one id is left. */
static bool next_piece(struct pass *s, __local ulong *sums)
{
    s->begin += (uint)sums[0] * s->length;
    s->end = min(s->begin + s->length, s->end);
    s->length = (s->end - s->begin + WG - 1) / WG;
    s->need = sums[1];
    return s->begin + 1 < s->end;
}

/* Returns the least whole number that is at least share * total and at least 1.
 * Parts of share below 2^-64 are lost.  share in (0, 1), total not 0. */
static ulong share_of(float share, ulong total)
{
    const ulong s = (ulong)(share * 18446744073709551616.0f);

    return max(mul_hi(s, total) + (s * total != 0), 1ul);
}

/* Keeps the top_k best of d, then the shortest prefix by rank with top_p of
 * their mass, then the ids with at least min_p.  Returns the id at share u,
 * times 2^64, of the rest.  only_k: stops after top_k. */
static uint choose(struct draw *d, uint top_k, float top_p, float min_p,
                   ulong u, bool only_k, __local ulong *bins,
                   __local ulong *sums)
{
    enum { TOP_K, TOP_P, PICK, DONE } stage = TOP_K;
    struct pass s = over_all(DIGIT, EACH, top_k);
    bool more = top_k > 0 && top_k < V;

    for (;;) {
        if (!more && stage == TOP_K) { /* top_k is done */
            stage = only_k ? DONE : top_p < 1.0f ? TOP_P : PICK;
        } else if (!more && stage == TOP_P) {
            stage = PICK;
        } else if (!more) {
            stage = DONE;
        }
        if (stage == DONE) {
            return s.begin;
        }
        if (!more) {
            d->min_p = stage == PICK ? min_p : 0.0f;
            s = over_all(TOTAL, MASS, 0);
        }
        run_pass(d, &s, bins, sums);
        more = true;
        if (s.kind == DIGIT) {
            more = next_digit(d, &s, sums);
        } else if (s.kind == FIND) {
            more = next_piece(&s, sums);
            d->last = !more && s.by == TIES ? s.begin : d->last;
        } else if (stage == TOP_P) {
            s = over_all(DIGIT, MASS, share_of(top_p, sums[0]));
        } else {
            s = over_all(FIND, MASS, mul_hi(u, sums[0]));
        }
    }
}

/* ---- the draw ---- */

static uint4 philox_round(uint4 c, uint k0, uint k1)
{
    return (uint4)(mul_hi(0xCD9E8D57u, c.z) ^ c.y ^ k0, 0xCD9E8D57u * c.z,
                   mul_hi(0xD2511F53u, c.x) ^ c.w ^ k1, 0xD2511F53u * c.x);
}

/* Uniform in [0, 1), times 2^64, in the upper 53 bits. */
static ulong philox_uniform(uint k0, uint k1, uint choice, uint index)
{
    uint4 c = (uint4)(index, choice, 0, 0);

    for (uint i = 0; i < 10; i++) {
        c = philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return ((ulong)c.x << 32 | c.y) >> 11 << 11;
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
sample_draw(__global uint *tokens, ulong tokens_at,
            __global const uint *found, ulong found_at,
            __global const float *logits, ulong logits_at,
            __global const float *adjusted, ulong adjusted_at,
            __global const int *asks, ulong asks_at)
{
    __local ulong bins[16 * WG], sums[16];
    const uint i = get_group_id(1);
    __global const int *ask = asks + asks_at + i * ASK_WORDS;
    __global const uint *parts = found + found_at + i * PARTS * FOUND;
    const float factor = as_float(ask[ASK_FACTOR]);
    float top = -INFINITY;
    uint token = V, bad = 0;

    for (uint p = 0; p < PARTS; p++) {
        const float l = as_float(parts[p * FOUND]);

        bad |= parts[p * FOUND + 2];
        if (better(l, parts[p * FOUND + 1], top, token)) {
            top = l;
            token = parts[p * FOUND + 1];
        }
    }
    if (bad) {
        token = V;
    } else if (factor > 0.0f) {
        struct draw d = {
            drawn_from(logits + logits_at, adjusted + adjusted_at, ask, i),
            top, factor, 0.0f, UINT_MAX, UINT_MAX};
        const ulong u = philox_uniform(ask[ASK_SEED], ask[ASK_SEED + 1],
                                       ask[ASK_CHOICE], ask[ASK_INDEX]);

        token = choose(&d, ask[ASK_TOP_K], as_float(ask[ASK_TOP_P]),
                       as_float(ask[ASK_MIN_P]), u, false, bins, sums);
    }
    if (get_local_id(0) == 0) {
        tokens[tokens_at + i] = token;
    }
}

/* ---- logprobs ---- */

/* At most 0, and finite. */
static float logprob(float l, float top, float log_sum)
{
    const float lp = l - top - log_sum;

    return lp > -FLT_MAX ? fmin(lp, 0.0f) : -FLT_MAX;
}

/* Sorts ids [n] by rank and writes them with their logprobs. */
static void write_best(__global uint *out, __local uint *ids, uint n,
                       const struct draw *d, float log_sum)
{
    for (uint i = 1; i < n; i++) {
        const uint id = ids[i];
        uint at = i;

        for (; at > 0 && better(d->l[id], id, d->l[ids[at - 1]], ids[at - 1]);
             at--) {
            ids[at] = ids[at - 1];
        }
        ids[at] = id;
    }
    for (uint i = 0; i < n; i++) {
        out[2 * i] = ids[i];
        out[2 * i + 1] = as_uint(logprob(d->l[ids[i]], d->best, log_sum));
    }
}

/* Returns log sum exp(l - highest), and the highest. */
static float log_sum_of(__global const uint *parts, float *highest)
{
    float top = -INFINITY, sum = 0.0f;

    for (uint p = 0; p < PARTS; p++) {
        top = fmax(top, as_float(parts[p * FOUND + 3]));
    }
    for (uint p = 0; p < PARTS; p++) {
        sum += as_float(parts[p * FOUND + 4]) *
               exp_of(as_float(parts[p * FOUND + 3]) - top);
    }
    *highest = top;
    return log(sum);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
sample_logprobs(__global uint *lps, ulong lps_at,
                __global const uint *tokens, ulong tokens_at,
                __global const uint *found, ulong found_at,
                __global const float *logits, ulong logits_at,
                __global const int *asks, ulong asks_at)
{
    __local ulong bins[16 * WG], sums[16];
    __local uint ids[TOP_MOST], n_ids;
    const uint lane = get_local_id(0), i = get_group_id(1);
    __global const int *ask = asks + asks_at + i * ASK_WORDS;
    __global uint *out = lps + lps_at + i * LP_WORDS;
    const uint token = tokens[tokens_at + i];
    const uint n_top = min((uint)ask[ASK_N_TOP], (uint)TOP_MOST);
    struct draw d = {logits + logits_at + (ulong)i * V,
                     0.0f, 1.0f, 0.0f, UINT_MAX, UINT_MAX};

    if (!(ask[ASK_FLAGS] & FLAG_LOGPROBS) || token >= V) {
        return;
    }
    const float log_sum =
        log_sum_of(found + found_at + i * PARTS * FOUND, &d.best);

    n_ids = 0;
    choose(&d, n_top, 1.0f, 0.0f, 0, true, bins, sums);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = lane; j < V && n_top > 0; j += WG) {
        if (weight_of(&d, j, EACH) > 0) {
            ids[atomic_inc(&n_ids)] = j;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        out[0] = as_uint(logprob(d.l[token], d.best, log_sum));
        write_best(out + 1, ids, n_ids, &d, log_sum);
        for (uint j = n_ids; j < n_top; j++) {
            out[1 + 2 * j] = 0;
            out[2 + 2 * j] = as_uint(-FLT_MAX);
        }
    }
}
