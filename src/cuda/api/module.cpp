// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/module.hpp"

#include <algorithm>
#include <array>

#include "cuda/api/commands.hpp"
#include "cuda/api/driver.hpp"
#include "cuda/api/log_text.hpp"
#include "cuda/api/runtime.hpp"

namespace sluice::cuda::api {
namespace {

std::string sm(int compute_capability) { return "sm_" + std::to_string(compute_capability); }

[[noreturn]] void refuse_for(int gpu, const module_image& image, const error_context& context) {
    std::string why = "the module has no code for this GPU, which is " + sm(gpu);
    if (image.compute_capability != 0) why += "; it is a cubin for " + sm(image.compute_capability);
    throw error(errc::unsupported, why + "; compile it for " + sm(gpu) + ", or give PTX", context);
}

[[noreturn]] void refuse(CUresult code, std::string_view log, int gpu, const module_image& image,
                         const error_context& context) {
    switch (code) {
        case CUDA_ERROR_NO_BINARY_FOR_GPU: refuse_for(gpu, image, context);
        case CUDA_ERROR_INVALID_PTX:
            if (log.find(".target is higher") != log.npos) refuse_for(gpu, image, context);
            throw error(errc::bad_file, "the PTX does not assemble: " + on_one_line(log), context);
        case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
            throw error(errc::unsupported,
                        "the PTX is of a newer version than this driver knows, which supports CUDA " +
                            std::to_string(driver_version() / 1000) + "." +
                            std::to_string(driver_version() % 1000 / 10) + ": " + on_one_line(log),
                        context);
        case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
        case CUDA_ERROR_JIT_COMPILATION_DISABLED:
            throw error(errc::unsupported, "this driver assembles no PTX: give a cubin for " + sm(gpu), context);
        case CUDA_ERROR_INVALID_IMAGE:
        case CUDA_ERROR_INVALID_SOURCE:
        case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
        case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
            throw error(errc::bad_file, "the driver refuses the module: " + on_one_line(log), context);
        case CUDA_ERROR_OUT_OF_MEMORY: {
            memory_info left;
            static const auto free_memory = driver_function<decltype(&cuMemGetInfo)>("cuMemGetInfo");
            static_cast<void>(free_memory(&left.free_bytes, &left.total_bytes));
            throw out_of_memory(image.bytes.size(), left.free_bytes, context);
        }
        default: check_driver(code, "cuModuleLoadDataEx", context);
    }
    fail(code, "cuModuleLoadDataEx", context);
}

int attribute(CUdevice_attribute which, CUdevice of, const error_context& context) {
    static const auto get = driver_function<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
    int value = 0;
    check_driver(get(&value, which, of), "cuDeviceGetAttribute", context);
    return value;
}

// Null for a function that an older driver does not have.
template <typename Function>
Function newer_function(const char* name) noexcept {
    try {
        return driver_function<Function>(name, 12040);
    } catch (...) {
        return nullptr;
    }
}

}  // namespace

void unload::operator()(CUmod_st* module) const noexcept { unload_module(module); }

module_handle load_module(const module_image& image, int gpu, const error_context& context) {
    static const auto load = driver_function<decltype(&cuModuleLoadDataEx)>("cuModuleLoadDataEx");
    const int theirs = image.compute_capability;
    // Machine code runs on GPUs of the same major version and the same minor version or a later one.
    if (theirs != 0 && (theirs / 10 != gpu / 10 || theirs > gpu)) refuse_for(gpu, image, context);
    std::array<char, 8192> log{};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
    CUmodule made = nullptr;
    const CUresult code = load(&made, image.bytes.data(), 2, options, values);
    if (code != CUDA_SUCCESS) refuse(code, log.data(), gpu, image, context);
    return module_handle(made);
}

void unload_module(CUmod_st* module) noexcept {
    try {
        static const auto unload_it = driver_function<decltype(&cuModuleUnload)>("cuModuleUnload");
        static_cast<void>(unload_it(module));
    } catch (...) {  // the process ends, and the driver with it
    }
}

CUfunc_st* find_function(CUmod_st* module, const std::string& name, const error_context& context) {
    static const auto get = driver_function<decltype(&cuModuleGetFunction)>("cuModuleGetFunction");
    CUfunction found = nullptr;
    const CUresult code = get(&found, module, name.c_str());
    if (code == CUDA_ERROR_NOT_FOUND) return nullptr;
    check_driver(code, "cuModuleGetFunction", context);
    return found;
}

std::vector<std::string> function_names(CUmod_st* module) {
    static const auto count = newer_function<decltype(&cuModuleGetFunctionCount)>("cuModuleGetFunctionCount");
    static const auto list = newer_function<decltype(&cuModuleEnumerateFunctions)>("cuModuleEnumerateFunctions");
    static const auto name = newer_function<decltype(&cuFuncGetName)>("cuFuncGetName");
    std::vector<std::string> names;
    unsigned size = 0;
    if (count == nullptr || list == nullptr || name == nullptr || count(&size, module) != CUDA_SUCCESS || size == 0)
        return names;
    std::vector<CUfunction> all(size);
    if (list(all.data(), size, module) != CUDA_SUCCESS) return names;
    for (const CUfunction each : all) {
        const char* text = nullptr;
        if (name(&text, each) == CUDA_SUCCESS && text != nullptr) names.emplace_back(text);
    }
    std::ranges::sort(names);
    return names;
}

std::optional<std::vector<std::size_t>> parameter_sizes(CUfunc_st* function, const error_context& context) {
    static const auto get = newer_function<decltype(&cuFuncGetParamInfo)>("cuFuncGetParamInfo");
    if (get == nullptr) return std::nullopt;
    std::vector<std::size_t> sizes;
    for (;;) {
        std::size_t offset = 0, bytes = 0;
        const CUresult code = get(function, sizes.size(), &offset, &bytes);
        if (code == CUDA_ERROR_INVALID_VALUE) return sizes;  // past the last one
        check_driver(code, "cuFuncGetParamInfo", context);
        sizes.push_back(bytes);
    }
}

detail::function_limits limits_of(CUfunc_st* function, const error_context& context) {
    static const auto get = driver_function<decltype(&cuFuncGetAttribute)>("cuFuncGetAttribute");
    static const auto current = driver_function<decltype(&cuCtxGetDevice)>("cuCtxGetDevice");
    // Otherwise the driver loads it at the first launch, and may wait for the GPU there.
    static const auto load = newer_function<decltype(&cuFuncLoad)>("cuFuncLoad");
    if (load != nullptr) check_driver(load(function), "cuFuncLoad", context);
    CUdevice on = 0;
    check_driver(current(&on), "cuCtxGetDevice", context);
    int threads = 0;
    check_driver(get(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), "cuFuncGetAttribute", context);
    const auto extent = [&](CUdevice_attribute x, CUdevice_attribute y, CUdevice_attribute z) {
        return launch_extent{static_cast<unsigned>(attribute(x, on, context)),
                             static_cast<unsigned>(attribute(y, on, context)),
                             static_cast<unsigned>(attribute(z, on, context))};
    };
    detail::function_limits made;
    made.max_threads = static_cast<unsigned>(threads);
    made.max_grid = extent(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                           CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    made.max_block = extent(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                            CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    made.max_shared_bytes = allow_shared_memory(function, context);
    return made;
}

unsigned active_blocks(CUfunc_st* function, unsigned threads, std::size_t shared_bytes, const error_context& context) {
    static const auto query = driver_function<decltype(&cuOccupancyMaxActiveBlocksPerMultiprocessor)>(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    int blocks = 0;
    check_driver(query(&blocks, function, static_cast<int>(threads), shared_bytes),
                 "cuOccupancyMaxActiveBlocksPerMultiprocessor", context);
    return static_cast<unsigned>(blocks);
}

unsigned suggested_block(CUfunc_st* function, std::size_t shared_bytes, const error_context& context) {
    static const auto query =
        driver_function<decltype(&cuOccupancyMaxPotentialBlockSize)>("cuOccupancyMaxPotentialBlockSize");
    int grid = 0, block = 0;
    check_driver(query(&grid, &block, function, nullptr, shared_bytes, 0), "cuOccupancyMaxPotentialBlockSize", context);
    return static_cast<unsigned>(block);
}

}  // namespace sluice::cuda::api
