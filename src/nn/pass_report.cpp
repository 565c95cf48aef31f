// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/pass_report.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "nn/network_steps.hpp"
#include "nn/passes/order.hpp"
#include "nn/prepared_network.hpp"

namespace sluice::nn {
namespace {

// What passes change, as numbers to compare. It is compared while the graph that it is of still holds what it names.
class graph_mark {
public:
    explicit graph_mark(const detail::prepared_graph& of) {
        add(of.constants.size());
        add(of);
    }

    bool operator==(const graph_mark& other) const { return words_ == other.words_; }

private:
    void add(std::uintptr_t word) { words_.push_back(word); }
    template <typename T>
    void add(const std::shared_ptr<T>& held) {
        add(reinterpret_cast<std::uintptr_t>(held.get()));
        held_.push_back(held);  // so that no other one gets its address
    }
    void add(const std::vector<detail::slot>& slots) {
        add(slots.size());
        for (const detail::slot each : slots) add(each);
    }
    void add(const detail::prepared_graph& of) {
        for (const detail::step& each : of.steps) {
            add(reinterpret_cast<std::uintptr_t>(each.what));
            add(each.layers);
            add(each.stretch);
            add(each.inputs);
            add(each.outputs);
            add(each.also.size());
            add(std::uintptr_t{each.gives_shape_only} + 2 * std::uintptr_t{each.leaves_to_next});
            for (const auto& [from, inner] : each.inner) add(*inner);
        }
    }

    std::vector<std::uintptr_t> words_;
    std::vector<std::shared_ptr<const void>> held_;
};

class pass_reports : public detail::pass_watch {
public:
    void begin(std::string_view name, std::string_view what, const detail::prepared_graph& in) override {
        reports_.push_back({std::string(name), std::string(what), "everywhere", true, false, detail::steps_of(in)});
        mark_.emplace(in);
    }
    void after(const detail::pass& which, bool has_applied, const detail::prepared_graph& in) override {
        graph_mark now(in);
        const bool has_changed = now != *mark_;
        reports_.push_back({std::string(which.name), std::string(which.effect), std::string(which.condition),
                            has_applied, has_changed, detail::steps_of(in)});
        mark_ = std::move(now);
    }

    std::vector<pass_report> take() { return std::move(reports_); }

private:
    std::vector<pass_report> reports_;
    std::optional<graph_mark> mark_;
};

}  // namespace

std::vector<pass_report> list_passes_operation::submit(execution_context& context) && {
    pass_reports reports;
    const detail::prepared_network made(std::move(model_), options_, context, &reports);
    return reports.take();
}

}  // namespace sluice::nn
