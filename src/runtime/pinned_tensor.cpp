// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/pinned_tensor.hpp"

#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "runtime/exclusive_use.hpp"
#include "sluice/base/detail/held_lock.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/access_lock.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

void throw_failure_of_writer(const storage& memory) {
    const storage::written last = memory.last_write();
    if (std::exception_ptr failure = last.depends_on ? last.depends_on->failure() : nullptr)
        std::rethrow_exception(std::move(failure));
}

}  // namespace

storage_ref allocate_pinned(device& on, const shape& shape, std::size_t element_bytes,
                            const source_location& location) {
    const command_info info{"pinned_tensor", {}, location};
    const std::size_t bytes = bytes_for(shape.size(), element_bytes, on, info);
    storage_ref made = on.host_pool().allocate(bytes, nullptr, info);
    made->share_among_writers(std::make_shared<access_lock>());
    const pinned_use use(*made, pinned_use::kind::overwrite);
    if (bytes != 0) std::memset(made->data(), 0, bytes);
    return made;
}

pinned_use::pinned_use(storage& memory, kind what) : is_outermost_(!holds_a_lock()) {
    const access_mode mode = what == kind::read ? access_mode::read : access_mode::write;
    storage* const only = &memory;
    use_ = std::make_unique<exclusive_use>(std::span(&only, 1), mode);
    if (what == kind::overwrite) {
        memory.depend_on({});
    } else {
        throw_failure_of_writer(memory);
    }
    memory.on_host_access(mode);
}

pinned_use::~pinned_use() = default;

// Code further out that holds a lock waits, and begins again. Here the function cannot be called once more.
void pinned_use::rethrow() const {
    if (!is_outermost_) throw;
    try {
        throw;
    } catch (const memory_in_use&) {
        throw error(errc::invalid_argument,
                    "the function cannot wait for the device, because it holds the tensor's memory: wait before",
                    {"pinned_tensor::change"});
    }
}

void store_pinned(stream on, const command_info& info, storage& memory, storage& from, std::size_t bytes) {
    if (on.queue().recorder() == nullptr) {
        const std::lock_guard alone(*memory.lock());
        memory.depend_on({});
    }
    copy_bytes(on, info, memory, from, bytes, copy_direction::device_to_host);
}

void require_pinned_shape(const shape& of, const shape& given, const source_location& location) {
    if (given == of) return;
    throw error(errc::shape_mismatch,
                "a tensor of shape " + to_string(given) + " does not fit a pinned_tensor of shape " + to_string(of),
                {"store", "", location});
}

void require_pinned_size(const shape& of, std::size_t given) {
    if (given == of.size()) return;
    throw error(errc::shape_mismatch,
                std::to_string(given) + " values do not fill a pinned_tensor of shape " + to_string(of),
                {"pinned_tensor"});
}

}  // namespace sluice::detail
