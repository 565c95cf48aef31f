// SPDX-License-Identifier: Apache-2.0
// request_budget: what the requests of one server may take together, whatever protocol they come by.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice::serve {

class request_budget {
public:
    static constexpr std::size_t most_loads = 16;  // that may wait at a time

    // `bytes`: of the requests' bodies and messages. Costs O(1).
    explicit request_budget(std::size_t bytes) : most_bytes_(bytes) {}
    request_budget(const request_budget&) = delete;  // front ends share one
    request_budget& operator=(const request_budget&) = delete;

    // False: the memory is in use by others, and nothing is taken. Costs O(1).
    bool take(std::size_t bytes) noexcept {
        if (bytes > most_bytes_) return false;
        if (bytes_.fetch_add(bytes) + bytes <= most_bytes_) return true;
        bytes_ -= bytes;
        return false;
    }
    // Of memory that exists already and cannot be refused, such as an answer: it counts beyond the limit too. Costs
    // O(1).
    void take_existing(std::size_t bytes) noexcept { bytes_ += bytes; }
    // Whether this many more could be taken now. Nothing is taken. Costs O(1).
    bool has_room(std::size_t bytes) const noexcept {
        const std::size_t used = bytes_;
        return used <= most_bytes_ && bytes <= most_bytes_ - used;
    }
    // As take() and give(), of what stays between requests, such as the state of a sequence: together at most half of
    // the memory, so that the rest is for requests. Costs O(1).
    bool take_kept(std::size_t bytes) noexcept {
        if (bytes > most_bytes_ / 2) return false;
        if (kept_bytes_.fetch_add(bytes) + bytes <= most_bytes_ / 2 && take(bytes)) return true;
        kept_bytes_ -= bytes;
        return false;
    }
    // Gives back what take_kept() has taken. Costs O(1).
    void give_kept(std::size_t bytes) noexcept {
        kept_bytes_ -= bytes;
        give(bytes);
    }
    void give(std::size_t bytes) noexcept { bytes_ -= bytes; }       // gives back what was taken; costs O(1)
    std::size_t bytes() const noexcept { return bytes_; }            // the bytes that are in use now
    std::size_t most_bytes() const noexcept { return most_bytes_; }  // the bytes that may be in use

    // For a load or an unload that will wait for its turn; end_load() when it is done. False: most_loads wait. Costs
    // O(1).
    bool begin_load() noexcept {
        if (loads_.fetch_add(1) < most_loads) return true;
        --loads_;
        return false;
    }
    // Called once after each begin_load() that returned true. Costs O(1).
    void end_load() noexcept { --loads_; }
    std::size_t loads() const noexcept { return loads_; }  // the loads and unloads that wait or run now

private:
    const std::size_t most_bytes_;
    std::atomic<std::size_t> bytes_{0};
    std::atomic<std::size_t> kept_bytes_{0};  // of these
    std::atomic<std::size_t> loads_{0};
};

}  // namespace sluice::serve
