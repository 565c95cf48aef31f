// SPDX-License-Identifier: Apache-2.0
// Which of CUDA's codes end a device. Needs no GPU: CUDA's own header says it in the comment of each code.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/api/error.hpp"

namespace sluice::cuda::fatal_code_tests {
namespace {

struct described_code {
    std::string name;
    int number;
    std::string comment;
};

// The codes of the toolkit that this build uses, each with the comment before it.
std::vector<described_code> codes_of_the_header() {
    std::ifstream file(SLUICE_TEST_CUDA_INCLUDE "/driver_types.h");
    std::stringstream whole;
    whole << file.rdbuf();
    std::string text = whole.str();
    text.erase(0, text.find("cudaSuccess"));
    std::vector<described_code> found;
    const std::regex entry("(cudaError[A-Za-z]+)[ \t]*=[ \t]*([0-9]+)");
    std::size_t before = 0;
    for (std::sregex_iterator each(text.begin(), text.end(), entry), none; each != none; ++each) {
        const auto at = static_cast<std::size_t>(each->position());
        found.push_back({(*each)[1], std::stoi((*each)[2]), text.substr(before, at - before)});
        before = at;
    }
    return found;
}

}  // namespace

TEST(fatal_codes, are_all_after_which_cuda_asks_for_another_process) {
    const std::vector<described_code> all = codes_of_the_header();
    ASSERT_GT(all.size(), 80u);
    int fatal = 0;
    for (const described_code& each : all) {
        if (each.comment.find("relaunched") == std::string::npos) continue;
        ++fatal;
        EXPECT_TRUE(api::is_fatal(each.number)) << each.name;
    }
    EXPECT_GT(fatal, 8);
}

// CUDA's comments do not say it of these: the device, its context or the server between is lost.
TEST(fatal_codes, are_those_without_a_device_behind_them) {
    for (const int each :
         {static_cast<int>(cudaErrorUnknown), static_cast<int>(cudaErrorECCUncorrectable),
          static_cast<int>(cudaErrorNvlinkUncorrectable), static_cast<int>(cudaErrorContextIsDestroyed),
          static_cast<int>(cudaErrorMpsClientTerminated), static_cast<int>(cudaErrorMpsRpcFailure),
          static_cast<int>(cudaErrorIllegalAddress), static_cast<int>(cudaErrorLaunchFailure),
          static_cast<int>(cudaErrorHardwareStackError), 226 /* cudaErrorContained */})
        EXPECT_TRUE(api::is_fatal(each)) << each;
}

TEST(fatal_codes, are_none_that_the_next_call_may_not_have) {
    for (const cudaError_t each : {cudaSuccess,
                                   cudaErrorNotReady,
                                   cudaErrorMemoryAllocation,
                                   cudaErrorInvalidValue,
                                   cudaErrorNotPermitted,
                                   cudaErrorNotSupported,
                                   cudaErrorInvalidResourceHandle,
                                   cudaErrorInitializationError,
                                   cudaErrorCudartUnloading,
                                   cudaErrorStreamCaptureUnsupported,
                                   cudaErrorStreamCaptureInvalidated,
                                   cudaErrorStreamCaptureMerge,
                                   cudaErrorStreamCaptureUnmatched,
                                   cudaErrorStreamCaptureUnjoined,
                                   cudaErrorStreamCaptureIsolation,
                                   cudaErrorStreamCaptureImplicit,
                                   cudaErrorCapturedEvent,
                                   cudaErrorStreamCaptureWrongThread,
                                   cudaErrorGraphExecUpdateFailure,
                                   cudaErrorLaunchOutOfResources,
                                   cudaErrorInvalidConfiguration})
        EXPECT_FALSE(api::is_fatal(each)) << cudaGetErrorName(each);
}

}  // namespace sluice::cuda::fatal_code_tests
