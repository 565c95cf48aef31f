// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_memory.hpp"

#include <sys/mman.h>
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

bool memory_budget::take(std::size_t bytes) noexcept {
    // Reserve first: two threads must not exceed the limit together.
    const std::size_t before = used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (before <= limit_bytes_ && bytes <= limit_bytes_ - before) return true;
    give_back(bytes);
    return false;
}

std::size_t memory_budget::left() const noexcept {
    const std::size_t used = used_bytes_.load(std::memory_order_relaxed);
    return limit_bytes_ > used ? limit_bytes_ - used : 0;
}

memory_budget& budget_of_machine() noexcept {
    static memory_budget all(physical_memory_bytes());
    return all;
}

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// Asks for huge pages where they lie in the block as a whole, so that the block takes no more memory than with small
// pages. The processor translates an address once for each page that it uses: with small pages that takes up to a tenth
// of the time of a product with 23 MB of weights.
void* allocate_in_huge_pages(std::size_t bytes) {
    void* data = nullptr;
    if (posix_memalign(&data, huge_page, bytes) != 0) return nullptr;
    // Where the system has none, the block is as good.
    static_cast<void>(::madvise(data, bytes / huge_page * huge_page, MADV_HUGEPAGE));
    return data;
}

void* allocate_block(std::size_t bytes) {
    if (bytes >= 2 * huge_page) return allocate_in_huge_pages(bytes);
    const std::size_t alignment = bytes >= (std::size_t{1} << 20) ? 4096 : 256;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

}  // namespace

void* cpu_memory::allocate(std::size_t bytes) {
    if (!own_.take(bytes)) return nullptr;
    if (machine_.take(bytes)) {
        if (void* const data = allocate_block(bytes)) return data;
        machine_.give_back(bytes);
    }
    own_.give_back(bytes);
    return nullptr;
}

void cpu_memory::free(void* data, std::size_t bytes) noexcept {
    std::free(data);
    machine_.give_back(bytes);
    own_.give_back(bytes);
}

memory_info cpu_memory::info() {
    return {std::min({own_.left(), machine_.left(), available_memory_bytes()}), own_.limit()};
}

}  // namespace sluice::cpu
