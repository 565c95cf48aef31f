// SPDX-License-Identifier: Apache-2.0
// Tensors and events between processes in a build without the CUDA toolkit: there are none.
#include "sluice/base/error.hpp"
#include "sluice/cuda/interprocess.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

[[noreturn]] void refuse_sharing(std::string_view what, const device& on, const source_location& location) {
    throw error(errc::unsupported,
                "memory and events cross to other processes on GPUs only, and this build of Sluice has no CUDA "
                "backend; for a CPU device map memory that both processes see (mmap with MAP_SHARED), and adopt() it "
                "in each",
                {what, on.name(), location});
}

}  // namespace

cuda::tensor_handle detail::export_for_processes(storage& memory, const shape&, exported_element,
                                                 const source_location& location) {
    refuse_sharing("export_tensor", memory.owner(), location);
}
detail::process_import detail::import_from_process(device& gpu, const cuda::tensor_handle&, exported_element,
                                                   const source_location& location) {
    refuse_sharing("import_tensor", gpu, location);
}
storage_ref detail::import_allocation(device& gpu, const cuda::allocation_handle&, const shape&, std::size_t,
                                      std::size_t, const source_location& location) {
    refuse_sharing("import_allocation", gpu, location);
}

namespace cuda {

interprocess_event::interprocess_event(device& gpu, const source_location& location) : on_(&gpu), is_ours_(true) {
    refuse_sharing("interprocess_event", gpu, location);
}
interprocess_event::interprocess_event(device& gpu, const event_handle&, const source_location& location)
    : on_(&gpu), is_ours_(false) {
    refuse_sharing("interprocess_event", gpu, location);
}
event_handle interprocess_event::handle(const source_location& location) const {
    static_cast<void>(is_ours_);
    refuse_sharing("interprocess_event", *on_, location);
}

}  // namespace cuda
}  // namespace sluice
