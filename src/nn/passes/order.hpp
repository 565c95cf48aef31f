// SPDX-License-Identifier: Apache-2.0
// The order of the passes: what each does, where, and after which others.
#pragma once

#include <span>
#include <string_view>

#include "nn/passes/folding.hpp"
#include "nn/prepared_graph.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {

// The network that passes change, and where it is to run.
struct pass_subject {
    const model& from;
    nn::precision precision;
    execution_context& context;
    rounding_report& report;
    constant_folder& folder;

    bool is_on_cpu() const noexcept;
    bool is_in_short_floats() const noexcept {
        return precision == nn::precision::f16 || precision == nn::precision::bf16;
    }
};

struct pass {
    std::string_view name;       // "attention"
    std::string_view effect;     // what becomes of which nodes, for people
    std::string_view condition;  // what `applies` says, for people: "on a CPU"
    bool (*applies)(const pass_subject& to);
    void (*change)(prepared_graph& in, const pass_subject& to);
};

// In the order in which they are applied.
std::span<const pass> all_passes() noexcept;

// Sees what each pass leaves. The graphs are valid during the call.
class pass_watch {
public:
    virtual ~pass_watch() = default;
    // A graph whose passes come next; `what` is for people.
    virtual void begin(std::string_view name, std::string_view what, const prepared_graph& in) = 0;
    // After a pass of that graph, also where it does not apply.
    virtual void after(const pass& which, bool has_applied, const prepared_graph& in) = 0;
};

// Applies all passes to a graph after find_host_values. `watch` may be null. Throws what the operators say of constants
// that they refuse.
rounding_report apply_passes(prepared_graph& in, const model& from, precision what, execution_context& context,
                             pass_watch* watch);

}  // namespace sluice::nn::detail
