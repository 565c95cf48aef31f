// SPDX-License-Identifier: Apache-2.0
// share: an operation that may be used many times and runs once.
//
// share(op) is copyable. The first copy to be submitted submits `op`; each submission returns the same shared<T>.
// Readers on other streams are ordered after the work by tickets. Copies may be submitted from different threads: one
// of them submits `op`, the others wait for that submission (not for the device). When submitting `op` throws, each
// copy throws that same exception; when it fails on the device, each waiter gets the failure. A copy that a function of
// `op` itself submits throws errc::invalid_argument.
//
// A pending value can be shared too: each waiter gets a shared<T>, opened once.
//
// All functions here take constant time, but for the first submission, which takes what submitting `op` takes. share
// allocates one block; copies allocate nothing.
//
//     auto weights = share(upload(w));
//     zip(layer(weights), layer(weights))
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "sluice/op/detail/run_once.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/op/shared.hpp"

namespace sluice {

template <typename T>
class pending;

namespace detail {
// Whether a pending value is one of several outputs: such a tuple or vector cannot be opened once for all users.
template <typename T>
inline constexpr bool holds_pending = false;
template <typename T>
inline constexpr bool holds_pending<pending<T>> = true;
template <typename T>
inline constexpr bool holds_pending<shared<T>> = holds_pending<T>;
template <typename... Ts>
inline constexpr bool holds_pending<std::tuple<Ts...>> = (holds_pending<Ts> || ...);
template <typename T>
inline constexpr bool holds_pending<std::vector<T>> = holds_pending<T>;

template <typename T>
inline constexpr bool can_be_shared = !holds_pending<T>;
template <typename T>
inline constexpr bool can_be_shared<pending<T>> = true;
}  // namespace detail

template <operation Source>
class share_operation : public operation_base<share_operation<Source>> {
    static_assert(detail::can_be_shared<output_of<Source>>,
                  "share: several outputs with pending values among them cannot be shared together; unzip(...) the "
                  "operation and share each output");

public:
    using output = shared<output_of<Source>>;

    explicit share_operation(Source source) : once_(std::make_shared<detail::run_once<Source>>(std::move(source))) {}
    share_operation(share_operation&&) noexcept = default;
    share_operation& operator=(share_operation&&) noexcept = default;
    // The one operation with copies: they run once together.
    share_operation(const share_operation& other) : operation_base<share_operation>(), once_(other.once_) {}
    share_operation& operator=(const share_operation& other) {
        once_ = other.once_;
        return *this;
    }
    ~share_operation() = default;

    output submit(execution_context& context) && {
        if (once_ == nullptr) detail::refuse_used_operation("share");
        const auto once = std::move(once_);
        return output(std::shared_ptr<const output_of<Source>>(once->use(context)));
    }
    work_estimate estimate() const { return once_ != nullptr ? once_->estimate : work_estimate{}; }

    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Source>
    {
        return once_ != nullptr ? once_->next_link(context, is_submitting_) : nullptr;
    }

private:
    std::shared_ptr<detail::run_once<Source>> once_;
    bool is_submitting_ = false;  // in a chain: this copy submits for all
};

template <operation Source>
auto share(Source source) {
    return share_operation<Source>(std::move(source));
}

}  // namespace sluice
