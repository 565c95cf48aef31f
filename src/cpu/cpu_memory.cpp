// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace sluice::cpu {

std::size_t physical_memory_bytes() noexcept {
    return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t available_memory_bytes() noexcept {
    try {
        std::ifstream file("/proc/meminfo");
        std::string field;
        std::size_t kibibytes = 0;
        while (file >> field >> kibibytes) {
            if (field == "MemAvailable:") return kibibytes * 1024;
            file.ignore(64, '\n');
        }
    } catch (...) {  // NOLINT(bugprone-empty-catch): without the file, use the rougher figure below
    }
    return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void* cpu_memory::allocate(std::size_t bytes) {
    // Reserve first: two threads must not exceed the limit together.
    if (used_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > limit_bytes_) {
        used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
        return nullptr;
    }
    // Align large blocks to pages, so that the system can back them with huge pages.
    const std::size_t alignment = bytes >= (std::size_t{1} << 20) ? 4096 : 256;
    void* const data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (data == nullptr) used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return data;
}

void cpu_memory::free(void* data, std::size_t bytes) noexcept {
    std::free(data);
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

memory_info cpu_memory::info() {
    const std::size_t used = used_bytes_.load(std::memory_order_relaxed);
    const std::size_t left = limit_bytes_ > used ? limit_bytes_ - used : 0;
    return {std::min(left, available_memory_bytes()), limit_bytes_};
}

}  // namespace sluice::cpu
