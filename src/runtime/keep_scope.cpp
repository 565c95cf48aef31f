// SPDX-License-Identifier: Apache-2.0
#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/runtime/detail/completion_notice.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::detail {

struct keep_scope::kept {
    std::shared_ptr<const void> object;
    submission_ref until;  // what was submitted
    completion_notice::handle notice = {};

    static void release(void* self) noexcept { delete static_cast<kept*>(self); }
};

keep_scope::keep_scope(execution_context& context, std::shared_ptr<const void> object) : context_(context) {
    if (command_recorder* const recorder = context.stream().queue().recorder()) {
        recorder->keep(std::move(object));
        return;
    }
    kept_ = std::make_unique<kept>(kept{std::move(object), submission_ref(new submission(context.device()))});
    kept_->notice = completion_notice::make(kept_->until, nullptr, &kept::release, kept_.get());
}

keep_scope::~keep_scope() {
    if (kept_ == nullptr) return;
    try {
        kept_->until->join(context_.submission());
    } catch (...) {  // short of memory: wait here instead
        try {
            context_.submission()->await_completion({});
        } catch (...) {  // NOLINT(bugprone-empty-catch): the device has faulted, so nothing runs
        }
    }
    completion_notice* const notice = kept_.release()->notice.get();  // which may delete it at once
    notice->start();
}

}  // namespace sluice::detail
