// SPDX-License-Identifier: Apache-2.0
#include "sim/weak_memory.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::sim {
namespace {

using numbers = std::vector<std::uint32_t>;

std::uint32_t number_at(const numbers& in, std::size_t index) { return index < in.size() ? in[index] : 0; }

void raise(numbers& in, std::size_t index, std::uint32_t to) {
    if (in.size() <= index) in.resize(index + 1);
    in[index] = std::max(in[index], to);
}

bool is_acquire(std::memory_order order) {
    return order != std::memory_order_relaxed && order != std::memory_order_release;
}
bool is_release(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
}

// Numbers of schedules are never used twice, whichever explorer runs them: an object may outlive one.
std::uint64_t next_schedule() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

void weak_memory::view::join(const view& other) {
    for (std::size_t i = 0; i < other.values.size(); ++i) raise(values, i, other.values[i]);
    for (std::size_t i = 0; i < other.times.size(); ++i) raise(times, i, other.times[i]);
}

void weak_memory::begin(std::size_t threads) {
    schedule_ = next_schedule();
    objects_.clear();
    threads_.assign(threads, view());
    old_reads_ = 0;
}

weak_memory::object& weak_memory::at(location& of) {
    if (of.schedule != schedule_) {
        of = {schedule_, static_cast<std::uint32_t>(objects_.size())};
        objects_.emplace_back();
    }
    return objects_[of.number];
}

// What the object had before the first access is visible to every thread.
weak_memory::object& weak_memory::at(location& of, const void* now, std::size_t bytes) {
    object& found = at(of);
    if (found.values.empty()) std::memcpy(found.values.emplace_back().bytes.data(), now, bytes);
    return found;
}

std::size_t weak_memory::choices(std::size_t thread, location& from, const void* now, std::size_t bytes,
                                 std::memory_order order) {
    const object& of = at(from, now, bytes);
    std::size_t oldest = number_at(threads_[thread].values, from.number);
    if (order == std::memory_order_seq_cst) oldest = std::max<std::size_t>(oldest, of.last_sequential);
    return of.values.size() - oldest;
}

const void* weak_memory::read(std::size_t thread, const location& from, std::size_t age, std::memory_order order) {
    const std::vector<value>& values = objects_[from.number].values;
    const std::size_t index = values.size() - 1 - age;
    view& seen = threads_[thread];
    raise(seen.values, from.number, static_cast<std::uint32_t>(index));
    if (is_acquire(order)) seen.join(values[index].published);
    old_reads_ += age != 0 ? 1 : 0;
    return values[index].bytes.data();
}

void weak_memory::write(std::size_t thread, location& to, const void* now, std::size_t bytes, std::memory_order order,
                        bool is_update) {
    object& of = at(to, now, bytes);
    value next;
    std::memcpy(next.bytes.data(), now, bytes);
    if (is_update) next.published = of.values.back().published;
    view& seen = threads_[thread];
    const auto index = static_cast<std::uint32_t>(of.values.size());
    raise(seen.values, to.number, index);
    if (is_release(order)) next.published.join(seen);
    if (order == std::memory_order_seq_cst) of.last_sequential = index;
    of.values.push_back(std::move(next));
}

bool weak_memory::read_plain(std::size_t thread, location& from) {
    object& of = at(from);
    view& seen = threads_[thread];
    raise(of.reads, thread, number_at(seen.times, thread) + 1);
    raise(seen.times, thread, of.reads[thread]);
    return of.writer == thread || number_at(seen.times, of.writer) >= of.written;
}

bool weak_memory::write_plain(std::size_t thread, location& to) {
    const bool is_after_write = read_plain(thread, to);
    object& of = at(to);
    const view& seen = threads_[thread];
    of.writer = thread;
    of.written = of.reads[thread];
    for (std::size_t other = 0; other < of.reads.size(); ++other) {
        if (number_at(seen.times, other) < of.reads[other]) return false;
    }
    return is_after_write;
}

}  // namespace sluice::sim
