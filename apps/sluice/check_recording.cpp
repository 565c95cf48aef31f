// SPDX-License-Identifier: Apache-2.0
#include "check_recording.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* injection = "CUDA_INJECTION64_PATH";
constexpr const char* recorder_name = "libsluice_check_inject.so";
constexpr const char* without_gpu = ". --replay checks a trace without a GPU";

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"check"}); }

// Next to the tool, as in a build, or where libraries are installed.
fs::path find_recorder() {
    std::error_code failed;
    const fs::path tool = fs::read_symlink("/proc/self/exe", failed).parent_path();
    for (const fs::path& each : {tool / recorder_name, tool / SLUICE_LIBRARIES_FROM_TOOL / recorder_name})
        if (fs::exists(each, failed)) return fs::weakly_canonical(each);
    refuse(std::string("the recorder ") + recorder_name + " is not there: it is built where the headers of CUPTI are" +
           without_gpu);
}

struct close_library {
    void operator()(void* library) const noexcept { ::dlclose(library); }
};

// The driver is asked as the program will ask it; there is no context and no memory of a device afterwards.
void require_gpu() {
    const std::unique_ptr<void, close_library> driver(::dlopen("libcuda.so.1", RTLD_NOW));
    if (!driver) refuse(std::string("there is no CUDA driver, libcuda.so.1, so nothing can be recorded") + without_gpu);
    const auto start = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver.get(), "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver.get(), "cuDeviceGetCount"));
    int devices = 0;
    int failed = start == nullptr || count == nullptr ? -1 : start(0);
    if (failed == 0) failed = count(&devices);
    if (failed != 0)
        refuse("the CUDA driver does not start (error " + std::to_string(failed) + "), so nothing can be recorded" +
               without_gpu);
    if (devices == 0) refuse(std::string("there is no GPU, so nothing can be recorded") + without_gpu);
}

fs::path make_folder(const std::optional<fs::path>& keep) {
    std::error_code failed;
    if (keep) {
        fs::create_directories(*keep, failed);
        const bool is_empty = fs::is_directory(*keep, failed) && fs::is_empty(*keep, failed);
        if (!is_empty) refuse("--keep " + in_quotes(keep->native()) + " is no empty folder");
        return fs::absolute(*keep);
    }
    std::string name = (fs::absolute(fs::temp_directory_path()) / "sluice-check-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
        throw std::system_error(errno, std::generic_category(), "cannot create a folder for traces");
    return name;
}

}  // namespace

recorded_run::recorded_run(const std::vector<std::string>& program, const std::optional<fs::path>& keep)
    : is_kept_(keep.has_value()) {
    if (const char* const other = std::getenv(injection); other != nullptr && *other != '\0')
        refuse(std::string(injection) + " names another library already, " + in_quotes(other) +
               ": a profiler, perhaps. Only one can be injected");
    const fs::path recorder = find_recorder();
    require_gpu();
    folder_ = make_folder(keep);
    ::setenv(injection, recorder.c_str(), 1);
    ::setenv("SLUICE_CHECK_TRACES", folder_.c_str(), 1);
    try {
        end_ = run_program(program);
        for (const auto& each : fs::directory_iterator(folder_)) {
            traces_.push_back(each.path());
            if (!is_kept_) known_.emplace_back(each.path());
        }
    } catch (...) {
        remove_folder();
        throw;
    }
    std::ranges::sort(traces_);
}

void recorded_run::remove_folder() noexcept {
    std::error_code ignored;
    if (!is_kept_) fs::remove_all(folder_, ignored);
}

recorded_run::~recorded_run() { remove_folder(); }

}  // namespace sluice::app
