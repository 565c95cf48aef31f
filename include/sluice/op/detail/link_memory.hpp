// SPDX-License-Identifier: Apache-2.0
// link_memory: memory for the links of chains. A chain of a thousand any_operations takes a thousand small blocks, and
// drops them soon after; each thread keeps the blocks that it drops and takes them again. This saves 55 ns of the 125
// that a link costs beyond its command (measured on a two-core virtual machine).
//
// A thread keeps at most `most_blocks` blocks of at most `most_bytes` each, and frees them when it ends. Under the
// address sanitizer nothing is kept, so that it sees each use after a drop.
//
// Thread safety: all members may be called on any thread. A block may be dropped by another thread than took it.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_HAS_ADDRESS_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_HAS_ADDRESS_SANITIZER true
#endif
#endif
#if !defined(SLUICE_HAS_ADDRESS_SANITIZER)
#define SLUICE_HAS_ADDRESS_SANITIZER false
#endif

namespace sluice::detail {

class link_memory {
public:
    static constexpr std::size_t most_bytes = 512;
    static constexpr std::size_t most_blocks = 4096;
    static constexpr bool keeps = !SLUICE_HAS_ADDRESS_SANITIZER;

    static void* take(std::size_t bytes) {
        if (block* const known = pop(bytes)) return known;
        return ::operator new(bytes);
    }
    static void drop(void* memory, std::size_t bytes) noexcept {
        if (!push(memory, bytes)) ::operator delete(memory);
    }
    // How many blocks this thread keeps.
    static std::size_t kept() noexcept { return mine().count; }

private:
    struct block {
        block* next;
    };
    static constexpr std::size_t step = 8;
    struct lists {
        std::array<block*, most_bytes / step + 1> free;  // by size
        std::size_t count;
        bool is_open;
    };
    // No destructor runs for it: objects that a thread destroys last may still drop links.
    static lists& mine() noexcept {
        static thread_local constinit lists all{};
        return all;
    }
    struct closing {
        closing() noexcept { mine().is_open = true; }
        closing(const closing&) = delete;  // the destructor frees the thread's blocks
        closing& operator=(const closing&) = delete;
        ~closing() {
            lists& all = mine();
            all.is_open = false;
            for (block*& each : all.free) {
                while (each != nullptr) ::operator delete(std::exchange(each, each->next));
            }
            all.count = 0;
        }
    };

    static bool fits(std::size_t bytes) noexcept {
        return keeps && bytes >= sizeof(block) && bytes <= most_bytes && bytes % step == 0;
    }
    static block* pop(std::size_t bytes) noexcept {
        if (!fits(bytes)) return nullptr;
        lists& all = mine();
        block* const found = all.free[bytes / step];
        if (found == nullptr) return nullptr;
        all.free[bytes / step] = found->next;
        --all.count;
        return found;
    }
    static bool push(void* memory, std::size_t bytes) noexcept {
        if (!fits(bytes)) return false;
        static thread_local const closing at_end;
        static_cast<void>(at_end);
        lists& all = mine();
        if (!all.is_open || all.count == most_blocks) return false;
        all.free[bytes / step] = ::new (memory) block{all.free[bytes / step]};
        ++all.count;
        return true;
    }
};

}  // namespace sluice::detail

#undef SLUICE_HAS_ADDRESS_SANITIZER
