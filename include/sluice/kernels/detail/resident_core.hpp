// SPDX-License-Identifier: Apache-2.0
// What resident_kernel is without its types: requests and answers are bytes. See resident_kernel.hpp.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "sluice/base/source_location.hpp"

namespace sluice {

class device;

struct resident_kernel_options;

namespace detail {

// What the library must know of a kernel.
struct resident_form {
    std::string_view name;
    const void* device_function;  // the __global__ function; null when nvcc did not compile it
    // Calls the operator of the kernel object, for this lane of all lanes.
    void (*call_on_host)(void* kernel, unsigned lane, unsigned lanes, unsigned threads, const void* request,
                         void* answer);
    std::size_t kernel_bytes;
    std::size_t request_bytes;
    std::size_t answer_bytes;
    std::size_t shared_bytes;  // of a block
};

class resident_core {
public:
    resident_core() = default;
    resident_core(const resident_core&) = delete;  // the kernel writes into its memory
    resident_core& operator=(const resident_core&) = delete;

    virtual void ask(std::size_t lane, const void* request, void* answer) = 0;
    // Returns the request's number.
    virtual std::uint64_t post(std::size_t lane, const void* request) = 0;
    virtual bool has_answer(std::size_t lane, std::uint64_t number) const noexcept = 0;
    // Once for each number: waits for the answer, or gives it up.
    virtual void take(std::size_t lane, std::uint64_t number, void* answer) = 0;
    virtual void abandon(std::size_t lane, std::uint64_t number) noexcept = 0;

    virtual std::size_t lanes() const noexcept = 0;
    virtual std::size_t multiprocessors() const noexcept = 0;
    virtual std::size_t free_multiprocessors() const noexcept = 0;

protected:
    ~resident_core() = default;
};

std::shared_ptr<resident_core> start_resident_kernel(device& on, const resident_form& form, const void* kernel,
                                                     const resident_kernel_options& options,
                                                     const source_location& location);

// The core; throws errc::invalid_argument for that of a handle that was moved from.
const std::shared_ptr<resident_core>& held(const std::shared_ptr<resident_core>& core);

// A request that waits for its answer. After take() or a move, none.
class posted_request {
public:
    posted_request(std::shared_ptr<resident_core> core, std::size_t lane, const void* request)
        : core_(std::move(core)), lane_(lane), number_(core_->post(lane, request)) {}
    posted_request(posted_request&& other) noexcept = default;
    posted_request& operator=(posted_request&& other) noexcept {
        if (core_ && this != &other) core_->abandon(lane_, number_);
        core_ = std::move(other.core_);
        lane_ = other.lane_;
        number_ = other.number_;
        return *this;
    }
    ~posted_request() {
        if (core_) core_->abandon(lane_, number_);
    }

    bool is_there() const { return held(core_)->has_answer(lane_, number_); }
    void take(void* answer) {
        const std::shared_ptr<resident_core> core = held(core_);
        core_.reset();
        core->take(lane_, number_, answer);
    }

private:
    std::shared_ptr<resident_core> core_;
    std::size_t lane_;
    std::uint64_t number_;
};

// Room for an answer, which need not be default-constructible.
template <typename Answer>
struct answer_bytes {
    alignas(Answer) std::byte bytes[sizeof(Answer)];
    Answer value() const {
        std::array<std::byte, sizeof(Answer)> all;
        for (std::size_t i = 0; i < sizeof(Answer); ++i) all[i] = bytes[i];
        return std::bit_cast<Answer>(all);
    }
};

}  // namespace detail
}  // namespace sluice
