#include "sluice/runtime/execution_context.hpp"

#include "sluice/op/named.hpp"
#include "sluice/op/part.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {

execution_context& execution_context::branch() {
    if (policy_ == nullptr) return *this;
    command_queue& other = policy_->next_beside(stream_).queue();
    if (&other == &stream_.queue() || &other.owner() != &device()) return *this;
    branches_.push_back(std::unique_ptr<execution_context>(new execution_context(other, policy_, submission_)));
    return *branches_.back();
}

execution_context& execution_context::on(sluice::device& where) {
    if (&where == &device()) return *this;
    if (stream_.queue().recorder() != nullptr)
        throw error(errc::graph_refused, "a graph is of one device", {"", where.name()});
    if (policy_ == nullptr)
        throw error(errc::invalid_argument,
                    "there is no policy to take a stream from: submit to one over several devices, as per_device",
                    {"", where.name()});
    command_queue& there = policy_->next_on(where).queue();
    branches_.push_back(std::unique_ptr<execution_context>(new execution_context(there, policy_, submission_)));
    return *branches_.back();
}

detail::name_scope::name_scope(execution_context& context, const std::string& name) noexcept
    : context_(context), outer_(context.submission()->rename(&name)) {
    context_.stream().queue().interpreter().begin_range(name.c_str());
}

detail::name_scope::~name_scope() {
    context_.stream().queue().interpreter().end_range();
    context_.submission()->rename(outer_);
}

detail::part detail::part::submit(execution_context& beside, const std::function<void(execution_context&)>& submit) {
    execution_context own = beside.sibling();
    own.submission()->rename(beside.submission()->name());  // while it is submitted
    submit(own);
    own.submission()->rename(nullptr);
    part made;
    made.submission_ = std::make_shared<const submission_ref>(own.submission());
    return made;
}

void detail::part::join(execution_context& context) const {
    context.join(*static_cast<const submission_ref*>(submission_.get()));
}

execution_context& detail::branch_of(execution_context& context) { return context.branch(); }

}  // namespace sluice
