#include "tests/bench/machine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define READ_BYTES  ((size_t)256 << 20) /* of a thread */
#define READ_TURNS  4
#define PEAK_TURNS  4000000
#define THREADS_MAX 256

double machine_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct reader {
    uint64_t *data;
    uint64_t sum;
    pthread_barrier_t *start;
};

static void *fill_and_read(void *arg)
{
    struct reader *r = arg;
    size_t n = READ_BYTES / sizeof *r->data;

    memset(r->data, 1, READ_BYTES);
    pthread_barrier_wait(r->start);
    for (int turn = 0; turn < READ_TURNS; turn++) {
        uint64_t s[8] = {0};

        for (size_t i = 0; i < n; i += 8) {
            for (int j = 0; j < 8; j++) {
                s[j] += r->data[i + (size_t)j];
            }
        }
        for (int j = 0; j < 8; j++) {
            r->sum += s[j];
        }
    }
    return NULL;
}

double machine_read_bandwidth(uint32_t n_threads)
{
    static struct reader r[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    pthread_barrier_t start;
    double begin;

    pthread_barrier_init(&start, NULL, n_threads + 1);
    for (uint32_t i = 0; i < n_threads; i++) {
        r[i] = (struct reader){aligned_alloc(64, READ_BYTES), 0, &start};
        if (r[i].data == NULL ||
            pthread_create(&threads[i], NULL, fill_and_read, &r[i])) {
            abort();
        }
    }
    pthread_barrier_wait(&start);
    begin = machine_now();
    for (uint32_t i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
        free(r[i].data);
    }
    pthread_barrier_destroy(&start);
    return (double)n_threads * READ_TURNS * (double)READ_BYTES /
           (machine_now() - begin);
}

#if defined(__x86_64__)
/* Sixteen chains: more than the latency of a multiply-add covers. */
__attribute__((target("avx512f"))) static float burn_avx512(void)
{
    __m512 a[16], x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-9f);
    float out[16];

    for (int i = 0; i < 16; i++) {
        a[i] = _mm512_set1_ps((float)i);
    }
    for (int t = 0; t < PEAK_TURNS; t++) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            a[i] = _mm512_fmadd_ps(a[i], x, y);
        }
    }
    for (int i = 1; i < 16; i++) {
        a[0] = _mm512_add_ps(a[0], a[i]);
    }
    _mm512_storeu_ps(out, a[0]);
    return out[0];
}

__attribute__((target("avx2,fma"))) static float burn_avx2(void)
{
    __m256 a[12], x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-9f);
    float out[8];

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
    _mm256_storeu_ps(out, a[0]);
    return out[0];
}

static double turn_flops(void)
{
    if (__builtin_cpu_supports("avx512f")) {
        return 16.0 * 16.0 * 2.0;
    }
    return __builtin_cpu_supports("fma") ? 12.0 * 8.0 * 2.0 : 0.0;
}

static void *burn(void *arg)
{
    float *out = arg;

    *out = __builtin_cpu_supports("avx512f") ? burn_avx512() : burn_avx2();
    return NULL;
}
#else
static double turn_flops(void)
{
    return 0.0;
}

static void *burn(void *arg)
{
    return arg;
}
#endif

double machine_f32_peak(uint32_t n_threads)
{
    pthread_t threads[THREADS_MAX];
    float out[THREADS_MAX];
    double begin = machine_now();

    if (turn_flops() == 0.0) {
        return 0.0;
    }
    for (uint32_t i = 0; i < n_threads; i++) {
        if (pthread_create(&threads[i], NULL, burn, &out[i])) {
            abort();
        }
    }
    for (uint32_t i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
    }
    return turn_flops() * PEAK_TURNS * n_threads / (machine_now() - begin);
}
