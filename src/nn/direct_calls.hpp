// SPDX-License-Identifier: Apache-2.0
// direct_calls: answers of a network at once. For each combination of input shapes that comes again, the network is
// compiled once; on a CPU device the calling thread then runs the recorded commands itself.
//
// Thread safety: may be called on any thread. Each call has memory of its own while it runs; threads that call at the
// same time with the same shapes get one compiled network each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nn/kept_calls.hpp"
#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::detail {

struct landed_outputs;
class prepared_network;

class direct_calls {
public:
    direct_calls(const prepared_network& of, device& on);
    direct_calls(const direct_calls&) = delete;  // calls point to it
    direct_calls& operator=(const direct_calls&) = delete;
    ~direct_calls();

    // See network::operator().
    void operator()(std::span<const input_view> inputs, std::span<const output_view> outputs);
    std::vector<any_tensor> operator()(std::span<const input_view> inputs);

private:
    kept_calls::use use_for(std::span<const input_view> inputs);
    // Whether these shapes have come before. From here on they have.
    bool is_repeated(std::span<const input_view> inputs);
    landed_outputs call_once(std::span<const input_view> inputs);
    // Calls require(outputs) when their types and shapes are known, which is before the run where the network is
    // compiled, and returns deliver(outputs) after the run.
    template <typename Require, typename Deliver>
    auto answer(std::span<const input_view> inputs, std::span<const output_view> to, const Require& require,
                const Deliver& deliver);
    // None where the network cannot be compiled, or when too many are in use.
    kept_calls::use add(std::span<const input_view> inputs);

    const prepared_network& of_;
    device& on_;
    kept_calls calls_;
    sluice::detail::spin_lock guard_;           // guards what follows; held for a few comparisons
    std::vector<std::vector<view_form>> seen_;  // once, the latest last
    bool cannot_compile_ = false;
};

}  // namespace sluice::nn::detail
