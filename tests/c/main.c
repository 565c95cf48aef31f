/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check.h"
#include "support/hang_watch.h"

_Thread_local int failures = 0;
float pixels[DIGIT_ROWS * DIGIT_PIXELS];
float logits[DIGIT_ROWS * DIGIT_CLASSES];

const char* path_of(const char* file) {
    static _Thread_local char path[4096];
    snprintf(path, sizeof(path), "%s/%s", SLUICE_SOURCE_DIR, file);
    return path;
}

sluice_runtime* new_runtime(void) {
    const sluice_runtime_options options = {.size = sizeof(options), .without_cuda = 1};
    sluice_runtime* made = NULL;
    CHECK_OK(sluice_runtime_create(&options, &made));
    return made;
}

sluice_network* load(sluice_runtime* runtime, const char* file) {
    sluice_network* made = NULL;
    CHECK_OK(sluice_network_load(runtime, path_of(file), NULL, &made));
    return made;
}

size_t read_npy(const char* file, float* to, size_t most) {
    unsigned char head[10];
    size_t count = 0;
    FILE* const in = fopen(path_of(file), "rb");
    if (in != NULL && fread(head, 1, sizeof(head), in) == sizeof(head) &&
        fseek(in, (long)head[8] + 256 * (long)head[9], SEEK_CUR) == 0) {
        count = fread(to, sizeof(float), most, in);
    }
    if (in != NULL) fclose(in);
    return count;
}

int are_near(const float* a, const float* b, size_t count, float most) {
    for (size_t i = 0; i < count; ++i) {
        if (!(a[i] - b[i] <= most && b[i] - a[i] <= most)) return 0; /* NaN is near to nothing */
    }
    return 1;
}

int main(void) {
    CHECK(read_npy("data/digits_inputs.npy", pixels, DIGIT_ROWS * DIGIT_PIXELS) == DIGIT_ROWS * DIGIT_PIXELS);
    CHECK(read_npy("data/digits_logits.npy", logits, DIGIT_ROWS * DIGIT_CLASSES) == DIGIT_ROWS * DIGIT_CLASSES);
    sluice_watch_test("networks");
    test_networks();
    sluice_watch_test("errors");
    test_errors();
    sluice_watch_test("prepared");
    test_prepared();
    sluice_watch_test("session");
    test_session();
    sluice_watch_test("runs");
    test_runs();
    sluice_watch_test("forks");
    test_forks();
    sluice_watch_test("same bits");
    test_same_bits();
    sluice_watch_test("page");
    test_page();
    sluice_end_watch();
    if (failures != 0) fprintf(stderr, "%d checks failed\n", failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
