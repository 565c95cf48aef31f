// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/pinned.hpp"

#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "cuda/api/driver.hpp"
#include "cuda/api/staying_kernels.hpp"

namespace sluice::cuda::api {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

// Before Linux 5.12 a process that had forked, and wrote to a locked page, got a copy of the page, while the GPU kept
// using the old one. There the driver's memory is used.
bool may_lock_own_memory() noexcept {
    utsname system{};
    if (uname(&system) != 0) return false;
    char* end = nullptr;
    const long major = std::strtol(system.release, &end, 10);
    const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
    return major > 5 || (major == 5 && minor >= 12);
}

std::size_t whole_pages(std::size_t bytes) noexcept {
    static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

CUresult lock(void* data, std::size_t bytes) {
    static const auto lock_it = driver_function<decltype(&cuMemHostRegister)>("cuMemHostRegister");
    return lock_it(data, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
}
CUresult unlock(void* data) {
    static const auto unlock_it = driver_function<decltype(&cuMemHostUnregister)>("cuMemHostUnregister");
    return unlock_it(data);
}

// Null when memory is short.
void* map(std::size_t bytes) noexcept {
    void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return nullptr;
    // Half of the time to lock 16 MB (measured on an H200 machine); a refusal changes nothing else.
    if (bytes >= huge_page_bytes) static_cast<void>(madvise(made, bytes, MADV_HUGEPAGE));
    return made;
}

// Whether kernels reach locked memory of the process by the address that the host has. Asked once, with a GPU current.
bool locks_own_memory() {
    static const bool does = [] {
        static const auto get = driver_function<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
        constexpr auto same_address = CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
        int has_same_address = 0;
        const gpu_context* const here = device_scope::innermost();
        if (here == nullptr || !may_lock_own_memory()) return false;
        if (get(&has_same_address, same_address, here->ordinal()) != CUDA_SUCCESS || has_same_address == 0)
            return false;
        void* const page = map(whole_pages(1));
        if (page == nullptr) return false;
        const bool works = lock(page, whole_pages(1)) == CUDA_SUCCESS && unlock(page) == CUDA_SUCCESS;
        munmap(page, whole_pages(1));
        return works;
    }();
    return does;
}

void* allocate_from_driver(std::size_t bytes) {
    static const auto allocate = driver_function<decltype(&cuMemHostAlloc)>("cuMemHostAlloc");
    void* made = nullptr;
    const CUresult code = allocate(&made, bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    check_driver(code, "cuMemHostAlloc", {});
    return made;
}

void free_now(const freed_memory& memory) noexcept {
    const device_scope scope(*memory.of, std::nothrow);
    if (!locks_own_memory()) {
        static const auto free = driver_function<decltype(&cuMemFreeHost)>("cuMemFreeHost");
        if (scope.is_open()) static_cast<void>(free(memory.data));
        return;
    }
    // What the driver still has locked must stay: the address would come back with other pages. A reset has unlocked
    // it, and in a child of fork it is a copy.
    const bool is_unlocked =
        scope.is_open() ? unlock(memory.data) == CUDA_SUCCESS
                        : scope.code() == CUDA_ERROR_CONTEXT_IS_DESTROYED || scope.code() == CUDA_ERROR_NOT_INITIALIZED;
    if (is_unlocked) munmap(memory.data, whole_pages(memory.bytes));
}

}  // namespace

void* allocate_pinned(std::size_t bytes) {
    if (!locks_own_memory()) return allocate_from_driver(bytes);
    const std::size_t whole = whole_pages(bytes);
    void* const made = map(whole);
    if (made == nullptr) return nullptr;
    const CUresult code = lock(made, whole);
    if (code == CUDA_SUCCESS) return made;
    munmap(made, whole);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    check_driver(code, "cuMemHostRegister", {});
    return nullptr;
}

// Destructors call it, which cannot report errors.
void free_pinned(const gpu_context& of, void* data, std::size_t bytes) noexcept {
    free_when_possible({data, bytes, &of}, free_now);
}

}  // namespace sluice::cuda::api
