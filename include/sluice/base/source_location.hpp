// SPDX-License-Identifier: Apache-2.0
// std::source_location, or the same from the compiler's builtins where the library has none (clang 14 with
// libstdc++ 12).
#pragma once

#include <version>

#if defined(__cpp_lib_source_location)
#include <source_location>

namespace sluice {
using std::source_location;
}
#else
#include <cstdint>

namespace sluice {

// As the standard's: a place in the source.
class source_location {
public:
    // The line of the caller, when it is a default argument. Costs O(1).
    static constexpr source_location current(const char* file = __builtin_FILE(),
                                             const char* function = __builtin_FUNCTION(),
                                             std::uint_least32_t line = __builtin_LINE()) noexcept {
        source_location here;
        here.file_ = file;
        here.function_ = function;
        here.line_ = line;
        return here;
    }

    constexpr const char* file_name() const noexcept { return file_; }          // as the compiler was given it
    constexpr const char* function_name() const noexcept { return function_; }  // the enclosing function
    constexpr std::uint_least32_t line() const noexcept { return line_; }       // from 1; 0 when unknown

private:
    const char* file_ = "";
    const char* function_ = "";
    std::uint_least32_t line_ = 0;
};

}  // namespace sluice
#endif
