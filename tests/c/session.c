/* SPDX-License-Identifier: Apache-2.0
 * Networks with memory: memory.onnx has state_out = (state_in + x) / 2 and y = 2 * state_out + weights[place]. */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

static const int64_t one[1] = {1};

static sluice_status step(sluice_session* session, float x, int64_t place) {
    const sluice_tensor inputs[2] = {{&x, one, 1, SLUICE_F32, SLUICE_HOST}, {&place, one, 1, SLUICE_I64, SLUICE_HOST}};
    return sluice_session_step(session, inputs, 2);
}

static float answer(sluice_session* session) {
    sluice_buffer y = {0};
    CHECK_OK(sluice_session_output(session, 0, &y));
    CHECK(y.rank == 1 && y.shape[0] == 1 && y.type == SLUICE_F32);
    return *(const float*)y.data;
}

static float state_of(sluice_session* session) {
    sluice_result* state = NULL;
    sluice_buffer held = {0};
    CHECK_OK(sluice_session_state(session, &state));
    CHECK_OK(sluice_result_output(state, 0, &held));
    const float number = *(const float*)held.data;
    sluice_result_destroy(state);
    return number;
}

static void a_session_remembers(const sluice_network* network) {
    sluice_session* session = NULL;
    sluice_state_pair pair = {0};
    size_t count = 0, input = 0;
    CHECK_OK(sluice_session_create(network, NULL, &session));
    CHECK_OK(sluice_session_state_count(session, &count));
    CHECK(count == 1);
    CHECK_OK(sluice_session_pair(session, 0, &pair));
    CHECK(strcmp(pair.output, "state_out") == 0 && strcmp(pair.input, "state_in") == 0);
    CHECK_OK(sluice_session_input_count(session, &count));
    CHECK_OK(sluice_session_input(session, 1, &input));
    CHECK(count == 2 && input == 1);
    float expected = 0;
    for (int i = 0; i < 20; ++i) {
        expected = (expected + (float)i) * 0.5f;
        CHECK_OK(step(session, (float)i, 0));
        CHECK(answer(session) == 2 * expected && state_of(session) == expected);
        CHECK_FAILS(SLUICE_OUT_OF_RANGE, "index 5", step(session, 100, 5));
        CHECK(state_of(session) == expected);
    }
    const float kept = 6;
    const sluice_tensor state = {&kept, one, 1, SLUICE_F32, SLUICE_HOST};
    CHECK_OK(sluice_session_set_state(session, &state, 1));
    CHECK_OK(step(session, 0, 0));
    CHECK(answer(session) == 6);
    CHECK_OK(sluice_session_reset(session));
    CHECK_OK(step(session, 8, 0));
    CHECK(answer(session) == 8);
    sluice_session_destroy(session);
    sluice_session_destroy(NULL);
}

static void wrong_arguments_are_refused(const sluice_network* network, const sluice_network* other) {
    const sluice_status wrong = SLUICE_INVALID_ARGUMENT, mismatch = SLUICE_SHAPE_MISMATCH;
    const sluice_state_pair pairs[2] = {{"state_out", "state_in"}, {"y", "z"}};
    const int64_t two[2] = {1, 1};
    const sluice_input_shape shape = {"state_in", two, 2};
    sluice_session_options options = {.size = sizeof(options), .pairs = pairs, .pair_count = 2};
    sluice_session* session = NULL;
    size_t count = 0;
    CHECK_FAILS(wrong, "network is null", sluice_session_create(NULL, NULL, &session));
    CHECK_FAILS(wrong, "session is null", sluice_session_create(network, NULL, NULL));
    CHECK_FAILS(wrong, "no output is by its name", sluice_session_create(other, NULL, &session));
    CHECK_FAILS(wrong, "no input 'z'", sluice_session_create(network, &options, &session));
    options.pairs = NULL;
    CHECK_FAILS(wrong, "pairs is null", sluice_session_create(network, &options, &session));
    options.pair_count = 0;
    options.shapes = &shape;
    options.shape_count = 1;
    CHECK_FAILS(mismatch, "[1, 1]", sluice_session_create(network, &options, &session));
    options.size = 1;
    CHECK_FAILS(wrong, "size 1", sluice_session_create(network, &options, &session));
    CHECK(session == NULL);
    CHECK_OK(sluice_session_create(network, NULL, &session));
    sluice_buffer y = {0};
    sluice_result* result = NULL;
    const float number = 1;
    const sluice_tensor state[2] = {{&number, one, 1, SLUICE_F32, SLUICE_HOST},
                                    {&number, two, 2, SLUICE_F32, SLUICE_HOST}};
    CHECK_FAILS(wrong, "before the first step", sluice_session_output(session, 0, &y));
    CHECK_FAILS(wrong, "before the first step", sluice_session_state(session, &result));
    CHECK_FAILS(wrong, "there is no input 2", sluice_session_input(session, 2, &count));
    CHECK_FAILS(wrong, "inputs is null", sluice_session_step(session, NULL, 2));
    CHECK_FAILS(mismatch, "a step takes 2 inputs", sluice_session_step(session, state, 1));
    CHECK_FAILS(mismatch, "the state has 1 tensors", sluice_session_set_state(session, state, 2));
    CHECK_FAILS(mismatch, "[1, 1]", sluice_session_set_state(session, &state[1], 1));
    CHECK_FAILS(wrong, "session is null", sluice_session_reset(NULL));
    sluice_session_destroy(session);
}

void test_session(void) {
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load(runtime, "tests/c/networks/memory.onnx");
    sluice_network* const other = load(runtime, "models/digits.onnx");
    a_session_remembers(network);
    wrong_arguments_are_refused(network, other);
    sluice_network_destroy(other);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
}
