// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_memory.hpp"

#include <cstdlib>
#include <memory>

#include "sim/sim_machine.hpp"

namespace sluice::sim::detail {

sim_memory::~sim_memory() {
    for (block* each : blocks_) {
        machine_.forget(each);
        each->~block();
        std::free(each);
    }
}

block* sim_memory::make_block(std::size_t data_bytes) {
    const std::size_t whole = (block::header_bytes + data_bytes + 255) / 256 * 256;
    blocks_.reserve(blocks_.size() + 1);
    void* const place = std::aligned_alloc(256, whole);
    if (place == nullptr) return nullptr;
    block* const made = new (place) block;
    made->device = device_;
    made->is_host = is_host_;
    blocks_.push_back(made);
    return made;
}

void* sim_memory::allocate(std::size_t bytes) {
    machine_.is_short_of_memory = used_bytes_ + bytes > limit_bytes_;
    if (machine_.is_short_of_memory) return nullptr;
    if (machine_.planted != nullptr && machine_.planted->hands_out_twice(bytes)) {
        for (block* each : blocks_) {
            if (each->is_live && !each->is_lent && each->bytes == bytes) return each->data();
        }
    }
    block* made = nullptr;
    for (std::size_t i = free_.size(); i-- > 0 && made == nullptr;) {
        if (free_[i]->bytes != bytes) continue;
        made = free_[i];
        free_[i] = free_.back();
        free_.pop_back();
    }
    if (made == nullptr) {
        made = make_block(bytes);
        if (made == nullptr) return nullptr;
        made->bytes = bytes;
        free_.reserve(blocks_.size());
        machine_.remember(made);
    }
    used_bytes_ += bytes;
    made->is_live = true;
    ++made->life;
    // A command that reads it without naming it, before any command has written it, must not find an earlier schedule's
    // data.
    machine_.checks().scramble(*made);
    return made->data();
}

void sim_memory::free(void* data, std::size_t bytes) noexcept {
    block& what = block::of(data);
    if (!what.is_live) return;  // planted: handed out twice
    if (!machine_.is_closing) machine_.checks().freed(what);
    what.is_live = false;
    used_bytes_ -= bytes;
    free_.push_back(&what);
}

void sim_memory::on_allocate(void* data, std::size_t requested_bytes, bool to_host) noexcept {
    machine_.checks().on_allocate(block::of(data), requested_bytes, to_host);
}

void sim_memory::on_free(void* data) noexcept { machine_.checks().on_free(block::of(data)); }
void* sim_memory::on_adopt(void* data, std::size_t bytes) {
    block* made = nullptr;
    if (!free_shadows_.empty()) {
        made = free_shadows_.back();
        free_shadows_.pop_back();
    } else {
        made = make_block(0);
        if (made == nullptr) throw std::bad_alloc();
        free_shadows_.reserve(blocks_.size());
    }
    made->foreign = static_cast<std::byte*>(data);
    made->bytes = bytes;
    machine_.checks().on_adopt(*made, machine_.blocks());
    machine_.remember(made);
    return made->name();
}

// The address may be used for other memory from here on, so checks of addresses must not find it.
void sim_memory::on_release(void* known_as) noexcept {
    block& what = block::of(known_as);
    if (what.is_live && !machine_.is_closing) machine_.checks().freed(what);
    what.is_live = what.is_lent = false;
    machine_.forget(&what);
    free_shadows_.push_back(&what);
}

void sim_memory::on_host_access(void* data, access_mode mode) noexcept {
    machine_.checks().touched(block::of(data), mode);
}

}  // namespace sluice::sim::detail
