// SPDX-License-Identifier: Apache-2.0
// What the handles of the C interface point to. An object keeps all that it needs, so handles are destroyed in any
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "c/made_here.hpp"
#include "sluice/c/sluice.h"
#include "sluice/nn/network.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::c {

// An input or an output of a network, in the words of C. The names are the network's.
struct described_value {
    const nn::value_info* from;
    std::vector<sluice_dimension> dimensions;
    sluice_value_info info;
};

// A network with what it runs on. Immutable.
struct loaded_network {
    // `read` gives the model, and gives it again for a profile.
    loaded_network(const sluice_runtime& of, device& at, std::size_t streams, std::function<nn::model()> read,
                   nn::precision precision);
    loaded_network(const loaded_network&) = delete;  // descriptions point into it

    std::shared_ptr<runtime> machine;  // destroyed last
    device& on;
    mutable round_robin pool;
    mutable std::optional<single_stream> of_device_inputs;  // on a GPU
    mutable std::optional<single_stream> of_lent;           // the same: orders lent memory, and computes nothing
    nn::network network;
    nn::text_codes texts;
    std::vector<described_value> inputs, outputs;
    std::vector<const char*> kept;  // of the network's rounding

    const runtime_options machine_options;
    const std::function<nn::model()> read_again;
    const nn::precision precision;
};

class lent_memory;

// The place where a network runs: waits for its outputs in host memory. Throws for inputs that do not fit.
std::vector<nn::any_tensor> compute(const loaded_network& network, const sluice_tensor* inputs, std::size_t count,
                                    std::string_view function);
// The stream's policy for these inputs.
scheduling_policy& policy_for(const loaded_network& network, const std::vector<nn::any_tensor>& inputs);

}  // namespace sluice::c

struct sluice_runtime {
    std::shared_ptr<sluice::runtime> machine;
    sluice::runtime_options options;
    std::vector<sluice::device*> devices;
    std::string why_no_gpu;
    const sluice::c::made_here birth = {};
};

struct sluice_network {
    std::shared_ptr<const sluice::c::loaded_network> held;
    const sluice::c::made_here birth = {};
};

struct sluice_result {
    // Of outputs in host memory. Throws std::bad_alloc.
    explicit sluice_result(std::vector<sluice::nn::any_tensor> values);
    ~sluice_result();

    // Before the result is given away.
    void take_device_outputs(std::shared_ptr<const sluice::c::loaded_network> of,
                             std::vector<sluice::nn::any_tensor> values);

    std::vector<sluice::nn::any_tensor> outputs;  // in host memory, or all on a GPU; no other tensor has theirs
    std::vector<std::vector<std::int64_t>> shapes;
    std::unique_ptr<sluice::c::lent_memory> lent;  // of outputs on a GPU; destroyed before they are
    const sluice::c::made_here origin = {};        // outputs in host memory may be read and freed in a child too
};
