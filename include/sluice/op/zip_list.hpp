// SPDX-License-Identifier: Apache-2.0
// zip of a std::vector of operations: all of them as one; the output is a vector of their outputs, in order.
//
//     std::vector<any_operation<tensor<float>>> layers = ...;
//     zip(std::move(layers)).and_then([](std::vector<tensor<float>> all) { ... })
//
// The operations are of one type; any_operation makes one type of several. What zip.hpp says of the parts holds here
// too: they are independent, and those with enough work get streams of their own. None gives an empty vector. A
// vector of tensors is downloaded as one (transfer.hpp); it is no output of a compiled graph, whose outputs are known.
//
// All functions here take time linear in the number of parts, and submitting takes what submitting the parts takes.
#pragma once

#include <concepts>
#include <vector>

#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/zip.hpp"

namespace sluice {

// The operation that zip of a vector returns.
template <operation Part>
class zip_list_operation : public operation_base<zip_list_operation<Part>> {
public:
    using output = std::vector<output_of<Part>>;

    explicit zip_list_operation(std::vector<Part> parts) : parts_(std::move(parts)) {}
#if defined(SLUICE_OPERATIONS_HAVE_COPIES)  // see operation_base: std::vector does not say what it cannot copy
    zip_list_operation(const zip_list_operation&)
    requires std::copy_constructible<Part>
    = default;
    zip_list_operation(zip_list_operation&&) = default;
#endif

    output submit(execution_context& context) &&
    requires can_submit<Part>
    {
        once_.use("zip");
        output all = take_kept();
        all.reserve(parts_.size());
        while (all.size() < parts_.size()) {
            Part& part = parts_[all.size()];
            all.push_back(std::move(part).submit(place(part.estimate(), context)));
        }
        return all;
    }
    work_estimate estimate() const {
        work_estimate all;
        for (const Part& each : parts_) all = all + each.estimate();
        return all;
    }

    template <typename Driver>
    auto drive(Driver driver) -> typename Driver::template part<output> {
        once_.use("zip");
        return driver.run_list(parts_);
    }
    // In a chain each part is submitted before the links of the next one are.
    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Part>
    {
        for (execution_context& own = *context; kept_.size() < parts_.size();) {
            Part& part = parts_[kept_.size()];
            if (place_of_next_ == nullptr) place_of_next_ = &place(part.estimate(), own);
            context = place_of_next_;
            if (detail::chain_link* const next = part.next_link(context)) return next;
            kept_.push_back(std::move(part).submit(*std::exchange(place_of_next_, nullptr)));
        }
        return nullptr;
    }

private:
    output take_kept() {
        if constexpr (detail::has_links<Part>) {
            return std::move(kept_);
        } else {
            return {};
        }
    }
    // The first part with enough work stays on the context's own stream, and so do all small ones.
    execution_context& place(const work_estimate& work, execution_context& context) {
        if (!is_worth_a_branch(work)) return context;
        return std::exchange(home_is_taken_, true) ? detail::branch_of(context) : context;
    }

    std::vector<Part> parts_;
    detail::single_use once_;
    bool home_is_taken_ = false;
    execution_context* place_of_next_ = nullptr;                              // of the part that a chain submits
    std::conditional_t<detail::has_links<Part>, output, std::tuple<>> kept_;  // of the parts that a chain has submitted
};

template <operation Part>
auto zip(std::vector<Part> parts) {
    return zip_list_operation<Part>(std::move(parts));
}

}  // namespace sluice
