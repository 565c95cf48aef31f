// SPDX-License-Identifier: Apache-2.0
// How kernels check an index, and what they report where it is out of range. See check_bounds.hpp.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sluice/base/check_bounds.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::detail {

// What an index counts.
enum class accessed : unsigned {
    view_element,
    matrix_row,
    matrix_column,
    tile_row,
    tile_column,
    part_element,
    matrix_tile_row,
    matrix_tile_column,
    tile_number,
};

// An access out of range, as a GPU leaves it in page-locked memory of the host. The first one of the device stays.
struct access_record {
    static constexpr unsigned is_empty = 0, is_being_written = 1, is_complete = 2;
    static constexpr unsigned longest_file_name = 255;

    unsigned state = is_empty;
    accessed what = {};
    unsigned line = 0;
    char file[longest_file_name + 1] = {};  // its end, if the name is longer
    std::size_t index = 0;
    std::size_t size = 0;
    const char* kernel = nullptr;  // the characters of the name, in the host's memory
    std::size_t kernel_length = 0;
};

// What a launch gives to its kernel on a GPU. Lies at the end of the block's dynamic shared memory.
struct access_notice {
    static constexpr std::size_t is_valid = 0x73'6c'75'69'63'65'21'b0;

    std::size_t mark = 0;
    access_record* record = nullptr;
    const char* kernel = nullptr;
    std::size_t kernel_length = 0;
};

// Throws errc::out_of_range. The thread that runs the kernel adds the kernel's name, device and line.
[[noreturn]] void throw_out_of_range(accessed what, std::size_t index, std::size_t size, const char* file,
                                     unsigned line);

inline namespace SLUICE_BOUNDS_ABI {

#if defined(__CUDACC__)
// The place of the notice; null where the dynamic shared memory has no room for it.
__device__ inline access_notice* place_of_notice() {
    extern __shared__ __align__(128) std::byte sluice_shared_memory[];
    unsigned bytes = 0;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    if (bytes < sizeof(access_notice) || bytes % alignof(access_notice) != 0) return nullptr;
    return reinterpret_cast<access_notice*>(sluice_shared_memory + bytes - sizeof(access_notice));
}

// At the start of a kernel, by all threads of the block. A notice that is not valid has no place.
__device__ inline void post_notice(const access_notice& notice) {
    if (notice.mark != access_notice::is_valid) return;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) *place_of_notice() = notice;
    __syncthreads();
}

// Threads that are not the first wait until the record is complete, because a trap ends all threads; but not for ever.
__device__ __noinline__ inline void report_access(accessed what, std::size_t index, std::size_t size, const char* file,
                                                  unsigned line) {
    const access_notice* const notice = place_of_notice();
    if (notice != nullptr && notice->mark == access_notice::is_valid) {
        access_record& record = *notice->record;
        if (atomicCAS(&record.state, access_record::is_empty, access_record::is_being_written) ==
            access_record::is_empty) {
            record.what = what;
            record.index = index;
            record.size = size;
            record.line = line;
            record.kernel = notice->kernel;
            record.kernel_length = notice->kernel_length;
            unsigned length = 0;
            while (file[length] != 0) ++length;
            if (length > access_record::longest_file_name) file += length - access_record::longest_file_name;
            unsigned copied = 0;
            for (; file[copied] != 0; ++copied) record.file[copied] = file[copied];
            record.file[copied] = 0;
            __threadfence_system();
            *static_cast<volatile unsigned*>(&record.state) = access_record::is_complete;
            __threadfence_system();
        } else {
            const volatile unsigned* const state = &record.state;
            for (int rounds = 0; rounds < 100'000 && *state == access_record::is_being_written; ++rounds) {
#if __CUDA_ARCH__ >= 700
                __nanosleep(100);
#endif
            }
        }
    }
    __trap();
}
#endif

#if SLUICE_CHECK_BOUNDS

// An index, and the source line that uses it. (An operator[] can have no default argument of its own.)
class checked_index {
public:
    SLUICE_KERNEL checked_index(std::size_t value, const char* file = __builtin_FILE(),
                                unsigned line = __builtin_LINE())
        : value_(value), file_(file), line_(line) {}
    // What converts to a number is one. (nvcc takes a template's own line for the caller's.)
    template <typename Number>
    requires(std::is_class_v<Number> && std::is_convertible_v<const Number&, std::size_t>)
#if defined(__CUDACC__)
    SLUICE_KERNEL checked_index(const Number& value)
        : value_(value), file_("a line that nvcc does not tell"), line_(0) {
    }
#else
    SLUICE_KERNEL checked_index(const Number& value, const char* file = __builtin_FILE(),
                                unsigned line = __builtin_LINE())
        : value_(value), file_(file), line_(line) {
    }
#endif

    // The index, if it is below the size.
    SLUICE_KERNEL std::size_t below(std::size_t size, accessed what) const {
        if (__builtin_expect(value_ >= size, 0)) {
#if defined(__CUDA_ARCH__)
            report_access(what, value_, size, file_, line_);
#else
            throw_out_of_range(what, value_, size, file_, line_);
#endif
        }
        return value_;
    }

private:
    std::size_t value_;
    const char* file_;
    unsigned line_;
};

template <typename Number>
using index_as = checked_index;

SLUICE_KERNEL inline std::size_t within(const checked_index& index, std::size_t size, accessed what) {
    return index.below(size, what);
}

#else

template <typename Number>
using index_as = Number;

template <typename Number>
[[gnu::always_inline]] SLUICE_KERNEL inline Number within(Number index, std::size_t, accessed) {
    return index;
}

#endif

// An index as a parameter of a kernel's types: a number where bounds are not checked.
using element_index = index_as<std::size_t>;

}  // namespace SLUICE_BOUNDS_ABI
}  // namespace sluice::detail
