// SPDX-License-Identifier: Apache-2.0
#include "kernels/rounded_layers/tile_permission.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#if defined(SLUICE_X86_VARIANTS)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace sluice::kernels {
namespace {

#if defined(SLUICE_X86_VARIANTS)

struct leaf {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

    explicit leaf(unsigned number, unsigned part = 0) { __get_cpuid_count(number, part, &eax, &ebx, &ecx, &edx); }
};
bool has_bit(unsigned word, int bit) { return (word >> bit & 1u) != 0; }

// The processor's; __builtin_cpu_supports knows them in newer compilers only.
tile_permission tiles_of_processor() {
    if (!has_bit(leaf(1).ecx, 27)) return {};  // no xgetbv
    const leaf features(7);
    if (!has_bit(features.edx, 24)) return {};
    // Palette 1 has the tiles that the loop is written for: 8 of 16 rows of 64 bytes.
    const leaf palette(0x1d, 1);
    if (palette.ebx >> 16 < 8 || (palette.ebx & 0xffffu) != 64 || (palette.ecx & 0xffffu) != 16) return {};
    return {has_bit(features.edx, 22), has_bit(features.edx, 25), {}};
}

// The system saves tiles when it switches threads.
bool system_saves_tiles() {
    std::uint32_t low = 0, high = 0;
    asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has_bit(low, 17) && has_bit(low, 18);
}

#endif

}  // namespace

#if defined(SLUICE_X86_VARIANTS)

tile_permission ask_for_tiles(const char* switched_off) {
    tile_permission made = tiles_of_processor();
    const auto refuse = [&](std::string why) { made = {false, false, std::move(why)}; };
    if (!made.bf16 && !made.int8) return made;
    if (switched_off != nullptr && !std::string_view(switched_off).empty() && std::string_view(switched_off) != "0") {
        refuse("SLUICE_NO_AMX is set");
    } else if (!system_saves_tiles()) {
        refuse("the system does not save its registers");
    } else {
        constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
        if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0)
            refuse("the system refuses it: " + std::generic_category().message(errno));
    }
    return made;
}

#else

tile_permission ask_for_tiles(const char*) { return {}; }

#endif

const tile_permission& permission_for_tiles() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in Sluice changes the environment
    static const tile_permission made = ask_for_tiles(std::getenv("SLUICE_NO_AMX"));
    return made;
}

}  // namespace sluice::kernels
