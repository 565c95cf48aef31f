// SPDX-License-Identifier: Apache-2.0
// kernel_module: kernels for a GPU that are loaded at run time, from PTX, a cubin or a fatbin, or compiled from source.
//
//     const kernel_module kernels = load_module(gpu, "saxpy.ptx");  // or compile_module(gpu, source)
//     const auto saxpy = kernels.function<void(int, float, const float*, float*)>("saxpy");
//     saxpy(blocks_over(n, 256), n, 2.f, x, std::move(y))  // an operation; its output is y
//
// The caller states the function's parameters. They say how each argument is used:
//     parameter                          argument                                use      the function receives
//     const T*                           tensor<T>, partition, shared_tensor<T>  read     the address
//     T*                                 tensor<T>                               written  the address
//     view<const T>                      as const T*                             read     {const T* data; size_t size}
//     matrix_view<const T>               as const T*, a matrix                   read     {const T* data; size_t rows,
//                                                                                         columns}
//     disjoint_view<T>, _matrix<T>       tensor<T>                               written  the same without const
//     anything else                      a value that converts to it             by value its bytes
// A structure arrives by value, with the members in this order, so plain CUDA code may declare its own. A function may
// also read what it writes. Arguments belong to the operation, and the written ones are its output, as for launch. A
// function that accesses other memory than its arguments' breaks the order of commands: no check finds that.
//
// blocks(64, 256).in_clusters_of(4) launches a function in thread block clusters, and .cooperatively() all blocks at
// the same time, so that they can wait for each other.
//
// Names are those of the module: `extern "C"` keeps a name as it is in the source; C++ changes other names.
//
// Lifetime: a module stays loaded while a kernel_module, a function, an operation, a running command or a graph uses
// it; each may be dropped at any moment. The driver unloads it later: when another module is loaded while the device is
// idle, in device::trim(), or when the device is destroyed.
//
// Blocking: loading assembles PTX, compiling runs the compiler; both block, for milliseconds to seconds, and may
// wait for work that runs on the GPU. Launches do not block.
//
// Errors: errc::unsupported on a CPU device, in a build without CUDA, where the driver or compiler is missing or too
// old, and for code of other GPUs; errc::bad_file for bytes that are no module and PTX that does not assemble, with the
// driver's log; errc::io_failed for a file that cannot be read. A launch is checked before anything is submitted: a
// block, shared memory, a cluster or a cooperative grid beyond a limit is errc::invalid_argument, and so is another GPU
// than the module's.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/base/source_location.hpp"
#include "sluice/cuda/detail/module_launch.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

class device;
class kernel_module;

template <typename Signature>
class module_function {
    static_assert(sizeof(Signature) == 0, "a module's function is stated as void(parameters...)");
};

// A function of a module; never empty. Copies are the same function, and a move is a copy.
template <typename... Parameters>
class module_function<void(Parameters...)> {
    static_assert(sizeof...(Parameters) > 0, "the function writes nothing: it has no parameters");
    static_assert(sizeof...(Parameters) <= loaded_function::max_parameters, "a function has at most 128 parameters");

public:
    module_function(const module_function&) = default;
    module_function& operator=(const module_function&) = default;

    // As launch_on checks arguments against them.
    using parameters = detail::type_list<typename detail::module_parameter<Parameters>::type...>;

    // The operation that runs the function once. Its output: the written arguments, as for launch. Submitting it
    // costs one command and O(arguments).
    template <typename... Arguments>
    auto operator()(const launch_blocks& over, Arguments&&... arguments) const;

    std::string_view name() const noexcept { return function_->name; }  // as the module calls it
    // Of a block: the most threads, and the most dynamic shared memory.
    unsigned max_threads() const noexcept { return function_->limits.max_threads; }
    std::size_t max_shared_bytes() const noexcept { return function_->limits.max_shared_bytes; }  // of a block

    // Occupancy: how many blocks of this size run on one multiprocessor at a time, and the size of a block for which
    // the most threads do. Each costs a question to the driver.
    unsigned active_blocks(unsigned block, std::size_t shared_bytes = 0) const {
        return detail::active_blocks(*function_, block, shared_bytes);
    }
    // Threads of a block. Costs a question to the driver.
    unsigned suggested_block(std::size_t shared_bytes = 0) const {
        return detail::suggested_block(*function_, shared_bytes);
    }

    // For launch_on.
    const std::shared_ptr<const detail::checked_function>& handle() const noexcept { return function_; }

private:
    friend class kernel_module;
    module_function(const kernel_module& in, std::string_view name, const source_location& location);

    std::shared_ptr<const detail::checked_function> function_;
};

// --- modules --------------------------------------------------------------------------------------------------------

// A loaded module; never empty. Copies are the same module, and a move is a copy.
class kernel_module {
public:
    kernel_module(const kernel_module&) = default;
    kernel_module& operator=(const kernel_module&) = default;

    // Looks a function up. Throws errc::invalid_argument when the module has none of this name, and says which it has;
    // errc::shape_mismatch when the number or the sizes of the stated parameters are not the function's. (Drivers
    // before CUDA 12.4 cannot list names or sizes: then neither is checked.) Costs calls of the driver: for the
    // function, its limits and each of its parameters.
    template <typename Signature>
    module_function<Signature> function(std::string_view name,
                                        source_location location = source_location::current()) const {
        return module_function<Signature>(*this, name, location);
    }

    // The functions that the module has, sorted; empty before CUDA 12.4. Costs a question to the driver for each
    // function.
    std::vector<std::string> function_names() const;
    // The path of its file, or the given name. Costs O(1).
    const std::string& name() const noexcept;
    // Whether compile_module found it in its cache. Costs O(1).
    bool is_from_cache() const noexcept;

    // For load_module and compile_module. Costs O(1).
    explicit kernel_module(std::shared_ptr<const detail::loaded_module> loaded) : loaded_(std::move(loaded)) {}
    // What loading gave; each handle of the module shares it.
    const std::shared_ptr<const detail::loaded_module>& handle() const noexcept { return loaded_; }

private:
    std::shared_ptr<const detail::loaded_module> loaded_;
};

// Loads a file, or bytes in memory, which may die after the call. `name` is for messages. Costs O(bytes), and what the
// driver takes to load the module.
kernel_module load_module(device& gpu, const std::filesystem::path& file,
                          source_location location = source_location::current());
kernel_module load_module(device& gpu, std::span<const std::byte> bytes, std::string_view name = "module",
                          source_location location = source_location::current());

// How compile_module compiles.
struct source_options {
    std::string name = "source.cu";         // in the compiler's messages
    std::vector<std::string> options = {};  // the compiler's: "-std=c++20", "-DTILE=32", "--use_fast_math"
    // Files that the source includes: name and text.
    std::vector<std::pair<std::string, std::string>> headers = {};
    // The folder that keeps compiled modules. Not given: $XDG_CACHE_HOME/sluice, or ~/.cache/sluice. Empty: no cache.
    std::optional<std::filesystem::path> cache = {};
};

// Compiles CUDA C++ with NVRTC, for the architecture of this GPU unless the options name one. Throws
// errc::invalid_argument when the source does not compile, with the compiler's messages.
//
// A module is kept on disk, by source, options, headers, architecture, and the versions of compiler and driver. One
// that includes files other than `headers` is compiled each time, because those files may change. A damaged file of the
// cache is compiled again; a folder that cannot be written is no error. Costs a run of the compiler, or a read of the
// cache, and what load_module costs.
kernel_module compile_module(device& gpu, std::string_view source, const source_options& how = {},
                             source_location location = source_location::current());

// --- implementation -------------------------------------------------------------------------------------------------

namespace detail {
stream stream_of(execution_context& context) noexcept;
}

template <typename... Parameters>
module_function<void(Parameters...)>::module_function(const kernel_module& in, std::string_view name,
                                                      const source_location& location)
    : function_(detail::find_function(in.handle(), name, detail::parameters_of<parameters>(), location)) {}

// The plain form: a launch as one command on a stream. The caller keeps the arguments. What the function writes must
// not be shared. Costs one command and O(arguments) on the host.
template <typename... Parameters, typename... Arguments>
void launch_on(stream on, const module_function<void(Parameters...)>& function, const launch_blocks& over,
               const Arguments&... arguments) {
    using list = typename module_function<void(Parameters...)>::parameters;
    using call = detail::module_call<list, Arguments...>;
    static_assert(call::passed());
    using binding = detail::argument_binding<list, Arguments...>;
    const error_context context{function.name(), detail::device_name(on), over.location};
    const bool has_blocks = detail::check_launch(*function.handle(), over, context);
    const auto block = call::bind(context, arguments...);
    const auto accesses = binding::accesses(arguments...);
    if (!has_blocks) return;
    const command_info info = {function.name(), accesses, over.location};
    launch_command command;
    command.grid = over.grid;
    command.block = over.block;
    command.shared_bytes = over.shared_bytes;
    command.cluster = over.cluster;
    command.cooperative = over.cooperative;
    command.closure = block.data();
    command.closure_bytes = decltype(block)::bytes;
    command.function = function.handle().get();
    const auto launched = binding::launched(arguments...);
    command.launches = launched;
    on.launch(info, command);
}

// One launch of a module_function, which returns it.
template <typename Function, typename... Arguments>
class module_launch_operation : public operation_base<module_launch_operation<Function, Arguments...>> {
    using binding = detail::argument_binding<typename Function::parameters, Arguments...>;

public:
    using output = typename binding::written;

    module_launch_operation(Function function, const launch_blocks& over, Arguments... arguments)
        : function_(std::move(function)), over_(over), arguments_(std::move(arguments)...) {}

    output submit(execution_context& context) && {
        std::apply([&](const Arguments&... each) { launch_on(detail::stream_of(context), function_, over_, each...); },
                   arguments_);
        return binding::take_written(std::move(arguments_));
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Function function_;
    launch_blocks over_;
    std::tuple<Arguments...> arguments_;
};

template <typename... Parameters>
template <typename... Arguments>
auto module_function<void(Parameters...)>::operator()(const launch_blocks& over, Arguments&&... arguments) const {
    using call = detail::module_call<parameters, std::decay_t<Arguments>...>;
    if constexpr (call::passed()) {
        return module_launch_operation<module_function, std::decay_t<Arguments>...>(
            *this, over, std::forward<Arguments>(arguments)...);
    }
}

}  // namespace sluice
