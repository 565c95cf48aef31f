/* SPDX-License-Identifier: Apache-2.0
 * Runs that allocate nothing on a CPU device of one worker: of prepared networks, and of sluice_network_run_into from
 * the third one on, with inputs of any size. This program counts the allocations of its thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The C library's own functions, under the names that it has for those who replace them. */
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

static _Thread_local size_t allocations;

void* malloc(size_t bytes) {
    ++allocations;
    return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
    ++allocations;
    return __libc_calloc(count, bytes);
}
void* realloc(void* data, size_t bytes) {
    ++allocations;
    return __libc_realloc(data, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
    ++allocations;
    return __libc_memalign(alignment, bytes);
}

_Thread_local int failures = 0;

/* 255 rows are less than 64 KiB, 256 are not. */
enum { MOST_ROWS = 257, WARM = 4, RUNS = 100 };
_Alignas(64) static float x[MOST_ROWS * 64];
static float y[MOST_ROWS * 10];

static void run_into_allocates_nothing(const sluice_network* network) {
    for (int64_t rows = 1; rows <= MOST_ROWS; rows += rows < 255 ? 254 : 1) {
        const int64_t shape[2] = {rows, 64}, to_shape[2] = {rows, 10};
        const sluice_tensor input = {x, shape, 2, SLUICE_F32, SLUICE_HOST};
        const sluice_buffer output = {y, to_shape, 2, SLUICE_F32};
        size_t before = 0;
        for (int i = 0; i < RUNS; ++i) {
            if (i == WARM) before = allocations;
            CHECK_OK(sluice_network_run_into(network, &input, 1, &output, 1));
        }
        if (allocations != before) {
            ++failures;
            fprintf(stderr, "%zu allocations in %d runs of %lld rows\n", allocations - before, RUNS - WARM,
                    (long long)rows);
        }
    }
}

static void prepared_runs_allocate_nothing(const sluice_network* network) {
    const int64_t shape[2] = {8, 64};
    const sluice_input_shape shapes[1] = {{"input", shape, 2}};
    sluice_prepared* fast = NULL;
    CHECK_OK(sluice_prepared_create(network, shapes, 1, &fast));
    const size_t before = allocations;
    for (int i = 0; i < RUNS; ++i) CHECK_OK(sluice_prepared_run(fast));
    CHECK(allocations == before);
    sluice_prepared_destroy(fast);
}

int main(void) {
    const sluice_runtime_options options = {.size = sizeof(options), .cpu_workers = 1, .without_cuda = 1};
    sluice_runtime* runtime = NULL;
    sluice_network* network = NULL;
    const size_t before = allocations;
    CHECK_OK(sluice_runtime_create(&options, &runtime));
    CHECK_OK(sluice_network_load(runtime, SLUICE_SOURCE_DIR "/models/digits.onnx", NULL, &network));
    CHECK(allocations != before); /* they are counted in the library too */
    run_into_allocates_nothing(network);
    prepared_runs_allocate_nothing(network);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
