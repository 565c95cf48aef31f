// SPDX-License-Identifier: Apache-2.0
#include "sluice/cuda/kernel_module.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "cuda/api/module.hpp"
#include "cuda/api/nvrtc.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "cuda/compile_cache.hpp"
#include "cuda/module_image.hpp"
#include "cuda/module_source.hpp"
#include "cuda/retired_modules.hpp"
#include "runtime/runtime_log.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/io/mapped_file.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {

namespace detail {

class loaded_module {
public:
    // Takes ownership of the module.
    loaded_module(cuda::api::module_handle module, std::string name, device& gpu, bool is_from_cache)
        : name_(std::move(name)),
          device_(gpu.name()),
          ordinal_(cuda::device_context::of(gpu).ordinal()),
          is_from_cache_(is_from_cache),
          retired_(cuda::device_context::of(gpu).kept<cuda::module_keeper>().retired),
          module_{module.get()} {
        static_cast<void>(module.release());
    }
    loaded_module(const loaded_module&) = delete;  // functions point to it
    loaded_module& operator=(const loaded_module&) = delete;
    ~loaded_module() { retired_->put(module_); }

    const std::string& name() const noexcept { return name_; }
    const std::string& device() const noexcept { return device_; }
    int ordinal() const noexcept { return ordinal_; }
    bool is_from_cache() const noexcept { return is_from_cache_; }
    CUmod_st* get() const noexcept { return module_.front(); }

private:
    const std::string name_;
    const std::string device_;
    const int ordinal_;
    const bool is_from_cache_;
    const std::shared_ptr<cuda::retired_modules> retired_;
    std::list<CUmod_st*> module_;  // one element, which moves to the list of retired modules without an allocation
};

}  // namespace detail

namespace {

using detail::loaded_module;

// Names of commands are never freed, because traces and graphs refer to them.
std::string_view lasting(std::string_view name) {
    static std::mutex mutex;
    static auto& names = *new std::set<std::string, std::less<>>();
    const std::lock_guard lock(mutex);
    const auto known = names.find(name);
    return known != names.end() ? *known : *names.emplace(name).first;
}

void require_gpu_for_modules(const device& gpu, const error_context& context) {
    if (gpu.kind() != device_kind::cuda)
        throw error(errc::unsupported, "modules run on GPUs only, and this device is none", context);
    gpu.throw_if_poisoned();
}

bool is_idle(const device& gpu) {
    return std::ranges::all_of(gpu.all_queues(), [](command_queue* each) {
        each->poll();
        return each->passed() >= each->issued();
    });
}

kernel_module load_image(device& gpu, const cuda::module_image& image, std::string name, bool is_from_cache,
                         const error_context& context) {
    cuda::api::module_handle module;
    {
        const cuda::api::no_staying_kernel none_stays("load a module", context);
        cuda::device_context& here = cuda::device_context::of(gpu);
        cuda::retired_modules& retired = *here.kept<cuda::module_keeper>().retired;
        if (is_idle(gpu)) retired.unload_all();
        const cuda::api::device_scope scope(here.ordinal());
        const auto load = [&] { return cuda::api::load_module(image, gpu.properties().compute_capability, context); };
        try {
            module = load();
        } catch (const out_of_memory&) {
            retired.unload_all();
            gpu.trim();
            module = load();
        }
    }
    auto made = std::make_shared<loaded_module>(std::move(module), std::move(name), gpu, is_from_cache);
    gpu.log().write(
        {.level = log_level::debug, .event = log_event::module_loaded, .device = gpu.name(), .name = made->name()},
        [&] {
            return "module " + in_quotes(made->name()) + " is loaded on " + gpu.name() +
                   (is_from_cache ? ", from the cache of compiled modules" : "");
        });
    return kernel_module(std::move(made));
}

// At most this many names in an error.
constexpr std::size_t most_named = 8;

std::string missing(const loaded_module& in, std::string_view name, const std::vector<std::string>& names) {
    std::string why = in_quotes(in.name()) + " has no function " + in_quotes(name);
    if (names.empty()) return why;
    why += "; it has: ";
    bool has_changed_names = false;
    for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i)
        why += (i == 0 ? "" : ", ") + printable(names[i]);
    for (const std::string& each : names) has_changed_names = has_changed_names || each.starts_with("_Z");
    if (names.size() > most_named) why += " and " + std::to_string(names.size() - most_named) + " more";
    if (has_changed_names) why += " (C++ changes names; extern \"C\" keeps them)";
    return why;
}

void check_parameters(const std::vector<std::size_t>& sizes, std::span<const std::size_t> stated,
                      const error_context& context) {
    if (sizes.size() != stated.size()) {
        throw error(errc::shape_mismatch,
                    "the function has " + std::to_string(sizes.size()) + " parameters, and the stated signature has " +
                        std::to_string(stated.size()),
                    context);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == stated[i]) continue;
        throw error(errc::shape_mismatch,
                    "parameter " + std::to_string(i) + " of the function has " + std::to_string(sizes[i]) +
                        " bytes, and that of the stated signature " + std::to_string(stated[i]),
                    context);
    }
}

CUfunc_st* handle_of(const detail::checked_function& function) { return static_cast<CUfunc_st*>(function.handle); }

int ordinal_of(const detail::checked_function& function) {
    return static_cast<const loaded_module*>(function.owner.get())->ordinal();
}

}  // namespace

// --- functions -----------------------------------------------------------------------------------------------------

std::shared_ptr<const detail::checked_function> detail::find_function(const std::shared_ptr<const loaded_module>& in,
                                                                      std::string_view name,
                                                                      const parameter_list& parameters,
                                                                      const source_location& location) {
    const error_context context{name, in->device(), location};
    const cuda::api::device_scope scope(in->ordinal());
    const bool has_zero = name.find('\0') != name.npos;
    CUfunc_st* const found = has_zero ? nullptr : cuda::api::find_function(in->get(), std::string(name), context);
    if (found == nullptr) {
        throw error(errc::invalid_argument, missing(*in, name, cuda::api::function_names(in->get())),
                    {"function", in->device(), location});
    }
    if (const auto sizes = cuda::api::parameter_sizes(found, context))
        check_parameters(*sizes, parameters.sizes, context);
    auto made = std::make_shared<checked_function>();
    made->handle = found;
    made->name = lasting(name);
    made->device = in->device();
    made->offsets = parameters.offsets;
    made->owner = in;
    made->limits = cuda::api::limits_of(found, context);
    return made;
}

unsigned detail::active_blocks(const checked_function& function, unsigned threads, std::size_t shared_bytes) {
    const error_context context{function.name, function.device};
    static_cast<void>(check_launch(function, blocks(1, threads, shared_bytes, {}), context));
    const cuda::api::device_scope scope(ordinal_of(function));
    return cuda::api::active_blocks(handle_of(function), threads, shared_bytes, context);
}

unsigned detail::suggested_block(const checked_function& function, std::size_t shared_bytes) {
    const error_context context{function.name, function.device};
    static_cast<void>(check_launch(function, blocks(1, 1, shared_bytes, {}), context));
    const cuda::api::device_scope scope(ordinal_of(function));
    return cuda::api::suggested_block(handle_of(function), shared_bytes, context);
}

// --- modules ---------------------------------------------------------------------------------------------------------

std::vector<std::string> kernel_module::function_names() const {
    const cuda::api::device_scope scope(loaded_->ordinal());
    return cuda::api::function_names(loaded_->get());
}

const std::string& kernel_module::name() const noexcept { return loaded_->name(); }

bool kernel_module::is_from_cache() const noexcept { return loaded_->is_from_cache(); }

kernel_module load_module(device& gpu, const std::filesystem::path& file, source_location location) {
    const std::string name = file.string();
    const std::string what = "load_module of " + in_quotes(name);
    const error_context context{what, gpu.name(), location};
    require_gpu_for_modules(gpu, context);
    cuda::module_image image;
    {
        const io::mapped_file from(file);
        image = cuda::read_image(from.bytes(), context);
        from.require_unchanged();
    }
    return load_image(gpu, image, name, false, context);
}

kernel_module load_module(device& gpu, std::span<const std::byte> bytes, std::string_view name,
                          source_location location) {
    const std::string what = "load_module of " + in_quotes(name);
    const error_context context{what, gpu.name(), location};
    require_gpu_for_modules(gpu, context);
    return load_image(gpu, cuda::read_image(bytes, context), std::string(name), false, context);
}

kernel_module compile_module(device& gpu, std::string_view source, const source_options& how,
                             source_location location) {
    const std::string what = "compile_module of " + in_quotes(how.name);
    const error_context context{what, gpu.name(), location};
    require_gpu_for_modules(gpu, context);
    if (const auto zero = source.find('\0'); zero != source.npos) {
        throw error(
            errc::invalid_argument,
            "the source has a zero byte at byte " + std::to_string(zero) + ", where the compiler would stop reading",
            context);
    }
    const auto options = cuda::options_for(gpu.properties().compute_capability, how.options);
    const std::string versions =
        "nvrtc " + cuda::api::compiler_version() + ", driver " + std::to_string(cuda::api::driver_version());
    const bool is_cached = cuda::depends_on_given_text_only(source, how);
    const cuda::compile_cache cache(!is_cached  ? std::filesystem::path()
                                    : how.cache ? *how.cache
                                                : cuda::compile_cache::default_folder());
    const std::string key = is_cached ? cuda::key_of(source, how, options, versions) : std::string();
    if (const auto kept = cache.find(key)) {
        try {
            return load_image(gpu, cuda::read_image(*kept, context), how.name, true, context);
        } catch (const error& refusal) {  // the driver was changed under the same version: compile again
            if (refusal.code() != errc::bad_file && refusal.code() != errc::unsupported) throw;
        }
    }
    const std::vector<std::byte> made = cuda::api::compile({how.name, source, how.headers}, options, context);
    gpu.log().write({.event = log_event::module_compiled, .device = gpu.name(), .name = how.name}, [&] {
        return "module " + in_quotes(how.name) + " was compiled for " + gpu.name() + " by " + versions;
    });
    kernel_module loaded = load_image(gpu, cuda::read_image(made, context), how.name, false, context);
    static_cast<void>(cache.keep(key, made));
    return loaded;
}

}  // namespace sluice
