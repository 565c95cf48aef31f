#include "runtime/copy_team.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::detail {
namespace {

// Small enough that a whole team shares in an upload of a few MiB, large enough (a thread takes 20 us and more) that
// handing slices out costs nothing.
constexpr std::size_t slice_bytes = std::size_t{256} << 10;
// How often a job's thread looks again before it sleeps: the helpers are about to be through with their slices.
constexpr int looks = 200;

}  // namespace

copy_team::~copy_team() {
    {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
    }
    work_.notify_all();
    for (std::thread& each : helpers_) each.join();
}

copy_team::slice copy_team::take(job& from) noexcept {
    piece* const of = from.first_;
    if (of == nullptr) return {};
    const slice taken{of, of->begun_, std::min(slice_bytes, of->bytes_ - of->begun_)};
    of->begun_ += taken.bytes;
    if (of->begun_ == of->bytes_) {
        from.first_ = of->next_;
        if (from.first_ == nullptr) {
            from.last_ = nullptr;
            unlist(from);
        }
    }
    ++from.slices_out_;
    return taken;
}

void copy_team::copy(job& of, const slice& what, std::unique_lock<std::mutex>& lock) noexcept {
    lock.unlock();
    std::memcpy(what.of->to_ + what.offset, what.of->from_ + what.offset, what.bytes);
    lock.lock();
    what.of->left_ -= what.bytes;
    --of.slices_out_;
    if (of.is_waiting_) copied_.notify_all();
}

void copy_team::list(job& added) noexcept {
    added.is_listed_ = true;
    added.next_ = nullptr;
    (last_ != nullptr ? last_->next_ : first_) = &added;
    last_ = &added;
}

void copy_team::unlist(job& gone) noexcept {
    if (!gone.is_listed_) return;
    gone.is_listed_ = false;
    job* before = nullptr;
    for (job** link = &first_; *link != nullptr; before = *link, link = &(*link)->next_) {
        if (*link != &gone) continue;
        *link = gone.next_;
        if (last_ == &gone) last_ = before;
        return;
    }
}

void copy_team::hire(std::size_t slices) noexcept {
    while (may_hire_ && helpers_.size() < most_helpers_ && asleep_ < slices) {
        try {
            helpers_.emplace_back([this] { help(); });
            ++asleep_;   // until it has looked for work
        } catch (...) {  // no threads, no memory: those that there are will do
            may_hire_ = false;
        }
    }
}

void copy_team::help() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
        work_.wait(lock, [this] { return first_ != nullptr || is_closing_; });
        --asleep_;
        while (first_ != nullptr) {
            job& turn = *first_;
            unlist(turn);
            list(turn);  // at the end of the line
            copy(turn, take(turn), lock);
        }
        ++asleep_;
        if (is_closing_) return;
    }
}

void copy_team::job::add(piece& added) noexcept {
    if (added.bytes_ == 0) return;
    std::size_t woken = (added.bytes_ + slice_bytes - 1) / slice_bytes - 1;  // this thread copies too
    {
        const std::lock_guard lock(team_.mutex_);
        (last_ != nullptr ? last_->next_ : first_) = &added;
        last_ = &added;
        if (!is_listed_) team_.list(*this);
        team_.hire(woken);
        woken = std::min(woken, team_.asleep_);
    }
    for (; woken != 0; --woken) team_.work_.notify_one();
}

void copy_team::job::finish(piece& wanted) noexcept {
    std::unique_lock lock(team_.mutex_);
    for (int looked = 0; wanted.left_ != 0;) {
        const slice next = team_.take(*this);
        if (next.of != nullptr) {
            team_.copy(*this, next, lock);
        } else if (++looked < looks) {
            lock.unlock();
            std::this_thread::yield();
            lock.lock();
        } else {
            is_waiting_ = true;
            team_.copied_.wait(lock);
            is_waiting_ = false;
        }
    }
}

copy_team::job::~job() {
    std::unique_lock lock(team_.mutex_);
    first_ = last_ = nullptr;
    team_.unlist(*this);
    is_waiting_ = true;
    team_.copied_.wait(lock, [this] { return slices_out_ == 0; });
}

}  // namespace sluice::detail
