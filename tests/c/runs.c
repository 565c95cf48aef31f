/* SPDX-License-Identifier: Apache-2.0
 * Runs that are submitted: waiting, polling, callbacks; and use from several threads. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

static const int64_t seconds = 1000000000;

static sluice_tensor rows_of(const int64_t* shape) {
    const sluice_tensor input = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
    return input;
}

static void check_logits(sluice_result* result, size_t rows) {
    sluice_buffer output = {0};
    CHECK_OK(sluice_result_output(result, 0, &output));
    CHECK(output.shape != NULL && output.shape[0] == (int64_t)rows);
    CHECK(output.data != NULL && are_near(output.data, logits, rows * DIGIT_CLASSES, 1e-3f));
}

static void a_run_is_waited_for(sluice_network* network) {
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS};
    float* const copy = malloc(sizeof(pixels));
    memcpy(copy, pixels, sizeof(pixels));
    const sluice_tensor input = {copy, shape, 2, SLUICE_F32, SLUICE_HOST};
    sluice_run* run = NULL;
    sluice_result *result = NULL, *second = NULL;
    CHECK_OK(sluice_network_submit(network, &input, 1, NULL, NULL, &run));
    memset(copy, 0, sizeof(pixels)); /* the run has its own copy */
    free(copy);
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "-2 nanoseconds", sluice_run_wait(run, -2, &result));
    CHECK_OK(sluice_run_wait(run, SLUICE_FOREVER, NULL)); /* waits, and leaves the result there */
    CHECK_OK(sluice_run_wait(run, INT64_MAX, &result));
    CHECK_OK(sluice_run_wait(run, 0, NULL));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "before", sluice_run_wait(run, 0, &second));
    sluice_run_destroy(run);
    check_logits(result, DIGIT_ROWS);
    sluice_result_destroy(result);
}

static void a_run_is_polled(sluice_network* network) {
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS};
    const sluice_tensor input = rows_of(shape);
    sluice_run* run = NULL;
    sluice_result* result = NULL;
    sluice_status status = SLUICE_TIMED_OUT;
    CHECK_OK(sluice_network_submit(network, &input, 1, NULL, NULL, &run));
    while ((status = sluice_run_wait(run, 0, &result)) == SLUICE_TIMED_OUT) sched_yield();
    CHECK(status == SLUICE_OK);
    sluice_run_destroy(run);
    check_logits(result, DIGIT_ROWS);
    sluice_result_destroy(result);
}

static void a_profile_has_rows_of_nodes(sluice_network* network) {
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS};
    const sluice_tensor input = rows_of(shape);
    sluice_tensor elsewhere = input;
    elsewhere.memory = SLUICE_DEVICE;
    sluice_profile* profile = NULL;
    sluice_profile_info total = {.size = sizeof(total)};
    sluice_profile_row_info row = {.size = sizeof(row)};
    double sum = 0;
    size_t products = 0;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "network is null", sluice_network_profile(NULL, &input, 1, 1, &profile));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "profile is null", sluice_network_profile(network, &input, 1, 1, NULL));
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "at least one", sluice_network_profile(network, &input, 1, 0, &profile));
    CHECK_FAILS(SLUICE_UNSUPPORTED, "memory of a GPU", sluice_network_profile(network, &elsewhere, 1, 1, &profile));
    CHECK_OK(sluice_network_profile(network, &input, 1, 2, &profile));
    CHECK_OK(sluice_profile_total(profile, &total));
    for (size_t i = 0; i < total.rows; ++i) {
        CHECK_OK(sluice_profile_row(profile, i, &row));
        sum += row.microseconds;
        products += strstr(row.operators, "Gemm") != NULL;
    }
    CHECK(total.rows >= 3 && products > 0 && sum > 0 && sum <= total.microseconds * 1.001);
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "no row", sluice_profile_row(profile, total.rows, &row));
    total.size = 3;
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "size 3", sluice_profile_total(profile, &total));
    sluice_profile_destroy(profile);
    sluice_profile_destroy(NULL);
}

static void count_release(void* calls) { ++*(int*)calls; }

static void forward_on_a_cpu_leaves_the_outputs_in_host_memory(sluice_network* network) {
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS}, narrow[2] = {DIGIT_ROWS, 3};
    const sluice_tensor input = rows_of(shape), wrong = rows_of(narrow);
    sluice_result* result = NULL;
    sluice_memory memory = SLUICE_DEVICE;
    int calls = 0;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "is given 3",
                sluice_network_forward(network, &wrong, 1, count_release, &calls, &result));
    CHECK(calls == 0);
    CHECK_OK(sluice_network_forward(network, &input, 1, count_release, &calls, &result));
    CHECK(calls == 1);
    CHECK_OK(sluice_result_memory(result, &memory));
    CHECK(memory == SLUICE_HOST);
    CHECK_FAILS(SLUICE_INVALID_ARGUMENT, "memory is null", sluice_result_memory(result, NULL));
    CHECK_FAILS(SLUICE_UNSUPPORTED, "host memory", sluice_result_lend(result, NULL));
    check_logits(result, DIGIT_ROWS);
    sluice_result_destroy(result);
    CHECK_OK(sluice_network_forward(network, &input, 1, NULL, NULL, &result));
    check_logits(result, DIGIT_ROWS);
    sluice_result_destroy(result);
}

static void wait_until(const atomic_int* sign) {
    while (atomic_load(sign) == 0) sched_yield();
}

/* What a callback has seen. Each run waits until the gate is open, so that the order is known. */
struct seen {
    sluice_network* network;
    sluice_run* other; /* a run that is not complete when the callback waits for it */
    atomic_int entered, gate, calls;
    sluice_run* run;
    sluice_status status, blocked, polled;
    sluice_result* result;
};

static void note(sluice_run* run, void* context) {
    struct seen* const seen = context;
    atomic_store(&seen->entered, 1);
    wait_until(&seen->gate);
    seen->run = run;
    seen->status = sluice_run_wait(run, SLUICE_FOREVER, &seen->result); /* complete: does not block */
    if (seen->other != NULL) {
        seen->blocked = sluice_run_wait(seen->other, SLUICE_FOREVER, NULL);
        seen->polled = sluice_run_wait(seen->other, 0, NULL);
    }
    atomic_fetch_add(&seen->calls, 1);
}

static void a_callback_gets_the_result(sluice_network* network) {
    const int64_t shape[2] = {5, DIGIT_PIXELS};
    const sluice_tensor input = rows_of(shape);
    struct seen seen = {.network = network};
    sluice_run* run = NULL;
    CHECK_OK(sluice_network_submit(network, &input, 1, note, &seen, &run));
    wait_until(&seen.entered);
    /* The thread that ends runs is in the callback, so this run does not end before the callback returns. */
    CHECK_OK(sluice_network_submit(network, &input, 1, NULL, NULL, &seen.other));
    CHECK_FAILS(SLUICE_TIMED_OUT, "not complete after 1000 nanoseconds", sluice_run_wait(seen.other, 1000, NULL));
    atomic_store(&seen.gate, 1);
    wait_until(&seen.calls);
    CHECK(seen.run == run && seen.status == SLUICE_OK);
    CHECK(seen.blocked == SLUICE_INVALID_ARGUMENT && seen.polled == SLUICE_TIMED_OUT);
    check_logits(seen.result, 5);
    sluice_result_destroy(seen.result);
    CHECK_OK(sluice_run_wait(seen.other, 60 * seconds, NULL));
    sluice_run_destroy(seen.other);
    sluice_run_destroy(run);
    CHECK(atomic_load(&seen.calls) == 1);
}

static void destroy_own_run(sluice_run* run, void* calls) {
    sluice_result* result = NULL;
    if (sluice_run_wait(run, 0, &result) == SLUICE_OK) atomic_fetch_add((atomic_int*)calls, 1);
    sluice_result_destroy(result);
    sluice_run_destroy(run);
}

static void count_call(sluice_run* run, void* calls) {
    (void)run;
    atomic_fetch_add((atomic_int*)calls, 1);
}

static void runs_are_destroyed_at_any_time(void) {
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load(runtime, "models/digits_cnn.onnx");
    const int64_t shape[2] = {200, DIGIT_PIXELS};
    const sluice_tensor input = rows_of(shape);
    atomic_int in_callback = 0, abandoned = 0;
    sluice_run* run = NULL;
    CHECK_OK(sluice_network_submit(network, &input, 1, destroy_own_run, &in_callback, &run));
    wait_until(&in_callback);
    /* The callback is called although the run, its network and its runtime are given up. */
    CHECK_OK(sluice_network_submit(network, &input, 1, count_call, &abandoned, &run));
    sluice_run_destroy(run);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
    wait_until(&abandoned);
}

static void run_again(sluice_run* run, void* context) {
    struct seen* const seen = context;
    const int64_t shape[2] = {3, DIGIT_PIXELS};
    const sluice_tensor input = rows_of(shape);
    (void)run;
    seen->status = sluice_network_run(seen->network, &input, 1, &seen->result);
    seen->blocked = sluice_network_submit(seen->network, &input, 1, count_call, &seen->calls, &seen->other);
}

static void a_callback_may_run_the_network(sluice_network* network) {
    const int64_t shape[2] = {1, DIGIT_PIXELS};
    const sluice_tensor input = rows_of(shape);
    struct seen seen = {.network = network};
    sluice_run* run = NULL;
    CHECK_OK(sluice_network_submit(network, &input, 1, run_again, &seen, &run));
    wait_until(&seen.calls);
    CHECK(seen.status == SLUICE_OK && seen.blocked == SLUICE_OK);
    check_logits(seen.result, 3);
    sluice_result_destroy(seen.result);
    sluice_run_destroy(seen.other);
    sluice_run_destroy(run);
}

static void a_run_that_cannot_be_submitted_has_no_callback(sluice_network* network) {
    const int64_t narrow[2] = {1, 3};
    const sluice_tensor input = rows_of(narrow);
    atomic_int calls = 0;
    sluice_run* run = NULL;
    CHECK_FAILS(SLUICE_SHAPE_MISMATCH, "64", sluice_network_submit(network, &input, 1, count_call, &calls, &run));
    CHECK(run == NULL && atomic_load(&calls) == 0);
}

/* Threads share a network. Each has its own last error. */
enum { THREADS = 4, TURNS = 25 };

struct job {
    sluice_network* network;
    int number, failed;
};

static void* use(void* given) {
    struct job* const job = given;
    const size_t rows = 1 + (size_t)job->number;
    const int64_t shape[2] = {(int64_t)rows, DIGIT_PIXELS}, wrong[2] = {1, 100 + job->number};
    CHECK(sluice_last_error()[0] == 0);
    for (int turn = 0; turn < TURNS; ++turn) {
        const sluice_tensor good = rows_of(shape), bad = rows_of(wrong);
        char words[32];
        snprintf(words, sizeof(words), "is given %d", 100 + job->number);
        sluice_result *first = NULL, *second = NULL;
        sluice_run* run = NULL;
        CHECK_OK(sluice_network_submit(job->network, &good, 1, NULL, NULL, &run));
        CHECK_OK(sluice_network_run(job->network, &good, 1, &first));
        CHECK_FAILS(SLUICE_SHAPE_MISMATCH, words, sluice_network_run(job->network, &bad, 1, &second));
        CHECK_OK(sluice_run_wait(run, 60 * seconds, &second));
        CHECK(strstr(sluice_last_error(), words) != NULL); /* a call that succeeds leaves it */
        sluice_run_destroy(run);
        check_logits(first, rows);
        check_logits(second, rows);
        sluice_result_destroy(first);
        sluice_result_destroy(second);
    }
    job->failed = failures;
    return NULL;
}

static void threads_share_a_network(sluice_network* network) {
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        jobs[i] = (struct job){network, i, 0};
        CHECK(pthread_create(&threads[i], NULL, use, &jobs[i]) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(jobs[i].failed == 0);
    }
}

static void* wait_for(void* run) {
    CHECK_OK(sluice_run_wait(run, SLUICE_FOREVER, NULL));
    return failures == 0 ? run : NULL;
}

static void threads_wait_for_one_run(sluice_network* network) {
    const int64_t shape[2] = {DIGIT_ROWS, DIGIT_PIXELS};
    const sluice_tensor input = rows_of(shape);
    struct seen seen = {.network = network};
    sluice_run *first = NULL, *run = NULL;
    pthread_t threads[THREADS];
    CHECK_OK(sluice_network_submit(network, &input, 1, note, &seen, &first));
    wait_until(&seen.entered); /* no other run ends before the gate opens */
    CHECK_OK(sluice_network_submit(network, &input, 1, NULL, NULL, &run));
    for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, wait_for, run) == 0);
    atomic_store(&seen.gate, 1);
    for (int i = 0; i < THREADS; ++i) {
        void* waited = NULL;
        CHECK(pthread_join(threads[i], &waited) == 0);
        CHECK(waited == run);
    }
    wait_until(&seen.calls);
    sluice_result_destroy(seen.result);
    sluice_run_destroy(first);
    sluice_run_destroy(run);
}

void test_runs(void) {
    runs_are_destroyed_at_any_time();
    sluice_runtime* const runtime = new_runtime();
    sluice_network* const network = load(runtime, "models/digits.onnx");
    a_run_is_waited_for(network);
    forward_on_a_cpu_leaves_the_outputs_in_host_memory(network);
    a_profile_has_rows_of_nodes(network);
    a_run_is_polled(network);
    a_callback_gets_the_result(network);
    a_callback_may_run_the_network(network);
    a_run_that_cannot_be_submitted_has_no_callback(network);
    threads_share_a_network(network);
    threads_wait_for_one_run(network);
    sluice_network_destroy(network);
    sluice_runtime_destroy(runtime);
}
