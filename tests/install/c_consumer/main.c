/* SPDX-License-Identifier: Apache-2.0
 * A program in C that has only the installed C interface. */
#include <sluice/c/sluice.h>
#include <stdio.h>

int main(int count, char** arguments) {
    static const float row[64];
    const int64_t shape[2] = {1, 64};
    const sluice_tensor input = {row, shape, 2, SLUICE_F32, SLUICE_HOST};
    sluice_runtime* runtime = NULL;
    sluice_network* network = NULL;
    sluice_result* result = NULL;
    sluice_buffer output = {0};
    const int failed = count != 2 || sluice_runtime_create(NULL, &runtime) ||
                       sluice_network_load(runtime, arguments[1], NULL, &network) ||
                       sluice_network_run(network, &input, 1, &result) || sluice_result_output(result, 0, &output);
    if (failed) fprintf(stderr, "classify: %s\n", sluice_last_error());
    if (!failed) printf("Sluice %s: %d numbers\n", sluice_version(), (int)output.shape[1]);
    sluice_result_destroy(result);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
    return failed;
}
