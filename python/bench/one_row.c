/* SPDX-License-Identifier: Apache-2.0
 * The nanoseconds of calls of sluice_network_run with one row of zeros, one a line; see one_row.py. */
#include <sluice/c/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char** arguments) {
    const long turns = count == 3 ? atol(arguments[2]) : 0;
    static const float row[64];
    const int64_t shape[2] = {1, 64};
    const sluice_tensor input = {row, shape, 2, SLUICE_F32, SLUICE_HOST};
    const sluice_network_options on_cpu = {.size = sizeof(on_cpu), .device = "cpu"};
    sluice_runtime* runtime = NULL;
    sluice_network* network = NULL;
    if (count != 3 || sluice_runtime_create(NULL, &runtime) ||
        sluice_network_load(runtime, arguments[1], &on_cpu, &network)) {
        fprintf(stderr, "%s\n", count != 3 ? "usage: one_row MODEL TURNS" : sluice_last_error());
        return 1;
    }
    for (long i = 0; i < turns; ++i) {
        sluice_result* result = NULL;
        sluice_buffer output;
        const long long begin = now();
        if (sluice_network_run(network, &input, 1, &result) || sluice_result_output(result, 0, &output)) return 1;
        sluice_result_destroy(result);
        printf("%lld\n", now() - begin);
    }
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
    return 0;
}
