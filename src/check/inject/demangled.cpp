// SPDX-License-Identifier: Apache-2.0
#include "check/inject/demangled.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace sluice::check {
namespace {

struct free_text {
    void operator()(char* text) const noexcept { std::free(text); }
};

}  // namespace

std::string demangled(const std::string& mangled) {
    int status = 0;
    const std::unique_ptr<char, free_text> text(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status));
    return status == 0 && text ? std::string(text.get()) : mangled;
}

}  // namespace sluice::check
