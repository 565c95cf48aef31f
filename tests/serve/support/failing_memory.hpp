// SPDX-License-Identifier: Apache-2.0
// operator new that fails on request. For one source of an executable, which gets these operators.
//
// Allocations of the server's own code fail: not those of threads that are spared (the test's), and none that gRPC or
// protobuf makes or waits for, since they end the process without memory themselves.
#pragma once

#include <execinfo.h>
#include <link.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::serve::testing {

class failing_memory {
public:
    // From now on the allocation after `count` others fails, and with `all` each one after it.
    static void fail_after(long count, bool all) noexcept {
        fails_all_ = all;
        left_ = count;
    }
    // No allocation fails any more. Whether one has failed.
    static bool stop() noexcept { return left_.exchange(none) < 0; }

    // The thread that makes one: its allocations never fail.
    static void spare_this_thread() noexcept {
        std::array<void*, 2> frames{};
        ::backtrace(frames.data(), 2);  // the first call loads what it needs
        is_spared_ = true;
    }

    static void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
        if (left_.load(std::memory_order_relaxed) != none && has_to_fail()) return nullptr;
        const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
        return std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
    }

private:
    static constexpr long none = 1L << 40;

    static bool has_to_fail() noexcept {
        if (is_spared_ || is_of_others()) return false;
        long now = left_.load();
        while (now != none) {
            if (now < 0 && !fails_all_) return false;
            if (left_.compare_exchange_weak(now, now < 0 ? now : now - 1)) return now <= 0;
        }
        return false;
    }

    // Whether a function of gRPC, protobuf or what these use is among the callers.
    static bool is_of_others() noexcept {
        std::array<void*, 64> frames{};
        const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
        for (int i = 0; i < depth; ++i) {
            const auto at = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
            for (const auto& [begin, end] : others())
                if (at >= begin && at < end) return true;
        }
        return false;
    }

    using ranges = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;

    static const ranges& others() noexcept {
        static const ranges found = [] {
            const bool was_spared = std::exchange(is_spared_, true);
            ranges made;
            ::dl_iterate_phdr(
                [](dl_phdr_info* info, std::size_t, void* to) {
                    const std::string_view name(info->dlpi_name);
                    bool is_other = false;
                    for (const std::string_view each : {"libgrpc", "libgpr", "libprotobuf", "libabsl", "libaddress"})
                        is_other = is_other || name.find(each) != std::string_view::npos;
                    for (int i = 0; is_other && i < info->dlpi_phnum; ++i) {
                        const auto& part = info->dlpi_phdr[i];
                        const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
                        if (part.p_type == PT_LOAD) static_cast<ranges*>(to)->emplace_back(begin, begin + part.p_memsz);
                    }
                    return 0;
                },
                &made);
            is_spared_ = was_spared;
            return made;
        }();
        return found;
    }

    static inline std::atomic<long> left_{none};  // before one fails; below 0 one has failed
    static inline std::atomic<bool> fails_all_{false};
    static inline thread_local bool is_spared_ = false;
};

// Memory lacks from the allocation after `count` others on, for this time.
class memory_lacks_for {
public:
    memory_lacks_for(long count, std::chrono::milliseconds time) {
        failing_memory::fail_after(count, true);
        thread_ = std::thread([time] {
            failing_memory::spare_this_thread();
            std::this_thread::sleep_for(time);
            failing_memory::stop();
        });
    }
    memory_lacks_for(const memory_lacks_for&) = delete;  // it has a thread
    memory_lacks_for& operator=(const memory_lacks_for&) = delete;
    ~memory_lacks_for() { thread_.join(); }

private:
    std::thread thread_;
};

}  // namespace sluice::serve::testing

namespace sluice::serve::testing::detail {

inline void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
    if (void* const made = failing_memory::allocate(bytes, alignment)) return made;
    throw std::bad_alloc();
}

}  // namespace sluice::serve::testing::detail

// Not inlined: g++ would take free() for the wrong partner of new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    return sluice::serve::testing::detail::allocate_or_throw(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
    return sluice::serve::testing::detail::allocate_or_throw(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t to) {
    return sluice::serve::testing::detail::allocate_or_throw(bytes, static_cast<std::size_t>(to));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return sluice::serve::testing::failing_memory::allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return sluice::serve::testing::failing_memory::allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data, std::size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
