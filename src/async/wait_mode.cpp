// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/wait_mode.hpp"

namespace sluice {

std::string_view to_string(wait_mode mode) noexcept {
    switch (mode) {
        case wait_mode::spin: return "spin";
        case wait_mode::yield: return "yield";
        case wait_mode::block: return "block";
    }
    return "unknown";
}

}  // namespace sluice
