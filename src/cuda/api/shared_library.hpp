// SPDX-License-Identifier: Apache-2.0
// A large CUDA library, opened at first use. Linking to it would cost every program start tens of milliseconds, and
// programs could not start without the library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::cuda::api {

// Where NVIDIA's wheels of Python put libraries, for a file of the Python package sluice: site-packages/sluice/x.so
// has site-packages/nvidia/cu13/lib and the like next to it. Sorted; empty for a file of another folder.
std::vector<std::string> folders_of_wheels(const std::string& file);

class shared_library {
public:
    // Opens "lib<name>.so.<major>", which then stays open: one that the process has, or of the system; of NVIDIA's
    // wheels; of /usr/local/cuda. Throws errc::unsupported with the names that were tried.
    shared_library(std::string_view name, int major);

    // Throws errc::unsupported when the library has no such function.
    template <typename Function>
    void find(Function*& function, const char* symbol) const {
        function = reinterpret_cast<Function*>(symbol_address(symbol));
    }

    // Null when the library has no such function: an older version of it.
    template <typename Function>
    void find_if_there(Function*& function, const char* symbol) const noexcept {
        function = reinterpret_cast<Function*>(symbol_or_null(symbol));
    }

private:
    void* symbol_address(const char* symbol) const;
    void* symbol_or_null(const char* symbol) const noexcept;

    std::string file_;
    void* handle_;
};

}  // namespace sluice::cuda::api
