// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/refusal.hpp"

#include <new>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/run_limit.hpp"

namespace sluice::serve {
namespace {

// The model has been loaded and tried, so what does not fit is from the request.
bool is_fault_of_request(const error& failure) {
    return failure.code() == errc::shape_mismatch || failure.code() == errc::invalid_argument ||
           failure.code() == errc::out_of_range || failure.code() == errc::bad_file ||
           failure.code() == errc::unsupported;
}

refusal with_text(const std::exception& failure) {
    if (const auto* known = dynamic_cast<const refusal*>(&failure)) return *known;
    if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr)
        return {refusal_kind::no_memory, "there is not enough memory for this request"};
    if (dynamic_cast<const nn::run_too_large*>(&failure) != nullptr)
        return {refusal_kind::too_large, printable(failure.what())};
    const auto* known = dynamic_cast<const error*>(&failure);
    if (known != nullptr && known->code() == errc::out_of_memory)
        return {refusal_kind::no_memory, printable(failure.what())};
    const bool is_theirs = known != nullptr && is_fault_of_request(*known);
    return {is_theirs ? refusal_kind::bad_request : refusal_kind::failed, printable(failure.what())};
}

}  // namespace

refusal refusal_of(const std::exception& failure) noexcept {
    try {
        return with_text(failure);
    } catch (const std::exception&) {
        return {refusal_kind::no_memory, "out of memory"};  // short enough to lie in the string itself
    }
}

}  // namespace sluice::serve
