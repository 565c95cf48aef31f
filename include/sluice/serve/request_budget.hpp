// SPDX-License-Identifier: Apache-2.0
// request_budget: what the requests of one server may take together, whatever protocol they come by; or those of one
// client, which is a part of that.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace sluice::serve {

class request_budget {
public:
    static constexpr std::size_t most_loads = 16;  // that may wait at a time

    // `bytes`: of the requests' bodies and messages. Costs O(1).
    explicit request_budget(std::size_t bytes) : most_bytes_(bytes) {}
    // A part of `whole`: what is taken here is taken there too. Costs O(1).
    request_budget(std::size_t bytes, std::size_t sequences, std::shared_ptr<request_budget> whole)
        : whole_(std::move(whole)), most_bytes_(bytes), most_sequences_(sequences) {}
    request_budget(const request_budget&) = delete;  // front ends share one
    request_budget& operator=(const request_budget&) = delete;

    // False: the memory is in use by others, and nothing is taken. Costs O(1).
    bool take(std::size_t bytes) noexcept {
        if (bytes > most_bytes_) return false;
        if (bytes_.fetch_add(bytes) + bytes <= most_bytes_ && (!whole_ || whole_->take(bytes))) return true;
        bytes_ -= bytes;
        return false;
    }
    // Of memory that exists already and cannot be refused, such as an answer: it counts beyond the limit too. Costs
    // O(1).
    void take_existing(std::size_t bytes) noexcept {
        bytes_ += bytes;
        if (whole_) whole_->take_existing(bytes);
    }
    // Whether this many more could be taken now. Nothing is taken. Costs O(1).
    bool has_room(std::size_t bytes) const noexcept {
        const std::size_t used = bytes_;
        return used <= most_bytes_ && bytes <= most_bytes_ - used && (!whole_ || whole_->has_room(bytes));
    }
    // As take() and give(), of what stays between requests, such as the state of a sequence: together at most half of
    // the memory, so that the rest is for requests. Costs O(1).
    bool take_kept(std::size_t bytes) noexcept {
        if (bytes > most_bytes_ / 2) return false;
        if (kept_bytes_.fetch_add(bytes) + bytes <= most_bytes_ / 2) {
            if (bytes_.fetch_add(bytes) + bytes <= most_bytes_ && (!whole_ || whole_->take_kept(bytes))) return true;
            bytes_ -= bytes;
        }
        kept_bytes_ -= bytes;
        return false;
    }
    // Gives back what take_kept() has taken. Costs O(1).
    void give_kept(std::size_t bytes) noexcept {
        kept_bytes_ -= bytes;
        bytes_ -= bytes;
        if (whole_) whole_->give_kept(bytes);
    }
    // Gives back what was taken. Costs O(1).
    void give(std::size_t bytes) noexcept {
        bytes_ -= bytes;
        if (whole_) whole_->give(bytes);
    }
    std::size_t bytes() const noexcept { return bytes_; }            // the bytes that are in use now
    std::size_t most_bytes() const noexcept { return most_bytes_; }  // the bytes that may be in use

    // For a sequence that begins; end_sequence() when it has ended. False: this part has as many as it may have. Costs
    // O(1).
    bool begin_sequence() noexcept {
        if (sequences_.fetch_add(1) < most_sequences_) return true;
        --sequences_;
        return false;
    }
    // Called once after each begin_sequence() that returned true. Costs O(1).
    void end_sequence() noexcept { --sequences_; }
    std::size_t most_sequences() const noexcept { return most_sequences_; }  // that may be live

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
    const std::shared_ptr<request_budget> whole_ = {};  // empty: this is one
    const std::size_t most_bytes_;
    const std::size_t most_sequences_ = SIZE_MAX;
    std::atomic<std::size_t> bytes_{0};
    std::atomic<std::size_t> kept_bytes_{0};  // of these
    std::atomic<std::size_t> sequences_{0};
    std::atomic<std::size_t> loads_{0};
};

}  // namespace sluice::serve
