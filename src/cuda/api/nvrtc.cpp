// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/nvrtc.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>

#include "cuda/api/log_text.hpp"
#include "cuda/api/shared_library.hpp"

namespace sluice::cuda::api {
namespace {

// Declared here, because NVRTC's header is a package of its own and may be missing where the library is installed.
struct program;  // _nvrtcProgram
enum nvrtc_result : int { nvrtc_success = 0, nvrtc_out_of_memory = 1, nvrtc_compilation_failed = 6 };

struct nvrtc_functions {
    nvrtc_result (*version)(int* major, int* minor);
    const char* (*describe)(nvrtc_result code);
    nvrtc_result (*create)(program** made, const char* text, const char* name, int headers, const char* const* texts,
                           const char* const* names);
    nvrtc_result (*destroy)(program** of);
    nvrtc_result (*compile)(program* what, int count, const char* const* options);
    nvrtc_result (*log_size)(program* of, std::size_t* size);
    nvrtc_result (*log)(program* of, char* to);
    nvrtc_result (*cubin_size)(program* of, std::size_t* size);
    nvrtc_result (*cubin)(program* of, char* to);
    nvrtc_result (*ptx_size)(program* of, std::size_t* size);
    nvrtc_result (*ptx)(program* of, char* to);

    static const nvrtc_functions& get();
};

nvrtc_functions load_nvrtc() {
    const shared_library library("nvrtc", CUDART_VERSION / 1000);
    nvrtc_functions all{};
    library.find(all.version, "nvrtcVersion");
    library.find(all.describe, "nvrtcGetErrorString");
    library.find(all.create, "nvrtcCreateProgram");
    library.find(all.destroy, "nvrtcDestroyProgram");
    library.find(all.compile, "nvrtcCompileProgram");
    library.find(all.log_size, "nvrtcGetProgramLogSize");
    library.find(all.log, "nvrtcGetProgramLog");
    library.find(all.cubin_size, "nvrtcGetCUBINSize");
    library.find(all.cubin, "nvrtcGetCUBIN");
    library.find(all.ptx_size, "nvrtcGetPTXSize");
    library.find(all.ptx, "nvrtcGetPTX");
    return all;
}

const nvrtc_functions& nvrtc_functions::get() {
    static const nvrtc_functions all = load_nvrtc();
    return all;
}

void check_nvrtc(nvrtc_result code, std::string_view call, const error_context& context) {
    if (code == nvrtc_success) return;
    const errc what = code == nvrtc_out_of_memory ? errc::out_of_memory : errc::invalid_argument;
    throw error(what, std::string(call) + " failed: " + nvrtc_functions::get().describe(code), context);
}

struct destroy_program {
    void operator()(program* of) const noexcept { static_cast<void>(nvrtc_functions::get().destroy(&of)); }
};

std::string log_of(program* of) {
    std::size_t size = 0;
    if (nvrtc_functions::get().log_size(of, &size) != nvrtc_success || size == 0) return {};
    std::string text(size, '\0');
    if (nvrtc_functions::get().log(of, text.data()) != nvrtc_success) return {};
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
}

template <typename Size, typename Get>
std::vector<std::byte> output_of(program* of, Size size_of, Get get, std::string_view call,
                                 const error_context& context) {
    std::size_t size = 0;
    check_nvrtc(size_of(of, &size), call, context);
    std::vector<std::byte> made(size);
    if (size != 0) check_nvrtc(get(of, reinterpret_cast<char*>(made.data())), call, context);
    return made;
}

}  // namespace

std::string compiler_version() {
    int major = 0, minor = 0;
    check_nvrtc(nvrtc_functions::get().version(&major, &minor), "nvrtcVersion", {});
    return std::to_string(major) + "." + std::to_string(minor);
}

std::vector<std::byte> compile(const source_text& source, const std::vector<std::string>& options,
                               const error_context& context) {
    const nvrtc_functions& nvrtc = nvrtc_functions::get();
    const std::string text(source.text), name(source.name);
    std::vector<const char*> names, texts, flags;
    for (const auto& [header, contents] : source.headers) {
        names.push_back(header.c_str());
        texts.push_back(contents.c_str());
    }
    for (const std::string& each : options) flags.push_back(each.c_str());
    program* made = nullptr;
    check_nvrtc(
        nvrtc.create(&made, text.c_str(), name.c_str(), static_cast<int>(names.size()), texts.data(), names.data()),
        "nvrtcCreateProgram", context);
    const std::unique_ptr<program, destroy_program> owner(made);
    const nvrtc_result code = nvrtc.compile(made, static_cast<int>(flags.size()), flags.data());
    if (code != nvrtc_success) {
        const std::string why = code == nvrtc_compilation_failed ? "the source does not compile" : nvrtc.describe(code);
        throw error(errc::invalid_argument, why + ": " + on_one_line(log_of(made)), context);
    }
    std::vector<std::byte> cubin = output_of(made, nvrtc.cubin_size, nvrtc.cubin, "nvrtcGetCUBIN", context);
    if (!cubin.empty()) return cubin;
    return output_of(made, nvrtc.ptx_size, nvrtc.ptx, "nvrtcGetPTX", context);
}

}  // namespace sluice::cuda::api
