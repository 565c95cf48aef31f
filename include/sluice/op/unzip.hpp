// SPDX-License-Identifier: Apache-2.0
// unzip: one operation with several outputs as several operations with one each. It runs once, when the first of them
// is submitted; they may be used on different threads and streams, or not at all.
//
// unzip costs a few allocations, for the operation, its submission and its outputs, however many there are. It submits
// no commands of its own.
//
//     auto [images, labels] = unzip(read_batch());
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "sluice/op/detail/run_once.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source, std::size_t Index>
class unzip_operation : public operation_base<unzip_operation<Source, Index>> {
    using elements = output_of<Source>;
    static_assert(detail::is_tuple<elements>, "unzip: the operation has one output; there is nothing to take apart");

public:
    using output = std::tuple_element_t<Index, elements>;

    explicit unzip_operation(std::shared_ptr<detail::run_once<Source>> once) : once_(std::move(once)) {}
    unzip_operation(unzip_operation&&) noexcept = default;
    unzip_operation& operator=(unzip_operation&&) noexcept = default;
    unzip_operation(const unzip_operation&) = delete;  // its output can be taken once; share it to use it more often
    unzip_operation& operator=(const unzip_operation&) = delete;
    ~unzip_operation() = default;

    output submit(execution_context& context) && {
        if (once_ == nullptr) detail::refuse_used_operation("unzip");
        const auto once = std::move(once_);
        return std::move(std::get<Index>(*once->use(context)));  // no other operation takes this one
    }
    work_estimate estimate() const { return once_ != nullptr ? once_->estimate : work_estimate{}; }

    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Source>
    {
        return once_ != nullptr ? once_->next_link(context, is_submitting_) : nullptr;
    }

private:
    std::shared_ptr<detail::run_once<Source>> once_;
    bool is_submitting_ = false;  // in a chain: this one submits for all
};

namespace detail {
template <operation Source, std::size_t... Indices>
auto unzip_into(Source source, std::index_sequence<Indices...>) {
    auto once = std::make_shared<run_once<Source>>(std::move(source));
    return std::tuple<unzip_operation<Source, Indices>...>(unzip_operation<Source, Indices>(once)...);
}
}  // namespace detail

template <operation Source>
auto unzip(Source source) {
    static_assert(detail::is_tuple<output_of<Source>>,
                  "unzip: the operation has one output; there is nothing to take apart");
    return detail::unzip_into(std::move(source), std::make_index_sequence<std::tuple_size_v<output_of<Source>>>());
}

}  // namespace sluice
