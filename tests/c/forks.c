/* SPDX-License-Identifier: Apache-2.0
 * A process that was forked: what was made before is refused there, destroying it does nothing, and what the child
 * makes itself works. */
#define _POSIX_C_SOURCE 200809L /* fork */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const int64_t row_shape[2] = {1, DIGIT_PIXELS};

struct of_parent {
    sluice_runtime* runtime;
    sluice_network* network;
    sluice_result* result;
    sluice_run* run;
    sluice_prepared* prepared;
};

static void check_objects_of_the_parent(const struct of_parent* of) {
    const char* const refused = "was made before this process was forked";
    const sluice_tensor row = {pixels, row_shape, 2, SLUICE_F32, SLUICE_HOST};
    const sluice_status closed = SLUICE_RUNTIME_CLOSED;
    sluice_network* other = NULL;
    sluice_result* result = NULL;
    sluice_run* run = NULL;
    sluice_profile* profile = NULL;
    size_t count = 0;
    sluice_buffer buffer = {0};
    CHECK_FAILS(closed, refused, sluice_runtime_device_count(of->runtime, &count));
    CHECK_FAILS(closed, refused, sluice_network_load(of->runtime, path_of("models/digits.onnx"), NULL, &other));
    CHECK_FAILS(closed, refused, sluice_network_input_count(of->network, &count));
    CHECK_FAILS(closed, refused, sluice_network_run(of->network, &row, 1, &result));
    CHECK_FAILS(closed, refused, sluice_network_submit(of->network, &row, 1, NULL, NULL, &run));
    CHECK_FAILS(closed, refused, sluice_network_profile(of->network, &row, 1, 1, &profile));
    CHECK_FAILS(closed, refused, sluice_prepared_run(of->prepared));
    CHECK_FAILS(closed, refused, sluice_run_wait(of->run, SLUICE_FOREVER, &result));
    CHECK(other == NULL && result == NULL && run == NULL && profile == NULL && count == 0);
    /* Outputs in host memory are the child's as well. */
    CHECK_OK(sluice_result_output(of->result, 0, &buffer));
    CHECK(are_near(buffer.data, logits, DIGIT_CLASSES, 1e-3f));
    sluice_run_destroy(of->run);
    sluice_prepared_destroy(of->prepared);
    sluice_network_destroy(of->network);
    sluice_runtime_destroy(of->runtime);
    sluice_result_destroy(of->result);
}

#if !defined(SLUICE_NO_THREADS_AFTER_FORK) /* a sanitizer that watches threads refuses new ones in a child */
static void check_objects_of_the_child(void) {
    const sluice_tensor row = {pixels, row_shape, 2, SLUICE_F32, SLUICE_HOST};
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load(runtime, "models/digits.onnx");
    sluice_result* result = NULL;
    sluice_run* run = NULL;
    sluice_buffer buffer = {0};
    CHECK_OK(sluice_network_submit(network, &row, 1, NULL, NULL, &run));
    CHECK_OK(sluice_run_wait(run, SLUICE_FOREVER, &result));
    CHECK_OK(sluice_result_output(result, 0, &buffer));
    CHECK(are_near(buffer.data, logits, DIGIT_CLASSES, 1e-3f));
    sluice_result_destroy(result);
    sluice_run_destroy(run);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
}
#endif

void test_forks(void) {
    const sluice_tensor row = {pixels, row_shape, 2, SLUICE_F32, SLUICE_HOST};
    struct of_parent of = {new_runtime(), NULL, NULL, NULL, NULL};
    const sluice_input_shape shape = {"input", row_shape, 2};
    int status = -1;
    of.network = load(of.runtime, "models/digits.onnx");
    CHECK_OK(sluice_network_run(of.network, &row, 1, &of.result));
    CHECK_OK(sluice_network_submit(of.network, &row, 1, NULL, NULL, &of.run));
    CHECK_OK(sluice_run_wait(of.run, SLUICE_FOREVER, NULL));
    CHECK_OK(sluice_prepared_create(of.network, &shape, 1, &of.prepared));
    const pid_t child = fork();
    if (child == 0) {
        const int before = failures;
        alarm(120); /* a child that waits for ever fails this test */
        check_objects_of_the_parent(&of);
#if !defined(SLUICE_NO_THREADS_AFTER_FORK)
        check_objects_of_the_child();
#endif
        _exit(failures == before ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
    sluice_run_destroy(of.run);
    sluice_prepared_destroy(of.prepared);
    sluice_network_destroy(of.network);
    sluice_runtime_destroy(of.runtime);
    sluice_result_destroy(of.result);
}
