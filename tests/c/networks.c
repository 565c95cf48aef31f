/* SPDX-License-Identifier: Apache-2.0
 * What works: devices, the description of a network, and runs that are waited for. */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

static void devices_are_listed(void) {
    const sluice_runtime_options options = {.size = sizeof(options), .cpu_devices = 2, .without_cuda = 1};
    sluice_runtime* runtime = NULL;
    size_t count = 0;
    const char* why = NULL;
    CHECK_OK(sluice_runtime_create(&options, &runtime));
    CHECK_OK(sluice_runtime_device_count(runtime, &count));
    CHECK(count == 2);
    sluice_device_info info = {.size = sizeof(info)};
    CHECK_OK(sluice_runtime_device(runtime, 1, &info));
    CHECK(strcmp(info.name, "cpu:1") == 0 && info.description[0] != 0);
    CHECK(info.kind == SLUICE_CPU && info.compute_units >= 1 && info.memory_bytes > 0);
    CHECK_OK(sluice_runtime_why_no_gpu(runtime, &why));
    CHECK(why[0] != 0);

    const sluice_network_options second = {.size = sizeof(second), .device = "cpu:1", .streams = 1};
    sluice_network* network = NULL;
    const char* device = NULL;
    CHECK_OK(sluice_network_load(runtime, path_of("models/digits.onnx"), &second, &network));
    CHECK_OK(sluice_network_device(network, &device));
    CHECK(strcmp(device, "cpu:1") == 0);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
}

/* A caller that was compiled with an older or a newer header. */
static void structures_of_other_sizes_are_understood(void) {
    struct {
        sluice_runtime_options options;
        uint64_t newer[4];
    } longer = {.options = {.size = sizeof(longer), .without_cuda = 1}};
    sluice_runtime* runtime = NULL;
    CHECK_OK(sluice_runtime_create(&longer.options, &runtime));
    struct {
        sluice_device_info info;
        uint64_t newer[2];
    } wide = {.info = {.size = sizeof(wide)}, .newer = {1, 2}};
    CHECK_OK(sluice_runtime_device(runtime, 0, &wide.info));
    CHECK(wide.info.size == sizeof(wide) && wide.newer[0] == 0 && wide.newer[1] == 0);
    sluice_runtime_destroy(runtime);

    longer.newer[3] = 1;
    runtime = NULL;
    CHECK_FAILS(SLUICE_UNSUPPORTED, "newer version", sluice_runtime_create(&longer.options, &runtime));
    CHECK(runtime == NULL);
}

static void a_network_says_what_it_takes(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/reshape.onnx");
    size_t inputs = 0, outputs = 0, index = 99;
    CHECK_OK(sluice_network_input_count(network, &inputs));
    CHECK_OK(sluice_network_output_count(network, &outputs));
    CHECK(inputs == 2 && outputs == 2);
    sluice_value_info x = {.size = sizeof(x)}, shape = {.size = sizeof(shape)}, y = {.size = sizeof(y)};
    CHECK_OK(sluice_network_input(network, 0, &x));
    CHECK_OK(sluice_network_input(network, 1, &shape));
    CHECK_OK(sluice_network_output(network, 0, &y));
    CHECK(strcmp(x.name, "x") == 0 && x.type == SLUICE_F32 && x.rank == 1 && x.needs_host == 0);
    CHECK(x.dimensions[0].length == SLUICE_ANY_LENGTH && strcmp(x.dimensions[0].name, "n") == 0);
    CHECK(strcmp(shape.name, "shape") == 0 && shape.type == SLUICE_I64 && shape.needs_host == 1);
    CHECK(shape.rank == 1 && shape.dimensions[0].length == 2 && shape.dimensions[0].name[0] == 0);
    CHECK(strcmp(y.name, "y") == 0 && y.rank == 2 && strcmp(y.dimensions[1].name, "columns") == 0);
    CHECK_OK(sluice_network_find_input(network, "shape", &index));
    CHECK(index == 1);
    CHECK_OK(sluice_network_find_output(network, "same", &index));
    CHECK(index == 1);
    sluice_network_destroy(network);
}

/* The values are those of PyTorch, which data/ has. */
static void digits_are_read(sluice_runtime* runtime, const char* file, const char* reference) {
    static float expected[DIGIT_ROWS * DIGIT_CLASSES];
    CHECK(read_npy(reference, expected, DIGIT_ROWS * DIGIT_CLASSES) == DIGIT_ROWS * DIGIT_CLASSES);
    sluice_network* const network = load(runtime, file);
    static const int64_t rows[] = {1, 7, DIGIT_ROWS}; /* the last one is large enough to be used where it is */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        const int64_t shape[2] = {rows[i], DIGIT_PIXELS}, expected_shape[2] = {rows[i], DIGIT_CLASSES};
        const sluice_tensor input = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
        const size_t numbers = (size_t)rows[i] * DIGIT_CLASSES;
        sluice_result* result = NULL;
        sluice_buffer output = {0};
        size_t count = 0;
        CHECK_OK(sluice_network_run(network, &input, 1, &result));
        CHECK_OK(sluice_result_count(result, &count));
        CHECK_OK(sluice_result_output(result, 0, &output));
        CHECK(count == 1 && output.type == SLUICE_F32 && output.rank == 2);
        CHECK(output.shape[0] == rows[i] && output.shape[1] == DIGIT_CLASSES);
        CHECK((uintptr_t)output.data % 16 == 0);
        CHECK(are_near(output.data, expected, numbers, 1e-3f));
        sluice_result_destroy(result);

        static float into[DIGIT_ROWS * DIGIT_CLASSES];
        memset(into, 0, sizeof(into));
        const sluice_buffer buffer = {into, expected_shape, 2, SLUICE_F32};
        CHECK_OK(sluice_network_run_into(network, &input, 1, &buffer, 1));
        CHECK(are_near(into, expected, numbers, 1e-3f));
    }
    sluice_network_destroy(network);
}

/* The first row begins 4 bytes after a multiple of 16: it cannot be used where it is, and is copied. */
static void rows_may_begin_anywhere(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "models/digits.onnx");
    float* const block = malloc(sizeof(float) + sizeof(pixels));
    memcpy(block + 1, pixels, sizeof(pixels));
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS};
    const sluice_tensor input = {block + 1, shape, 2, SLUICE_F32, SLUICE_HOST};
    sluice_result* result = NULL;
    sluice_buffer output = {0};
    CHECK_OK(sluice_network_run(network, &input, 1, &result));
    free(block); /* not used after the call */
    CHECK_OK(sluice_result_output(result, 0, &output));
    CHECK(are_near(output.data, logits, DIGIT_ROWS * DIGIT_CLASSES, 1e-3f));
    sluice_result_destroy(result);
    sluice_network_destroy(network);
}

static void texts_are_codes(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/texts.onnx");
    sluice_value_info info = {0};
    info.size = sizeof(info);
    CHECK_OK(sluice_network_input(network, 0, &info));
    CHECK(info.is_text != 0 && info.type == SLUICE_I64);
    CHECK_OK(sluice_network_output(network, 0, &info));
    CHECK(info.is_text == 0);
    int64_t codes[2] = {7, 7};
    CHECK_OK(sluice_network_text_code(network, "green and more", 5, &codes[0]));
    CHECK_OK(sluice_network_text_code(network, "pink", 4, &codes[1]));
    CHECK(codes[0] >= 0 && codes[1] == -1);
    const int64_t shape[2] = {1, 2};
    const sluice_tensor input = {codes, shape, 2, SLUICE_I64, SLUICE_HOST};
    sluice_result* result = NULL;
    sluice_buffer names = {0};
    CHECK_OK(sluice_network_run(network, &input, 1, &result));
    CHECK_OK(sluice_result_output(result, 1, &names));
    const int64_t* const given = names.data;
    const char* text = NULL;
    size_t length = 0;
    CHECK_OK(sluice_network_text(network, given[0], &text, &length));
    CHECK(length == 5 && memcmp(text, "gr\xc3\xbcn", 5) == 0);
    CHECK_OK(sluice_network_text(network, given[1], &text, &length));
    CHECK(length == 1 && text[0] == '?');
    CHECK_FAILS(SLUICE_OUT_OF_RANGE, "is not a text's", sluice_network_text(network, -1, &text, &length));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "text", sluice_network_text_code(network, NULL, 0, &codes[0]));
    length = 77;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "text", sluice_network_text(network, given[0], NULL, &length));
    CHECK(length == 77);
    text = NULL;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "length", sluice_network_text(network, given[0], &text, NULL));
    CHECK(text == NULL);
    sluice_result_destroy(result);
    sluice_network_destroy(network);
}

static void several_inputs_and_outputs(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/tokens.onnx");
    const int64_t shape[2] = {2, 3}, tokens[6] = {1, 2, 3, 4, 0, 1};
    const float mask[6] = {1, 1, 0, 1, 1, 1};
    const sluice_tensor inputs[2] = {{tokens, shape, 2, SLUICE_I64, SLUICE_HOST},
                                     {mask, shape, 2, SLUICE_F32, SLUICE_HOST}};
    sluice_result* result = NULL;
    sluice_buffer scores = {0}, total = {0};
    CHECK_OK(sluice_network_run(network, inputs, 2, &result));
    CHECK_OK(sluice_result_output(result, 0, &scores));
    CHECK_OK(sluice_result_output(result, 1, &total));
    const float expected[6] = {10, 20, 0, 40, 0, 10}, sums[2] = {30, 50};
    CHECK(are_near(scores.data, expected, 6, 0) && are_near(total.data, sums, 2, 0));
    CHECK(total.rank == 1 && total.shape[0] == 2);
    sluice_result_destroy(result);

    /* No rows: no elements, and data may be null. */
    const int64_t none[2] = {0, 3};
    const sluice_tensor empty[2] = {{NULL, none, 2, SLUICE_I64, SLUICE_HOST}, {NULL, none, 2, SLUICE_F32, SLUICE_HOST}};
    CHECK_OK(sluice_network_run(network, empty, 2, &result));
    CHECK_OK(sluice_result_output(result, 0, &scores));
    CHECK(scores.shape[0] == 0 && scores.shape[1] == 3);
    sluice_result_destroy(result);
    sluice_network_destroy(network);
}

static void every_type_passes(sluice_runtime* runtime) {
    static const char* const names[] = {"f16", "bf16", "f32", "f64", "i8",  "u8",  "i16",
                                        "u16", "i32",  "u32", "i64", "u64", "bool"};
    static const size_t sizes[] = {2, 2, 4, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1};
    sluice_network* const network = load(runtime, "tests/c/networks/types.onnx");
    const unsigned char bytes[16] = {1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0};
    const int64_t shape[1] = {2};
    sluice_tensor inputs[SLUICE_BOOL];
    for (sluice_type type = SLUICE_F16; type <= SLUICE_BOOL; ++type) {
        CHECK(strcmp(sluice_type_name(type), names[type - 1]) == 0 && sluice_type_size(type) == sizes[type - 1]);
        inputs[type - 1] = (sluice_tensor){bytes, shape, 1, type, SLUICE_HOST};
        sluice_value_info info = {.size = sizeof(info)};
        CHECK_OK(sluice_network_output(network, (size_t)type - 1, &info));
        CHECK(info.type == type);
    }
    sluice_result* result = NULL;
    CHECK_OK(sluice_network_run(network, inputs, SLUICE_BOOL, &result));
    for (sluice_type type = SLUICE_F16; type <= SLUICE_BOOL; ++type) {
        sluice_buffer output = {0};
        CHECK_OK(sluice_result_output(result, (size_t)type - 1, &output));
        CHECK(output.type == type && memcmp(output.data, bytes, 2 * sluice_type_size(type)) == 0);
    }
    sluice_result_destroy(result);
    sluice_network_destroy(network);
}

static void a_single_number_has_no_shape(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/scalar.onnx");
    const float x = 21;
    float twice = 0;
    const sluice_tensor input = {.data = &x, .type = SLUICE_F32};
    const sluice_buffer output = {.data = &twice, .type = SLUICE_F32};
    CHECK_OK(sluice_network_run_into(network, &input, 1, &output, 1));
    CHECK(twice == 42);
    sluice_network_destroy(network);
}

/* A constant of the network is an output: what the caller writes there changes no other result. */
static void results_may_be_written(sluice_runtime* runtime) {
    sluice_network* const network = load(runtime, "tests/c/networks/reshape.onnx");
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const int64_t length[1] = {6}, two[1] = {2}, to[2] = {3, 2};
    const sluice_tensor inputs[2] = {{x, length, 1, SLUICE_F32, SLUICE_HOST}, {to, two, 1, SLUICE_I64, SLUICE_HOST}};
    for (int turn = 0; turn < 2; ++turn) {
        sluice_result* result = NULL;
        sluice_buffer y = {0}, same = {0};
        CHECK_OK(sluice_network_run(network, inputs, 2, &result));
        CHECK_OK(sluice_result_output(result, 0, &y));
        CHECK_OK(sluice_result_output(result, 1, &same));
        CHECK(y.rank == 2 && y.shape[0] == 3 && y.shape[1] == 2 && are_near(y.data, x, 6, 0));
        CHECK(((float*)same.data)[0] == 7 && ((float*)same.data)[1] == 8);
        memset(same.data, 0, 2 * sizeof(float));
        memset(y.data, 0, sizeof(x));
        sluice_result_destroy(result);
    }
    sluice_network_destroy(network);
}

static void a_network_comes_from_memory_and_from_safetensors(sluice_runtime* runtime) {
    static unsigned char file[1 << 20];
    FILE* const in = fopen(path_of("models/digits.onnx"), "rb");
    const size_t bytes = in != NULL ? fread(file, 1, sizeof(file), in) : 0;
    if (in != NULL) fclose(in);
    sluice_network *from_memory = NULL, *perceptron = NULL;
    CHECK_OK(sluice_network_load_memory(runtime, file, bytes, NULL, NULL, &from_memory));
    const sluice_network_options relu = {.size = sizeof(relu), .hidden_activation = "relu"}; /* as the file says too */
    CHECK_OK(sluice_network_load(runtime, path_of("models/digits.safetensors"), &relu, &perceptron));
    sluice_network* const both[2] = {from_memory, perceptron};
    for (int i = 0; i < 2; ++i) {
        const int64_t shape[2] = {3, DIGIT_PIXELS};
        const sluice_tensor input = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
        sluice_result* result = NULL;
        sluice_buffer output = {0};
        CHECK_OK(sluice_network_run(both[i], &input, 1, &result));
        CHECK_OK(sluice_result_output(result, 0, &output));
        CHECK(are_near(output.data, logits, 3 * DIGIT_CLASSES, 1e-3f));
        sluice_result_destroy(result);
        sluice_network_destroy(both[i]);
    }
}

/* The digits keep their classes in every precision, and the network says what was rounded. */
static void a_precision_is_chosen(sluice_runtime* runtime) {
    static const char* const names[] = {"f32", "bf16", "f16", "int8"};
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS};
    const sluice_tensor input = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
    for (size_t i = 0; i < 4; ++i) {
        const sluice_network_options options = {.size = sizeof(options), .device = "cpu", .precision = names[i]};
        sluice_network* network = NULL;
        sluice_result* result = NULL;
        sluice_buffer output = {0};
        sluice_rounding_info info = {.size = sizeof(info)};
        CHECK_OK(sluice_network_load(runtime, path_of("models/digits.onnx"), &options, &network));
        CHECK_OK(sluice_network_rounding(network, &info));
        CHECK(strcmp(info.precision, names[i]) == 0 && info.how[0] != 0);
        CHECK(i == 0 ? info.rounded == 0 : info.rounded + info.kept_count > 0);
        CHECK_OK(sluice_network_run(network, &input, 1, &result));
        CHECK_OK(sluice_result_output(result, 0, &output));
        CHECK(output.type == SLUICE_F32);
        CHECK(are_near(output.data, logits, DIGIT_ROWS * DIGIT_CLASSES, i == 0 ? 1e-3f : 2.0f));
        CHECK(i == 0 || info.rounded == 0 || !are_near(output.data, logits, DIGIT_ROWS * DIGIT_CLASSES, 1e-5f));
        sluice_result_destroy(result);
        sluice_network_destroy(network);
    }
    const sluice_network_options wrong = {.size = sizeof(wrong), .precision = "f8"};
    sluice_network* network = NULL;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "precision is 'f8'; possible are f32, bf16, f16 and int8",
                sluice_network_load(runtime, path_of("models/digits.onnx"), &wrong, &network));
    CHECK(network == NULL);
    /* A caller of version 1.0, whose structure ends before the precision. */
    const sluice_network_options older = {.size = offsetof(sluice_network_options, precision), .precision = "f8"};
    CHECK_OK(sluice_network_load(runtime, path_of("models/digits.onnx"), &older, &network));
    sluice_rounding_info small = {.size = sizeof(size_t)};
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "size", sluice_network_rounding(network, &small));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "network is null", sluice_network_rounding(NULL, &small));
    sluice_network_destroy(network);
}

/* A network keeps its runtime, and a result needs neither. */
static void objects_are_destroyed_in_any_order(void) {
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load(runtime, "models/digits.onnx");
    sluice_runtime_destroy(runtime);
    const int64_t shape[2] = {1, DIGIT_PIXELS};
    const sluice_tensor input = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
    sluice_result* result = NULL;
    sluice_buffer output = {0};
    CHECK_OK(sluice_network_run(network, &input, 1, &result));
    sluice_network_destroy(network);
    CHECK_OK(sluice_result_output(result, 0, &output));
    CHECK(are_near(output.data, logits, DIGIT_CLASSES, 1e-3f));
    sluice_result_destroy(result);
}

void test_networks(void) {
    devices_are_listed();
    structures_of_other_sizes_are_understood();
    objects_are_destroyed_in_any_order();
    sluice_runtime* const runtime = new_runtime();
    a_network_says_what_it_takes(runtime);
    digits_are_read(runtime, "models/digits.onnx", "data/digits_logits.npy");
    digits_are_read(runtime, "models/digits_cnn.onnx", "data/digits_cnn_logits.npy");
    rows_may_begin_anywhere(runtime);
    texts_are_codes(runtime);
    several_inputs_and_outputs(runtime);
    every_type_passes(runtime);
    a_single_number_has_no_shape(runtime);
    results_may_be_written(runtime);
    a_network_comes_from_memory_and_from_safetensors(runtime);
    a_precision_is_chosen(runtime);
    sluice_runtime_destroy(runtime);
}
