// SPDX-License-Identifier: Apache-2.0
#include "sluice/cuda/interprocess.hpp"

#include <string>

#include "cuda/api/interprocess.hpp"
#include "cuda/interprocess_layout.hpp"
#include "runtime/await_contents.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

namespace api = cuda::api;
namespace interprocess = cuda::interprocess;

void require_gpu_to_share(const device& on, const error_context& context) {
    if (on.kind() == device_kind::cuda) return;
    throw error(errc::unsupported,
                "memory and events cross to other processes on GPUs only; for a CPU device map memory that both "
                "processes see (mmap with MAP_SHARED), and adopt() it in each",
                context);
}

interprocess::origin origin_of(device& gpu, const error_context& context) {
    return interprocess::origin_here(api::uuid_of(gpu.interpreter().ordinal(), context));
}

// Where the allocation of this memory begins. Throws errc::unsupported when CUDA cannot export it.
api::allocation exportable_allocation_of(const void* data, const error_context& context) {
    const api::allocation found = api::allocation_of(data);
    if (found.has_handle) return found;
    throw error(errc::unsupported,
                "CUDA exports only memory that plain cudaMalloc allocated in this process, as Sluice's own tensors "
                "are; this is of cudaMallocAsync, of virtual memory management, or imported: copy it into a tensor",
                context);
}

// Of another process's allocation the part from `offset` on is a tensor's; this compares with what CUDA knows. Where
// CUDA does not know the end of a mapping, adopt() still looks at the first and the last byte.
void require_within(const void* opened, std::size_t offset, std::size_t bytes, const error_context& context) {
    const api::allocation found = api::allocation_of(opened);
    if (found.begin == nullptr) return;
    const auto skipped =
        static_cast<std::size_t>(static_cast<const char*>(opened) - static_cast<const char*>(found.begin));
    const std::size_t there = found.bytes < skipped ? 0 : found.bytes - skipped;
    if (offset <= there && bytes <= there - offset) return;
    throw error(errc::invalid_argument,
                "the handle's tensor has " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                    ", and the opened allocation has " + std::to_string(there),
                context);
}

// Closed when the last owner is gone.
std::shared_ptr<void> opened_memory(const api::interprocess_handle& handle, const error_context& context) {
    const api::gpu_context& here = *api::device_scope::innermost();
    return {api::open_memory(handle, context), [&here](void* begin) { api::close_memory(here, begin); }};
}

}  // namespace

cuda::tensor_handle detail::export_for_processes(storage& memory, const shape& shape, exported_element element,
                                                 const source_location& location) {
    device& on = memory.owner();
    const error_context context{"export_tensor", on.name(), location};
    require_gpu_to_share(on, context);
    await_contents(memory, element.is_written, context);
    const api::device_scope scope(on.interpreter().ordinal());
    interprocess::tensor_contents made;
    made.from = origin_of(on, context);
    made.shape = shape;
    made.element = element;
    if (shape.size() != 0) {
        const api::allocation whole = exportable_allocation_of(memory.data(), context);
        made.allocation = api::memory_handle(whole.begin, context);
        made.allocation_bytes = whole.bytes;
        made.offset =
            static_cast<std::uint64_t>(static_cast<const char*>(memory.data()) - static_cast<const char*>(whole.begin));
    }
    return write(made);
}

detail::process_import detail::import_from_process(device& gpu, const cuda::tensor_handle& handle,
                                                   exported_element element, const source_location& location) {
    const error_context context{"import_tensor", gpu.name(), location};
    require_gpu_to_share(gpu, context);
    const api::device_scope scope(gpu.interpreter().ordinal());
    const interprocess::tensor_contents what = read(handle, origin_of(gpu, context), element, context);
    const std::size_t element_bytes = element.type.bits / 8u;
    const auto adopted = [&](const void* data, std::shared_ptr<const void> owner) {
        return process_import{
            adopt_bytes(gpu, data, what.shape, element_bytes, element_bytes, std::move(owner), location), what.shape};
    };
    if (what.shape.size() == 0) return adopted(nullptr, std::make_shared<char>());  // nothing was exported
    const std::shared_ptr<void> opened = opened_memory(what.allocation, context);
    require_within(opened.get(), what.offset, what.shape.size() * element_bytes, context);
    return adopted(static_cast<const char*>(opened.get()) + what.offset, opened);
}

storage_ref detail::import_allocation(device& gpu, const cuda::allocation_handle& handle, const shape& shape,
                                      std::size_t element_bytes, std::size_t element_alignment,
                                      const source_location& location) {
    const error_context context{"import_allocation", gpu.name(), location};
    require_gpu_to_share(gpu, context);
    const api::device_scope scope(gpu.interpreter().ordinal());
    const std::shared_ptr<void> opened = opened_memory(handle.bytes, context);
    const std::size_t most = ~std::size_t{0} / element_bytes;
    require_within(opened.get(), 0, shape.size() > most ? ~std::size_t{0} : shape.size() * element_bytes, context);
    return adopt_bytes(gpu, opened.get(), shape, element_bytes, element_alignment, opened, location);
}

namespace cuda {

interprocess_event::interprocess_event(device& gpu, const source_location& location) : on_(&gpu), is_ours_(true) {
    const error_context context{"interprocess_event", gpu.name(), location};
    require_gpu_to_share(gpu, context);
    const api::device_scope scope(gpu.interpreter().ordinal());
    event_ = api::create_interprocess_event(context);
}

interprocess_event::interprocess_event(device& gpu, const event_handle& handle, const source_location& location)
    : on_(&gpu), is_ours_(false) {
    const error_context context{"interprocess_event", gpu.name(), location};
    require_gpu_to_share(gpu, context);
    const api::device_scope scope(gpu.interpreter().ordinal());
    const interprocess::event_contents what = read(handle, origin_of(gpu, context), context);
    event_ = api::open_event(what.event, context);
}

event_handle interprocess_event::handle(const source_location& location) const {
    const error_context context{"interprocess_event", on_->name(), location};
    if (!is_ours_) {
        throw error(errc::invalid_argument,
                    "the event is another process's, and CUDA lets only that process export it: pass on the handle "
                    "that it sent",
                    context);
    }
    const api::device_scope scope(on_->interpreter().ordinal());
    interprocess::event_contents made;
    made.from = origin_of(*on_, context);
    made.event = api::handle_of(event_.get(), context);
    return write(made);
}

}  // namespace cuda
}  // namespace sluice
