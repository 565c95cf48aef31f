// SPDX-License-Identifier: Apache-2.0
// kept_limit: how many bytes a network keeps between direct calls.
//
//     const nn::kept_limit limit(std::size_t{16} << 20);
//     const nn::network network = sync(nn::make_network(model), pool);
//     std::vector<nn::any_tensor> answers = network(inputs);
//
// A network that is called directly is compiled for each combination of input shapes that comes a second time, and each
// of these has memory of its own for its inputs, its outputs and what is in between. Where clients send pictures of any
// size, this grows with the sizes. So the compiled calls that were used longest ago go where all would take more than
// the limit; the network is compiled again when their shapes come twice again. A call is kept whatever it takes, and as
// many for its shapes as threads call at the same time: the limit is for all others. Weights do not count.
//
// Thread safety: a limit holds for the thread that makes it, and belongs to this thread.
#pragma once

#include <cstddef>

namespace sluice::nn {

// While it lives, networks that this thread makes have this limit, for as long as they exist. The innermost one holds.
class kept_limit {
public:
    static constexpr std::size_t default_bytes = std::size_t{64} << 20;  // where there is none

    // Costs O(1).
    explicit kept_limit(std::size_t bytes) noexcept;
    kept_limit(const kept_limit&) = delete;  // it belongs to a scope
    kept_limit& operator=(const kept_limit&) = delete;
    ~kept_limit();  // the limit before holds again

    // That of this thread. Costs O(1).
    static std::size_t current() noexcept;

private:
    const std::size_t before_;
};

}  // namespace sluice::nn
