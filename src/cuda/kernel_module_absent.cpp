// SPDX-License-Identifier: Apache-2.0
// Modules in a build without the CUDA toolkit: there are none.
#include "sluice/cuda/kernel_module.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {
namespace {

[[noreturn]] void refuse_module(std::string_view what, std::string_view device, const source_location& location) {
    throw error(errc::unsupported, "modules run on GPUs only, and this build of Sluice has no CUDA backend",
                {what, device, location});
}

// Without a module there is no object to call these on.
[[noreturn]] void refuse_module() { refuse_module("module", {}, {}); }

}  // namespace

kernel_module load_module(device& gpu, const std::filesystem::path&, source_location location) {
    refuse_module("load_module", gpu.name(), location);
}
kernel_module load_module(device& gpu, std::span<const std::byte>, std::string_view, source_location location) {
    refuse_module("load_module", gpu.name(), location);
}
kernel_module compile_module(device& gpu, std::string_view, const source_options&, source_location location) {
    refuse_module("compile_module", gpu.name(), location);
}

std::vector<std::string> kernel_module::function_names() const { refuse_module(); }
const std::string& kernel_module::name() const noexcept {
    static const std::string none;
    return none;
}
bool kernel_module::is_from_cache() const noexcept { return false; }

namespace detail {

std::shared_ptr<const checked_function> find_function(const std::shared_ptr<const loaded_module>&, std::string_view,
                                                      const parameter_list&, const source_location&) {
    refuse_module();
}
unsigned active_blocks(const checked_function&, unsigned, std::size_t) { refuse_module(); }
unsigned suggested_block(const checked_function&, std::size_t) { refuse_module(); }

}  // namespace detail
}  // namespace sluice
