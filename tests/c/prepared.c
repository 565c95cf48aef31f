/* SPDX-License-Identifier: Apache-2.0
 * Prepared networks: inputs and outputs in place. */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

static const int64_t eight_rows[2] = {8, DIGIT_PIXELS};

static sluice_prepared* prepare(const sluice_network* network, const int64_t* shape) {
    const sluice_input_shape shapes[1] = {{"input", shape, 2}};
    sluice_prepared* made = NULL;
    CHECK_OK(sluice_prepared_create(network, shapes, 1, &made));
    return made;
}

static void a_prepared_network_gives_the_same_bits(const sluice_network* network) {
    sluice_prepared* const fast = prepare(network, eight_rows);
    sluice_buffer x = {0}, y = {0}, expected = {0};
    CHECK_OK(sluice_prepared_input(fast, 0, &x));
    CHECK(x.rank == 2 && x.shape[0] == 8 && x.shape[1] == DIGIT_PIXELS && x.type == SLUICE_F32);
    CHECK(((const float*)x.data)[0] == 0 && ((const float*)x.data)[8 * DIGIT_PIXELS - 1] == 0);
    for (int i = 0; i < 20; ++i) {
        const float* const rows = pixels + i * 8 * DIGIT_PIXELS;
        const sluice_tensor given = {rows, eight_rows, 2, SLUICE_F32, SLUICE_HOST};
        sluice_result* result = NULL;
        CHECK_OK(sluice_network_run(network, &given, 1, &result));
        CHECK_OK(sluice_result_output(result, 0, &expected));
        memcpy(x.data, rows, 8 * DIGIT_PIXELS * sizeof(float));
        CHECK_OK(sluice_prepared_run(fast));
        CHECK_OK(sluice_prepared_output(fast, 0, &y));
        CHECK(y.rank == 2 && y.shape[0] == 8 && y.shape[1] == DIGIT_CLASSES && y.type == SLUICE_F32);
        CHECK(memcmp(y.data, expected.data, 8 * DIGIT_CLASSES * sizeof(float)) == 0);
        sluice_result_destroy(result);
    }
    size_t bytes = 0;
    CHECK_OK(sluice_prepared_memory(fast, &bytes));
    CHECK(bytes >= 8 * (DIGIT_PIXELS + DIGIT_CLASSES) * sizeof(float));
    sluice_prepared_destroy(fast);
}

static void wrong_arguments_are_refused(const sluice_network* network) {
    const int64_t wide[2] = {8, 65}, negative[2] = {-1, DIGIT_PIXELS};
    sluice_input_shape shapes[2] = {{"x", eight_rows, 2}, {"input", eight_rows, 2}};
    const sluice_status wrong = SLUICE_INVALID_ARGUMENT, mismatch = SLUICE_SHAPE_MISMATCH;
    sluice_prepared* made = NULL;
    CHECK_FAILS(wrong, "network is null", sluice_prepared_create(NULL, shapes, 1, &made));
    CHECK_FAILS(wrong, "prepared is null", sluice_prepared_create(network, &shapes[1], 1, NULL));
    CHECK_FAILS(wrong, "shapes is null", sluice_prepared_create(network, NULL, 1, &made));
    CHECK_FAILS(wrong, "too many", sluice_prepared_create(network, shapes, SIZE_MAX, &made));
    CHECK_FAILS(wrong, "no input 'x'", sluice_prepared_create(network, shapes, 1, &made));
    CHECK_FAILS(mismatch, "whole shape of input 'input'", sluice_prepared_create(network, NULL, 0, &made));
    shapes[0].name = "input";
    CHECK_FAILS(wrong, "given twice", sluice_prepared_create(network, shapes, 2, &made));
    shapes[0].name = NULL;
    CHECK_FAILS(wrong, "name is null", sluice_prepared_create(network, shapes, 1, &made));
    shapes[1].shape = wide;
    CHECK_FAILS(mismatch, "dimension 1 is 64, and is given 65", sluice_prepared_create(network, &shapes[1], 1, &made));
    shapes[1].shape = negative;
    CHECK_FAILS(wrong, "has the length -1", sluice_prepared_create(network, &shapes[1], 1, &made));
    shapes[1].shape = NULL;
    CHECK_FAILS(wrong, "has dimensions, and is null", sluice_prepared_create(network, &shapes[1], 1, &made));
    shapes[1].rank = SIZE_MAX;
    CHECK_FAILS(wrong, "dimensions; at most", sluice_prepared_create(network, &shapes[1], 1, &made));
    CHECK(made == NULL);

    sluice_prepared* const fast = prepare(network, eight_rows);
    sluice_buffer buffer = {0};
    size_t bytes = 0;
    CHECK_FAILS(wrong, "prepared is null", sluice_prepared_run(NULL));
    CHECK_FAILS(wrong, "prepared is null", sluice_prepared_input(NULL, 0, &buffer));
    CHECK_FAILS(wrong, "input is null", sluice_prepared_input(fast, 0, NULL));
    CHECK_FAILS(wrong, "there is no input 1; there are 1", sluice_prepared_input(fast, 1, &buffer));
    CHECK_FAILS(wrong, "prepared is null", sluice_prepared_output(NULL, 0, &buffer));
    CHECK_FAILS(wrong, "output is null", sluice_prepared_output(fast, 0, NULL));
    CHECK_FAILS(wrong, "there is no output 1; there are 1", sluice_prepared_output(fast, 1, &buffer));
    CHECK_FAILS(wrong, "prepared is null", sluice_prepared_memory(NULL, &bytes));
    CHECK_FAILS(wrong, "bytes is null", sluice_prepared_memory(fast, NULL));
    CHECK(buffer.data == NULL && bytes == 0);
    sluice_prepared_destroy(fast);
    sluice_prepared_destroy(NULL);
}

static void networks_whose_numbers_decide_are_refused(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/reshape.onnx");
    sluice_prepared* made = NULL;
    const int64_t x[1] = {6}, shape[1] = {2};
    const sluice_input_shape shapes[2] = {{"x", x, 1}, {"shape", shape, 1}};
    CHECK_FAILS(SLUICE_UNSUPPORTED, "cannot be prepared", sluice_prepared_create(network, shapes, 2, &made));
    CHECK(made == NULL);
    sluice_network_destroy(network);
}

static void numbers_that_decide_may_be_fixed(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/reshape.onnx");
    const sluice_status wrong = SLUICE_INVALID_ARGUMENT;
    sluice_prepared* made = NULL;
    const int64_t x[1] = {6}, two[1] = {2}, wide[2] = {2, 3};
    const float numbers[6] = {0};
    const sluice_input_shape shapes[1] = {{"x", x, 1}};
    sluice_fixed_input fixed = {"shape", {wide, two, 1, SLUICE_I64, SLUICE_HOST}};
    CHECK_OK(sluice_prepared_create_fixed(network, shapes, 1, &fixed, 1, &made));
    sluice_buffer given = {0}, to = {0}, none = {0};
    CHECK_OK(sluice_prepared_input(made, 0, &given));
    CHECK_FAILS(wrong, "input 'shape' is fixed", sluice_prepared_input(made, 1, &none));
    for (int i = 0; i < 6; ++i) ((float*)given.data)[i] = (float)i;
    CHECK_OK(sluice_prepared_run(made));
    CHECK_OK(sluice_prepared_output(made, 0, &to));
    CHECK(to.rank == 2 && to.shape[0] == 2 && to.shape[1] == 3 && memcmp(to.data, given.data, 6 * sizeof(float)) == 0);
    sluice_prepared_destroy(made);
    made = NULL;
    CHECK_FAILS(wrong, "fixed is null", sluice_prepared_create_fixed(network, shapes, 1, NULL, 1, &made));
    fixed.name = NULL;
    CHECK_FAILS(wrong, "name is null", sluice_prepared_create_fixed(network, shapes, 1, &fixed, 1, &made));
    fixed.name = "x";
    fixed.numbers = (sluice_tensor){numbers, x, 1, SLUICE_F32, SLUICE_HOST};
    CHECK_FAILS(wrong, "decide neither", sluice_prepared_create_fixed(network, NULL, 0, &fixed, 1, &made));
    CHECK(made == NULL);
    sluice_network_destroy(network);
}

/* Large inputs have no way of their own: the same bits from 1 row to more than 64 KiB, from any address. */
static void inputs_of_any_size_give_the_same_bits(const sluice_network* network) {
    static float room[DIGIT_ROWS * DIGIT_PIXELS + 1], all[DIGIT_ROWS * DIGIT_CLASSES], some[DIGIT_ROWS * DIGIT_CLASSES];
    for (int64_t rows = 1; rows <= DIGIT_ROWS; rows += 149) {
        const int64_t shape[2] = {rows, DIGIT_PIXELS}, to_shape[2] = {rows, DIGIT_CLASSES};
        const size_t bytes = (size_t)rows * DIGIT_CLASSES * sizeof(float);
        for (int i = 0; i < 4; ++i) {
            float* const at = room + i % 2;
            memcpy(at, pixels, (size_t)rows * DIGIT_PIXELS * sizeof(float));
            const sluice_tensor x = {at, shape, 2, SLUICE_F32, SLUICE_HOST};
            float* const to = i == 0 ? all : some;
            const sluice_buffer y = {to, to_shape, 2, SLUICE_F32};
            CHECK_OK(sluice_network_run_into(network, &x, 1, &y, 1));
            CHECK(memcmp(all, to, bytes) == 0);
        }
    }
}

/* Views have at most 8 dimensions: then the outputs are copied, and a prepared network is refused. */
static void outputs_of_many_dimensions_are_written(sluice_runtime* runtime) {
    sluice_builder* build = NULL;
    sluice_network* network = NULL;
    sluice_prepared* fast = NULL;
    const int64_t lengths[9] = {2, 1, 1, 1, 1, 1, 1, 1, 3}, count[1] = {9}, flat[1] = {6};
    const sluice_dimension six = {6, ""};
    const sluice_tensor shape = {lengths, count, 1, SLUICE_I64, SLUICE_HOST};
    size_t in[2] = {0, 0}, out = 0;
    CHECK_OK(sluice_builder_create("many", &build));
    CHECK_OK(sluice_builder_input(build, "x", &six, 1, SLUICE_F32, &in[0]));
    CHECK_OK(sluice_builder_constant(build, &shape, &in[1]));
    CHECK_OK(sluice_builder_node(build, "Reshape", in, 2, NULL, 0, &out, 1));
    CHECK_OK(sluice_builder_node(build, "Neg", &out, 1, NULL, 0, &out, 1));
    CHECK_OK(sluice_builder_output(build, "y", out));
    CHECK_OK(sluice_builder_make(build, runtime, NULL, &network));
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const sluice_tensor given = {x, flat, 1, SLUICE_F32, SLUICE_HOST};
    float y[6] = {0};
    const sluice_buffer room = {y, lengths, 9, SLUICE_F32};
    for (int i = 0; i < 4; ++i) {
        memset(y, 0, sizeof(y));
        CHECK_OK(sluice_network_run_into(network, &given, 1, &room, 1));
        CHECK(y[0] == -1 && y[5] == -6);
    }
    const sluice_input_shape shapes[1] = {{"x", flat, 1}};
    CHECK_FAILS(SLUICE_UNSUPPORTED, "more than 8 dimensions", sluice_prepared_create(network, shapes, 1, &fast));
    sluice_network_destroy(network);
    sluice_builder_destroy(build);
}

void test_prepared(void) {
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load(runtime, "models/digits.onnx");
    a_prepared_network_gives_the_same_bits(network);
    wrong_arguments_are_refused(network);
    networks_whose_numbers_decide_are_refused(runtime);
    numbers_that_decide_may_be_fixed(runtime);
    inputs_of_any_size_give_the_same_bits(network);
    outputs_of_many_dimensions_are_written(runtime);
    sluice_prepared* const fast = prepare(network, eight_rows);
    sluice_network_destroy(network); /* it keeps its network, and that its runtime */
    sluice_runtime_destroy(runtime);
    CHECK_OK(sluice_prepared_run(fast));
    sluice_prepared_destroy(fast);
}
