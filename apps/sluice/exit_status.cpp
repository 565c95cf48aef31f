// SPDX-License-Identifier: Apache-2.0
#include "exit_status.hpp"

#include <new>

#include "child_program.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/write_error.hpp"

namespace sluice::app {

exit_status status_of(const std::exception& failure) noexcept {
    if (dynamic_cast<const interruption*>(&failure) != nullptr) return interrupted;
    if (dynamic_cast<const requirement_missed*>(&failure) != nullptr) return missed;
    if (const auto* ran = dynamic_cast<const program_failed*>(&failure)) return static_cast<exit_status>(ran->status());
    if (dynamic_cast<const io::write_error*>(&failure) != nullptr) return failed;
    if (dynamic_cast<const file_error*>(&failure) != nullptr) return bad_input;
    if (const auto* known = dynamic_cast<const error*>(&failure)) {
        const bool is_wrong_request = known->code() == errc::invalid_argument ||
                                      known->code() == errc::shape_mismatch ||
                                      known->code() == errc::device_not_found || known->code() == errc::out_of_memory;
        if (is_wrong_request) return bad_input;
    }
    return failed;
}

std::string message_of(const std::exception& failure) {
    if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) return "there is not enough memory";
    return printable(failure.what());
}

}  // namespace sluice::app
