// SPDX-License-Identifier: Apache-2.0
// single_use: remembers whether an operation can still be submitted. An operation is consumed by its submission, and by
// being moved from; using it again is an error that says so.
//
// Thread safety: none, like the operation itself.
#pragma once

#include <utility>

#include "sluice/op/detail/runtime_hooks.hpp"

namespace sluice::detail {

class single_use {
public:
    single_use() = default;
    single_use(single_use&& other) noexcept : is_used_(std::exchange(other.is_used_, true)) {}
    single_use& operator=(single_use&& other) noexcept {
        is_used_ = std::exchange(other.is_used_, true);
        return *this;
    }
#if !defined(SLUICE_OPERATIONS_HAVE_COPIES)
    single_use(const single_use&) = delete;  // what it belongs to is used once
    single_use& operator=(const single_use&) = delete;
#else  // see operation_base
    single_use(const single_use&) = default;
    single_use& operator=(const single_use&) = default;
#endif
    ~single_use() = default;

    // Uses it up. Throws errc::invalid_argument when it was used before, or moved from.
    void use(const char* operation) {
        if (std::exchange(is_used_, true)) refuse_used_operation(operation);
    }

private:
    bool is_used_ = false;
};

}  // namespace sluice::detail
