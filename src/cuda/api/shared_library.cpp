// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/shared_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {
namespace {

const int here = 0;

// The file that this code was loaded from; empty when that is not known.
std::string own_file() {
    Dl_info found{};
    return dladdr(&here, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : std::string();
}

}  // namespace

std::vector<std::string> folders_of_wheels(const std::string& file) {
    namespace fs = std::filesystem;
    std::vector<std::string> found;
    const fs::path package = fs::path(file).parent_path();
    if (package.filename() != "sluice") return found;
    std::error_code ignored;  // a folder that cannot be read has no libraries for us
    const auto add = [&](const fs::path& folder) {
        if (fs::is_directory(folder, ignored)) found.push_back(folder.string());
    };
    for (fs::directory_iterator each(package.parent_path() / "nvidia", ignored), end; !ignored && each != end;
         each.increment(ignored))
        add(each->path() / "lib");
    std::ranges::sort(found);
    return found;
}

shared_library::shared_library(std::string_view name, int major)
    : file_("lib" + std::string(name) + ".so." + std::to_string(major)) {
    std::vector<std::string> paths{file_};
    for (const std::string& folder : folders_of_wheels(own_file())) paths.push_back(folder + "/" + file_);
    paths.push_back("/usr/local/cuda/lib64/" + file_);
    std::string reasons;
    for (const std::string& path : paths) {
        handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) return;
        reasons.append("; ").append(dlerror());
    }
    throw error(errc::unsupported, "cannot open " + file_ + reasons);
}

void* shared_library::symbol_address(const char* symbol) const {
    void* const address = symbol_or_null(symbol);
    if (address == nullptr) throw error(errc::unsupported, file_ + " has no function " + symbol);
    return address;
}

void* shared_library::symbol_or_null(const char* symbol) const noexcept { return dlsym(handle_, symbol); }

}  // namespace sluice::cuda::api
