/* SPDX-License-Identifier: Apache-2.0 */
#include <sluice/c/sluice.h>
#include <stdio.h>

int main(void) {
    sluice_runtime* runtime = NULL;
    const int failed = sluice_runtime_create(NULL, &runtime) != 0;
    printf("Sluice %s%s\n", sluice_version(), failed ? ": no runtime" : "");
    sluice_runtime_destroy(runtime);
    return failed;
}
