// SPDX-License-Identifier: Apache-2.0
// exclusive_use: locks memory that several threads may write, at a moment when no command uses it. While it exists, no
// other thread can submit a command that names the memory.
//
// It never waits for a device while it holds the lock: a thread that the device needs may want the lock. Where commands
// use the memory it gives the lock up, waits, and looks again. So that it comes to an end next to threads that submit
// all the time, these pause for a moment while it waits for the second time (give_way).
#pragma once

#include <exception>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "sluice/runtime/detail/access_lock.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::detail {

// Thrown where memory must not be in use, commands use it, and the thread holds locks, so that it cannot wait here.
// The code that has given up the locks waits, and begins again.
class memory_in_use final : public std::exception {
public:
    explicit memory_in_use(std::vector<stream_point> by) noexcept : by_(std::move(by)) {}

    const char* what() const noexcept override { return "commands use the memory"; }
    // Blocks until these commands are complete. Throws when the device has faulted, or when this thread may not wait.
    void wait() const;

private:
    std::vector<stream_point> by_;
};

class exclusive_use {
public:
    // Blocks until no command uses the memory; access_mode::read: until no command writes it. All of it shares one
    // access_lock, and there is at least one. Throws when the device has faulted, or when this thread may not wait;
    // memory_in_use when this thread holds locks and has to wait.
    exclusive_use(std::span<storage* const> memory, access_mode mode);

private:
    std::unique_lock<access_lock> lock_;
};

// Before the lock is taken for a command: pauses for some milliseconds at most while an exclusive_use waits for the
// memory. Not on threads that devices need.
void give_way(const access_lock& wanted) noexcept;

}  // namespace sluice::detail
