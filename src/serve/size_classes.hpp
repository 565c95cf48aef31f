// SPDX-License-Identifier: Apache-2.0
// The sizes of batches that a model is prepared for. A batch of another size may be padded to the next of them, so that
// a device needs a compiled graph for a few sizes and not for each.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace sluice::serve {

// What a batch of this many rows takes.
struct timed_size {
    std::size_t rows = 0;
    std::chrono::nanoseconds time{};
};

// 1, 2, 4, ..., and `most` itself.
std::vector<std::size_t> sizes_to_time(std::size_t most);

class size_classes {
public:
    size_classes() = default;
    // `timed` ascends. A size is worth padding to when it takes hardly longer than the size before it: then every
    // size between takes about as long.
    explicit size_classes(std::span<const timed_size> timed);

    // The rows to compute in the place of these: as many, or more.
    std::size_t rows_for(std::size_t rows) const noexcept;
    // The sizes to which batches are padded, ascending.
    std::vector<std::size_t> padded() const;

private:
    struct range {
        std::size_t above, up_to;  // sizes in this range become up_to
    };
    std::vector<range> ranges_;
};

}  // namespace sluice::serve
