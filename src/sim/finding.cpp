// SPDX-License-Identifier: Apache-2.0
#include "sluice/sim/finding.hpp"

#include <ostream>

namespace sluice::sim {

std::string_view to_string(fault what) noexcept {
    switch (what) {
        case fault::race: return "race";
        case fault::uninitialized_read: return "uninitialized read";
        case fault::early_read: return "early read";
        case fault::use_after_free: return "use after free";
        case fault::undeclared_access: return "undeclared access";
        case fault::lost_wake_up: return "lost wake-up";
        case fault::deadlock: return "deadlock";
        case fault::different_result: return "different result";
        case fault::exception: return "exception";
    }
    return "unknown fault";
}

std::ostream& operator<<(std::ostream& to, fault what) { return to << to_string(what); }

std::string to_string(const actor& who) {
    if (who.device.empty()) return who.name;
    std::string text = who.name;
    if (!who.operation.empty()) text += " of '" + who.operation + "'";
    text += " (" + who.device + ", stream " + std::to_string(who.stream) + ", ticket " + std::to_string(who.ticket);
    if (!who.location.empty()) text += ", " + who.location;
    return text + ")";
}

std::string to_string(const finding& found) {
    return std::string(to_string(found.what)) + ": " + found.message + " (seed " + std::to_string(found.seed) + ")";
}

std::ostream& operator<<(std::ostream& to, const finding& found) { return to << to_string(found); }

}  // namespace sluice::sim
