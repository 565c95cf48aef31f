/* SPDX-License-Identifier: Apache-2.0
 * What the tests of the C interface share: checks, and the networks of the repository. */
#ifndef SLUICE_TESTS_C_CHECK_H
#define SLUICE_TESTS_C_CHECK_H

#include <sluice/c/sluice.h>
#include <stdio.h>
#include <string.h>

/* The checks that failed so far; threads count their own. */
extern _Thread_local int failures;

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            ++failures;                                                               \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                             \
    } while (0)

#define CHECK_OK(call)                                                                                     \
    do {                                                                                                   \
        const sluice_status status_ = (call);                                                              \
        if (status_ != SLUICE_OK) {                                                                        \
            ++failures;                                                                                    \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, sluice_status_name(status_), \
                    sluice_last_error());                                                                  \
        }                                                                                                  \
    } while (0)

/* The call fails with this status, and its text contains these words. */
#define CHECK_FAILS(expected, words, call)                                                                    \
    do {                                                                                                      \
        const sluice_status status_ = (call);                                                                 \
        if (status_ != (expected) || strstr(sluice_last_error(), (words)) == NULL) {                          \
            ++failures;                                                                                       \
            fprintf(stderr, "%s:%d: %s: expected %s with '%s', not %s: %s\n", __FILE__, __LINE__, #call,      \
                    sluice_status_name(expected), (words), sluice_status_name(status_), sluice_last_error()); \
        }                                                                                                     \
    } while (0)

/* A runtime without GPUs; the caller destroys it. */
sluice_runtime* new_runtime(void);
/* A network of this folder of the repository, e.g. "models/digits.onnx", on cpu:0; the caller destroys it. */
sluice_network* load(sluice_runtime* runtime, const char* file);
/* The path of a file of the repository; valid until the next call on this thread. */
const char* path_of(const char* file);
/* The f32 numbers of a NumPy file of the repository, at most `most`; returns how many. */
size_t read_npy(const char* file, float* to, size_t most);
/* Whether all numbers differ by at most `most`. */
int are_near(const float* a, const float* b, size_t count, float most);

enum { DIGIT_ROWS = 450, DIGIT_PIXELS = 64, DIGIT_CLASSES = 10 };
extern float pixels[DIGIT_ROWS * DIGIT_PIXELS];
extern float logits[DIGIT_ROWS * DIGIT_CLASSES];

/* The tests; main calls each. */
void test_networks(void);
void test_errors(void);
void test_forks(void);
void test_prepared(void);
void test_session(void);
void test_runs(void);
void test_same_bits(void);
void test_page(void);

#endif
