// named: gives the commands of an operation a name of the user's, for traces, timelines, profilers and errors.
//
//     named("layer 1", gemm(std::move(x), weights).and_then(relu))
//
// Names nest: the innermost one counts. On a GPU it is also an NVTX range around the submission. It changes nothing
// else, and without a trace it costs some nanoseconds.
#pragma once

#include <string>

#include "sluice/op/operation.hpp"

namespace sluice {

namespace detail {
// While it lives, what is submitted to the context bears the name. Defined in the runtime.
class name_scope {
public:
    name_scope(execution_context& context, const std::string& name) noexcept;
    name_scope(const name_scope&) = delete;  // it undoes what it did
    name_scope& operator=(const name_scope&) = delete;
    ~name_scope();

private:
    execution_context& context_;
    const std::string* const outer_;
};
}  // namespace detail

template <operation Source>
class named_operation : public operation_base<named_operation<Source>> {
public:
    using output = output_of<Source>;
    static_assert(!is_staged<Source>, "named: name the parts of an operation that recovers, tries again or gives up");

    named_operation(std::string name, Source source) : name_(std::move(name)), source_(std::move(source)) {}

    output submit(execution_context& context) && {
        const detail::name_scope scope(context, name_);
        return std::move(source_).submit(context);
    }
    work_estimate estimate() const { return source_.estimate(); }

private:
    std::string name_;
    Source source_;
};

template <operation Source>
auto named(std::string name, Source source) {
    return named_operation<Source>(std::move(name), std::move(source));
}

}  // namespace sluice
