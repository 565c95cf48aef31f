// SPDX-License-Identifier: Apache-2.0
// NVRTC, the compiler for CUDA C++ at run time, opened at first use.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

struct source_text {
    std::string_view name;
    std::string_view text;
    const std::vector<std::pair<std::string, std::string>>& headers;  // name and text
};

// "13.0". Throws errc::unsupported when NVRTC is not installed.
std::string compiler_version();

// Returns a cubin, or PTX when the options name a virtual architecture. Blocks. Throws errc::invalid_argument with the
// compiler's messages when the source does not compile; errc::unsupported when NVRTC is not installed.
std::vector<std::byte> compile(const source_text& source, const std::vector<std::string>& options,
                               const error_context& context);

}  // namespace sluice::cuda::api
