/* SPDX-License-Identifier: Apache-2.0
 * A network gives the same bits however it is asked: run, run into the caller's memory, submitted, and forward. */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

enum { MOST_INPUTS = 16, MOST_DIMENSIONS = 8, MOST_CALLS = 4 };

/* The inputs of one call, with numbers that depend on their place alone. */
struct call {
    size_t count;
    sluice_tensor inputs[MOST_INPUTS];
    int64_t shapes[MOST_INPUTS][MOST_DIMENSIONS];
    void* data[MOST_INPUTS];
};

static void fill(void* to, sluice_type type, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const unsigned mixed = (unsigned)(i * 2654435761u) >> 16;
        if (type == SLUICE_F32) {
            ((float*)to)[i] = (float)mixed / 32768.0f - 1;
        } else if (type == SLUICE_F64) {
            ((double*)to)[i] = (double)mixed / 32768.0 - 1;
        } else if (type == SLUICE_I64 || type == SLUICE_U64) {
            ((int64_t*)to)[i] = mixed % 2; /* they may be indices */
        } else if (type == SLUICE_I32 || type == SLUICE_U32) {
            ((int32_t*)to)[i] = mixed % 2;
        } else {
            memset((unsigned char*)to + i * sluice_type_size(type), (int)(mixed % 2), sluice_type_size(type));
        }
    }
}

static struct call call_of(const sluice_network* network, int64_t rows) {
    struct call made = {0};
    CHECK_OK(sluice_network_input_count(network, &made.count));
    CHECK(made.count <= MOST_INPUTS);
    for (size_t i = 0; i < made.count; ++i) {
        sluice_value_info info = {.size = sizeof(info)};
        CHECK_OK(sluice_network_input(network, i, &info));
        const size_t rank = info.rank == SLUICE_ANY_RANK ? 0 : info.rank;
        size_t count = 1;
        CHECK(rank <= MOST_DIMENSIONS);
        for (size_t d = 0; d < rank; ++d) {
            const int64_t length = info.dimensions[d].length;
            made.shapes[i][d] = length == SLUICE_ANY_LENGTH ? rows : length;
            count *= (size_t)made.shapes[i][d];
        }
        made.data[i] = calloc(count + 1, 8);
        fill(made.data[i], info.type, count);
        made.inputs[i] = (sluice_tensor){made.data[i], made.shapes[i], rank, info.type, SLUICE_HOST};
    }
    return made;
}

static void free_call(struct call* of) {
    for (size_t i = 0; i < of->count; ++i) free(of->data[i]);
}

static size_t bytes_of(const sluice_buffer* of) {
    size_t bytes = sluice_type_size(of->type);
    for (size_t d = 0; d < of->rank; ++d) bytes *= (size_t)of->shape[d];
    return bytes;
}

/* Both have the same bits, or there is neither. */
static void check_same(const char* file, const char* way, const sluice_result* first, const sluice_result* other) {
    size_t count = 0, others = 0;
    if (first == NULL || other == NULL) {
        CHECK(first == NULL && other == NULL);
        return;
    }
    CHECK_OK(sluice_result_count(first, &count));
    CHECK_OK(sluice_result_count(other, &others));
    CHECK(count == others);
    for (size_t i = 0; i < count && i < others; ++i) {
        sluice_buffer a = {0}, b = {0};
        CHECK_OK(sluice_result_output(first, i, &a));
        CHECK_OK(sluice_result_output(other, i, &b));
        const int same = a.type == b.type && bytes_of(&a) == bytes_of(&b) && memcmp(a.data, b.data, bytes_of(&a)) == 0;
        if (!same) fprintf(stderr, "%s: output %zu of %s differs\n", file, i, way);
        CHECK(same);
    }
}

/* Into the caller's memory: as many bytes as the first answer has. */
static void check_run_into(const sluice_network* network, const struct call* of, const sluice_result* first) {
    size_t count = 0;
    CHECK_OK(sluice_result_count(first, &count));
    sluice_buffer* const to = calloc(count + 1, sizeof(*to));
    sluice_buffer* const expected = calloc(count + 1, sizeof(*expected));
    for (size_t i = 0; i < count; ++i) {
        CHECK_OK(sluice_result_output(first, i, &expected[i]));
        to[i] = expected[i];
        to[i].data = malloc(bytes_of(&expected[i]) + 1);
    }
    CHECK_OK(sluice_network_run_into(network, of->inputs, of->count, to, count));
    for (size_t i = 0; i < count; ++i) {
        CHECK(memcmp(to[i].data, expected[i].data, bytes_of(&expected[i])) == 0);
        free(to[i].data);
    }
    free(to);
    free(expected);
}

static void check_each_way(const sluice_network* network, const char* file, int64_t rows) {
    struct call of = call_of(network, rows);
    sluice_result* first = NULL;
    const sluice_status status = sluice_network_run(network, of.inputs, of.count, &first);
    for (int i = 0; i < MOST_CALLS; ++i) { /* the first calls of a shape go another way than later ones */
        sluice_result *called = NULL, *waited = NULL, *left = NULL;
        sluice_run* run = NULL;
        CHECK(sluice_network_run(network, of.inputs, of.count, &called) == status);
        sluice_status of_run = sluice_network_submit(network, of.inputs, of.count, NULL, NULL, &run);
        if (of_run == SLUICE_OK) of_run = sluice_run_wait(run, SLUICE_FOREVER, &waited);
        CHECK(of_run == status);
        CHECK(sluice_network_forward(network, of.inputs, of.count, NULL, NULL, &left) == status);
        check_same(file, "a run", first, called);
        check_same(file, "a submitted run", first, waited);
        check_same(file, "forward", first, left);
        if (first != NULL) check_run_into(network, &of, first);
        sluice_run_destroy(run);
        sluice_result_destroy(called);
        sluice_result_destroy(waited);
        sluice_result_destroy(left);
    }
    sluice_result_destroy(first);
    free_call(&of);
}

void test_same_bits(void) {
    static const char* const files[] = {
        "models/digits.onnx",           "models/digits.safetensors",     "models/digits_cnn.onnx",
        "models/digits_cnn_int8.onnx",  "models/digits_lstm.onnx",       "models/tumours.onnx",
        "tests/c/networks/later.onnx",  "tests/c/networks/reshape.onnx", "tests/c/networks/scalar.onnx",
        "tests/c/networks/tokens.onnx", "tests/c/networks/types.onnx"};
    for (size_t workers = 1; workers <= 2; ++workers) {
        const sluice_runtime_options options = {.size = sizeof(options), .cpu_workers = workers, .without_cuda = 1};
        sluice_runtime* runtime = NULL;
        CHECK_OK(sluice_runtime_create(&options, &runtime));
        for (size_t i = 0; i < sizeof(files) / sizeof(*files); ++i) {
            sluice_network* const network = load(runtime, files[i]);
            check_each_way(network, files[i], 1);
            check_each_way(network, files[i], 17);
            sluice_network_destroy(network);
        }
        sluice_runtime_destroy(runtime);
    }
}
