// SPDX-License-Identifier: Apache-2.0
// named: gives the commands of an operation a name, for traces, timelines, profilers and errors.
//
//     named("layer 1", upload(x).and_then(forward))
//
// Names nest: the innermost name counts. On a GPU it is also an NVTX range around the submission. It changes nothing
// else, and without a trace it costs some nanoseconds.
#pragma once

#include <memory>
#include <string>

#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source>
class named_operation : public operation_base<named_operation<Source>> {
public:
    using output = output_of<Source>;
    static_assert(!is_host_driven<Source>,
                  "named: name the parts of an operation that recovers, tries again or gives up");

    named_operation(std::string name, Source source) : name_(std::move(name)), source_(std::move(source)) {}

    output submit(execution_context& context) && {
        if (const auto entered = std::move(scope_)) return std::move(source_).submit(context);
        const detail::name_scope scope(context, name_);
        return std::move(source_).submit(context);
    }
    work_estimate estimate() const { return source_.estimate(); }

    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Source>
    {
        if (scope_ == nullptr) scope_ = std::make_unique<detail::name_scope>(*context, name_);
        return source_.next_link(context);
    }

private:
    std::string name_;
    Source source_;
    std::unique_ptr<detail::name_scope> scope_;  // from the first link inside until submit
};

template <operation Source>
auto named(std::string name, Source source) {
    return named_operation<Source>(std::move(name), std::move(source));
}

}  // namespace sluice
