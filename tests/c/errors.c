/* SPDX-License-Identifier: Apache-2.0
 * What is refused, with which status and which text. */
#include <stdint.h>

#include "check.h"

static const int64_t one_row[2] = {1, DIGIT_PIXELS};

static void null_pointers(sluice_runtime* runtime, sluice_network* network) {
    sluice_network* other = NULL;
    sluice_result* result = NULL;
    sluice_run* run = NULL;
    size_t number = 0;
    const char* text = NULL;
    void* stream = NULL;
    sluice_device_info device = {.size = sizeof(device)};
    sluice_value_info value = {.size = sizeof(value)};
    sluice_buffer buffer = {0};
    const char* const file = path_of("models/digits.onnx");
    const sluice_tensor row = {pixels, one_row, 2, SLUICE_F32, SLUICE_HOST};
    const sluice_status wrong = SLUICE_INVALID_ARGUMENT;
    CHECK_FAILS(wrong, "sluice_runtime_create: runtime is null", sluice_runtime_create(NULL, NULL));
    CHECK_FAILS(wrong, "runtime is null", sluice_runtime_device_count(NULL, &number));
    CHECK_FAILS(wrong, "count is null", sluice_runtime_device_count(runtime, NULL));
    CHECK_FAILS(wrong, "runtime is null", sluice_runtime_device(NULL, 0, &device));
    CHECK_FAILS(wrong, "info is null", sluice_runtime_device(runtime, 0, NULL));
    CHECK_FAILS(wrong, "runtime is null", sluice_runtime_why_no_gpu(NULL, &text));
    CHECK_FAILS(wrong, "why is null", sluice_runtime_why_no_gpu(runtime, NULL));
    CHECK_FAILS(wrong, "runtime is null", sluice_network_load(NULL, file, NULL, &other));
    CHECK_FAILS(wrong, "path is null", sluice_network_load(runtime, NULL, NULL, &other));
    CHECK_FAILS(wrong, "network is null", sluice_network_load(runtime, file, NULL, NULL));
    CHECK_FAILS(wrong, "runtime is null", sluice_network_load_memory(NULL, "", 0, NULL, NULL, &other));
    CHECK_FAILS(wrong, "file is null", sluice_network_load_memory(runtime, NULL, 4, NULL, NULL, &other));
    CHECK_FAILS(wrong, "network is null", sluice_network_load_memory(runtime, "", 0, NULL, NULL, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_input_count(NULL, &number));
    CHECK_FAILS(wrong, "count is null", sluice_network_input_count(network, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_output_count(NULL, &number));
    CHECK_FAILS(wrong, "count is null", sluice_network_output_count(network, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_input(NULL, 0, &value));
    CHECK_FAILS(wrong, "info is null", sluice_network_input(network, 0, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_output(NULL, 0, &value));
    CHECK_FAILS(wrong, "info is null", sluice_network_output(network, 0, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_find_input(NULL, "x", &number));
    CHECK_FAILS(wrong, "name is null", sluice_network_find_input(network, NULL, &number));
    CHECK_FAILS(wrong, "network is null", sluice_network_find_output(NULL, "x", &number));
    CHECK_FAILS(wrong, "name is null", sluice_network_find_output(network, NULL, &number));
    CHECK_FAILS(wrong, "network is null", sluice_network_device(NULL, &text));
    CHECK_FAILS(wrong, "name is null", sluice_network_device(network, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_cuda_stream(NULL, &stream));
    CHECK_FAILS(wrong, "stream is null", sluice_network_cuda_stream(network, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_wait_for_stream(NULL, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_forward(NULL, &row, 1, NULL, NULL, &result));
    CHECK_FAILS(wrong, "inputs is null", sluice_network_forward(network, NULL, 1, NULL, NULL, &result));
    CHECK_FAILS(wrong, "result is null", sluice_network_forward(network, &row, 1, NULL, NULL, NULL));
    CHECK_FAILS(wrong, "result is null", sluice_result_memory(NULL, &(sluice_memory){0}));
    CHECK_FAILS(wrong, "result is null", sluice_result_lend(NULL, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_run(NULL, &row, 1, &result));
    CHECK_FAILS(wrong, "inputs is null", sluice_network_run(network, NULL, 1, &result));
    CHECK_FAILS(wrong, "result is null", sluice_network_run(network, &row, 1, NULL));
    CHECK_FAILS(wrong, "network is null", sluice_network_run_into(NULL, &row, 1, &buffer, 1));
    CHECK_FAILS(wrong, "inputs is null", sluice_network_run_into(network, NULL, 1, &buffer, 1));
    CHECK_FAILS(wrong, "outputs is null", sluice_network_run_into(network, &row, 1, NULL, 1));
    CHECK_FAILS(wrong, "network is null", sluice_network_submit(NULL, &row, 1, NULL, NULL, &run));
    CHECK_FAILS(wrong, "inputs is null", sluice_network_submit(network, NULL, 1, NULL, NULL, &run));
    CHECK_FAILS(wrong, "run is null", sluice_network_submit(network, &row, 1, NULL, NULL, NULL));
    CHECK_FAILS(wrong, "run is null", sluice_run_wait(NULL, 0, &result));
    CHECK_FAILS(wrong, "result is null", sluice_result_count(NULL, &number));
    CHECK_FAILS(wrong, "result is null", sluice_result_output(NULL, 0, &buffer));
    CHECK(other == NULL && result == NULL && run == NULL && text == NULL && number == 0 && stream == NULL);
    sluice_runtime_destroy(NULL);
    sluice_network_destroy(NULL);
    sluice_result_destroy(NULL);
    sluice_run_destroy(NULL);
}

static void options_are_checked(sluice_runtime* runtime) {
    sluice_runtime* machine = NULL;
    sluice_network* network = NULL;
    const char* const file = path_of("models/digits.onnx");
    const sluice_runtime_options none = {.size = 0};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "sizeof", sluice_runtime_create(&none, &machine));
    const sluice_network_options unsized = {.size = 3};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "sizeof", sluice_network_load(runtime, file, &unsized, &network));
    const sluice_network_options elsewhere = {.size = sizeof(elsewhere), .device = "cpu:7"};
    CHECK_FAILS(SLUICE_DEVICE_NOT_FOUND, "there are: cpu:0", sluice_network_load(runtime, file, &elsewhere, &network));
    const sluice_network_options many = {.size = sizeof(many), .streams = (size_t)-1};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "streams", sluice_network_load(runtime, file, &many, &network));
    const sluice_network_options hidden = {.size = sizeof(hidden), .hidden_activation = "relu"};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "safetensors", sluice_network_load(runtime, file, &hidden, &network));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "ONNX", sluice_network_load_memory(runtime, "x", 1, NULL, &hidden, &network));
    const sluice_network_options odd = {.size = sizeof(odd), .output_activation = "swish"};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "'swish'; possible are none",
                sluice_network_load(runtime, path_of("models/digits.safetensors"), &odd, &network));
    sluice_device_info device = {.size = 8};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "sizeof", sluice_runtime_device(runtime, 0, &device));
    device.size = sizeof(device);
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no device 9", sluice_runtime_device(runtime, 9, &device));
    CHECK(machine == NULL && network == NULL);
}

/* Sizes and counts that are mistakes: refused, and nothing behind them is read. */
static void wild_sizes_are_refused(sluice_runtime* runtime, sluice_network* network) {
    const sluice_status wrong = SLUICE_INVALID_ARGUMENT;
    const char* const file = path_of("models/digits.onnx");
    const sluice_tensor row = {pixels, one_row, 2, SLUICE_F32, SLUICE_HOST};
    sluice_runtime* machine = NULL;
    sluice_network* other = NULL;
    sluice_result* result = NULL;
    sluice_run* run = NULL;
    sluice_profile* profile = NULL;
    const sluice_runtime_options endless = {.size = SIZE_MAX};
    const sluice_runtime_options devices = {.size = sizeof(devices), .cpu_devices = SIZE_MAX, .without_cuda = 1};
    const sluice_runtime_options workers = {.size = sizeof(workers), .cpu_workers = SIZE_MAX, .without_cuda = 1};
    CHECK_FAILS(wrong, "sizeof", sluice_runtime_create(&endless, &machine));
    CHECK_FAILS(wrong, "cpu_devices", sluice_runtime_create(&devices, &machine));
    CHECK_FAILS(wrong, "cpu_workers", sluice_runtime_create(&workers, &machine));
    const sluice_network_options beyond = {.size = SIZE_MAX};
    CHECK_FAILS(wrong, "sizeof", sluice_network_load(runtime, file, &beyond, &other));
    CHECK_FAILS(wrong, "sizeof", sluice_network_load_memory(runtime, "x", 1, NULL, &beyond, &other));
    CHECK_FAILS(SLUICE_BAD_FILE, "2 GiB", sluice_network_load_memory(runtime, "x", SIZE_MAX, NULL, NULL, &other));
    sluice_device_info device = {.size = SIZE_MAX};
    sluice_value_info value = {.size = SIZE_MAX};
    sluice_rounding_info rounding = {.size = SIZE_MAX};
    CHECK_FAILS(wrong, "sizeof", sluice_runtime_device(runtime, 0, &device));
    CHECK_FAILS(wrong, "sizeof", sluice_network_input(network, 0, &value));
    CHECK_FAILS(wrong, "sizeof", sluice_network_output(network, 0, &value));
    CHECK_FAILS(wrong, "sizeof", sluice_network_rounding(network, &rounding));
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "takes 1 inputs", sluice_network_run(network, &row, SIZE_MAX, &result));
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "takes 1 inputs",
                sluice_network_submit(network, &row, SIZE_MAX, NULL, NULL, &run));
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "takes 1 inputs",
                sluice_network_forward(network, &row, SIZE_MAX, NULL, NULL, &result));
    float into[DIGIT_CLASSES];
    const int64_t shape[2] = {1, DIGIT_CLASSES};
    const sluice_buffer buffer = {into, shape, 2, SLUICE_F32};
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "buffers for", sluice_network_run_into(network, &row, 1, &buffer, SIZE_MAX));
    CHECK_FAILS(wrong, "runs", sluice_network_profile(network, &row, 1, SIZE_MAX, &profile));
    CHECK(machine == NULL && other == NULL && result == NULL && run == NULL && profile == NULL);
}

static void builders_are_checked(void) {
    const sluice_status wrong = SLUICE_INVALID_ARGUMENT;
    sluice_builder* builder = NULL;
    size_t x = 0, y = 99;
    const sluice_dimension length = {4, NULL};
    const float number = 1;
    const int64_t integer = 0;
    CHECK_OK(sluice_builder_create(NULL, &builder));
    CHECK_FAILS(wrong, "at most 64", sluice_builder_input(builder, "x", &length, SIZE_MAX, SLUICE_F32, &x));
    CHECK_OK(sluice_builder_input(builder, "x", &length, 1, SLUICE_F32, &x));
    /* The list that the kind names, whatever the other one is. */
    const sluice_attribute no_integers = {.name = "axes", .kind = SLUICE_INTEGERS, .numbers = &number, .count = 1};
    const sluice_attribute no_numbers = {.name = "axes", .kind = SLUICE_NUMBERS, .integers = &integer, .count = 1};
    const sluice_attribute endless = {.name = "axes", .kind = SLUICE_INTEGERS, .integers = &integer, .count = SIZE_MAX};
    CHECK_FAILS(wrong, "list of the attribute 'axes' is null",
                sluice_builder_node(builder, "Relu", &x, 1, &no_integers, 1, &y, 1));
    CHECK_FAILS(wrong, "list of the attribute 'axes' is null",
                sluice_builder_node(builder, "Relu", &x, 1, &no_numbers, 1, &y, 1));
    CHECK_FAILS(wrong, "are too many", sluice_builder_node(builder, "Relu", &x, 1, &endless, 1, &y, 1));
    CHECK_FAILS(wrong, "are too many", sluice_builder_node(builder, "Relu", &x, SIZE_MAX, NULL, 0, &y, 1));
    CHECK_FAILS(wrong, "are too many", sluice_builder_node(builder, "Relu", &x, 1, &endless, SIZE_MAX, &y, 1));
    CHECK_FAILS(wrong, "are too many", sluice_builder_node(builder, "Relu", &x, 1, NULL, 0, &y, SIZE_MAX));
    CHECK(y == 99);
    sluice_builder_destroy(builder);
}

static void files_are_checked(sluice_runtime* runtime) {
    sluice_network* network = NULL;
    CHECK_FAILS(SLUICE_IO_FAILED, "nowhere.onnx", sluice_network_load(runtime, "nowhere.onnx", NULL, &network));
    CHECK_FAILS(SLUICE_BAD_FILE, "README.md", sluice_network_load(runtime, path_of("README.md"), NULL, &network));
    CHECK_FAILS(SLUICE_BAD_FILE, "models", sluice_network_load(runtime, path_of("models"), NULL, &network));
    CHECK_FAILS(SLUICE_UNSUPPORTED, "Mystery",
                sluice_network_load(runtime, path_of("tests/c/networks/unknown.onnx"), NULL, &network));
    CHECK_FAILS(SLUICE_BAD_FILE, "rubbish",
                sluice_network_load_memory(runtime, "\xff\xff", 2, "rubbish", NULL, &network));
    CHECK_FAILS(SLUICE_BAD_FILE, "network", sluice_network_load_memory(runtime, "", 0, NULL, NULL, &network));
    CHECK(network == NULL);
}

static void inputs_are_checked(sluice_network* network) {
    sluice_result* result = NULL;
    const sluice_tensor good = {pixels, one_row, 2, SLUICE_F32, SLUICE_HOST}, twice[2] = {good, good};
    sluice_tensor row = good;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "takes 1 inputs, and is given 2",
                sluice_network_run(network, twice, 2, &result));
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "takes 1 inputs, and is given 0", sluice_network_run(network, NULL, 0, &result));
    const int64_t narrow[2] = {1, 63}, negative[2] = {-1, 64}, huge[2] = {INT64_MAX, INT64_MAX};
    row.shape = narrow;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "is 64, and is given 63", sluice_network_run(network, &row, 1, &result));
    row.shape = negative;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "length -1 in dimension 0", sluice_network_run(network, &row, 1, &result));
    row.shape = huge;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no memory", sluice_network_run(network, &row, 1, &result));
    row.shape = NULL;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "shape is null", sluice_network_run(network, &row, 1, &result));
    row = good;
    row.rank = 1;
    row.shape = one_row + 1;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "has 2 dimensions", sluice_network_run(network, &row, 1, &result));
    row.rank = (size_t)-1;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "at most 64", sluice_network_run(network, &row, 1, &result));
    row = good;
    row.data = NULL;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "data is null", sluice_network_run(network, &row, 1, &result));
    row = good;
    row.type = SLUICE_F16;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "is f32, and is given f16", sluice_network_run(network, &row, 1, &result));
    row.type = 0;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "none of sluice_type", sluice_network_run(network, &row, 1, &result));
    row.type = 14;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "none of sluice_type", sluice_network_run(network, &row, 1, &result));
    row = good;
    row.memory = SLUICE_DEVICE;
    CHECK_FAILS(SLUICE_UNSUPPORTED, "cpu:0", sluice_network_run(network, &row, 1, &result));
    row.memory = 7;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "none of sluice_memory", sluice_network_run(network, &row, 1, &result));
    CHECK(result == NULL);
}

static void buffers_are_checked(sluice_network* network) {
    float into[DIGIT_CLASSES] = {-1};
    const int64_t shape[2] = {1, DIGIT_CLASSES}, wide[2] = {1, 11};
    const sluice_tensor row = {pixels, one_row, 2, SLUICE_F32, SLUICE_HOST};
    const sluice_buffer good = {into, shape, 2, SLUICE_F32}, twice[2] = {good, good};
    sluice_buffer buffer = good;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "gives 1 outputs, and there are buffers for 2",
                sluice_network_run_into(network, &row, 1, twice, 2));
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "buffers for 0", sluice_network_run_into(network, &row, 1, NULL, 0));
    buffer.shape = wide;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "is f32 [1, 10], and is given room for f32 [1, 11]",
                sluice_network_run_into(network, &row, 1, &buffer, 1));
    buffer = good;
    buffer.type = SLUICE_I32;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "room for i32", sluice_network_run_into(network, &row, 1, &buffer, 1));
    buffer.type = -3;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "unknown type", sluice_network_run_into(network, &row, 1, &buffer, 1));
    buffer = good;
    buffer.rank = 3;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "3 dimensions", sluice_network_run_into(network, &row, 1, &buffer, 1));
    buffer = good;
    buffer.shape = NULL;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "shape is null", sluice_network_run_into(network, &row, 1, &buffer, 1));
    buffer = good;
    buffer.data = NULL;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "buffer 0 has elements, and its data is null",
                sluice_network_run_into(network, &row, 1, &buffer, 1));
    CHECK(into[0] == -1); /* nothing was written */
}

/* An index in the data: in an input; and computed, so that only the end of the run finds it. */
static void data_is_checked(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/tokens.onnx");
    const int64_t shape[2] = {1, 1}, token = 5;
    const float mask = 1;
    const sluice_tensor inputs[2] = {{&token, shape, 2, SLUICE_I64, SLUICE_HOST},
                                     {&mask, shape, 2, SLUICE_F32, SLUICE_HOST}};
    sluice_result* result = NULL;
    sluice_run* run = NULL;
    CHECK_FAILS(SLUICE_OUT_OF_RANGE, "5", sluice_network_run(network, inputs, 2, &result));
    CHECK_FAILS(SLUICE_OUT_OF_RANGE, "5", sluice_network_submit(network, inputs, 2, NULL, NULL, &run));
    sluice_network_destroy(network);

    sluice_network* const later = load(runtime, "tests/c/networks/later.onnx");
    const int64_t length = 1, half = 3;
    const sluice_tensor x = {&half, &length, 1, SLUICE_I64, SLUICE_HOST};
    CHECK_FAILS(SLUICE_OUT_OF_RANGE, "index 6", sluice_network_run(later, &x, 1, &result));
    CHECK_OK(sluice_network_submit(later, &x, 1, NULL, NULL, &run));
    CHECK_FAILS(SLUICE_OUT_OF_RANGE, "index 6", sluice_run_wait(run, SLUICE_FOREVER, &result));
    CHECK_FAILS(SLUICE_OUT_OF_RANGE, "index 6", sluice_run_wait(run, 0, &result)); /* as often as it is asked */
    sluice_run_destroy(run);
    sluice_network_destroy(later);
    CHECK(result == NULL);
}

static void names_and_indices_are_checked(sluice_network* network) {
    size_t index = 7;
    void* stream = NULL;
    sluice_value_info value = {.size = sizeof(value)};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no input 'nothing'; there are '",
                sluice_network_find_input(network, "nothing", &index));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no output ''", sluice_network_find_output(network, "", &index));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no input 1; there are 1", sluice_network_input(network, 1, &value));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no output 1; there are 1", sluice_network_output(network, 1, &value));
    CHECK_FAILS(SLUICE_UNSUPPORTED, "no CUDA streams", sluice_network_cuda_stream(network, &stream));
    CHECK_FAILS(SLUICE_UNSUPPORTED, "no CUDA streams", sluice_network_wait_for_stream(network, NULL));
    CHECK(index == 7);
    const sluice_tensor row = {pixels, one_row, 2, SLUICE_F32, SLUICE_HOST};
    sluice_result* result = NULL;
    sluice_buffer output = {0};
    CHECK_OK(sluice_network_run(network, &row, 1, &result));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no output 1; there are 1", sluice_result_output(result, 1, &output));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "output is null", sluice_result_output(result, 0, NULL));
    sluice_result_destroy(result);
}

static void a_builder_checks_each_node(sluice_runtime* runtime) {
    const sluice_status wrong = SLUICE_INVALID_ARGUMENT;
    sluice_builder* build = NULL;
    sluice_network* network = NULL;
    const char* text = NULL;
    size_t x = 7, y = 7;
    const sluice_dimension rows[2] = {{SLUICE_ANY_LENGTH, "rows"}, {64, ""}}, unnamed = {SLUICE_ANY_LENGTH, NULL};
    CHECK_FAILS(wrong, "builder is null", sluice_builder_create(NULL, NULL));
    CHECK_OK(sluice_builder_create(NULL, &build));
    CHECK_FAILS(wrong, "builder is null", sluice_builder_input(NULL, "x", rows, 2, SLUICE_F32, &x));
    CHECK_FAILS(wrong, "name is null", sluice_builder_input(build, NULL, rows, 2, SLUICE_F32, &x));
    CHECK_FAILS(wrong, "dimensions is null", sluice_builder_input(build, "x", NULL, 2, SLUICE_F32, &x));
    CHECK_FAILS(wrong, "name of a dimension is null", sluice_builder_input(build, "x", &unnamed, 1, SLUICE_F32, &x));
    CHECK_FAILS(wrong, "type 99", sluice_builder_input(build, "x", rows, 2, 99, &x));
    CHECK_FAILS(wrong, "value is null", sluice_builder_input(build, "x", rows, 2, SLUICE_F32, NULL));
    CHECK_OK(sluice_builder_input(build, "x", rows, 2, SLUICE_F32, &x));
    CHECK(x == 0);
    CHECK_FAILS(wrong, "taken", sluice_builder_input(build, "x", rows, 2, SLUICE_F32, &y));

    sluice_tensor numbers = {pixels, one_row, 2, SLUICE_F32, SLUICE_DEVICE};
    CHECK_FAILS(wrong, "not in host memory", sluice_builder_constant(build, &numbers, &y));
    numbers.memory = SLUICE_HOST;
    numbers.data = NULL;
    CHECK_FAILS(wrong, "data is null", sluice_builder_constant(build, &numbers, &y));
    CHECK_FAILS(wrong, "numbers is null", sluice_builder_constant(build, NULL, &y));

    sluice_attribute axis = {.name = "axes", .kind = SLUICE_INTEGER, .integer = 1};
    const size_t nothing = 5;
    CHECK_FAILS(SLUICE_UNSUPPORTED, "Relu", sluice_builder_node(build, "Rellu", &x, 1, NULL, 0, &y, 1));
    CHECK_FAILS(wrong, "axis", sluice_builder_node(build, "Softmax", &x, 1, &axis, 1, &y, 1));
    axis.kind = 9;
    CHECK_FAILS(wrong, "kind 9", sluice_builder_node(build, "Softmax", &x, 1, &axis, 1, &y, 1));
    axis.kind = SLUICE_INTEGERS;
    axis.count = 1;
    CHECK_FAILS(wrong, "is null", sluice_builder_node(build, "Softmax", &x, 1, &axis, 1, &y, 1));
    CHECK_FAILS(wrong, "no value 5; there are 1", sluice_builder_node(build, "Relu", &nothing, 1, NULL, 0, &y, 1));
    CHECK_FAILS(wrong, "op is null", sluice_builder_node(build, NULL, &x, 1, NULL, 0, &y, 1));
    CHECK_FAILS(wrong, "outputs is null", sluice_builder_node(build, "Relu", &x, 1, NULL, 0, NULL, 1));
    CHECK(y == 7);
    axis = (sluice_attribute){.name = "axis", .kind = SLUICE_INTEGER, .integer = 1};
    CHECK_OK(sluice_builder_node(build, "Softmax", &x, 1, &axis, 1, &y, 1));
    CHECK_OK(sluice_builder_describe(build, y, &text));
    CHECK(text != NULL && strcmp(text, "f32 [rows, 64]") == 0);
    CHECK_FAILS(wrong, "text is null", sluice_builder_describe(build, y, NULL));
    CHECK_FAILS(wrong, "no outputs", sluice_builder_make(build, runtime, NULL, &network));
    CHECK_FAILS(wrong, "name is null", sluice_builder_output(build, NULL, y));
    CHECK_FAILS(wrong, "no value 5", sluice_builder_output(build, "y", nothing));
    CHECK_OK(sluice_builder_output(build, "y", y));
    CHECK_FAILS(wrong, "runtime is null", sluice_builder_make(build, NULL, NULL, &network));
    CHECK_FAILS(wrong, "network is null", sluice_builder_make(build, runtime, NULL, NULL));
    CHECK(network == NULL);
    sluice_builder_destroy(build);
    sluice_builder_destroy(NULL);
}

static void a_limit_of_memory_is_kept(void) {
    const sluice_runtime_options small = {
        .size = sizeof(small), .cpu_workers = 1, .cpu_memory_bytes = 1 << 17, .without_cuda = 1};
    sluice_runtime* runtime = NULL;
    sluice_result* result = NULL;
    CHECK_OK(sluice_runtime_create(&small, &runtime));
    sluice_network* const network = load(runtime, "models/digits_cnn.onnx");
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS};
    const sluice_tensor rows = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
    CHECK_FAILS(SLUICE_OUT_OF_MEMORY, "cpu:0", sluice_network_run(network, &rows, 1, &result));
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
}

/* Half of a denormal number, from a runtime that flushes them and from one that does not. */
static float half_of_a_denormal(int64_t flushes) {
    const float half = 0.5f, number = 1e-40f;
    const int64_t length = 1;
    const sluice_tensor constant = {&half, NULL, 0, SLUICE_F32, SLUICE_HOST};
    const sluice_tensor x = {&number, &length, 1, SLUICE_F32, SLUICE_HOST};
    const sluice_dimension one = {1, NULL};
    const sluice_runtime_options options = {.size = sizeof(options), .without_cuda = 1, .flush_denormals = flushes};
    sluice_runtime* runtime = NULL;
    sluice_builder* builder = NULL;
    sluice_network* network = NULL;
    size_t inputs[2] = {0, 0}, product = 0;
    float made = -1;
    const sluice_buffer to = {&made, &length, 1, SLUICE_F32};
    CHECK_OK(sluice_runtime_create(&options, &runtime));
    CHECK_OK(sluice_builder_create(NULL, &builder));
    CHECK_OK(sluice_builder_input(builder, "x", &one, 1, SLUICE_F32, &inputs[0]));
    CHECK_OK(sluice_builder_constant(builder, &constant, &inputs[1]));
    CHECK_OK(sluice_builder_node(builder, "Mul", inputs, 2, NULL, 0, &product, 1));
    CHECK_OK(sluice_builder_output(builder, "y", product));
    CHECK_OK(sluice_builder_make(builder, runtime, NULL, &network));
    CHECK_OK(sluice_network_run_into(network, &x, 1, &to, 1));
    sluice_network_destroy(network);
    sluice_builder_destroy(builder);
    sluice_runtime_destroy(runtime);
    return made;
}

static void denormals_are_flushed_on_request(void) {
    CHECK(half_of_a_denormal(1) == 0);
    CHECK(half_of_a_denormal(0) == 0.5e-40f);
}

static void names_of_numbers(void) {
    CHECK(strcmp(sluice_status_name(SLUICE_SHAPE_MISMATCH), "shape mismatch") == 0);
    CHECK(strcmp(sluice_status_name(-1), "unknown status") == 0);
    for (sluice_status status = SLUICE_OK; status <= SLUICE_INTERNAL; ++status)
        CHECK(strcmp(sluice_status_name(status), "unknown status") != 0);
    CHECK(strcmp(sluice_type_name(0), "unknown type") == 0 && sluice_type_size(0) == 0 && sluice_type_size(14) == 0);
    CHECK(sluice_version()[0] != 0);
    CHECK(sluice_c_version() == 100 * SLUICE_C_VERSION_MAJOR + SLUICE_C_VERSION_MINOR);
}

void test_errors(void) {
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load(runtime, "models/digits.onnx");
    null_pointers(runtime, network);
    options_are_checked(runtime);
    wild_sizes_are_refused(runtime, network);
    builders_are_checked();
    files_are_checked(runtime);
    inputs_are_checked(network);
    buffers_are_checked(network);
    data_is_checked(runtime);
    names_and_indices_are_checked(network);
    a_builder_checks_each_node(runtime);
    a_limit_of_memory_is_kept();
    names_of_numbers();
    denormals_are_flushed_on_request();
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
}
