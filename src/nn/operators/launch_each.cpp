// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/launch_each.hpp"

namespace sluice::nn::operators::detail {

void submit(const node_call& in, launch_command& command, std::initializer_list<const any_tensor*> reads,
            std::initializer_list<const any_tensor*> writes) {
    std::vector<memory_access> accesses;
    accesses.reserve(reads.size() + writes.size());
    const auto is_known = [&](const storage* memory) {
        return std::ranges::any_of(accesses, [&](const memory_access& each) { return each.memory == memory; });
    };
    for (const any_tensor* const each : writes)
        if (each->memory() != nullptr) accesses.push_back({each->memory(), access_mode::write});
    for (const any_tensor* const each : reads)
        if (each->memory() != nullptr && !is_known(each->memory()))
            accesses.push_back({each->memory(), access_mode::read});
    in.context().stream().launch({in.name(), accesses}, command);
}

}  // namespace sluice::nn::operators::detail
