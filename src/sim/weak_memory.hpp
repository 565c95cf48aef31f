// SPDX-License-Identifier: Apache-2.0
// weak_memory: which values the threads of one schedule may read, by the rules of C++ for memory orders.
//
// Each thread has a view: for each object the oldest value that it may still read, and for each thread how much of what
// that thread has done happened before. A value that is stored with release carries the view of its thread; a thread
// that reads it with acquire takes that view over. A read-modify-write reads the last value, and passes on what the
// value before it carried. A sequentially consistent load reads nothing older than the last sequentially consistent
// store to the object.
//
// The values of an object are in the order in which they were stored, and sequentially consistent operations in that in
// which they ran. So no load reads a value that is stored later: load buffering is not explored.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/sim/detail/weak_memory.hpp"

namespace sluice::sim {

class weak_memory {
public:
    using location = detail::location;

    // Begins a schedule, with threads that have seen nothing yet.
    void begin(std::size_t threads);

    // How many values the thread may read: that many of the last ones.
    std::size_t choices(std::size_t thread, location& from, const void* now, std::size_t bytes,
                        std::memory_order order);
    // It reads the value that is `age` older than the last one. Valid until the next call.
    const void* read(std::size_t thread, const location& from, std::size_t age, std::memory_order order);
    void write(std::size_t thread, location& to, const void* now, std::size_t bytes, std::memory_order order,
               bool is_update);

    // Return whether the access is ordered after those that conflict with it.
    bool read_plain(std::size_t thread, location& from);
    bool write_plain(std::size_t thread, location& to);

    // How many loads have read another value than the last one.
    std::size_t old_reads() const noexcept { return old_reads_; }

private:
    // By number, of objects and of threads; what comes after the end is 0.
    using numbers = std::vector<std::uint32_t>;
    struct view {
        numbers values;  // of each object the index of the oldest value
        numbers times;   // of each thread

        void join(const view& other);
    };
    static constexpr std::size_t most_bytes = 16;
    struct value {
        std::array<std::byte, most_bytes> bytes;
        view published;
    };
    struct object {
        std::vector<value> values;          // of an atomic
        std::uint32_t last_sequential = 0;  // the index of the last value stored with seq_cst
        std::size_t writer = 0;             // of a plain variable; the time is 0 before the first write
        std::uint32_t written = 0;
        numbers reads;  // the time of each thread's last read
    };

    object& at(location& of);
    object& at(location& of, const void* now, std::size_t bytes);

    std::uint64_t schedule_ = 0;
    std::vector<object> objects_;
    std::vector<view> threads_;
    std::size_t old_reads_ = 0;
};

}  // namespace sluice::sim
