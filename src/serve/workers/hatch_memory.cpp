// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/hatch_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t longest_hatch = std::size_t{1} << 30;
constexpr std::size_t most_hatches = 1024;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void refuse(const std::string& what) {
    throw error(errc::io_failed,
                "no shared memory for a worker process: " + what + ": " + std::generic_category().message(errno));
}

std::size_t in_pages(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

void require_sizes(std::size_t hatches, std::size_t hatch_bytes) {
    if (hatches == 0 || hatches > most_hatches || hatch_bytes == 0 || hatch_bytes > longest_hatch)
        throw error(errc::invalid_argument,
                    "shared memory of a worker process has 1 to 1024 hatches of 1 byte to 1 GiB");
}

}  // namespace

void hatch_unmapper::operator()(std::byte* mapped) const noexcept { ::munmap(mapped, bytes); }

hatch_memory::hatch_memory(std::size_t hatches, std::size_t hatch_bytes)
    : hatches_(hatches), hatch_bytes_(hatch_bytes) {
    require_sizes(hatches, hatch_bytes);
    memory_ = io::file_descriptor(::memfd_create("sluice_worker", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory_) refuse("memfd_create");
    if (::ftruncate(memory_.get(), static_cast<off_t>(stride() * hatches_)) != 0) refuse("ftruncate");
    if (::fcntl(memory_.get(), F_ADD_SEALS, seals) != 0) refuse("F_ADD_SEALS");
    map();
}

hatch_memory::hatch_memory(io::file_descriptor memory, std::size_t hatches, std::size_t hatch_bytes)
    : memory_(std::move(memory)), hatches_(hatches), hatch_bytes_(hatch_bytes) {
    require_sizes(hatches, hatch_bytes);
    struct stat state{};
    const bool is_right = ::fstat(memory_.get(), &state) == 0 && std::cmp_equal(state.st_size, stride() * hatches_) &&
                          (::fcntl(memory_.get(), F_GET_SEALS) & seals) == seals;
    if (!is_right) throw error(errc::invalid_argument, "the shared memory is not that of this worker process");
    map();
}

void hatch_memory::map() {
    const std::size_t bytes = stride() * hatches_;
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
    if (at == MAP_FAILED) refuse("mmap");
    mapped_ = std::unique_ptr<std::byte, hatch_unmapper>(static_cast<std::byte*>(at), hatch_unmapper{bytes});
}

std::size_t hatch_memory::stride() const noexcept { return in_pages(sizeof(hatch_words)) + in_pages(hatch_bytes_); }

// Zero bytes are what the words begin with, on both sides.
hatch_words& hatch_memory::words(std::size_t hatch) const noexcept {
    return *reinterpret_cast<hatch_words*>(mapped_.get() + hatch * stride());
}

std::span<std::byte> hatch_memory::area(std::size_t hatch) const noexcept {
    return {mapped_.get() + hatch * stride() + in_pages(sizeof(hatch_words)), hatch_bytes_};
}

}  // namespace sluice::serve
