// What the fuzzer and the replay of its finds do with one .npy file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "sluice/nn/npy.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::nn::fuzz {

// Reads the file, checks that what it promises holds, and converts every element. Refusals are fine; anything else
// escapes or aborts.
inline void read_npy(std::span<const std::byte> file) {
    try {
        const npy_view view(file, "fuzz");
        if (view.data().data() + view.data().size() != file.data() + file.size()) std::abort();
        if (view.rows() * view.row_bytes() != view.data().size()) std::abort();
        std::vector<float> values(view.data().size() / size_of(view.element_type()));
        view.read_rows(0, values);
    } catch (const file_error&) {
    }
}

}  // namespace sluice::nn::fuzz
