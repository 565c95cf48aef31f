#include "exit_status.hpp"

#include "sluice/runtime/error.hpp"

namespace sluice::app {

exit_status status_of(const std::exception& failure) noexcept {
    if (dynamic_cast<const interruption*>(&failure) != nullptr) return interrupted;
    if (dynamic_cast<const file_error*>(&failure) != nullptr) return bad_input;
    if (const auto* known = dynamic_cast<const error*>(&failure)) {
        const bool asked_wrong = known->code() == errc::invalid_argument || known->code() == errc::shape_mismatch ||
                                 known->code() == errc::device_not_found || known->code() == errc::out_of_memory;
        if (asked_wrong) return bad_input;
    }
    return failed;
}

}  // namespace sluice::app
