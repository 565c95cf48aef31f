/* SPDX-License-Identifier: Apache-2.0
 * The nanoseconds of calls with one row of zeros, one a line; see one_row.py. HOW is run, into or prepared. */
#include <sluice/c/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIXELS = 64, CLASSES = 10 };

static long long now(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int run(const sluice_network* network, const sluice_tensor* input) {
    sluice_result* result = NULL;
    sluice_buffer output;
    if (sluice_network_run(network, input, 1, &result) || sluice_result_output(result, 0, &output)) return 1;
    sluice_result_destroy(result);
    return 0;
}

int main(int count, char** arguments) {
    const long turns = count == 4 ? atol(arguments[3]) : 0;
    static const float row[PIXELS];
    static float answer[CLASSES];
    const int64_t shape[2] = {1, PIXELS}, to_shape[2] = {1, CLASSES};
    const sluice_tensor input = {row, shape, 2, SLUICE_F32, SLUICE_HOST};
    const sluice_buffer output = {answer, to_shape, 2, SLUICE_F32};
    const sluice_network_options on_cpu = {.size = sizeof(on_cpu), .device = "cpu"};
    sluice_runtime* runtime = NULL;
    sluice_network* network = NULL;
    sluice_prepared* fast = NULL;
    sluice_value_info info = {.size = sizeof(info)};
    if (count != 4) {
        fprintf(stderr, "usage: one_row MODEL HOW TURNS\n");
        return 2;
    }
    const int is_prepared = strcmp(arguments[2], "prepared") == 0, is_into = strcmp(arguments[2], "into") == 0;
    int failed = sluice_runtime_create(NULL, &runtime) ||
                 sluice_network_load(runtime, arguments[1], &on_cpu, &network) ||
                 sluice_network_input(network, 0, &info);
    const sluice_input_shape shapes[1] = {{info.name, shape, 2}};
    failed = failed || (is_prepared && sluice_prepared_create(network, shapes, 1, &fast));
    for (long i = 0; !failed && i < turns; ++i) {
        const long long begin = now();
        failed = is_prepared ? sluice_prepared_run(fast)
                 : is_into   ? sluice_network_run_into(network, &input, 1, &output, 1)
                             : run(network, &input);
        printf("%lld\n", now() - begin);
    }
    if (failed) fprintf(stderr, "%s\n", sluice_last_error());
    sluice_prepared_destroy(fast);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
    return failed;
}
