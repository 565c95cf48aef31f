// SPDX-License-Identifier: Apache-2.0
#include "serve/network_replicas.hpp"

#include <algorithm>
#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::serve {

// A batch on one of the devices.
class network_replicas::turn {
public:
    explicit turn(const network_replicas& of) : of_(of), replica_(of.take()) {}
    turn(const turn&) = delete;  // it counts
    turn& operator=(const turn&) = delete;
    ~turn() { of_.give_back(replica_); }

    const loaded_model& model() const { return *of_.replicas_[replica_]; }

private:
    const network_replicas& of_;
    const std::size_t replica_;
};

network_replicas::network_replicas(std::vector<std::shared_ptr<const loaded_model>> replicas)
    : replicas_(std::move(replicas)), running_(replicas_.size()) {
    if (replicas_.empty()) throw error(errc::invalid_argument, "a model needs a device");
}

std::string network_replicas::device_name() const {
    std::string all;
    for (const auto& each : replicas_) all += (all.empty() ? "" : ", ") + each->device_name();
    return all;
}

bool network_replicas::is_lost() const noexcept {
    return std::ranges::all_of(replicas_, [](const auto& each) { return each->is_lost(); });
}

std::vector<std::string> network_replicas::lost_devices() const {
    std::vector<std::string> all;
    for (const auto& each : replicas_)
        if (each->is_lost()) all.push_back(each->device_name());
    return all;
}

std::size_t network_replicas::most_joined_rows() const noexcept {
    std::size_t most = replicas_.front()->most_joined_rows();
    for (const auto& each : replicas_) most = std::min(most, each->most_joined_rows());
    return most;
}

// The first of those with the fewest batches; of lost ones only when all are, for their error.
std::size_t network_replicas::take() const {
    const std::lock_guard lock(mutex_);
    std::size_t best = 0;
    const auto rank = [&](std::size_t at) { return std::pair(replicas_[at]->is_lost(), running_[at]); };
    for (std::size_t i = 1; i < replicas_.size(); ++i)
        if (rank(i) < rank(best)) best = i;
    ++running_[best];
    return best;
}

void network_replicas::give_back(std::size_t replica) const noexcept {
    const std::lock_guard lock(mutex_);
    --running_[replica];
}

std::vector<nn::any_tensor> network_replicas::run(std::vector<nn::any_tensor> inputs) const {
    while (true) {
        const turn on(*this);
        const bool was_lost = on.model().is_lost();
        try {
            return on.model().run(inputs);
        } catch (const std::exception&) {
            // What another device would refuse as well is not tried again.
            if (was_lost || !on.model().is_lost() || is_lost()) throw;
        }
    }
}

}  // namespace sluice::serve
