// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy_team.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/streaming_copy.hpp"

namespace sluice::detail {
namespace {

// Small enough that the whole team copies parts of an upload of a few MiB. Large enough (a thread takes 20 us and more)
// that handing out slices costs almost nothing.
constexpr std::size_t slice_bytes = std::size_t{256} << 10;
// How often a job's thread checks again before it sleeps: the helpers will soon have copied their slices.
constexpr int looks = 200;
// How many helpers an addition wakes by itself.
constexpr std::size_t most_woken = 2;
// How long a helper polls for more work before it sleeps, and how many polls it makes before it yields.
constexpr auto look = std::chrono::microseconds(30);
constexpr unsigned looks_between_yields = 64;

void cached_copy(void* to, const void* from, std::size_t bytes) noexcept { std::memcpy(to, from, bytes); }

}  // namespace

void copy_team::pack(void* to, const rows& from, std::size_t begin, std::size_t bytes, caches destination) noexcept {
    const auto copy = destination == caches::are_used ? &cached_copy : &streaming_copy;
    auto* next = static_cast<char*>(to);
    while (bytes != 0) {
        const std::size_t at = begin % from.row_bytes;
        const std::size_t some = std::min(bytes, from.row_bytes - at);
        copy(next, static_cast<const char*>(from.first) + begin / from.row_bytes * from.pitch + at, some);
        next += some;
        begin += some;
        bytes -= some;
    }
}

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
    pack(what.of->to_ + what.offset, what.of->from_, what.of->begin_ + what.offset, what.bytes, what.of->destination_);
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
    has_work_.store(true, std::memory_order_release);
}

void copy_team::unlist(job& gone) noexcept {
    if (!gone.is_listed_) return;
    gone.is_listed_ = false;
    job* before = nullptr;
    for (job** link = &first_; *link != nullptr; before = *link, link = &(*link)->next_) {
        if (*link != &gone) continue;
        *link = gone.next_;
        if (last_ == &gone) last_ = before;
        has_work_.store(first_ != nullptr, std::memory_order_release);
        return;
    }
}

void copy_team::hire(std::size_t slices) noexcept {
    while (may_start_ && helpers_.size() < most_helpers_ && asleep_ < slices) {
        try {
            helpers_.emplace_back([this] { help(); });
            ++asleep_;   // until it has checked for work
        } catch (...) {  // no more threads or memory: continue with the existing helpers
            may_start_ = false;
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
            list(turn);  // at the end of the list
            const slice next = take(turn);
            if (first_ != nullptr && looking_ == 0 && asleep_ != 0) work_.notify_one();
            copy(turn, next, lock);
            if (first_ == nullptr && !is_closing_) look_for_work(lock);
        }
        ++asleep_;
        if (is_closing_) return;
    }
}

void copy_team::look_for_work(std::unique_lock<std::mutex>& lock) noexcept {
    ++looking_;
    lock.unlock();
    const auto until = std::chrono::steady_clock::now() + look;
    for (unsigned turn = 1; !has_work_.load(std::memory_order_acquire); ++turn) {
        if (turn % looks_between_yields != 0) continue;
        if (std::chrono::steady_clock::now() >= until) break;
        std::this_thread::yield();
    }
    lock.lock();
    --looking_;
}

void copy_team::job::add(std::span<piece> added) noexcept {
    std::size_t woken = 0;
    {
        const std::lock_guard lock(team_.mutex_);
        std::size_t slices = 0;
        for (piece& each : added) {
            if (each.bytes_ == 0) continue;
            (last_ != nullptr ? last_->next_ : first_) = &each;
            last_ = &each;
            slices += (each.bytes_ + slice_bytes - 1) / slice_bytes;
        }
        if (slices == 0) return;
        if (!is_listed_) team_.list(*this);
        const std::size_t others = slices - 1;  // this thread copies too
        team_.hire(others);
        if (others > team_.looking_) woken = std::min({others - team_.looking_, team_.asleep_, most_woken});
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
