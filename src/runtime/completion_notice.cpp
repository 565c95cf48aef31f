#include "sluice/runtime/completion_notice.hpp"

#include "runtime/completion_service.hpp"

namespace sluice::detail {

completion_notice::handle completion_notice::make(submission_ref of, executor* where, function tell, void* whom) {
    return handle(new completion_notice(std::move(of), where, tell, whom));
}

completion_notice::completion_notice(submission_ref of, executor* where, function tell, void* whom)
    : work_item([](work_item& self) noexcept { static_cast<completion_notice&>(self).run_told(); }),
      of_(std::move(of)),
      where_(where != nullptr ? where : &of_->home().service()),
      tell_(tell),
      whom_(whom) {
    complete = [](completion_waiter& self) noexcept { static_cast<completion_notice&>(self).step(); };
}

void completion_notice::start() noexcept {
    owners_.fetch_add(1, std::memory_order_relaxed);
    step();
}

// Waits for one open point after the other; each time it is told, it looks for the next.
void completion_notice::step() noexcept {
    // Once it is added or posted another thread may tell, and whoever is told may drop the last of the runtime.
    const runtime_ref alive(of_->home());
    const stream_point open = of_->next_open();
    if (open.where == nullptr || open.where->owner().is_poisoned()) {
        if (is_taken_.load(std::memory_order_acquire)) return release();  // cancelled: the executor may be gone
        where_->post(*this);
        return;
    }
    upto = open.upto;
    open.where->add_waiter(*this);
}

void completion_notice::run_told() noexcept {
    if (take()) tell_(whom_);
    release();
}

void completion_notice::release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace sluice::detail
