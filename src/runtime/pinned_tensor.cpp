// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/pinned_tensor.hpp"

#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/access_lock.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

void wait_for_device(const storage& memory, pinned_use::kind what) {
    if (what == pinned_use::kind::read) {
        memory.await_last_write();
    } else {
        memory.await_all_uses();
    }
}

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

// The first wait is without the lock, so that other threads can submit commands meanwhile.
pinned_use::pinned_use(storage& memory, kind what) : lock_(*memory.lock()) {
    wait_for_device(memory, what);
    lock_.lock();
    try {
        wait_for_device(memory, what);
        if (what != kind::overwrite) throw_failure_of_writer(memory);
    } catch (...) {
        lock_.unlock();
        throw;
    }
    if (what == kind::overwrite) memory.depend_on({});
    memory.on_host_access(what == kind::read ? access_mode::read : access_mode::write);
}

pinned_use::~pinned_use() { lock_.unlock(); }

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
