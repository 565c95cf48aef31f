// SPDX-License-Identifier: Apache-2.0
#include "nn/sessions/session_on_device.hpp"

#include <cstddef>
#include <utility>

#include "nn/landed_outputs.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::detail {

std::vector<any_tensor> run_on_device(const prepared_network& of, std::vector<any_tensor> inputs,
                                      const std::vector<bool>& stays) {
    of.on().throw_if_refusing();
    sluice::detail::require_may_wait(of.on(), "session");
    const stream_lease on(of.on());
    std::vector<any_tensor> made;
    landed_outputs landed;
    auto submitted = with_context([&](execution_context& context) {
        std::vector<operators::device_check> checks;
        made = of.run(&context, operators::place::device, std::move(inputs), &checks);
        std::vector<any_tensor> brought;
        for (std::size_t i = 0; i < made.size(); ++i)
            if (!stays[i]) brought.push_back(std::move(made[i]));
        landed = submit_landing(of, context, std::move(brought), std::move(checks));
    });
    sync_on(std::move(submitted), *on);
    std::vector<any_tensor> brought = landed();
    std::size_t next = 0;
    for (std::size_t i = 0; i < made.size(); ++i)
        if (!stays[i]) made[i] = std::move(brought[next++]);
    return made;
}

std::vector<any_tensor> bring_to_host(const prepared_network& of, std::vector<any_tensor> values) {
    of.on().throw_if_refusing();
    sluice::detail::require_may_wait(of.on(), "session");
    const stream_lease on(of.on());
    landed_outputs landed;
    auto submitted =
        with_context([&](execution_context& context) { landed = submit_landing(of, context, std::move(values), {}); });
    sync_on(std::move(submitted), *on);
    return landed();
}

}  // namespace sluice::nn::detail
