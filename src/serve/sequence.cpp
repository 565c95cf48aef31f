// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/sequence.hpp"

#include "sluice/base/printable.hpp"

namespace sluice::serve {

std::string sequence_id::words() const { return text.empty() ? std::to_string(number) : in_quotes(text); }

const char* name_of(sequence_end why) noexcept {
    switch (why) {
        case sequence_end::asked: return "asked";
        case sequence_end::restarted: return "restarted";
        case sequence_end::idle: return "idle";
        case sequence_end::replaced: return "replaced";
    }
    return "";
}

}  // namespace sluice::serve
