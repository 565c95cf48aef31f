// SPDX-License-Identifier: Apache-2.0
// run_limit: how many bytes the values of one run of a network may take, whatever a model or a request asks for.
//
//     const nn::run_limit limit(std::size_t{1} << 30);
//     std::vector<nn::any_tensor> answers = network(inputs);  // throws run_too_large
//
// A few bytes of a request or a model may ask for any number of bytes: Expand, Tile, ConstantOfShape, Resize and Loop
// make tensors of the size that a number says. The size of each value is known before memory is taken for it.
//
// What counts are the values that nodes have made and that are there at the same time: intermediate values and outputs,
// on a device or on the host. A value that shares the memory of another one counts once. Inputs and constants do not
// count, nor does the copy of the outputs in host memory: it may take as much once more. While a network is made, what
// is computed from constants only counts too: above the limit it is left to the runs.
//
// A network that is compiled for some shapes keeps the answer for them: its runs take the same memory each time.
//
// Thread safety: a limit holds for the thread that makes it, and belongs to this thread.
#pragma once

#include <cstddef>

#include "sluice/base/file_error.hpp"

namespace sluice::nn {

// A value of a run was refused before memory was taken for it. Its code is errc::out_of_memory; its field is the node.
class run_too_large : public file_error {
public:
    using file_error::file_error;  // as file_error's
};

// While it lives, networks that this thread makes and runs have this limit. The innermost one holds.
class run_limit {
public:
    // 0: no limit. Costs O(1).
    explicit run_limit(std::size_t bytes) noexcept;
    run_limit(const run_limit&) = delete;  // it belongs to a scope
    run_limit& operator=(const run_limit&) = delete;
    ~run_limit();  // the limit before holds again

    // Of this thread; 0: none. Costs O(1).
    static std::size_t now() noexcept;

private:
    std::size_t before_;
};

}  // namespace sluice::nn
