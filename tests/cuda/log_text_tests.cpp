// SPDX-License-Identifier: Apache-2.0
// What libraries and compilers say becomes a part of one line.
#include <gtest/gtest.h>

#include "cuda/api/log_text.hpp"

namespace sluice::cuda::api {

TEST(log_text, a_call_that_failed_has_the_words_of_its_library) {
    EXPECT_EQ(failed_call("cudnnConvolutionForward", "Error: bad stride\n  in f()\n\n"),
              "cudnnConvolutionForward failed: Error: bad stride; in f()");
}

TEST(log_text, a_library_that_says_nothing_adds_nothing) {
    EXPECT_EQ(failed_call("ncclAllReduce", ""), "ncclAllReduce failed");
    EXPECT_EQ(failed_call("ncclAllReduce", " \n"), "ncclAllReduce failed");
}

}  // namespace sluice::cuda::api
