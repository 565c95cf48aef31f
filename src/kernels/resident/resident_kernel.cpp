// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/resident_kernel.hpp"

#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/resident/request_ring.hpp"
#include "kernels/resident/staying_kernel.hpp"
#include "kernels/resident/staying_launch.hpp"
#include "runtime/group_launch.hpp"

namespace sluice::kernels {
namespace {

using sluice::detail::resident_form;
using sluice::detail::resident_kernel_call;

constexpr std::size_t most_requests = 1024;
// The largest number of threads whose registers a block has (launch bounds).
constexpr std::size_t most_threads = 1024;
constexpr std::size_t line_bytes = 128;

constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

staying_options checked_options(const resident_kernel_options& options) {
    return {"resident_kernel", "resident_kernel_options",      options.lanes,
            options.pause,     options.all_kernels_are_loaded, options.longest_wait};
}

// Requests and answers of a kernel on a CPU: the caller's thread computes. Memory is the lanes' own.
class host_lane {
public:
    host_lane(const resident_form& form, const void* kernel, std::size_t depth)
        : form_(form),
          inbox_(request_ring::inbox_words(depth, form.request_bytes)),
          outbox_(request_ring::outbox_words(depth, form.answer_bytes)),
          kernel_(whole_lines(form.kernel_bytes) / line_bytes),
          answer_((form.answer_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)),
          ring_(depth, form.request_bytes, form.answer_bytes, inbox_.data(), outbox_.data()) {
        std::memcpy(kernel_.data(), kernel, form.kernel_bytes);
    }

    request_ring& ring() noexcept { return ring_; }
    std::mutex& one_at_a_time() noexcept { return mutex_; }
    // The caller has the mutex.
    void compute(const void* request, void* answer, std::size_t lane, std::size_t lanes, unsigned threads) {
        form_.call_on_host(kernel_.data(), static_cast<unsigned>(lane), static_cast<unsigned>(lanes), threads, request,
                           answer);
    }
    void* room_for_answer() noexcept { return answer_.data(); }

private:
    struct alignas(line_bytes) line {
        std::byte bytes[line_bytes];
    };

    const resident_form form_;
    std::vector<std::uint64_t> inbox_, outbox_;
    std::vector<line> kernel_;
    std::vector<std::max_align_t> answer_;
    request_ring ring_;
    std::mutex mutex_;
};

}  // namespace

class resident_kernel_core final : public sluice::detail::resident_core {
public:
    resident_kernel_core(device& on, const resident_form& form, const void* kernel,
                         const resident_kernel_options& options, const source_location& location)
        : form_(form), options_(options), kernel_(on, checked_options(options), location) {
        check();
        if (kernel_.is_on_gpu()) {
            start(kernel);
        } else {
            for (std::size_t i = 0; i < options.lanes; ++i) here_.emplace_back(form, kernel, options.requests);
        }
    }
    ~resident_kernel_core() { kernel_.close(); }

    void ask(std::size_t lane, const void* request, void* answer) override { take(lane, post(lane, request), answer); }

    std::uint64_t post(std::size_t lane, const void* request) override {
        require_lane(lane);
        if (kernel_.is_on_gpu()) return send(rings_[lane], request);
        host_lane& here = here_[lane];
        const std::lock_guard lock(here.one_at_a_time());
        const std::uint64_t number = claim(here.ring());
        here.ring().ask(number, request);
        const auto answer = [&] { here.ring().write_answer(number, here.room_for_answer()); };
        try {
            here.compute(request, here.room_for_answer(), lane, options_.lanes, options_.threads);
        } catch (...) {
            answer();
            here.ring().abandon(number);
            throw;
        }
        answer();
        return number;
    }

    bool has_answer(std::size_t lane, std::uint64_t number) const noexcept override {
        return ring_of(lane).has_answer(number);
    }
    void take(std::size_t lane, std::uint64_t number, void* answer) override {
        request_ring& ring = ring_of(lane);
        std::uint32_t words_taken = 0;
        try {
            kernel_.wait_until([&] { return ring.take(number, answer, words_taken); }, options_.longest_wait);
        } catch (...) {
            ring.abandon(number);
            throw;
        }
    }
    void abandon(std::size_t lane, std::uint64_t number) noexcept override { ring_of(lane).abandon(number); }

    std::size_t lanes() const noexcept override { return options_.lanes; }
    std::size_t multiprocessors() const noexcept override { return kernel_.is_on_gpu() ? options_.lanes + 1 : 0; }
    std::size_t free_multiprocessors() const noexcept override {
        return static_cast<std::size_t>(kernel_.on().properties().compute_units) - multiprocessors();
    }

    static void drop(resident_kernel_core* core) noexcept { core->drop_.drop(core->kernel_); }

private:
    request_ring& ring_of(std::size_t lane) const noexcept {
        return kernel_.is_on_gpu() ? rings_[lane] : here_[lane].ring();
    }

    void require_lane(std::size_t lane) {
        kernel_.throw_if_lost();
        if (lane >= options_.lanes)
            kernel_.fail(errc::invalid_argument,
                         "lane " + std::to_string(lane) + " of " + std::to_string(options_.lanes));
    }

    void check() const {
        if (options_.requests == 0 || options_.requests > most_requests)
            kernel_.fail(errc::invalid_argument, "resident_kernel_options::requests is " +
                                                     std::to_string(options_.requests) + "; 1 to " +
                                                     std::to_string(most_requests) + " are possible");
        if (options_.threads == 0 || options_.threads > most_threads)
            kernel_.fail(errc::invalid_argument, "resident_kernel_options::threads is " +
                                                     std::to_string(options_.threads) + "; 1 to " +
                                                     std::to_string(most_threads) + " are possible");
        sluice::detail::require_block(kernel_.on(), {options_.threads}, form_.shared_bytes, kernel_.context());
    }

    std::uint64_t send(request_ring& ring, const void* request) {
        const std::uint64_t number = claim(ring);
        ring.ask(number, request);
        return number;
    }
    // Waits for a free entry. The kernel is not at fault when there is none for long.
    std::uint64_t claim(request_ring& ring) {
        std::optional<staying_kernel::clock::time_point> end;
        for (unsigned looks = 1;; ++looks) {
            if (const auto number = ring.claim()) return *number;
            relax();
            if (looks % 64 == 0) std::this_thread::yield();
            if (looks % staying_kernel::looks_before_check != 0) continue;
            kernel_.throw_if_lost();
            const auto now = staying_kernel::clock::now();
            if (!end) end = now + options_.longest_wait;
            if (now >= *end) {
                kernel_.fail(errc::timed_out,
                             "no entry of the lane has become free for " +
                                 std::to_string(options_.longest_wait.count()) +
                                 " ms: " + std::to_string(options_.requests) +
                                 " requests (resident_kernel_options::requests) are in flight, or the answers to "
                                 "more have not been taken");
            }
        }
    }

    void start(const void* kernel) {
        if (form_.device_function == nullptr)
            kernel_.fail(errc::unsupported, "the kernel was not compiled by nvcc, so it runs on CPU devices only");
        kernel_.require_multiprocessors(1, 1);
        const std::size_t lanes = options_.lanes, depth = options_.requests;
        const std::size_t inbox = request_ring::inbox_words(depth, form_.request_bytes);
        const std::size_t outbox = request_ring::outbox_words(depth, form_.answer_bytes);
        const std::size_t states_bytes = whole_lines(lanes * 4), kernel_bytes = whole_lines(form_.kernel_bytes);
        std::byte* const memory = kernel_.allocate(states_bytes + kernel_bytes + 8 * lanes * (inbox + outbox));
        resident_kernel_call call{};
        call.states = reinterpret_cast<std::uint32_t*>(memory);
        std::memcpy(memory + states_bytes, kernel, form_.kernel_bytes);
        call.kernel = reinterpret_cast<const std::uint32_t*>(memory + states_bytes);
        auto* const boxes = reinterpret_cast<std::uint64_t*>(memory + states_bytes + kernel_bytes);
        call.inbox = boxes;
        call.outbox = boxes + lanes * inbox;
        call.stop = kernel_.stop_word();
        call.lanes = static_cast<std::uint32_t>(lanes);
        call.requests = static_cast<std::uint32_t>(depth);
        call.pause = static_cast<std::uint32_t>(options_.pause.count());
        call.longest_ending = static_cast<std::uint64_t>(std::chrono::nanoseconds(options_.longest_wait).count());
        for (std::size_t i = 0; i < lanes; ++i)
            rings_.emplace_back(depth, form_.request_bytes, form_.answer_bytes, boxes + i * inbox,
                                call.outbox + i * outbox);
        const auto launch = [&](const native_stream& on) {
            void* arguments[] = {&call};
            launch_staying(on,
                           {form_.device_function, call.lanes + 1, 1, options_.threads,
                            static_cast<std::uint32_t>(form_.shared_bytes), arguments},
                           kernel_.context());
        };
        kernel_.start(launch, nullptr, [&] {
            for (std::size_t i = 0; i < lanes; ++i)
                kernel_.wait_until([&] { return std::atomic_ref(call.states[i]).load(std::memory_order_relaxed) != 0; },
                                   kernel_.first_wait());
        });
    }

    const resident_form form_;
    const resident_kernel_options options_;
    staying_kernel kernel_;
    mutable std::deque<request_ring> rings_;  // of the lanes on a GPU
    mutable std::deque<host_lane> here_;      // of the lanes on a CPU
    staying_owner_drop<resident_kernel_core> drop_{*this};
};

}  // namespace sluice::kernels

namespace sluice::detail {

std::shared_ptr<resident_core> start_resident_kernel(device& on, const resident_form& form, const void* kernel,
                                                     const resident_kernel_options& options,
                                                     const source_location& location) {
    return {new kernels::resident_kernel_core(on, form, kernel, options, location),
            &kernels::resident_kernel_core::drop};
}

const std::shared_ptr<resident_core>& held(const std::shared_ptr<resident_core>& core) {
    if (core == nullptr) refuse_moved_value("a resident kernel");
    return core;
}

}  // namespace sluice::detail
