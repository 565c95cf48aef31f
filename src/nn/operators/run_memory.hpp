// SPDX-License-Identifier: Apache-2.0
// run_memory: the bytes of the values of one run, against its limit (run_limit.hpp). A run is submitted by one thread,
// so the memory of the run that a thread submits is found there: operators that make values need not pass it on.
//
// The bytes of a value count from make() to the end of its node, and from then on as long as a slot holds it.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn::operators {

class node_call;

class run_memory {
public:
    // For the run that this thread submits from now on; with the limit of this thread.
    run_memory() noexcept;
    run_memory(const run_memory&) = delete;  // the thread points to it
    run_memory& operator=(const run_memory&) = delete;
    ~run_memory();

    // Of the run that this thread submits; null where nothing is limited.
    static run_memory* now() noexcept;

    // Called before a node takes that many bytes, or keeps them to its end. Throws run_too_large.
    void charge(const node_call& by, std::size_t bytes);
    std::size_t most() const noexcept { return most_; }

    // What a node has charged, until its outputs are in slots. Nodes may be inside of others.
    class node_scope {
    public:
        explicit node_scope(run_memory* of) noexcept : of_(of), before_(of != nullptr ? of->of_nodes_ : 0) {}
        node_scope(const node_scope&) = delete;  // it belongs to a scope
        node_scope& operator=(const node_scope&) = delete;
        ~node_scope() {
            if (of_ != nullptr) of_->of_nodes_ = before_;
        }

    private:
        run_memory* of_;
        std::size_t before_;
    };

private:
    friend class held_slots;

    struct held {
        std::size_t bytes = 0, slots = 0;
    };

    // One slot more holds the value, or one less: by what hold has returned.
    const void* hold(const any_tensor& value);
    void drop(const void* at) noexcept;

    const std::size_t most_;
    run_memory* const before_;
    std::size_t of_nodes_ = 0, of_slots_ = 0;
    std::unordered_map<const void*, held> held_;  // by their memory
};

// The slots of a graph whose nodes run, with what nodes have put there.
class held_slots {
public:
    // `of` may be null: then nothing is counted.
    held_slots(run_memory* of, std::size_t slots) : of_(of), at_(of != nullptr ? slots : 0) {}
    held_slots(const held_slots&) = delete;  // it counts once
    held_slots& operator=(const held_slots&) = delete;
    ~held_slots() {
        for (const void* const each : at_)
            if (each != nullptr) of_->drop(each);
    }

    void hold(std::size_t slot, const any_tensor& value) {
        if (of_ != nullptr) at_[slot] = of_->hold(value);
    }
    void drop(std::size_t slot) noexcept {
        if (of_ == nullptr || at_[slot] == nullptr) return;
        of_->drop(std::exchange(at_[slot], nullptr));
    }

private:
    run_memory* const of_;
    std::vector<const void*> at_;
};

}  // namespace sluice::nn::operators
