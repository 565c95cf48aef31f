// SPDX-License-Identifier: Apache-2.0
// engine: what loads models and computes batches. The server knows no device: this is where it ends.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/row_independence.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/serve/gpu_memory.hpp"
#include "sluice/serve/model_config.hpp"
#include "sluice/serve/model_files.hpp"

namespace sluice::serve {

// As many models keep what makes their next requests fast, however long they were not asked for. Of more, those that
// are not asked for give it back (loaded_model::give_back_memory).
inline constexpr std::size_t most_warm_models = 64;

// A model that is ready to run. Thread safety: all members may be called on any thread.
class loaded_model {
public:
    virtual ~loaded_model() = default;

    // The inputs, in the order in which run takes them. Costs O(1).
    virtual const std::vector<nn::value_info>& inputs() const noexcept = 0;
    // The outputs, in the order in which run gives them. Costs O(1).
    virtual const std::vector<nn::value_info>& outputs() const noexcept = 0;
    // The codes of inputs and outputs that are texts (value_info::is_text). Costs O(1).
    virtual const nn::text_codes& texts() const noexcept {
        static const nn::text_codes none;
        return none;
    }
    // Whether the rows of a batch are proven to be computed independently of each other, or what is in the way. The
    // server joins the rows of several requests only where they are, or where the configuration says so. Costs O(1).
    virtual const nn::row_independence& rows() const noexcept = 0;
    virtual std::string platform() const = 0;     // "sluice_onnx"; costs a copy of the text
    virtual std::string device_name() const = 0;  // "cpu:0"; costs O(devices)
    // How it computes, for people: "bf16 (AVX-512-BF16) in 5 of 6 products"; empty where there is nothing to say. Costs
    // O(bytes of the text).
    virtual std::string how() const { return {}; }
    // Whether the device is known to have failed, so that run() will fail from now on. Does not block. Costs at most
    // O(devices).
    virtual bool is_lost() const noexcept { return false; }
    // The devices that have failed, by their names, also where others still answer. Does not block. Costs O(devices).
    virtual std::vector<std::string> lost_devices() const {
        return is_lost() ? std::vector{device_name()} : std::vector<std::string>{};
    }
    // Whether it prepares something for each shape of its inputs, so that batches of a few sizes are better than
    // batches of many. Then the server may add rows to a batch. Costs O(1).
    virtual bool prefers_few_sizes() const noexcept { return false; }
    // The most rows of several requests that are computed together. More would be computed in another way than the rows
    // of one request alone, with other roundings. Costs O(devices).
    virtual std::size_t most_joined_rows() const noexcept { return std::numeric_limits<std::size_t>::max(); }

    // Gives up the memory that run() keeps for the next one of the same shapes, where that one is hardly slower then.
    // On any thread, also while it runs. Costs O(shapes).
    virtual void give_back_memory() const noexcept {}

    // The outputs for these inputs, both in host memory and in the model's orders. Blocks until they are computed.
    // Throws error when the inputs do not fit, and when the device fails. Costs one run of the network.
    virtual std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const = 0;
};

class engine {
public:
    virtual ~engine() = default;

    // Reads the model and puts it on its device. Blocks. Throws error (file_error names the file) for a model that
    // cannot be loaded. May be called on several threads. Costs a read of the file and, for each device, the network
    // there.
    virtual std::shared_ptr<const loaded_model> load(const model_version& which, const model_config& how) = 0;

    // Gives memory that is not used back to the system. For quiet moments: what comes next takes it again. May be
    // called on any thread. Blocks until commands that may still use it have passed.
    virtual void give_back_memory() {}

    // Asks the devices whether they still work, so that one that has failed while nothing ran is known to be lost
    // (loaded_model::is_lost). May be called on any thread. Does not wait for commands. Costs a call of the driver for
    // each GPU.
    virtual void look_at_devices() {}

    // Opens memory that clients have on the engine's GPUs. The engine outlives what it has opened. Empty: it has no
    // such memory. Costs at most one allocation.
    virtual std::shared_ptr<const gpu_memory_opener> gpu_memory() { return nullptr; }
};

}  // namespace sluice::serve
