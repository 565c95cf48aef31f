/* SPDX-License-Identifier: Apache-2.0
 * The code in docs/c_interface.md. */
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

static int classify(const char* file, const float* rows, int64_t count, float* to) {
    sluice_runtime* runtime = NULL;
    sluice_network* network = NULL;
    sluice_result* result = NULL;
    sluice_buffer logits = {0};

    const int64_t shape[2] = {count, 64};
    const sluice_tensor input = {rows, shape, 2, SLUICE_F32, SLUICE_HOST};
    const int failed = sluice_runtime_create(NULL, &runtime) || sluice_network_load(runtime, file, NULL, &network) ||
                       sluice_network_run(network, &input, 1, &result) || sluice_result_output(result, 0, &logits);
    if (failed) fprintf(stderr, "%s\n", sluice_last_error());
    if (!failed) memcpy(to, logits.data, (size_t)(10 * count) * sizeof(float)); /* logits.shape is {count, 10} */

    sluice_result_destroy(result); /* in any order, and NULL is nothing to do */
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
    return failed;
}

static void describe(const sluice_network* network) {
    size_t count = 0;
    sluice_network_input_count(network, &count);
    for (size_t i = 0; i < count; ++i) {
        sluice_value_info info = {.size = sizeof(info)};
        sluice_network_input(network, i, &info);
        printf("%s: %s", info.name, sluice_type_name(info.type));
        for (size_t d = 0; info.rank != SLUICE_ANY_RANK && d < info.rank; ++d) {
            const sluice_dimension each = info.dimensions[d];
            if (each.length == SLUICE_ANY_LENGTH)
                printf(" %s", each.name);
            else
                printf(" %lld", (long long)each.length);
        }
        printf("\n"); /* input: f32 batch 64 */
    }
}

static void run_in_place(const sluice_network* network, const float* rows, float* to) {
    const int64_t shape[2] = {8, 64};
    const sluice_input_shape shapes[1] = {{"input", shape, 2}};
    sluice_prepared* fast = NULL;
    sluice_buffer x, y;
    CHECK_OK(sluice_prepared_create(network, shapes, 1, &fast)); /* all that takes time is done here */
    CHECK_OK(sluice_prepared_input(fast, 0, &x));
    for (int i = 0; i < 1000; ++i) {
        memcpy(x.data, rows, 8 * 64 * sizeof(float)); /* or write the numbers there at once */
        CHECK_OK(sluice_prepared_run(fast));
    }
    CHECK_OK(sluice_prepared_output(fast, 0, &y)); /* until the next run */
    memcpy(to, y.data, 8 * 10 * sizeof(float));
    sluice_prepared_destroy(fast);
}

static void remember(const sluice_network* network, const sluice_tensor* inputs, float* to) {
    sluice_session* session = NULL;
    sluice_buffer y;
    CHECK_OK(sluice_session_create(network, NULL, &session)); /* the names say which outputs are the next inputs */
    for (int i = 0; i < 10; ++i) CHECK_OK(sluice_session_step(session, inputs, 2)); /* the inputs that are not state */
    CHECK_OK(sluice_session_output(session, 0, &y));                                /* until the next call */
    memcpy(to, y.data, sizeof(float));
    CHECK_OK(sluice_session_reset(session)); /* the next sequence */
    sluice_session_destroy(session);
}

static void finished(sluice_run* run, void* context) { /* on a thread of the runtime */
    sluice_result* result = NULL;
    if (sluice_run_wait(run, 0, &result) != SLUICE_OK) fprintf(stderr, "%s\n", sluice_last_error());
    sluice_result_destroy(result);
    sluice_run_destroy(run);
    atomic_store((atomic_int*)context, 1);
}

static void submit(const sluice_network* network, const sluice_tensor* input) {
    sluice_run* run = NULL;
    sluice_result* result = NULL;
    CHECK_OK(sluice_network_submit(network, input, 1, NULL, NULL, &run)); /* does not wait */
    const int64_t second = 1000000000;
    CHECK_OK(sluice_run_wait(run, 60 * second, &result));
    sluice_run_destroy(run);
    sluice_result_destroy(result);

    static atomic_int done;
    CHECK_OK(sluice_network_submit(network, input, 1, finished, &done, &run)); /* finished destroys the run */
    while (!atomic_load(&done)) sched_yield();
}

static sluice_network* load_on(sluice_runtime* runtime, const char* file) {
    sluice_network* network = NULL;
    const sluice_network_options options = {.size = sizeof(options), .device = "cpu", .streams = 2};
    CHECK_OK(sluice_network_load(runtime, file, &options, &network));
    return network;
}

static void build_a_layer(sluice_runtime* runtime) {
    static const float two_by_two[4] = {1, 2, 3, 4};
    const int64_t square[2] = {2, 2}, one_row[2] = {1, 2};
    const sluice_tensor numbers = {two_by_two, square, 2, SLUICE_F32, SLUICE_HOST};
    sluice_network* network = NULL;
    sluice_builder* build = NULL;
    size_t x, weight, product, y;
    const sluice_dimension dimensions[2] = {{SLUICE_ANY_LENGTH, "rows"}, {2, ""}};
    CHECK_OK(sluice_builder_create("layer", &build));
    CHECK_OK(sluice_builder_input(build, "x", dimensions, 2, SLUICE_F32, &x));
    CHECK_OK(sluice_builder_constant(build, &numbers, &weight)); /* copied */
    const size_t factors[2] = {x, weight};
    CHECK_OK(sluice_builder_node(build, "MatMul", factors, 2, NULL, 0, &product, 1));
    CHECK_OK(sluice_builder_node(build, "Relu", &product, 1, NULL, 0, &y, 1));
    CHECK_OK(sluice_builder_output(build, "y", y));
    CHECK_OK(sluice_builder_make(build, runtime, NULL, &network));
    sluice_builder_destroy(build);

    const sluice_tensor row = {two_by_two, one_row, 2, SLUICE_F32, SLUICE_HOST};
    const float expected[2] = {7, 10};
    sluice_result* result = NULL;
    sluice_buffer found = {0};
    CHECK_OK(sluice_network_run(network, &row, 1, &result));
    CHECK_OK(sluice_result_output(result, 0, &found));
    CHECK(found.rank == 2 && are_near(found.data, expected, 2, 1e-5f));
    sluice_result_destroy(result);
    sluice_network_destroy(network);
}

void test_page(void) {
    float made[2 * DIGIT_CLASSES] = {0};
    CHECK(classify(path_of("models/digits.onnx"), pixels, 2, made) == 0);
    CHECK(are_near(made, logits, 2 * DIGIT_CLASSES, 1e-3f));
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load_on(runtime, path_of("models/digits.onnx"));
    const int64_t shape[2] = {2, DIGIT_PIXELS};
    const sluice_tensor input = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
    describe(network);
    submit(network, &input);
    float eight[8 * DIGIT_CLASSES];
    run_in_place(network, pixels, eight);
    CHECK(are_near(eight, logits, 8 * DIGIT_CLASSES, 1e-3f));
    build_a_layer(runtime);
    sluice_network* const memory = load_on(runtime, path_of("tests/c/networks/memory.onnx"));
    const float x = 1;
    const int64_t place = 0, one[1] = {1};
    const sluice_tensor step[2] = {{&x, one, 1, SLUICE_F32, SLUICE_HOST}, {&place, one, 1, SLUICE_I64, SLUICE_HOST}};
    float y = 0;
    remember(memory, step, &y);
    CHECK(y > 1.99f && y < 2);
    sluice_network_destroy(memory);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
}
