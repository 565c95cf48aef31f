// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/staying_kernel.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/resident/staying_launch.hpp"
#include "sluice/runtime/detail/command_queue.hpp"

namespace sluice::kernels {
namespace {

constexpr std::chrono::milliseconds longest_pause{1};
constexpr std::chrono::seconds longest_start{10};
// In front of the owner's memory: the word that ends the kernel, on lines of its own.
constexpr std::size_t bytes_in_front = 128;

}  // namespace

staying_kernel::staying_kernel(device& on, const staying_options& options, const source_location& location)
    : on_(on), runtime_(on), options_(options), location_(location) {
    check_options();
}

void staying_kernel::fail(errc code, const std::string& why) const { throw error(code, why, context()); }

void staying_kernel::check_options() const {
    const std::string name = std::string(options_.options) + "::";
    if (options_.lanes == 0) fail(errc::invalid_argument, name + "lanes is 0");
    if (options_.pause < options_.pause.zero() || options_.pause > longest_pause)
        fail(errc::invalid_argument, name + "pause is below 0 or above a millisecond");
    if (options_.longest_wait <= options_.longest_wait.zero() || options_.longest_wait > std::chrono::hours(24))
        fail(errc::invalid_argument, name + "longest_wait must be above 0 and at most a day");
    if (!is_on_gpu()) return;
    if (on_.blocks_each_command())
        fail(errc::unsupported, "the runtime waits for each command (blocks_each_command), and this one stays");
    if (!options_.all_kernels_are_loaded && loads_kernels_lazily(context())) {
        fail(errc::unsupported,
             "CUDA loads kernels lazily here: the first launch of a kernel would wait for this one, which stays. Set "
             "CUDA_MODULE_LOADING=EAGER in the environment, or launch each kernel before and set " +
                 name + "all_kernels_are_loaded");
    }
}

void staying_kernel::require_multiprocessors(std::size_t blocks_of_lane, std::size_t others) const {
    const auto there = static_cast<std::size_t>(on_.properties().compute_units);
    if (options_.lanes < there && options_.lanes * blocks_of_lane + others < there) return;
    fail(errc::invalid_argument,
         std::to_string(options_.lanes) + " lanes of " + std::to_string(blocks_of_lane) +
             (blocks_of_lane == 1 ? " block" : " blocks") + (others == 0 ? "" : " and one that watches them") +
             " take more multiprocessors than there are (" + std::to_string(there) + ") less one for other work");
}

std::byte* staying_kernel::allocate(std::size_t bytes) {
    lease_.emplace(on_);
    memory_ = (*lease_)->allocate_host(bytes_in_front + bytes);
    std::memset(memory_->data(), 0, bytes_in_front + bytes);
    return static_cast<std::byte*>(memory_->data()) + bytes_in_front;
}

const std::uint32_t* staying_kernel::stop_word() const noexcept {
    return static_cast<const std::uint32_t*>(memory_->data());
}

void staying_kernel::end() noexcept {
    std::atomic_ref(*static_cast<std::uint32_t*>(memory_->data())).store(1, std::memory_order_release);
}

void staying_kernel::submit(const library_command& command, storage* read) {
    if (!note_staying_begin(first_wait())) {
        fail(errc::timed_out,
             "other threads load code, create handles of libraries or free memory of a GPU, and have not ended for " +
                 std::to_string(std::chrono::duration_cast<std::chrono::seconds>(first_wait()).count()) +
                 " s; they would wait for this kernel, which stays");
    }
    sluice::detail::staying_works& all = sluice::detail::staying_works_of(on_);
    before_ = (*lease_)->issued();
    try {
        all.add(*this);
        const memory_access accesses[] = {{memory_.get(), access_mode::write}, {read, access_mode::read}};
        (*lease_)->library_call({options_.kind, std::span(accesses).first(read != nullptr ? 2 : 1), location_},
                                command);
    } catch (...) {
        all.remove(*this);
        note_staying_end();
        throw;
    }
    is_started_ = true;  // from here on close() ends it
}

staying_kernel::clock::duration staying_kernel::first_wait() const noexcept {
    return std::max<clock::duration>(longest_start, options_.longest_wait);
}

void staying_kernel::throw_if_lost() {
    if (has_failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
    on_.throw_if_refusing();
}

// Not in a host call: there the driver must not be called. (It may have found a fault.)
void staying_kernel::check(wait_state& so_far) {
    if (so_far.may_call_driver && lease_) (*lease_)->poll();
    throw_if_lost();
    const clock::time_point now = clock::now();
    if (!so_far.end) so_far.end = now + so_far.longest;
    if (now >= *so_far.end) give_up(so_far.longest);
}

void staying_kernel::give_up(clock::duration longest) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(longest);
    const std::lock_guard lock(failing_);
    if (!has_failed_.load(std::memory_order_relaxed)) {
        failure_ = std::make_exception_ptr(error(errc::timed_out,
                                                 "the kernel has not answered for " + std::to_string(waited.count()) +
                                                     " ms; it is ended, and answers no more requests",
                                                 context()));
        has_failed_.store(true, std::memory_order_release);
        end();
    }
    std::rethrow_exception(failure_);
}

void staying_kernel::close() noexcept {
    if (!is_started_) return;
    is_started_ = false;
    end();
    try {
        (*lease_)->wait((*lease_)->issued(), wait_mode::spin);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the device has faulted, and nothing runs there any more
    }
    sluice::detail::staying_works_of(on_).remove(*this);
    note_staying_end();
}

}  // namespace sluice::kernels
