// SPDX-License-Identifier: Apache-2.0
// zip: several operations as one; their outputs arrive as separate arguments, in order.
//
// The parts are independent. A part with enough work (see branch_threshold) is submitted to a branch of the context: a
// stream of its own, when the scheduling policy has one. Tickets order what uses the outputs together. The parts are
// submitted left to right on the calling thread. When one throws, the earlier outputs are released in stream order.
//
// All functions here take time linear in the number of parts, and submitting takes what submitting the parts takes.
//
//     zip(upload(x), zeros<float>({64, 64})).and_then([](auto input, auto hidden) { ... })
#pragma once

#include <optional>

#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

// A part of a zip with at least this much work gets a stream of its own. Handing work from one stream to another
// costs a few microseconds on a GPU, about as much as two short commands; small copies are not worth it.
inline constexpr work_estimate branch_threshold{.commands = 4, .bytes = std::size_t{4} << 20};

// Whether zip gives a part with this much work a stream of its own.
constexpr bool is_worth_a_branch(const work_estimate& work) {
    return work.commands >= branch_threshold.commands || work.bytes >= branch_threshold.bytes;
}

template <operation... Parts>
class zip_operation : public operation_base<zip_operation<Parts...>> {
public:
    using output = std::tuple<output_of<Parts>...>;

    explicit zip_operation(Parts... parts) : parts_(std::move(parts)...) {}

    output submit(execution_context& context) &&
    requires can_submit<Parts...>
    {
        return [&]<std::size_t... Indices>(std::index_sequence<Indices...>) {
            return output{submit_part<Indices>(context)...};  // braces fix the order: left to right
        }(std::index_sequence_for<Parts...>());
    }
    work_estimate estimate() const {
        return std::apply([](const Parts&... part) { return (work_estimate{} + ... + part.estimate()); }, parts_);
    }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        return std::apply([&driver](Parts&... part) { return driver.run_all(part...); }, parts_);
    }
    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Parts...>
    {
        detail::chain_link* next = nullptr;
        [&, own = context]<std::size_t... Indices>(std::index_sequence<Indices...>) {
            static_cast<void>(((next = next_of_part<Indices>(context, *own)) || ...));
        }(std::index_sequence_for<Parts...>());
        return next;
    }

private:
    template <std::size_t Index>
    auto submit_part(execution_context& context) {
        if constexpr (detail::has_links<Parts...>)
            if (auto& kept = std::get<Index>(kept_)) return std::move(*kept);
        auto& part = std::get<Index>(parts_);
        return std::move(part).submit(place(part.estimate(), context));
    }

    // In a chain each part is submitted before the links of the next one are.
    template <std::size_t Index>
    detail::chain_link* next_of_part(execution_context*& link_context, execution_context& own) {
        if (std::get<Index>(kept_)) return nullptr;
        auto& part = std::get<Index>(parts_);
        if (place_of_next_ == nullptr) place_of_next_ = &place(part.estimate(), own);
        if constexpr (detail::has_links<decltype(part)>) {
            link_context = place_of_next_;
            if (detail::chain_link* const next = part.next_link(link_context)) return next;
        }
        std::get<Index>(kept_).emplace(std::move(part).submit(*std::exchange(place_of_next_, nullptr)));
        return nullptr;
    }

    // The first part with enough work stays on the context's own stream, and so do all small ones.
    execution_context& place(const work_estimate& work, execution_context& context) {
        if (!is_worth_a_branch(work)) return context;
        return std::exchange(home_is_taken_, true) ? detail::branch_of(context) : context;
    }

    std::tuple<Parts...> parts_;
    bool home_is_taken_ = false;
    execution_context* place_of_next_ = nullptr;  // of the part that a chain submits
    std::conditional_t<detail::has_links<Parts...>, std::tuple<std::optional<output_of<Parts>>...>, std::tuple<>> kept_;
};

template <typename... Parts>
auto zip(Parts... parts) {
    static_assert((operation<Parts> && ...),
                  "zip: every argument must be an operation; wrap plain values in value(...)");
    if constexpr ((operation<Parts> && ...)) return zip_operation<Parts...>(std::move(parts)...);
}

}  // namespace sluice
