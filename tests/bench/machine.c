#include "tests/bench/machine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define READ_BYTES  ((size_t)256 << 20) /* per thread */
#define READ_TURNS  4
#define PEAK_TURNS  16000000
#define CHAINS      16 /* enough to cover the latency of a multiply-add */
#define THREADS_MAX 256
#define TRIES       3

double machine_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Each thread reads four quarters of its memory at the same time.  With large
 * pages, like a model's weights (worker/model/shard.c): with small pages the
 * page tables are the limit, at half of the memory's rate. */
#define STREAMS   4
#define HUGE_PAGE ((size_t)2 << 20)

typedef uint64_t line __attribute__((vector_size(64)));

struct reader {
    line *data;
    uint64_t sum;
    pthread_barrier_t *start;
};

static inline __attribute__((always_inline)) uint64_t
read_lines(const line *data)
{
    const size_t n = READ_BYTES / sizeof *data / STREAMS;
    line sums[STREAMS] = {0};

    for (size_t i = 0; i < n; i++) {
#pragma GCC unroll 4
        for (size_t j = 0; j < STREAMS; j++) {
            sums[j] += data[j * n + i];
        }
    }
    sums[0] += sums[1] + sums[2] + sums[3];
    return sums[0][0] + sums[0][7];
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static uint64_t read_avx512(const line *data)
{
    return read_lines(data);
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const line *data)
{
    return read_lines(data);
}
#endif

static uint64_t read_once(const line *data)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return read_avx512(data);
    }
    if (__builtin_cpu_supports("avx2")) {
        return read_avx2(data);
    }
#endif
    return read_lines(data);
}

static void *fill_and_read(void *arg)
{
    struct reader *r = arg;

    (void)madvise(r->data, READ_BYTES, MADV_HUGEPAGE); /* advice only */
    memset(r->data, 1, READ_BYTES);
    pthread_barrier_wait(r->start);
    for (int turn = 0; turn < READ_TURNS; turn++) {
        r->sum += read_once(r->data);
    }
    return NULL;
}

double machine_read_bandwidth(uint32_t n_threads)
{
    static struct reader r[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    pthread_barrier_t start;
    double begin, took;

    pthread_barrier_init(&start, NULL, n_threads + 1);
    for (uint32_t i = 0; i < n_threads; i++) {
        r[i] = (struct reader){aligned_alloc(HUGE_PAGE, READ_BYTES), 0, &start};
        if (r[i].data == NULL ||
            pthread_create(&threads[i], NULL, fill_and_read, &r[i])) {
            abort();
        }
    }
    pthread_barrier_wait(&start);
    begin = machine_now();
    for (uint32_t i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
    }
    took = machine_now() - begin;
    for (uint32_t i = 0; i < n_threads; i++) {
        free(r[i].data);
    }
    pthread_barrier_destroy(&start);
    return (double)n_threads * READ_TURNS * (double)READ_BYTES / took;
}

/* A rate: operations of a turn on this processor (0: cannot be measured), and
 * PEAK_TURNS turns of it. */
struct burner {
    double turn_ops;
    int (*turns)(void);
};

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static int f32_avx512(void)
{
    __m512 a[CHAINS], x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-9f);

    for (int i = 0; i < CHAINS; i++) {
        a[i] = _mm512_set1_ps((float)i);
    }
    for (int t = 0; t < PEAK_TURNS; t++) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) {
            a[i] = _mm512_fmadd_ps(a[i], x, y);
        }
    }
    for (int i = 1; i < CHAINS; i++) {
        a[0] = _mm512_add_ps(a[0], a[i]);
    }
    return (int)_mm512_cvtss_f32(a[0]);
}

__attribute__((target("avx2,fma"))) static int f32_avx2(void)
{
    __m256 a[12], x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-9f);

    for (int i = 0; i < 12; i++) {
        a[i] = _mm256_set1_ps((float)i);
    }
    for (int t = 0; t < PEAK_TURNS; t++) {
#pragma GCC unroll 16
        for (int i = 0; i < 12; i++) {
            a[i] = _mm256_fmadd_ps(a[i], x, y);
        }
    }
    for (int i = 1; i < 12; i++) {
        a[0] = _mm256_add_ps(a[0], a[i]);
    }
    return (int)_mm256_cvtss_f32(a[0]);
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) static int
int8_vnni(void)
{
    __m512i a[CHAINS], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);

    for (int i = 0; i < CHAINS; i++) {
        a[i] = _mm512_set1_epi32(i);
    }
    for (int t = 0; t < PEAK_TURNS; t++) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) {
            a[i] = _mm512_dpbusd_epi32(a[i], x, y);
        }
    }
    for (int i = 1; i < CHAINS; i++) {
        a[0] = _mm512_add_epi32(a[0], a[i]);
    }
    return _mm512_cvtsi512_si32(a[0]);
}

/* Without VNNI: products of pairs in 16 bits, widened and added. */
__attribute__((target("avx2"))) static int int8_avx2(void)
{
    __m256i a[8], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2);
    const __m256i ones = _mm256_set1_epi16(1);

    for (int i = 0; i < 8; i++) {
        a[i] = _mm256_set1_epi32(i);
    }
    for (int t = 0; t < PEAK_TURNS; t++) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            /* x depends on the previous sum, so that nothing is hoisted. */
            __m256i p = _mm256_maddubs_epi16(_mm256_xor_si256(x, a[i]), y);

            a[i] = _mm256_add_epi32(a[i], _mm256_madd_epi16(p, ones));
        }
    }
    for (int i = 1; i < 8; i++) {
        a[0] = _mm256_add_epi32(a[0], a[i]);
    }
    return _mm256_extract_epi32(a[0], 0);
}

static struct burner f32_burner(void)
{
    if (__builtin_cpu_supports("avx512f")) {
        return (struct burner){CHAINS * 16 * 2.0, f32_avx512};
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return (struct burner){12 * 8 * 2.0, f32_avx2};
    }
    return (struct burner){0.0, NULL};
}

static struct burner int8_burner(void)
{
    if (__builtin_cpu_supports("avx512vnni")) {
        return (struct burner){CHAINS * 64 * 2.0, int8_vnni};
    }
    if (__builtin_cpu_supports("avx2")) {
        return (struct burner){8 * 32 * 2.0, int8_avx2};
    }
    return (struct burner){0.0, NULL};
}
#else
static struct burner f32_burner(void)
{
    return (struct burner){0.0, NULL};
}

static struct burner int8_burner(void)
{
    return f32_burner();
}
#endif

static void *burn(void *arg)
{
    const struct burner *b = arg;

    return (void *)(intptr_t)b->turns(); /* keeps the work from being optimised
                                          * away */
}

static double peak(struct burner b, uint32_t n_threads)
{
    pthread_t threads[THREADS_MAX];
    double begin;

    if (b.turn_ops == 0.0) {
        return 0.0;
    }
    begin = machine_now();
    for (uint32_t i = 0; i < n_threads; i++) {
        if (pthread_create(&threads[i], NULL, burn, &b)) {
            abort();
        }
    }
    for (uint32_t i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
    }
    return b.turn_ops * PEAK_TURNS * n_threads / (machine_now() - begin);
}

double machine_f32_peak(uint32_t n_threads)
{
    return peak(f32_burner(), n_threads);
}

double machine_int8_peak(uint32_t n_threads)
{
    return peak(int8_burner(), n_threads);
}

double machine_best(double (*measure)(uint32_t n_threads), uint32_t n_threads)
{
    double most = 0.0;

    for (int i = 0; i < TRIES; i++) {
        double rate = measure(n_threads);

        most = rate > most ? rate : most;
    }
    return most;
}
