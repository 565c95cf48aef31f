// SPDX-License-Identifier: Apache-2.0
// GPUs whose memory clients share with the server, without a GPU: the memory is the test's own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/error.hpp"
#include "sluice/serve/gpu_memory.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve::testing {

// A client's allocation.
struct fake_allocation {
    std::int64_t device_id = 0;
    std::vector<std::byte> bytes;
    std::atomic<int> opened{0};         // how many times it is open now
    std::atomic<bool> is_lost = false;  // its GPU fails

    void put(std::size_t offset, const std::vector<float>& values) {
        std::memcpy(bytes.data() + offset, values.data(), values.size() * sizeof(float));
    }
    std::vector<float> get(std::size_t offset, std::size_t count) const {
        std::vector<float> values(count);
        std::memcpy(values.data(), bytes.data() + offset, count * sizeof(float));
        return values;
    }
};

class fake_gpu_memory final : public gpu_memory {
public:
    fake_gpu_memory(std::shared_ptr<fake_allocation> of, std::uint64_t bytes) : of_(std::move(of)), bytes_(bytes) {
        ++of_->opened;
    }
    fake_gpu_memory(const fake_gpu_memory&) = delete;  // it counts once
    fake_gpu_memory& operator=(const fake_gpu_memory&) = delete;
    ~fake_gpu_memory() override { --of_->opened; }

    void read(std::uint64_t offset, std::span<std::byte> to) const override {
        std::ranges::copy(part(offset, to.size()), to.begin());
    }
    void write(std::uint64_t offset, std::span<const std::byte> from) const override {
        std::ranges::copy(from, part(offset, from.size()).begin());
    }

private:
    std::span<std::byte> part(std::uint64_t offset, std::size_t bytes) const {
        if (offset > bytes_ || bytes > bytes_ - offset) throw std::logic_error("bytes that are not in the region");
        if (of_->is_lost) throw error(errc::device_failed, "the GPU is lost");
        return std::span(of_->bytes).subspan(offset, bytes);
    }

    std::shared_ptr<fake_allocation> of_;
    std::uint64_t bytes_;
};

// Two GPUs, unless there is a reason why there are none.
class fake_gpus final : public gpu_memory_opener {
public:
    explicit fake_gpus(std::string why_not = {}) : why_not_(std::move(why_not)) {}

    std::string why_not() const override { return why_not_; }
    std::shared_ptr<const gpu_memory> open(std::int64_t device_id, const gpu_memory_handle& handle,
                                           std::uint64_t bytes) const override {
        ++opens;
        const auto refuse = [](const std::string& why) { throw refusal(refusal_kind::bad_request, why); };
        if (device_id > 1) refuse("there is no GPU " + std::to_string(device_id));
        const auto found = allocations_.find(handle);
        if (found == allocations_.end()) refuse("the handle cannot be opened");
        if (found->second->device_id != device_id) refuse("it is memory of another GPU");
        if (found->second->bytes.size() < bytes) refuse("the allocation is shorter");
        return std::make_shared<fake_gpu_memory>(found->second, bytes);
    }

    // The handle's bytes are all `number`.
    std::shared_ptr<fake_allocation> allocate(unsigned char number, std::size_t bytes, std::int64_t device_id = 0) {
        auto made = std::make_shared<fake_allocation>();
        made->device_id = device_id;
        made->bytes.resize(bytes);
        allocations_[handle_of(number)] = made;
        return made;
    }
    static gpu_memory_handle handle_of(unsigned char number) {
        gpu_memory_handle made{};
        made.fill(std::byte{number});
        return made;
    }

    mutable std::atomic<int> opens{0};  // that were tried

private:
    std::string why_not_;
    std::map<gpu_memory_handle, std::shared_ptr<fake_allocation>> allocations_;
};

}  // namespace sluice::serve::testing
