/* plants.c - tests that the emulator detects accesses out of bounds; see
 * emulator.h.
 *
 * Each kernel of plants.cl except plant_none has one such access, each of its
 * own kind.  It runs in its own process, which must end with the sanitizer's
 * report. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N          101 /* elements of a buffer */
#define REPORT_MAX 65536

static const struct plant {
    const char *name;
    size_t items;
    const char *report; /* NULL: none */
} plants[] = {
    {"plant_none", 64, NULL},
    {"plant_read", 64, "heap-buffer-overflow"},
    {"plant_before", 64, "heap-buffer-overflow"},
    {"plant_write", 64, "heap-buffer-overflow"},
    {"plant_wide", 64, "heap-buffer-overflow"},
    {"plant_copy", 64, "heap-buffer-overflow"},
    {"plant_copy_to", 64, "global-buffer-overflow"},
    {"plant_local", 64, "global-buffer-overflow"},
    {"plant_matrix", 64, "global-buffer-overflow"},
    {"plant_wgmma", 128, "global-buffer-overflow"},
};

static void must(bool it, const char *what)
{
    if (!it) {
        fprintf(stderr, "nv_plants: %s\n", what);
        exit(2);
    }
}

static char *load(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 16384);

    must(f && text && fread(text, 1, 16383, f) > 0, path);
    fclose(f);
    return text;
}

static cl_program build(cl_context context, const char *path)
{
    char *source = load(path);
    cl_program p = clCreateProgramWithSource(
        context, 1, (const char **)(uintptr_t)&source, NULL, NULL);

    free(source);
    must(clBuildProgram(p, 0, NULL, "", NULL, NULL) == CL_SUCCESS,
         "plants.cl does not build");
    return p;
}

/* Runs in the child process. */
static void run(cl_context context, cl_program program, const struct plant *p)
{
    static uint32_t data[2 * N];
    cl_mem in = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof(data) / 2,
                               data, NULL);
    cl_mem out = clCreateBuffer(
        context, 0, sizeof(*data) * (p->items > N ? p->items : N), NULL, NULL);
    cl_kernel k = clCreateKernel(program, p->name, NULL);
    const cl_uint n = N;

    must(in && out && k, p->name);
    clSetKernelArg(k, 0, sizeof(out), &out);
    clSetKernelArg(k, 1, sizeof(in), &in);
    clSetKernelArg(k, 2, sizeof(n), &n);
    must(clEnqueueNDRangeKernel(NULL, k, 1, NULL, &p->items, &p->items, 0, NULL,
                                NULL) == CL_SUCCESS,
         p->name);
}

/* Returns whether the child ended as expected. */
static bool try_plant(cl_context context, cl_program program,
                      const struct plant *p)
{
    static char report[REPORT_MAX];
    size_t n = 0;
    ssize_t got;
    int ends[2], status;
    pid_t child;

    must(pipe(ends) == 0, "no pipe");
    child = fork();
    must(child >= 0, "no process");
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        run(context, program, p);
        _exit(0);
    }
    close(ends[1]);
    while (n + 1 < sizeof(report) &&
           (got = read(ends[0], report + n, sizeof(report) - 1 - n)) > 0) {
        n += (size_t)got;
    }
    report[n] = 0;
    close(ends[0]);
    must(waitpid(child, &status, 0) == child, "no child");
    if (p->report ? status != 0 && strstr(report, p->report) &&
                        strstr(report, p->name)
                  : status == 0 && n == 0) {
        return true;
    }
    printf("WRONG %s: status %#x, and it said:\n%s\n", p->name,
           (unsigned)status, report);
    return false;
}

int main(int argc, char **argv)
{
    cl_context context = clCreateContext(NULL, 0, NULL, NULL, NULL, NULL);
    bool right = true;

    must(argc == 2, "usage: nv_plants plants.cl");
    cl_program program = build(context, argv[1]);
    for (size_t i = 0; i < sizeof(plants) / sizeof(plants[0]); i++) {
        right &= try_plant(context, program, &plants[i]);
    }
    clReleaseProgram(program);
    printf(right ? "all seen\n" : "not all seen\n");
    return !right;
}
