// SPDX-License-Identifier: Apache-2.0
// Every call that Sluice makes about modules and their functions, with its error mapping; see runtime.hpp. A call
// concerns the current device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/module_image.hpp"
#include "sluice/cuda/detail/module_launch.hpp"

struct CUmod_st;
struct CUfunc_st;

namespace sluice::cuda::api {

struct unload {
    void operator()(CUmod_st* module) const noexcept;
};
using module_handle = std::unique_ptr<CUmod_st, unload>;

// Blocks: assembles PTX. `gpu` is the device's compute capability, for messages. Throws errc::bad_file for an image
// that the driver refuses, errc::unsupported for one that has no code for this GPU or needs a newer driver,
// errc::out_of_memory.
module_handle load_module(const module_image& image, int gpu, const error_context& context);
void unload_module(CUmod_st* module) noexcept;

// Null when the module has no such function.
CUfunc_st* find_function(CUmod_st* module, const std::string& name, const error_context& context);
// The names of the functions, sorted; empty where the driver cannot list them (before CUDA 12.4).
std::vector<std::string> function_names(CUmod_st* module);
// The size of each parameter; nullopt where the driver does not report it (before CUDA 12.4).
std::optional<std::vector<std::size_t>> parameter_sizes(CUfunc_st* function, const error_context& context);
// Loads the function and allows the maximum of dynamic shared memory.
detail::function_limits limits_of(CUfunc_st* function, const error_context& context);
// How many blocks of this size run on one multiprocessor at a time.
unsigned active_blocks(CUfunc_st* function, unsigned threads, std::size_t shared_bytes, const error_context& context);
// The size of a block for which most threads run on a multiprocessor at a time.
unsigned suggested_block(CUfunc_st* function, std::size_t shared_bytes, const error_context& context);

}  // namespace sluice::cuda::api
